//! What a node's spec holds, and generations as evidence.

use super::world::*;
use crate::placement::{self, Request};
use crate::sql;
use crate::state::ReservationState::{self, *};
use kernel::verifier::Verdict;
use model::spec::{Binding, DeviceAssignment};

fn assignments(world: &World, node: usize) -> Vec<DeviceAssignment> {
    let id = world.id(node);
    world.run(|tx| sql::device_assignments(tx, &id))
}

#[test]
fn a_spec_holds_what_is_placed_binding_or_active() {
    let mut world = World::new(1);
    let request = Request { binding: placement::Binding::Kubernetes, ..host(Request::gpus(2), 3) };
    let id = world.create("a", request);
    world.place();
    let placed = assignments(&world, 0);
    assert_eq!(placed.len(), 1);
    let allocation = world.row(&id).allocation.unwrap();
    assert_eq!((&placed[0].allocation, &placed[0].reservation), (&allocation.id, &id));
    let (sent, booked) = (placed[0].devices.iter(), allocation.devices.iter());
    assert!(sent.map(|device| &device.id).eq(booked.map(|device| &device.id)));
    assert_eq!((placed[0].binding, placed[0].devices[0].device_class.as_str()), (Binding::Kubernetes, "gpu"));
    let limits = placed[0].limits.clone().unwrap();
    assert_eq!((limits.cpu_millis, limits.memory_bytes, limits.hugepages_2mi, limits.hugepages_1gi), (3000, 0, 0, 0));
    world.settle(0);
    assert_eq!(assignments(&world, 0), placed, "active");
    world.release(&id, false);
    assert_eq!(assignments(&world, 0), []);
}

#[test]
fn a_hold_without_host_resources_has_no_limits() {
    let mut world = World::new(1);
    world.active("a", Request::gpus(1));
    assert_eq!(assignments(&world, 0)[0].limits, None);
}

#[test]
fn writing_the_same_spec_again_changes_nothing() {
    let mut world = World::new(1);
    let id = world.active("a", Request::gpus(1));
    let (before, generation) = (world.row(&id), world.specs[0].generation);
    (0..3).for_each(|_| world.reconcile(0));
    assert_eq!((world.row(&id), world.specs[0].generation), (before, generation));
}

#[test]
fn a_node_ahead_of_these_books_is_no_evidence() {
    let mut world = World::new(1);
    let id = world.create("a", Request::gpus(1));
    world.place();
    world.reconcile(0);
    world.release(&id, false);
    world.reconcile(0);
    assert_eq!(world.specs[0].generation, 2);
    // The node is at generation 9 of a line of specs that these books do not know.
    world.nodes[0].take_spec(9, vec![]);
    world.nodes[0].converge(false);
    world.report_status(0);
    assert_eq!(world.run(|tx| sql::end_dropped(tx, 10)), 0);
    world.reconcile(0);
    assert_eq!(world.specs[0].generation, 10);
    assert_eq!(world.run(|tx| sql::end_dropped(tx, 10)), 0, "only the newer spec's observation counts");
    world.settle(0);
    assert_eq!(world.state(&id), Released);
}

#[test]
fn a_release_under_an_unknown_spec_ends_nothing_that_is_wanted() {
    let mut world = World::new(1);
    let id = world.active("a", Request::gpus(1));
    // A spec of a lost line of generations drops it.
    world.nodes[0].take_spec(7, vec![]);
    world.nodes[0].converge(false);
    world.report_status(0);
    world.report_events(0, 10);
    world.verify(10, &Verdict::Genuine);
    let row = world.row(&id);
    assert_eq!((row.state, row.reason.as_str()), (Binding, "released-by-node"));
    world.check_books();
    world.settle(0);
    assert_eq!(world.state(&id), Active);
    assert_eq!(world.nodes[0].holds.len(), 1);
}

#[test]
fn an_old_release_does_not_end_what_was_bound_again() {
    let mut world = World::new(1);
    let id = world.active("a", Request::gpus(1));
    world.nodes[0].take_spec(7, vec![]);
    world.nodes[0].converge(false);
    world.report_status(0);
    // The newer spec names it again, and the node binds it again.
    world.reconcile(0);
    world.deliver(0);
    world.nodes[0].converge(false);
    world.release(&id, false);
    world.reconcile(0);
    world.report_events(0, 1);
    world.verify(10, &Verdict::Genuine);
    assert_eq!(world.state(&id), Releasing, "the old word is not about the generation that drops it");
    world.settle(0);
    assert_eq!((world.state(&id), world.nodes[0].holds.len()), (Released, 0));
}

#[test]
fn a_binding_whose_report_was_lost_is_placed_again() {
    let mut world = World::new(1);
    let id = world.create("a", Request::gpus(1));
    world.place();
    world.reconcile(0);
    world.deliver(0);
    world.nodes[0].converge(false);
    world.nodes[0].lose_journal();
    world.connect(0);
    world.report_status(0);
    let silent = |world: &World| world.run(|tx| sql::replace_silent(tx, 10));
    assert_eq!((silent(&world), world.state(&id)), (0, Binding));
    world.advance(59_999);
    assert_eq!((silent(&world), world.state(&id)), (0, Binding));
    world.advance(1);
    assert_eq!((silent(&world), world.state(&id)), (1, Pending));
    assert_eq!(world.row(&id).reason, "no-report");
    let mut settle = || {
        world.advance(60_000);
        world.settle_all();
        world.state(&id)
    };
    let states: Vec<ReservationState> = (0..3).map(|_| settle()).collect();
    assert_eq!(states.last(), Some(&Active), "{states:?}");
    world.check_books();
}

#[test]
fn a_node_that_reports_late_is_not_called_silent() {
    let mut world = World::new(1);
    let id = world.create("a", Request::gpus(1));
    world.place();
    world.reconcile(0);
    world.deliver(0);
    world.nodes[0].converge(false);
    world.report_status(0);
    world.run(|tx| sql::replace_silent(tx, 10));
    world.advance(600_000);
    // Its report is here and waits for the verifier.
    world.report_events(0, 10);
    assert_eq!(world.run(|tx| sql::replace_silent(tx, 10)), 0);
    world.verify(10, &Verdict::Genuine);
    assert_eq!(world.state(&id), Active);
}

#[test]
fn a_lost_connection_is_not_silence() {
    let mut world = World::new(1);
    let id = world.create("a", Request::gpus(1));
    world.place();
    world.reconcile(0);
    world.deliver(0);
    world.nodes[0].converge(false);
    world.report_status(0);
    world.run(|tx| sql::replace_silent(tx, 10));
    world.disconnect(0);
    world.advance(600_000);
    assert_eq!(world.run(|tx| sql::replace_silent(tx, 10)), 0);
    assert_eq!(world.state(&id), Binding);
}
