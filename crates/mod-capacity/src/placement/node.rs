//! What placement knows of a node.

use model::{Lifecycle, NodeId};

/// How much of a resource there is, and how much of it is booked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    pub total: u64,
    pub booked: u64,
}

impl Amount {
    /// What is left; nothing where more is booked than there is, as after hardware went away.
    pub fn free(self) -> u64 {
        self.total.saturating_sub(self.booked)
    }
}

/// Host resources of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    pub vcpu: Amount,
    /// Bytes that can be booked: all memory less the huge page pools and the host's headroom.
    pub memory_bytes: Amount,
    /// Pages.
    pub hugepages_1gi: Amount,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaNode {
    pub id: u32,
    /// CPUs in the kernel's list form, `0-15,32-47`.
    pub cpus: String,
    /// Bytes beside its huge page pools.
    pub memory_bytes: u64,
    pub hugepages_1gi: u64,
}

/// How a GPU is booked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    #[default]
    Free,
    /// By one allocation.
    Whole,
    /// MIG instances or slots of it.
    Parts,
}

impl Guard {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Whole => "whole",
            Self::Parts => "parts",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Free, Self::Whole, Self::Parts].into_iter().find(|guard| guard.name() == text)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigInstance {
    /// `<GPU UUID>/gi<n>/ci<n>`.
    pub id: String,
    /// `1g.10gb`.
    pub profile: String,
    pub booked: bool,
    /// Whether the newest inventory has it.
    pub present: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpu {
    pub uuid: String,
    /// Whether the newest inventory has it; a booked GPU that vanished stays in the books.
    pub present: bool,
    /// The node that has it booked although this one lists it: the card was moved.
    pub elsewhere: Option<NodeId>,
    pub numa: Option<u32>,
    /// GPUs of one group reach each other over NVLink. `None` where that is not known.
    pub link_group: Option<u32>,
    /// It is divided into MIG instances, so it is not given whole and has no slots.
    pub mig: bool,
    pub guard: Guard,
    /// Booked slots, by number.
    pub slots_booked: u64,
    pub instances: Vec<MigInstance>,
}

impl Gpu {
    /// Whether anything of it may be given at all.
    pub(super) fn offered(&self) -> bool {
        self.present && self.elsewhere.is_none()
    }

    pub(super) fn free_whole(&self) -> bool {
        self.offered() && !self.mig && self.guard == Guard::Free
    }

    /// Slot numbers that are free.
    pub(super) fn free_slots(&self, slots_per_gpu: u8) -> u64 {
        let takes_slots = self.offered() && !self.mig && self.guard != Guard::Whole;
        if takes_slots { all_slots(slots_per_gpu) & !self.slots_booked } else { 0 }
    }

    /// Free instances.
    pub(super) fn free_instances(&self) -> impl Iterator<Item = &MigInstance> {
        let takes_parts = self.offered() && self.mig && self.guard != Guard::Whole;
        self.instances.iter().filter(move |instance| takes_parts && instance.present && !instance.booked)
    }
}

/// The numbers of `count` slots as bits.
fn all_slots(count: u8) -> u64 {
    1u64.checked_shl(u32::from(count)).map_or(u64::MAX, |bit| bit - 1)
}

/// Whether the node can be told anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connection {
    Connected,
    /// Its daemon is too old and takes nothing but an upgrade.
    UpgradeOnly,
    #[default]
    Lost,
}

/// A cordon, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cordon {
    /// `operator`, `health` or `rollout`.
    pub owner: String,
    pub reason: String,
}

/// A node as placement sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub id: NodeId,
    pub lifecycle: Lifecycle,
    pub revoked: bool,
    pub connection: Connection,
    pub cordons: Vec<Cordon>,
    /// People's and the system's, sorted by key.
    pub labels: Vec<(String, String)>,
    /// Whether its inventory has been read.
    pub inventory: bool,
    /// Whether a GPU driver answered.
    pub gpu_driver: bool,
    /// How many slots its pool makes of one GPU; 0 for none, at most 64.
    pub slots_per_gpu: u8,
    /// Sorted by UUID.
    pub gpus: Vec<Gpu>,
    pub host: Host,
    /// Sorted by id; empty where the host shows none.
    pub numa: Vec<NumaNode>,
}

impl Node {
    /// A ready, connected, empty node.
    pub fn ready(id: NodeId) -> Self {
        Self {
            id,
            lifecycle: Lifecycle::Ready,
            revoked: false,
            connection: Connection::Connected,
            cordons: Vec::new(),
            labels: Vec::new(),
            inventory: true,
            gpu_driver: true,
            slots_per_gpu: 0,
            gpus: Vec::new(),
            host: Host::default(),
            numa: Vec::new(),
        }
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        let index = self.labels.binary_search_by(|(name, _)| name.as_str().cmp(key)).ok()?;
        Some(&self.labels[index].1)
    }
}
