//! Scores: which of the nodes that can take a request takes it. Lower is better, compared from the left:
//! NVLink groups and NUMA nodes that the GPUs span, then packing (or spreading).

use super::Strategy;
use super::filter::{Want, free_instances};
use super::fleet::Fleet;

/// A node's standing among the suitable ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Score {
    /// NVLink groups beyond the first.
    links: u8,
    /// NUMA nodes beyond the first.
    numa: u8,
    /// Free GPUs that slots would open while others are in parts: each is a whole GPU less.
    opened: u32,
    /// What stays free of the kind that was asked for, in the sense of the strategy.
    left: u64,
    /// CPUs that stay free, in the same sense.
    vcpu: u64,
}

impl Score {
    pub fn of(want: &Want<'_>, fleet: &Fleet, index: usize) -> Self {
        let row = fleet.row(index);
        let slots_of_free = want.slots.saturating_sub(row.slots_of_parts);
        let opened = if slots_of_free == 0 { 0 } else { slots_of_free.div_ceil(row.slots_per_gpu.max(1)) };
        let slots_left = (row.slots_of_parts + row.slots_of_free).saturating_sub(want.slots);
        let migs_left: usize = match want.migs {
            0 => 0,
            migs => {
                let free: usize =
                    want.request.profiles().map(|(profile, _)| free_instances(fleet.node(index), profile)).sum();
                free - migs as usize
            }
        };
        let gpus_left = u64::from(row.gpus - want.gpus);
        let parts_left = if want.slots > 0 { u64::from(slots_left) } else { 0 } + migs_left as u64;
        // Whole GPUs weigh more than any number of their parts.
        let left = (gpus_left << 32) + parts_left;
        let vcpu = row.vcpu - u64::from(want.host().vcpu);
        let spread = |amount: u64| u64::MAX - amount;
        let (opened, left, vcpu) = match want.request.strategy {
            Strategy::Pack => (opened, left, vcpu),
            Strategy::Spread => (0, spread(left), spread(vcpu)),
        };
        let links = row.links_spanned(want.gpus).saturating_sub(1);
        let numa = row.numa_spanned(want.gpus).saturating_sub(1);
        Self { links, numa, opened, left, vcpu }
    }
}
