//! Status and inventory.

use super::world::*;
use crate::nodes;
use crate::places::{self, PoolUpdate};
use crate::status::{self, Written};
use model::frame::{Condition, InventoryReport, StatusReport};
use model::limits::COUNTER_MAX;
use model::{Lifecycle, NodeId};
use serde_json::json;

fn at(generation: u64) -> StatusReport {
    StatusReport { observed_generation: generation, applied_generation: generation, ..StatusReport::default() }
}

fn write(world: &World, node: &NodeId, epoch: u64, report: &StatusReport, publish: bool) -> Written {
    world.run(|tx| status::write_status(tx, node, epoch, report, publish))
}

fn row(world: &World, node: &NodeId) -> nodes::NodeRow {
    world.run(|tx| nodes::get_node(tx, node)).unwrap()
}

fn inventory(bytes: &[u8]) -> InventoryReport {
    InventoryReport { digest: stdx::hex::sha256_hex(bytes), inventory: bytes.to_vec() }
}

#[test]
fn observed_generation_never_falls_and_may_come_from_a_passed_session() {
    let (world, node) = World::with_session();
    assert_eq!(write(&world, &node, 1, &at(5), false), Written::Stored);
    assert_eq!(write(&world, &node, 1, &at(3), false), Written::Stored);
    let stored = row(&world, &node);
    assert_eq!((stored.observed_generation, stored.applied_generation), (5, 3));
    world.connect(&node, "boot-1", "journal-1");
    assert_eq!(write(&world, &node, 1, &at(7), true), Written::EpochLost);
    let stored = row(&world, &node);
    assert_eq!((stored.observed_generation, stored.applied_generation), (7, 0));
    assert_eq!(world.count("node.status"), 0);
    assert_eq!(write(&world, &node, 2, &at(COUNTER_MAX + 1), false), Written::Refused);
}

#[test]
fn ages_of_conditions_become_times_of_the_control_plane() {
    let (world, node) = World::with_session();
    let condition =
        Condition { kind: "JournalFull".into(), reason: "NoSpace".into(), message: "64 MiB".into(), age_ms: 1500 };
    let report = StatusReport { conditions: vec![condition], gauges: vec![("load".into(), 3)], ..at(0) };
    assert_eq!(write(&world, &node, 1, &report, true), Written::Stored);
    let status = row(&world, &node).status.unwrap();
    assert_eq!(
        status["conditions"],
        json!([{ "kind": "JournalFull", "reason": "NoSpace", "message": "64 MiB", "sinceMs": START - 1500 }])
    );
    assert_eq!(status["gauges"], json!({ "load": 3 }));
    let event = world.published().into_iter().find(|event| event.topic == "node.status").unwrap();
    assert_eq!(event.payload["nodeId"], json!(node.as_str()));
    assert_eq!(write(&world, &node, 1, &report, false), Written::Stored);
    assert_eq!(world.count("node.status"), 1, "only news is published");
}

#[test]
fn the_first_inventory_makes_an_adopting_node_ready() {
    let (world, node) = World::with_session();
    assert_eq!(row(&world, &node).lifecycle, Lifecycle::Adopting);
    let report = inventory(b"8 GPUs");
    assert_eq!(world.run(|tx| status::write_inventory(tx, &node, 1, &report)), Written::Stored);
    let stored = row(&world, &node);
    assert_eq!((stored.lifecycle, stored.inventory_digest), (Lifecycle::Ready, report.digest.clone()));
    assert_eq!(world.run(|tx| nodes::node_inventory(tx, &node)), Some(report.inventory.clone()));
    world.run(|tx| status::write_inventory(tx, &node, 1, &report));
    assert_eq!((world.count("node.ready"), world.count("node.inventory")), (1, 1));
}

#[test]
fn a_pool_that_adopts_by_hand_leaves_its_nodes_adopting() {
    let (world, node) = World::with_session();
    let manual = PoolUpdate { policy: Some(json!({ "adoption": "manual" })), ..PoolUpdate::default() };
    world.store.run(|tx| places::update_pool(tx, &pool(), &manual)).unwrap();
    world.run(|tx| status::write_inventory(tx, &node, 1, &inventory(b"8 GPUs")));
    assert_eq!(row(&world, &node).lifecycle, Lifecycle::Adopting);
    assert!(world.run(|tx| nodes::adopt_node(tx, &node)));
    assert_eq!(row(&world, &node).lifecycle, Lifecycle::Ready);
}

#[test]
fn an_inventory_that_is_not_its_digest_or_comes_from_a_passed_session_is_not_stored() {
    let (world, node) = World::with_session();
    let wrong = InventoryReport { digest: "00".into(), ..inventory(b"8 GPUs") };
    assert_eq!(world.run(|tx| status::write_inventory(tx, &node, 1, &wrong)), Written::Refused);
    world.connect(&node, "boot-1", "journal-1");
    let good = inventory(b"8 GPUs");
    assert_eq!(world.run(|tx| status::write_inventory(tx, &node, 1, &good)), Written::EpochLost);
    assert_eq!(world.run(|tx| nodes::node_inventory(tx, &node)), None);
}
