//! What a hold may use of its host: what was booked, kept to the NUMA nodes of its devices where those
//! have enough of it.

use super::cpulist;
use super::node::{Node, NumaNode};
use super::request::{Device, HostRequest};

/// Thousandths of one CPU.
pub(super) const MILLIS_PER_CPU: u64 = 1000;

/// The limits of one hold. 2 MiB pages cannot be booked (D-Q28).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub cpu_millis: u64,
    pub memory_bytes: u64,
    pub hugepages_1gi: u64,
    /// Lists as `0-15,32-47`; empty for any.
    pub cpus: String,
    pub mems: String,
}

/// `None` where nothing was booked.
pub(super) fn of(host: &HostRequest, node: &Node, devices: &[Device]) -> Option<Limits> {
    if host.is_empty() {
        return None;
    }
    let mut limits = Limits {
        cpu_millis: u64::from(host.vcpu) * MILLIS_PER_CPU,
        memory_bytes: host.memory_bytes(),
        hugepages_1gi: u64::from(host.hugepages_1gi),
        ..Limits::default()
    };
    let Some(near) = numa_of(node, devices) else { return Some(limits) };
    let cpus = cpulist::union(near.iter().map(|numa| numa.cpus.as_str()));
    if host.vcpu > 0 && cpus.len() >= host.vcpu as usize {
        limits.cpus = cpulist::format(&cpus);
    }
    // Pages are memory of the same nodes: a hold kept to nodes without them could not fault them in.
    let memory: u64 = near.iter().map(|numa| numa.memory_bytes).sum();
    let pages: u64 = near.iter().map(|numa| numa.hugepages_1gi).sum();
    let booked = host.memory_gib > 0 || host.hugepages_1gi > 0;
    if booked && memory >= limits.memory_bytes && pages >= limits.hugepages_1gi {
        limits.mems = cpulist::format(&near.iter().map(|numa| numa.id).collect());
    }
    Some(limits)
}

/// The NUMA nodes of the devices; `None` where one is not known.
fn numa_of<'n>(node: &'n Node, devices: &[Device]) -> Option<Vec<&'n NumaNode>> {
    let mut ids: Vec<u32> = Vec::new();
    for device in devices {
        let gpu = node.gpus.iter().find(|gpu| gpu.uuid == device.gpu)?;
        ids.push(gpu.numa?);
    }
    ids.sort_unstable();
    ids.dedup();
    ids.into_iter().map(|id| node.numa.iter().find(|numa| numa.id == id)).collect()
}
