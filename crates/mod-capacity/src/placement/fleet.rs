//! The nodes of one pool, with what a decision reads of each in one small row.

use super::filter::Filter;
use super::node::{Connection, Guard, Node};
use super::{DeviceClass, Limits, Placement, filter};

/// Groups (NVLink, NUMA) counted exactly; a node with more is scored by its largest.
const GROUPS_MAX: usize = 8;

/// Nodes, by id.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    nodes: Vec<Node>,
    rows: Vec<Row>,
}

/// A node in numbers.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// The first filter that refuses every request.
    pub standing: Option<Filter>,
    pub gpus: u32,
    /// Slots of GPUs that are in parts already, and of the free ones.
    pub slots_of_parts: u32,
    pub slots_of_free: u32,
    pub slots_per_gpu: u32,
    pub vcpu: u64,
    pub memory_bytes: u64,
    pub hugepages_1gi: u64,
    links: Groups,
    numa: Groups,
}

/// How many free GPUs each group has, largest first.
#[derive(Clone, Debug, Default)]
struct Groups([u8; GROUPS_MAX]);

impl Groups {
    fn of(ids: impl Iterator<Item = Option<u32>>) -> Self {
        let mut found: [(Option<u32>, u8); GROUPS_MAX] = Default::default();
        for id in ids {
            let slot = found.iter_mut().find(|(known, count)| *count == 0 || *known == id);
            if let Some((known, count)) = slot {
                (*known, *count) = (id, count.saturating_add(1));
            }
        }
        let mut counts = found.map(|(_, count)| count);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        Self(counts)
    }

    /// How many groups `count` GPUs need at least.
    fn spanned(&self, count: u32) -> u8 {
        let mut left = count;
        let mut spanned = 0;
        for held in self.0 {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(u32::from(held));
            spanned += 1;
        }
        spanned + u8::from(left > 0)
    }
}

impl Row {
    fn of(node: &Node) -> Self {
        let free = || node.gpus.iter().filter(|gpu| gpu.free_whole());
        let slots = |guard: Guard| -> u32 {
            let gpus = node.gpus.iter().filter(|gpu| gpu.guard == guard);
            gpus.map(|gpu| gpu.free_slots(node.slots_per_gpu).count_ones()).sum()
        };
        Self {
            standing: filter::standing(node),
            gpus: free().count() as u32,
            slots_of_parts: slots(Guard::Parts),
            slots_of_free: slots(Guard::Free),
            slots_per_gpu: u32::from(node.slots_per_gpu),
            vcpu: node.host.vcpu.free(),
            memory_bytes: node.host.memory_bytes.free(),
            hugepages_1gi: node.host.hugepages_1gi.free(),
            links: Groups::of(free().map(|gpu| gpu.link_group)),
            numa: Groups::of(free().map(|gpu| gpu.numa)),
        }
    }

    pub(super) fn links_spanned(&self, gpus: u32) -> u8 {
        self.links.spanned(gpus)
    }

    pub(super) fn numa_spanned(&self, gpus: u32) -> u8 {
        self.numa.spanned(gpus)
    }
}

impl Fleet {
    pub fn new(mut nodes: Vec<Node>) -> Self {
        nodes.sort_by(|a, b| a.id.cmp(&b.id));
        let rows = nodes.iter().map(Row::of).collect();
        Self { nodes, rows }
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(super) fn node(&self, index: usize) -> &Node {
        &self.nodes[index]
    }

    pub(super) fn row(&self, index: usize) -> &Row {
        &self.rows[index]
    }

    /// Books a placement of [`super::decide`], so that the next decision sees it.
    pub fn apply(&mut self, placement: &Placement) {
        let Ok(index) = self.nodes.binary_search_by(|node| node.id.cmp(&placement.node)) else { return };
        let node = &mut self.nodes[index];
        for device in &placement.devices {
            let Some(gpu) = node.gpus.iter_mut().find(|gpu| gpu.uuid == device.gpu) else { continue };
            gpu.guard = if device.class == DeviceClass::Gpu { Guard::Whole } else { Guard::Parts };
            match device.class {
                DeviceClass::Gpu => {}
                DeviceClass::Mig => {
                    gpu.instances.iter_mut().filter(|mig| mig.id == device.id).for_each(|mig| mig.booked = true);
                }
                DeviceClass::Slot => gpu.slots_booked |= slot_bit(&device.id),
            }
        }
        if let Some(Limits { cpu_millis, memory_bytes, hugepages_1gi, .. }) = placement.limits {
            node.host.vcpu.booked += cpu_millis / super::limits::MILLIS_PER_CPU;
            node.host.memory_bytes.booked += memory_bytes;
            node.host.hugepages_1gi.booked += hugepages_1gi;
        }
        self.rows[index] = Row::of(node);
    }
}

/// The bit of the slot that an atom id names; none for other atoms.
pub(crate) fn slot_bit(atom_id: &str) -> u64 {
    let number = atom_id.rsplit_once("/s").and_then(|(_, number)| number.parse::<u32>().ok());
    number.and_then(|number| 1u64.checked_shl(number)).unwrap_or(0)
}

impl Connection {
    /// Whether a spec sent now would be taken.
    pub(super) fn takes_specs(self) -> bool {
        self == Self::Connected
    }
}
