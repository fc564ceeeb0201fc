//! Which of the suitable nodes and atoms are taken.

use super::*;

fn taken(request: &Request, nodes: Vec<Node>) -> Placement {
    decide(request, &[], &Fleet::new(nodes)).expect("it fits")
}

fn book(node: &mut Node, gpus: &[usize]) {
    gpus.iter().for_each(|number| node.gpus[*number].guard = Guard::Whole);
}

#[test]
fn packing_takes_the_fullest_node_and_spreading_the_emptiest() {
    let mut half = node("b", 8);
    book(&mut half, &[0, 1, 2, 3]);
    let nodes = || vec![node("a", 8), half.clone(), node("c", 8)];
    assert_eq!(taken(&Request::gpus(1), nodes()).node, id("b"));
    let spread = Request { strategy: Strategy::Spread, ..Request::gpus(1) };
    assert_eq!(taken(&spread, nodes()).node, id("a"));
}

#[test]
fn equal_nodes_are_taken_by_id_whatever_their_order() {
    assert_eq!(taken(&Request::gpus(1), vec![node("c", 2), node("a", 2), node("b", 2)]).node, id("a"));
}

#[test]
fn gpus_of_one_numa_node_go_together() {
    // Free: one on NUMA node 0, two on NUMA node 1.
    let mut one = node("a", 6);
    book(&mut one, &[0, 2, 5]);
    assert_eq!(ids(&taken(&Request::gpus(2), vec![one.clone()])), ["GPU-a3", "GPU-a4"]);
    // A single one comes from the smaller group, so that pairs stay.
    assert_eq!(ids(&taken(&Request::gpus(1), vec![one])), ["GPU-a1"]);
}

#[test]
fn locality_comes_before_packing() {
    // `a` is fuller and its two free GPUs are on two NUMA nodes; `b` has a pair.
    let mut split = node("a", 4);
    book(&mut split, &[0, 2]);
    let nodes = || vec![split.clone(), node("b", 8)];
    assert_eq!(taken(&Request::gpus(2), nodes()).node, id("b"));
    assert_eq!(taken(&Request::gpus(1), nodes()).node, id("a"));
}

#[test]
fn nvlink_groups_come_before_numa_nodes() {
    let mut linked = node("a", 4);
    // Groups cross the NUMA nodes: 0 and 2, 1 and 3.
    linked.gpus.iter_mut().enumerate().for_each(|(number, gpu)| gpu.link_group = Some(number as u32 % 2));
    assert_eq!(ids(&taken(&Request::gpus(2), vec![linked.clone()])), ["GPU-a0", "GPU-a2"]);
    // A node with the pair in one group beats one that would span two.
    let mut apart = node("0", 2);
    apart.gpus.iter_mut().enumerate().for_each(|(number, gpu)| {
        (gpu.link_group, gpu.numa) = (Some(number as u32), Some(0));
    });
    assert_eq!(taken(&Request::gpus(2), vec![apart, linked]).node, id("a"));
}

#[test]
fn slots_fill_divided_gpus_before_they_open_another() {
    let mut used = node("b", 2);
    used.slots_per_gpu = 4;
    used.gpus[1].guard = Guard::Parts;
    used.gpus[1].slots_booked = 0b0101;
    let mut fresh = node("a", 2);
    fresh.slots_per_gpu = 4;
    let placement = taken(&slots(2), vec![fresh.clone(), used.clone()]);
    assert_eq!((placement.node.clone(), ids(&placement)), (id("b"), vec!["GPU-b1/s1", "GPU-b1/s3"]));
    let placement = taken(&slots(3), vec![used]);
    assert_eq!(ids(&placement), ["GPU-b0/s0", "GPU-b1/s1", "GPU-b1/s3"]);
}

#[test]
fn whole_gpus_and_slots_of_one_request_never_share_a_gpu() {
    let mut one = node("a", 3);
    one.slots_per_gpu = 2;
    let mut request = slots(2);
    request.devices.extend(Request::gpus(2).devices);
    assert_eq!(ids(&taken(&request, vec![one.clone()])), ["GPU-a0/s0", "GPU-a0/s1", "GPU-a1", "GPU-a2"]);
    request.devices[0].count = 3;
    assert_eq!(decide(&request, &[], &Fleet::new(vec![one])), None);
}

#[test]
fn instances_come_from_divided_gpus_of_their_profile() {
    let mut one = node("a", 3);
    divide(&mut one.gpus[1], &["1g.10gb", "2g.20gb"]);
    divide(&mut one.gpus[2], &["1g.10gb"]);
    one.gpus[2].guard = Guard::Parts;
    let placement = taken(&mig("1g.10gb", 1), vec![one.clone()]);
    assert_eq!(ids(&placement), ["GPU-a2/gi0/ci0"]);
    assert_eq!(ids(&taken(&mig("1g.10gb", 2), vec![one.clone()])), ["GPU-a1/gi0/ci0", "GPU-a2/gi0/ci0"]);
    // A GPU in MIG mode is not given whole.
    assert_eq!(ids(&taken(&Request::gpus(1), vec![one.clone()])), ["GPU-a0"]);
    assert_eq!(decide(&Request::gpus(2), &[], &Fleet::new(vec![one])), None);
}

#[test]
fn an_applied_placement_is_seen_by_the_next() {
    let mut one = with_capability(node("a", 2), CAPABILITY_LIMITS);
    one.slots_per_gpu = 2;
    divide(&mut one.gpus[1], &["1g.10gb"]);
    let mut fleet = Fleet::new(vec![one]);
    let mut take = |request: &Request| {
        let placement = decide(request, &[], &fleet);
        placement.iter().for_each(|placement| fleet.apply(placement));
        placement.map(|placement| ids(&placement).join(" "))
    };
    let with_host = Request { host: HostRequest { vcpu: 20, memory_gib: 0, hugepages_1gi: 0 }, ..slots(1) };
    assert_eq!(take(&with_host), Some("GPU-a0/s0".into()));
    assert_eq!(take(&with_host), None);
    assert_eq!(take(&Request::gpus(1)), None);
    assert_eq!(take(&slots(1)), Some("GPU-a0/s1".into()));
    assert_eq!(take(&slots(1)), None);
    assert_eq!(take(&mig("1g.10gb", 1)), Some("GPU-a1/gi0/ci0".into()));
    assert_eq!(take(&mig("1g.10gb", 1)), None);
}
