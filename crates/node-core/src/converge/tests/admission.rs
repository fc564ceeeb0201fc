//! What the host can still promise.

use super::*;
use std::collections::BTreeMap;

const GIB: u64 = 1 << 30;

fn memory(bytes: u64) -> HoldLimits {
    HoldLimits { memory_bytes: bytes, ..HoldLimits::default() }
}

fn pages(hugepages_1gi: u64, mems: &str) -> HoldLimits {
    HoldLimits { hugepages_1gi, mems: mems.to_owned(), ..HoldLimits::default() }
}

fn two_nodes(free: [u64; 2], reserved: u64) -> HostMemory {
    let nodes = BTreeMap::from([(0, free[0]), (1, free[1])]);
    let pool = HugePool { page_bytes: GIB, free: free[0] + free[1], reserved, nodes };
    HostMemory { total_bytes: 64 * GIB, pools: vec![pool], ..HostMemory::default() }
}

#[test]
fn normal_memory_starts_from_the_total_less_huge_pages_headroom_and_domains() {
    let host =
        HostMemory { total_bytes: 64 * GIB, hugetlb_bytes: 16 * GIB, domains_bytes: 10 * GIB, ..HostMemory::default() };
    let left = (64 - 16 - 10 - 1) * GIB;
    assert_eq!(Budget::new(&host).admit(&memory(left)), Ok(()));
    let error = Budget::new(&host).admit(&memory(left + 1)).expect_err("one byte too many");
    assert_eq!(error, "37889 MiB of memory needed, 37888 MiB left on this host");
    let tiny = HostMemory { total_bytes: GIB / 2, ..HostMemory::default() };
    assert!(Budget::new(&tiny).admit(&memory(1)).is_err(), "less than the headroom is nothing");
}

#[test]
fn bound_holds_count_with_their_limit_and_each_admitted_one_counts_for_the_next() {
    let mut node = Node::new();
    let first = limited("a", &[&gpu(0)], memory(40 * GIB));
    node.pass(std::slice::from_ref(&first));
    let (second, third) = (limited("b", &[&gpu(1)], memory(20 * GIB)), limited("c", &[&gpu(2)], memory(4 * GIB)));
    let (plan, reports) = node.pass(&[first.clone(), second.clone(), third.clone()]);
    assert_eq!(plan.failures.len(), 1);
    assert_eq!((plan.failures[0].allocation.as_str(), plan.failures[0].reason.as_str()), ("c", "resources-exhausted"));
    assert_eq!(reports.len(), 2);
    // Once one is gone there is room, in a new generation.
    node.generation += 1;
    let (plan, _) = node.pass(&[second, third]);
    assert!(plan.failures.is_empty(), "{plan}");
}

#[test]
fn what_is_bound_is_never_judged_again() {
    let mut node = Node::new();
    let desired = [limited("a", &[&gpu(0)], memory(40 * GIB))];
    node.pass(&desired);
    node.host.memory = Some(HostMemory::default());
    node.generation += 1;
    assert!(node.pass(&desired).0.is_empty());
    node.host.cdi.clear();
    assert!(node.pass(&desired).0.failures.is_empty(), "a restored hold is no new one");
}

#[test]
fn the_limits_of_pods_count_although_they_have_no_slice() {
    let mut node = Node::new();
    let pods = DeviceAssignment { binding: Binding::Kubernetes, ..limited("a", &[&gpu(0)], memory(60 * GIB)) };
    let (plan, _) = node.pass(&[pods, limited("b", &[&gpu(1)], memory(4 * GIB))]);
    assert_eq!((plan.failures[0].allocation.as_str(), plan.failures[0].reason.as_str()), ("b", "resources-exhausted"));
}

#[test]
fn a_workload_that_outlives_its_hold_still_has_its_memory() {
    let mut node = Node::new();
    node.pass(&[limited("a", &[&gpu(0)], memory(60 * GIB))]);
    node.host.slices.as_mut().expect("slices")[0].is_populated = true;
    let (plan, _) = node.pass(&[limited("b", &[&gpu(0)], memory(4 * GIB))]);
    assert_eq!(plan.failures[0].reason, "resources-exhausted");
}

#[test]
fn cpu_alone_is_not_admitted_and_unknown_memory_binds_with_a_notice() {
    let mut node = Node::new();
    node.host.memory = Some(HostMemory::default());
    let cpu = HoldLimits { cpu_millis: 64_000, ..HoldLimits::default() };
    assert!(node.pass(&[limited("a", &[&gpu(0)], cpu)]).0.failures.is_empty());
    node.host.memory = None;
    let (plan, _) = node.pass(&[limited("b", &[&gpu(1)], memory(1 << 50))]);
    assert!(plan.failures.is_empty());
    assert!(plan.notices[0].contains("cannot be read"), "{plan}");
}

#[test]
fn huge_pages_come_from_the_nodes_of_the_hold_and_never_exceed_the_host() {
    for (free, reserved, wanted, mems, fits) in [
        ([4, 4], 0, 8, "", true),
        ([4, 4], 1, 8, "", false),
        ([4, 4], 0, 4, "0", true),
        ([4, 4], 0, 5, "0", false),
        ([4, 4], 0, 8, "0-1", true),
        // Half of the free pages are reserved, it is not known on which node.
        ([4, 4], 6, 3, "0", false),
        ([4, 0], 0, 1, "1", false),
        ([4, 4], 0, 1, "7", false),
    ] {
        let result = Budget::new(&two_nodes(free, reserved)).admit(&pages(wanted, mems));
        assert_eq!(result.is_ok(), fits, "{wanted} on {mems:?} of {free:?}, {reserved} reserved");
    }
    let error = Budget::new(&two_nodes([1, 1], 0)).admit(&pages(3, "")).expect_err("too many");
    assert_eq!(error, "3 huge pages of 1024 MiB needed, 2 free for it on this host");
    let no_pool = HoldLimits { hugepages_2mi: 1, ..HoldLimits::default() };
    assert!(Budget::new(&two_nodes([1, 1], 0)).admit(&no_pool).is_err());
}

#[test]
fn pages_of_bound_holds_that_are_not_faulted_in_are_taken_on_their_node() {
    let mut budget = Budget::new(&two_nodes([4, 4], 0));
    // Bound with 3 pages on node 0, one of them in use and so no longer free.
    budget.take(&pages(3, "0"), &BTreeMap::from([(GIB, 1)]));
    assert!(budget.clone().admit(&pages(3, "0")).is_err());
    assert!(budget.clone().admit(&pages(2, "0")).is_ok());
    assert!(budget.clone().admit(&pages(4, "1")).is_ok());
    assert!(budget.clone().admit(&pages(7, "")).is_err());
    assert!(budget.clone().admit(&pages(6, "")).is_ok());
    // One without a node may need pages of either.
    budget.take(&pages(4, ""), &BTreeMap::new());
    assert!(budget.clone().admit(&pages(3, "1")).is_err());
    assert!(budget.admit(&pages(2, "1")).is_ok());
}

#[test]
fn domains_and_holds_never_take_what_the_other_was_promised() {
    let mut host = two_nodes([4, 4], 0);
    host.takers = vec![HugeTaker { page_bytes: GIB, pages: 4, mems: [0].into() }];
    assert!(Budget::new(&host).admit(&pages(1, "0")).is_err());
    assert!(Budget::new(&host).admit(&pages(4, "1")).is_ok());
}
