//! What a decision costs beside a plain scan and sort of the same nodes.

use super::*;
use std::hint::black_box;
use std::time::{Duration, Instant};

const NODES: usize = 5_000;
/// A decision costs at most this many plain scans and sorts.
const RATIO_MAX: u32 = 2;
const TRIES: usize = 30;

fn fastest(mut work: impl FnMut()) -> Duration {
    let mut time = || {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..TRIES).map(|_| time()).min().expect("it was tried")
}

#[test]
fn a_decision_costs_no_more_than_twice_a_scan_and_sort() {
    let mut nodes: Vec<Node> =
        (0..NODES).map(|number| node(&format!("node_{:05}", number * 7919 % NODES), 8)).collect();
    for (number, node) in nodes.iter_mut().enumerate() {
        node.gpus.iter_mut().take(number % 8).for_each(|gpu| gpu.guard = Guard::Whole);
    }
    let fleet = Fleet::new(nodes);
    let plain = fastest(|| {
        let free = |node: &Node| node.gpus.iter().filter(|gpu| gpu.guard == Guard::Free).count();
        let mut found: Vec<(usize, &NodeId)> = fleet.nodes().iter().map(|node| (free(node), &node.id)).collect();
        found.sort();
        black_box(found.first());
    });
    let request = Request { labels: vec![], ..Request::gpus(2) };
    let decision = fastest(|| {
        black_box(decide(&request, &[], &fleet));
    });
    assert!(decision <= plain * RATIO_MAX, "a decision took {decision:?}, a scan and sort {plain:?}");
}
