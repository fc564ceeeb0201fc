//! `nodes`: who is there and what it is made of.

use crate::args::NodesCommand;
use crate::{CliError, Session, key, output, table, time};
use api_types::{ConnectionState, GpuSummary, InventorySummary, Node, NodePage, NodesGet, NodesList, NodesRevoke};
use std::process::ExitCode;

pub(crate) async fn run(session: &Session, command: NodesCommand) -> Result<ExitCode, CliError> {
    let tenant_id = session.tenant.clone();
    match command {
        NodesCommand::List { pool, page } => {
            let mut request = NodesList { tenant_id, pool_id: pool, cursor: page.cursor, limit: page.limit };
            let mut all: Option<NodePage> = None;
            loop {
                let answer = session.client.call(&request).await?;
                let next = answer.next_cursor.clone();
                match &mut all {
                    None => all = Some(answer),
                    Some(all) => {
                        all.items.extend(answer.items);
                        all.next_cursor = answer.next_cursor;
                    }
                }
                if next.is_none() || page.limit.is_some() {
                    break;
                }
                request.cursor = next;
            }
            let now = time::now_ms();
            output::print(session.format, &all, |page| list(page.as_ref().map_or(&[], |page| &page.items), now))?;
            Ok(ExitCode::SUCCESS)
        }
        NodesCommand::Get { node } => {
            let node = session.client.call(&NodesGet { tenant_id, node_id: node }).await?;
            session.print(&node, |node| one(node, time::now_ms()))
        }
        NodesCommand::Revoke { node, reason, key: given } => {
            let request = NodesRevoke { tenant_id, node_id: node, reason, idempotency_key: key(given.key) };
            let node = session.client.call(&request).await?;
            session.print(&node, |node| one(node, time::now_ms()))
        }
    }
}

pub(crate) fn list(nodes: &[Node], now_ms: i64) -> String {
    let rows = nodes.iter().map(|node| {
        vec![
            node.id.clone(),
            node.name.clone(),
            lifecycle(node),
            connection(node, now_ms),
            node.role.clone(),
            node.daemon_version.clone().unwrap_or_default(),
            node.inventory
                .as_ref()
                .map(|inventory| gpus(&inventory.gpus))
                .unwrap_or_else(|| "(no inventory yet)".into()),
        ]
    });
    table::render(&["ID", "NAME", "LIFECYCLE", "CONNECTION", "ROLE", "VERSION", "GPUS"], rows)
}

fn lifecycle(node: &Node) -> String {
    if node.revoked_at.is_some() { "revoked".to_owned() } else { node.lifecycle.clone() }
}

fn connection(node: &Node, now_ms: i64) -> String {
    let since = |time: &Option<String>| time.as_deref().map(|time| time::age(time, now_ms)).unwrap_or_default();
    match node.connection.state {
        ConnectionState::Connected => format!("connected {}", since(&node.connection.connected_since)),
        ConnectionState::Lost => format!("lost {}", since(&node.connection.lost_since)),
        ConnectionState::Never => "never".to_owned(),
    }
    .trim_end()
    .to_owned()
}

/// `8 x NVIDIA H100 80GB HBM3, 1 with MIG`.
fn gpus(gpus: &[GpuSummary]) -> String {
    if gpus.is_empty() {
        return "none".to_owned();
    }
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for gpu in gpus {
        match counts.iter_mut().find(|(name, _)| *name == gpu.name) {
            Some((_, count)) => *count += 1,
            None => counts.push((&gpu.name, 1)),
        }
    }
    let mut text: Vec<String> = counts.iter().map(|(name, count)| format!("{count} x {name}")).collect();
    let mig = gpus.iter().filter(|gpu| gpu.mig_enabled == Some(true)).count();
    if mig > 0 {
        text.push(format!("{mig} with MIG"));
    }
    text.join(", ")
}

pub(crate) fn one(node: &Node, now_ms: i64) -> String {
    let mut rows = vec![
        ("id", node.id.clone()),
        ("name", node.name.clone()),
        ("role", node.role.clone()),
        ("lifecycle", lifecycle(node)),
        ("connection", connection(node, now_ms)),
        ("site", node.site_id.clone()),
        ("pool", node.pool_id.clone().unwrap_or_default()),
        ("daemon", node.daemon_version.clone().unwrap_or_default()),
        ("boot", node.boot_id.clone().unwrap_or_default()),
        (
            "generations",
            format!(
                "desired {}, applied {}, observed {}",
                node.generations.desired, node.generations.applied, node.generations.observed
            ),
        ),
    ];
    let conditions: Vec<String> = node
        .conditions
        .iter()
        .map(|condition| {
            let age = time::age(&condition.since, now_ms);
            format!("{} ({}) for {age}: {}", condition.kind, condition.reason, condition.message)
        })
        .collect();
    rows.push(("conditions", if conditions.is_empty() { "none".to_owned() } else { conditions.join("\n") }));
    if let Some(inventory) = &node.inventory {
        rows.extend(hardware(inventory));
    }
    table::record(&rows)
}

fn hardware(inventory: &InventorySummary) -> Vec<(&'static str, String)> {
    let cpus = &inventory.cpus;
    let mut rows = vec![
        ("machine", format!("{} {}", inventory.firmware.vendor, inventory.firmware.product).trim().to_owned()),
        ("system", format!("{}, kernel {} ({})", inventory.os.name, inventory.os.kernel, inventory.os.architecture)),
        (
            "cpus",
            format!(
                "{} ({} sockets, {} cores, {} threads, {} NUMA nodes)",
                cpus.model, cpus.sockets, cpus.cores, cpus.threads, cpus.numa_nodes
            ),
        ),
        ("memory", bytes(inventory.memory_bytes)),
    ];
    let driver = inventory.driver_version.as_deref().unwrap_or("none");
    rows.push(("gpu driver", driver.to_owned()));
    let mut lines = Vec::new();
    for gpu in &inventory.gpus {
        let memory = gpu.memory_bytes.map(bytes).unwrap_or_default();
        lines.push(format!("{}  {}  {}  {memory}", gpu.uuid, gpu.name, gpu.pci_address).trim_end().to_owned());
        let mig = |mig: &api_types::MigSummary| format!("  {}  MIG {}", mig.uuid, mig.profile);
        lines.extend(gpu.mig_instances.iter().map(mig));
    }
    rows.push(("gpus", list_or_none(lines)));
    let disk = |disk: &api_types::DiskSummary| {
        format!("{}  {}  {}  {}", disk.name, bytes(disk.size_bytes), disk.model, disk.transport).trim_end().to_owned()
    };
    rows.push(("disks", list_or_none(inventory.disks.iter().map(disk).collect())));
    let nic = |nic: &api_types::NicSummary| {
        let speed = nic.speed_mbps.map(|mbps| format!("{mbps} Mb/s")).unwrap_or_default();
        format!("{}  {}  {}  {speed}", nic.name, nic.mac, nic.state).trim_end().to_owned()
    };
    rows.push(("nics", list_or_none(inventory.nics.iter().map(nic).collect())));
    if !inventory.problems.is_empty() {
        rows.push(("problems", inventory.problems.join("\n")));
    }
    rows
}

fn list_or_none(lines: Vec<String>) -> String {
    if lines.is_empty() { "none".to_owned() } else { lines.join("\n") }
}

/// Binary units, one decimal.
pub(crate) fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{count} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}
