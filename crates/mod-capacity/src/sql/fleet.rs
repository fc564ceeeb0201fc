//! Nodes as placement sees them, read in a handful of queries whatever their number.

use super::encode;
use crate::placement::{Amount, Connection, Cordon, Fleet, Gpu, Guard, Host, MigInstance, Node};
use kernel::db::{Row, StoreError, Tx, args};
use kernel::standing;
use model::{Lifecycle, NodeId, PoolId};
use serde_json::Value;

/// The pool policy that divides GPUs into slots.
const POLICY_SLOTS: &str = "slotsPerGpu";
/// Slots of one GPU: as many clients as one MPS server takes.
const SLOTS_PER_GPU_MAX: u64 = 48;

/// Every node of a pool.
pub fn load_pool(tx: &mut Tx<'_>, pool: &PoolId) -> Result<Fleet, StoreError> {
    load(tx, "n.pool_id = ?1", pool.as_str())
}

/// One node, as a fleet of one; empty when there is no such node.
pub fn load_node(tx: &mut Tx<'_>, node: &NodeId) -> Result<Fleet, StoreError> {
    load(tx, "n.id = ?1", node.as_str())
}

fn load(tx: &mut Tx<'_>, scope: &str, key: &str) -> Result<Fleet, StoreError> {
    let mut nodes = tx.query(
        &format!(
            "SELECT n.id, n.lifecycle, n.revoked_at IS NOT NULL, n.capabilities, s.state IS NOT NULL
                 AND s.state <> 'closed', s.upgrade_required, p.policy, c.gpu_driver, c.numa, c.vcpu_total,
                 c.vcpu_booked, c.memory_total, c.memory_booked, c.hugepages_total, c.hugepages_booked
             FROM nodes n JOIN pools p ON p.id = n.pool_id
             LEFT JOIN node_sessions s ON s.node_id = n.id LEFT JOIN capacity_nodes c ON c.node_id = n.id
             WHERE {scope} AND n.role = 'node' ORDER BY n.id"
        ),
        args![key],
        read_node,
    )?;
    gpus(tx, scope, key, &mut nodes)?;
    instances(tx, scope, key, &mut nodes)?;
    booked_parts(tx, scope, key, &mut nodes)?;
    words(tx, scope, key, &mut nodes)?;
    for node in &mut nodes {
        node.labels.sort();
    }
    Ok(Fleet::new(nodes))
}

fn read_node(row: &mut Row<'_>) -> Result<Node, StoreError> {
    let id: NodeId = row.take()?;
    let lifecycle: Lifecycle = row.take()?;
    let revoked = row.take()?;
    let capabilities = encode::read_strings(&row.take::<String>()?)?;
    let (open, upgrade): (bool, Option<bool>) = (row.take()?, row.take()?);
    let policy: Value = encode::parse(&row.take::<String>()?)?;
    let gpu_driver: Option<bool> = row.take()?;
    let numa: Option<String> = row.take()?;
    let mut amounts = [0u64; 6];
    for amount in &mut amounts {
        *amount = row.take::<Option<u64>>()?.unwrap_or(0);
    }
    let amount = |index: usize| Amount { total: amounts[index], booked: amounts[index + 1] };
    Ok(Node {
        id,
        lifecycle,
        revoked,
        connection: match (open, upgrade) {
            (true, Some(true)) => Connection::UpgradeOnly,
            (true, _) => Connection::Connected,
            (false, _) => Connection::Lost,
        },
        cordons: Vec::new(),
        labels: standing::capability_labels(&capabilities).collect(),
        inventory: gpu_driver.is_some(),
        gpu_driver: gpu_driver.unwrap_or(false),
        slots_per_gpu: slots_per_gpu(&policy),
        gpus: Vec::new(),
        host: Host { vcpu: amount(0), memory_bytes: amount(2), hugepages_1gi: amount(4) },
        numa: numa.as_deref().map(encode::read_numa).transpose()?.unwrap_or_default(),
    })
}

fn slots_per_gpu(policy: &Value) -> u8 {
    let slots = policy.get(POLICY_SLOTS).and_then(Value::as_u64).unwrap_or(0);
    slots.min(SLOTS_PER_GPU_MAX) as u8
}

fn gpus(tx: &mut Tx<'_>, scope: &str, key: &str, nodes: &mut [Node]) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT g.node_id, g.uuid, g.numa, g.mig, g.present, g.elsewhere, g.guard
         FROM capacity_gpus g JOIN nodes n ON n.id = g.node_id WHERE {scope} ORDER BY g.node_id, g.uuid"
    );
    let mut at = 0;
    tx.query(&sql, args![key], |row| {
        let node: NodeId = row.take()?;
        let gpu = Gpu {
            uuid: row.take()?,
            numa: row.take()?,
            mig: row.take()?,
            present: row.take()?,
            elsewhere: row.take()?,
            guard: read_guard(row)?,
            ..Gpu::default()
        };
        if let Some(node) = find(nodes, &mut at, &node) {
            node.gpus.push(gpu);
        }
        Ok(())
    })?;
    Ok(())
}

pub(super) fn read_guard(row: &mut Row<'_>) -> Result<Guard, StoreError> {
    let guard: String = row.take()?;
    Guard::parse(&guard).ok_or_else(|| StoreError::Corrupt(format!("a guard: {guard}")))
}

fn instances(tx: &mut Tx<'_>, scope: &str, key: &str, nodes: &mut [Node]) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT i.node_id, i.uuid, i.atom_id, i.profile, i.present
         FROM capacity_instances i JOIN nodes n ON n.id = i.node_id WHERE {scope} ORDER BY i.node_id, i.atom_id"
    );
    let mut at = 0;
    tx.query(&sql, args![key], |row| {
        let (node, uuid): (NodeId, String) = (row.take()?, row.take()?);
        let instance = MigInstance { id: row.take()?, profile: row.take()?, present: row.take()?, booked: false };
        if let Some(gpu) = find(nodes, &mut at, &node).and_then(|node| find_gpu(node, &uuid)) {
            gpu.instances.push(instance);
        }
        Ok(())
    })?;
    Ok(())
}

fn booked_parts(tx: &mut Tx<'_>, scope: &str, key: &str, nodes: &mut [Node]) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT a.node_id, a.uuid, a.atom_id FROM capacity_atoms a JOIN nodes n ON n.id = a.node_id
         WHERE {scope} AND a.class <> 'gpu' ORDER BY a.node_id, a.atom_id"
    );
    let mut at = 0;
    tx.query(&sql, args![key], |row| {
        let (node, uuid, atom): (NodeId, String, String) = (row.take()?, row.take()?, row.take()?);
        if let Some(gpu) = find(nodes, &mut at, &node).and_then(|node| find_gpu(node, &uuid)) {
            gpu.slots_booked |= crate::placement::slot_bit(&atom);
            gpu.instances.iter_mut().filter(|instance| instance.id == atom).for_each(|found| found.booked = true);
        }
        Ok(())
    })?;
    Ok(())
}

/// Labels and cordons.
fn words(tx: &mut Tx<'_>, scope: &str, key: &str, nodes: &mut [Node]) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT l.node_id, l.name, l.value FROM node_labels l JOIN nodes n ON n.id = l.node_id
         WHERE {scope} ORDER BY l.node_id"
    );
    let mut at = 0;
    tx.query(&sql, args![key], |row| {
        let node: NodeId = row.take()?;
        let label = (row.take()?, row.take()?);
        if let Some(node) = find(nodes, &mut at, &node) {
            node.labels.push(label);
        }
        Ok(())
    })?;
    let sql = format!(
        "SELECT c.node_id, c.owner, c.reason FROM node_cordons c JOIN nodes n ON n.id = c.node_id
         WHERE {scope} ORDER BY c.node_id, c.owner, c.reason"
    );
    let mut at = 0;
    tx.query(&sql, args![key], |row| {
        let node: NodeId = row.take()?;
        let cordon = Cordon { owner: row.take()?, reason: row.take()? };
        if let Some(node) = find(nodes, &mut at, &node) {
            node.cordons.push(cordon);
        }
        Ok(())
    })?;
    Ok(())
}

/// The node of a row that comes in the order of node ids, going on from `at`.
fn find<'n>(nodes: &'n mut [Node], at: &mut usize, id: &NodeId) -> Option<&'n mut Node> {
    while nodes.get(*at).is_some_and(|node| node.id < *id) {
        *at += 1;
    }
    nodes.get_mut(*at).filter(|node| node.id == *id)
}

fn find_gpu<'n>(node: &'n mut Node, uuid: &str) -> Option<&'n mut Gpu> {
    let index = node.gpus.binary_search_by(|gpu| gpu.uuid.as_str().cmp(uuid)).ok()?;
    Some(&mut node.gpus[index])
}
