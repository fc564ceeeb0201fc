//! Whether the host has memory for a hold that is not bound yet. What counts is what was promised, not what is
//! used: a workload that has not touched its memory yet will (`delivery.md`, "Host admission of holds").

use super::limits::{huge_pages, parse_cpu_list};
use model::spec::HoldLimits;
use std::collections::{BTreeMap, BTreeSet};

/// Memory kept for the host itself.
pub const HEADROOM_BYTES: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// The host's memory at the start of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostMemory {
    /// `MemTotal`.
    pub total_bytes: u64,
    /// `Hugetlb`: the huge page pools.
    pub hugetlb_bytes: u64,
    /// What running and paused domains were promised of normal memory, overhead included.
    pub domains_bytes: u64,
    pub pools: Vec<HugePool>,
    /// Huge pages promised to domains and not faulted in yet.
    pub takers: Vec<HugeTaker>,
}

/// Huge pages of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HugePool {
    pub page_bytes: u64,
    pub free: u64,
    /// Reserved by a mapping and not faulted in yet; they are among the free ones.
    pub reserved: u64,
    /// Free pages of each NUMA node.
    pub nodes: BTreeMap<u32, u64>,
}

/// Huge pages somebody was promised and has not faulted in yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HugeTaker {
    pub page_bytes: u64,
    pub pages: u64,
    /// The NUMA nodes they come from; empty for any.
    pub mems: BTreeSet<u32>,
}

/// What is left to promise. Each hold that is bound or admitted takes its share.
#[derive(Clone, Debug)]
pub struct Budget {
    normal_bytes: u64,
    pools: Vec<HugePool>,
    takers: Vec<HugeTaker>,
}

impl Budget {
    pub fn new(memory: &HostMemory) -> Self {
        let taken = memory.hugetlb_bytes.saturating_add(memory.domains_bytes).saturating_add(HEADROOM_BYTES);
        Self {
            normal_bytes: memory.total_bytes.saturating_sub(taken),
            pools: memory.pools.clone(),
            takers: memory.takers.clone(),
        }
    }

    /// Takes what a bound hold was promised. `faulted`: its huge pages in use, by page size; the host no longer
    /// counts those as free.
    pub fn take(&mut self, limits: &HoldLimits, faulted: &BTreeMap<u64, u64>) {
        self.take_memory(limits.memory_bytes);
        for (page_bytes, pages) in huge_pages(limits) {
            let pages = pages.saturating_sub(faulted.get(&page_bytes).copied().unwrap_or(0));
            if pages > 0 {
                self.takers.push(HugeTaker { page_bytes, pages, mems: nodes(limits) });
            }
        }
    }

    pub fn take_memory(&mut self, bytes: u64) {
        self.normal_bytes = self.normal_bytes.saturating_sub(bytes);
    }

    /// Takes what a new hold wants, or says what is missing and takes nothing.
    pub fn admit(&mut self, limits: &HoldLimits) -> Result<(), String> {
        let (needed, left) = (limits.memory_bytes, self.normal_bytes);
        if needed > left {
            let (needed, left) = (needed.div_ceil(MIB), left / MIB);
            return Err(format!("{needed} MiB of memory needed, {left} MiB left on this host"));
        }
        for (page_bytes, pages) in huge_pages(limits) {
            let free = if pages == 0 { 0 } else { self.huge_left(page_bytes, &nodes(limits)) };
            if pages > free {
                let size = page_bytes / MIB;
                return Err(format!("{pages} huge pages of {size} MiB needed, {free} free for it on this host"));
            }
        }
        self.take(limits, &BTreeMap::new());
        Ok(())
    }

    /// Pages that can still be promised on `mems`, or anywhere where that is empty. A taker whose nodes overlap
    /// counts whole: where its pages will come from is not known before it faults them in.
    fn huge_left(&self, page_bytes: u64, mems: &BTreeSet<u32>) -> u64 {
        let Some(pool) = self.pools.iter().find(|pool| pool.page_bytes == page_bytes) else { return 0 };
        let taken = |counts: &dyn Fn(&HugeTaker) -> bool| {
            let takers = self.takers.iter().filter(|taker| taker.page_bytes == page_bytes && counts(taker));
            takers.fold(0u64, |sum, taker| sum.saturating_add(taker.pages))
        };
        let anywhere = pool.free.saturating_sub(pool.reserved).saturating_sub(taken(&|_| true));
        if mems.is_empty() {
            return anywhere;
        }
        let free = mems.iter().fold(0u64, |sum, node| sum.saturating_add(pool.nodes.get(node).copied().unwrap_or(0)));
        free.saturating_sub(taken(&|taker| !taker.mems.is_disjoint(mems))).min(anywhere)
    }
}

fn nodes(limits: &HoldLimits) -> BTreeSet<u32> {
    parse_cpu_list(&limits.mems).unwrap_or_default().into_iter().collect()
}
