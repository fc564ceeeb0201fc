//! What a node's stored inventory means for capacity: its atoms, and what can be booked of its host.
//!
//! An inventory is a node's own word. Names that are not in the known form and numbers that do not fit
//! are left out, and lists are bounded, whatever the sender did.

use crate::placement::NumaNode;
use model::spec::{Atom, AtomPart};
use proto::Message;
use proto::v1;
use std::collections::BTreeSet;

/// Kept from what can be booked, as the daemon's own admission keeps it.
pub const HOST_HEADROOM_BYTES: u64 = 1 << 30;
const PAGE_1GI_BYTES: u64 = 1 << 30;
const GPUS_MAX: usize = 64;
const INSTANCES_MAX: usize = 16;
const NUMA_NODES_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 256;
/// Amounts above this are nobody's hardware.
const BYTES_MAX: u64 = 1 << 50;

/// An inventory in the terms of placement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeInventory {
    pub gpu_driver: bool,
    pub vcpu: u64,
    /// All memory less the huge page pools and [`HOST_HEADROOM_BYTES`].
    pub memory_bytes: u64,
    pub hugepages_1gi: u64,
    /// By id.
    pub numa: Vec<NumaNode>,
    /// By UUID, each once.
    pub gpus: Vec<InventoryGpu>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InventoryGpu {
    pub uuid: String,
    pub numa: Option<u32>,
    pub mig: bool,
    /// Atom id and profile, by atom id, each once.
    pub instances: Vec<(String, String)>,
}

/// The bytes are no inventory.
#[derive(Debug, thiserror::Error)]
#[error("the inventory does not decode: {0}")]
pub struct InventoryError(String);

/// Reads a serialized `Inventory`.
pub fn read(bytes: &[u8]) -> Result<NodeInventory, InventoryError> {
    let inventory = v1::Inventory::decode(bytes).map_err(|error| InventoryError(error.to_string()))?;
    let (pools_bytes, hugepages_1gi) = pools(&inventory.huge_pages);
    let mut numa: Vec<NumaNode> = inventory.numa_nodes.iter().take(NUMA_NODES_MAX).map(numa_node).collect();
    numa.sort_by_key(|node| node.id);
    numa.dedup_by_key(|node| node.id);
    let mut gpus: Vec<InventoryGpu> = inventory.gpus.iter().take(GPUS_MAX).filter_map(gpu).collect();
    gpus.sort_by(|a, b| a.uuid.cmp(&b.uuid));
    gpus.dedup_by(|a, b| a.uuid == b.uuid);
    Ok(NodeInventory {
        gpu_driver: inventory.gpu_driver.is_some(),
        vcpu: inventory.cpus.map_or(0, |cpus| u64::from(cpus.threads)),
        memory_bytes: inventory
            .memory_bytes
            .min(BYTES_MAX)
            .saturating_sub(pools_bytes)
            .saturating_sub(HOST_HEADROOM_BYTES),
        hugepages_1gi,
        numa,
        gpus,
    })
}

fn numa_node(node: &v1::NumaNode) -> NumaNode {
    let (pools_bytes, hugepages_1gi) = pools(&node.huge_pages);
    let cpus = if node.cpus.len() <= TEXT_BYTES_MAX { node.cpus.clone() } else { String::new() };
    NumaNode {
        id: node.id,
        cpus,
        memory_bytes: node.memory_bytes.min(BYTES_MAX).saturating_sub(pools_bytes),
        hugepages_1gi,
    }
}

/// Bytes of all pools, and pages of 1 GiB.
fn pools(pools: &[v1::HugePagePool]) -> (u64, u64) {
    let bytes = |pool: &v1::HugePagePool| pool.pages.saturating_mul(pool.page_bytes).min(BYTES_MAX);
    let all = pools.iter().map(bytes).fold(0u64, u64::saturating_add);
    let large = pools.iter().filter(|pool| pool.page_bytes == PAGE_1GI_BYTES);
    let pages = large.map(|pool| pool.pages.min(BYTES_MAX >> 30)).fold(0u64, u64::saturating_add);
    (all, pages)
}

fn gpu(gpu: &v1::Gpu) -> Option<InventoryGpu> {
    if !is_uuid(&gpu.uuid) {
        return None;
    }
    let mut ids = BTreeSet::new();
    for instance in gpu.mig_instances.iter().take(INSTANCES_MAX) {
        let part =
            AtomPart::Mig { gpu_instance: instance.gpu_instance_id, compute_instance: instance.compute_instance_id };
        let id = Atom { gpu: gpu.uuid.clone(), part }.to_string();
        // Without its UUID the driver cannot be told of it, so the daemon would call it missing.
        if instance.profile.len() <= TEXT_BYTES_MAX && !instance.uuid.is_empty() {
            ids.insert((id, instance.profile.clone()));
        }
    }
    let mut instances: Vec<(String, String)> = ids.into_iter().collect();
    instances.dedup_by(|a, b| a.0 == b.0);
    Some(InventoryGpu { uuid: gpu.uuid.clone(), numa: gpu.numa_node, mig: gpu.mig_enabled.unwrap_or(false), instances })
}

/// As the daemon will read it back from an assignment.
fn is_uuid(text: &str) -> bool {
    Atom::parse(text).is_some_and(|atom| atom.part == AtomPart::Whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uuid(end: &str) -> String {
        format!("GPU-00000000-0000-0000-0000-0000000000{end}")
    }

    fn pool(page_bytes: u64, pages: u64) -> v1::HugePagePool {
        v1::HugePagePool { page_bytes, pages }
    }

    #[test]
    fn what_can_be_booked_leaves_out_pools_and_headroom() {
        let inventory = v1::Inventory {
            memory_bytes: 64 << 30,
            huge_pages: vec![pool(2 << 20, 512), pool(1 << 30, 4)],
            numa_nodes: vec![v1::NumaNode {
                id: 0,
                cpus: "0-7".into(),
                memory_bytes: 32 << 30,
                huge_pages: vec![pool(1 << 30, 4)],
                distances: vec![10],
            }],
            cpus: Some(v1::Cpus { threads: 8, ..Default::default() }),
            ..Default::default()
        };
        let read = read(&inventory.encode_to_vec()).unwrap();
        assert_eq!((read.vcpu, read.memory_bytes, read.hugepages_1gi), (8, (64 - 1 - 4 - 1) << 30, 4));
        assert_eq!((read.numa[0].memory_bytes, read.numa[0].hugepages_1gi), (28 << 30, 4));
        assert!(!read.gpu_driver);
    }

    #[test]
    fn atoms_are_named_as_on_the_wire_and_odd_names_are_left_out() {
        let instance = |gi, ci, uuid: &str| v1::MigInstance {
            gpu_instance_id: gi,
            compute_instance_id: ci,
            uuid: uuid.into(),
            profile: "1g.10gb".into(),
            ..Default::default()
        };
        let gpu = |uuid: &str| v1::Gpu { uuid: uuid.into(), mig_enabled: Some(true), ..Default::default() };
        let divided = v1::Gpu {
            mig_instances: vec![
                instance(7, 0, "MIG-b"),
                instance(3, 0, "MIG-a"),
                instance(3, 0, "MIG-c"),
                instance(9, 0, ""),
            ],
            ..gpu(&uuid("0a"))
        };
        let (broken, slot, good) = (format!("{}\n", uuid("0b")), format!("{}/s1", uuid("0b")), uuid("0b"));
        let names = ["GPU-", "GPU-x/y", "MIG-1", &broken, &slot, &good, &good];
        let gpus = std::iter::once(divided).chain(names.iter().map(|name| gpu(name))).collect();
        let inventory = v1::Inventory { gpus, ..Default::default() };
        let read = read(&inventory.encode_to_vec()).unwrap();
        let uuids: Vec<&str> = read.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
        assert_eq!(uuids, [uuid("0a"), uuid("0b")]);
        let ids: Vec<&str> = read.gpus[0].instances.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids, [format!("{}/gi3/ci0", uuid("0a")), format!("{}/gi7/ci0", uuid("0a"))]);
    }

    #[test]
    fn numbers_that_no_machine_has_do_not_overflow() {
        let inventory = v1::Inventory {
            memory_bytes: u64::MAX,
            huge_pages: vec![pool(u64::MAX, u64::MAX), pool(1 << 30, u64::MAX)],
            ..Default::default()
        };
        assert_eq!(read(&inventory.encode_to_vec()).unwrap().memory_bytes, 0);
        assert!(read(&[0xff]).is_err());
    }
}
