//! Network interfaces with hardware behind them: those with a `device` in sysfs. Virtual functions
//! are left out, since their number is configuration.

use crate::bounds::{NICS_MAX, clean};
use crate::problems::Problems;
use crate::tree::{Tree, pci_address};
use proto::v1::Nic;

const NET: &str = "/sys/class/net";

pub fn collect(tree: &Tree, problems: &mut Problems) -> Vec<Nic> {
    let mut names = tree.names(NET, problems);
    names.retain(|name| {
        tree.exists(&format!("{NET}/{name}/device")) && !tree.exists(&format!("{NET}/{name}/device/physfn"))
    });
    if names.len() > NICS_MAX {
        problems.note_cut(NET, names.len(), NICS_MAX);
        names.truncate(NICS_MAX);
    }
    names.into_iter().map(|name| nic(tree, name, problems)).collect()
}

fn nic(tree: &Tree, name: String, problems: &mut Problems) -> Nic {
    let base = format!("{NET}/{name}");
    let device = format!("{base}/device");
    let mut line = |file: &str| tree.line(&format!("{base}/{file}"), problems).filter(|text| !text.is_empty());
    Nic {
        // A bond gives its members one address and keeps the card's own here.
        mac: line("bonding_slave/perm_hwaddr").or_else(|| line("address")).unwrap_or_default().to_ascii_lowercase(),
        oper_state: line("operstate").unwrap_or_default(),
        kind: kind(tree.number(&format!("{base}/type"))),
        // Reading fails with EINVAL while the link is down, and -1 means unknown.
        speed_mbps: tree.number(&format!("{base}/speed")).and_then(|speed| speed.try_into().ok()),
        mtu: tree.number(&format!("{base}/mtu")).unwrap_or(0) as u32,
        driver: tree.link_name(&format!("{device}/driver")).unwrap_or_default(),
        pci_address: last_pci_address(&tree.resolved(&device)),
        numa_node: numa_node(tree, &device),
        name: clean(&name),
    }
}

/// ARPHRD_* of include/uapi/linux/if_arp.h.
fn kind(number: Option<u64>) -> String {
    match number {
        Some(1) => "ethernet".to_owned(),
        Some(32) => "infiniband".to_owned(),
        Some(other) => format!("type-{other}"),
        None => String::new(),
    }
}

/// The PCI function nearest to the device: virtio devices are one step below theirs.
fn last_pci_address(path: &str) -> String {
    path.split('/').rev().find_map(pci_address).unwrap_or_default()
}

/// Virtio devices have no `numa_node` of their own; the function above them has.
fn numa_node(tree: &Tree, device: &str) -> Option<u32> {
    let node = tree.number(&format!("{device}/numa_node")).or_else(|| {
        let path = tree.resolved(device);
        let (function, _) = path.rsplit_once('/')?;
        pci_address(function.rsplit('/').next()?)?;
        tree.number(&format!("{function}/numa_node"))
    });
    node.and_then(|node| node.try_into().ok())
}
