//! Reports: what is believed, and what a believed one does.

use super::world::*;
use crate::placement::Request;
use crate::sql::{self, Applied, SettledReport};
use crate::state::ReservationState::*;
use kernel::verifier::Verdict;
use model::frame::Signed;
use proto::v1;

fn forged() -> Verdict {
    Verdict::Forged("the signature is wrong".into())
}

/// A reservation that its node's spec names, at generation 1.
fn binding(world: &mut World, gpus: u32) -> model::ReservationId {
    let id = world.create("a", Request::gpus(gpus));
    world.place();
    let node = world.node_of(&id);
    world.reconcile(node);
    world.deliver(node);
    id
}

#[test]
fn a_forged_report_does_nothing_and_is_told() {
    let mut world = World::new(1);
    let id = binding(&mut world, 1);
    world.nodes[0].converge(false);
    world.report_events(0, 10);
    assert_eq!(world.verify(10, &forged()), [SettledReport::Refused]);
    assert_eq!(world.state(&id), Binding);
    assert!(world.topics(world.id(0).as_str()).contains(&"security.bad-attestation".to_owned()));
    assert!(world.run(|tx| sql::take_unverified_reports(tx, 10)).is_empty());
}

#[test]
fn without_attested_bindings_a_report_acts_at_once() {
    let mut world = World::with(1, false);
    let id = binding(&mut world, 1);
    world.nodes[0].converge(false);
    world.report_events(0, 10);
    assert_eq!(world.state(&id), Active);
    assert!(world.run(|tx| sql::take_unverified_reports(tx, 10)).is_empty());
}

#[test]
fn an_unsigned_report_reaches_the_verifier_without_a_signature() {
    let mut world = World::new(1);
    let id = binding(&mut world, 1);
    let allocation = world.row(&id).allocation.unwrap().id;
    let body = v1::AllocationFailed {
        allocation_id: allocation.to_string(),
        reservation_id: id.to_string(),
        reason: "overlap".into(),
        message: String::new(),
        generation: 1,
    };
    let report = world.nodes[0].report("allocationFailed", &body);
    world.nodes[0].push(report, None);
    world.report_events(0, 10);
    let waiting = world.run(|tx| sql::take_unverified_reports(tx, 10));
    assert_eq!((waiting.len(), waiting[0].signed.as_ref()), (1, None));
    // Even a verifier that lets it pass cannot make it act.
    assert_eq!(world.verify(10, &Verdict::Genuine), [SettledReport::Refused]);
    assert_eq!(world.state(&id), Binding);
}

#[test]
fn what_acts_is_what_was_signed() {
    let mut world = World::new(1);
    let id = binding(&mut world, 1);
    let allocation = world.row(&id).allocation.unwrap().id.to_string();
    let bound = |allocation_id: &str| v1::AllocationBound {
        allocation_id: allocation_id.into(),
        reservation_id: id.to_string(),
        cdi_devices: vec![],
        generation: 1,
    };
    let report = world.nodes[0].report("allocationBound", &bound(&allocation));
    let others = [
        world.nodes[0].report("allocationBound", &bound("alloc_other")),
        world.nodes[0].report("allocationReleased", &bound(&allocation)),
        b"no report".to_vec(),
    ];
    for body in others {
        let signed = Signed { body, kid: "k".into(), chain: vec![vec![1]], signature: vec![1; 64] };
        world.nodes[0].push(report.clone(), Some(signed));
        world.report_events(0, 10);
        assert_eq!(world.verify(10, &Verdict::Genuine), [SettledReport::Refused]);
    }
    assert_eq!(world.state(&id), Binding);
}

#[test]
fn a_signature_is_kept_as_received_with_the_nodes_certificates() {
    let mut world = World::new(1);
    binding(&mut world, 1);
    let node = world.id(0);
    let der = vec![9; 40];
    let not_after = model::ServerTimeMs(START + 1);
    world.run(|tx| kernel::join::store_certificate(tx, &node, "s1", &der, &[1], not_after));
    world.nodes[0].converge(false);
    let sent = world.nodes[0].events[0].clone();
    world.report_events(0, 10);
    let waiting = world.run(|tx| sql::take_unverified_reports(tx, 10));
    assert_eq!(waiting[0].signed, sent.node_sig);
    assert_eq!((&waiting[0].node, waiting[0].kind.as_str()), (&node, "allocationBound"));
    assert_eq!(waiting[0].certs, [der]);
}

#[test]
fn one_node_says_nothing_of_anothers_allocation() {
    let mut world = World::new(2);
    let id = binding(&mut world, 1);
    let allocation = world.row(&id).allocation.unwrap().id.to_string();
    let other = 1 - world.node_of(&id);
    let body = v1::AllocationBound {
        allocation_id: allocation,
        reservation_id: id.to_string(),
        cdi_devices: vec![],
        generation: 1,
    };
    world.nodes[other].event("allocationBound", &body);
    let unknown = v1::AllocationReleased { allocation_id: "alloc_x".into(), ..Default::default() };
    world.nodes[other].event("allocationReleased", &unknown);
    world.report_events(other, 10);
    assert!(world.run(|tx| sql::take_unverified_reports(tx, 10)).is_empty());
    assert_eq!(world.state(&id), Binding);
}

#[test]
fn a_failed_allocation_is_placed_again_elsewhere() {
    let mut world = World::new(2);
    let id = binding(&mut world, 1);
    let first = world.node_of(&id);
    world.nodes[first].converge(true);
    world.report_events(first, 10);
    world.verify(10, &Verdict::Genuine);
    let row = world.row(&id);
    assert_eq!((row.state, row.reason.as_str(), row.attempt), (Pending, "resources-exhausted", 1));
    assert_eq!(row.allocation, None);
    assert!(world.place().placed.is_empty(), "it waits a moment before it is placed again");
    world.advance(1_000);
    world.place();
    assert_eq!(world.node_of(&id), 1 - first);
    world.check_books();
    world.settle_all();
    assert_eq!((world.state(&id), world.row(&id).attempt), (Active, 2));
}

#[test]
fn a_failed_booking_ends_once_the_generation_that_drops_it_is_observed() {
    let mut world = World::new(2);
    let id = binding(&mut world, 2);
    let first = world.node_of(&id);
    world.nodes[first].converge(true);
    world.report_events(first, 10);
    world.report_status(first);
    world.verify(10, &Verdict::Genuine);
    let guard = |world: &World| {
        let node = world.id(first);
        world.run(|tx| sql::load_node(tx, &node)).nodes()[0].gpus[0].guard.name()
    };
    world.run(|tx| sql::end_dropped(tx, 10));
    assert_eq!(guard(&world), "whole", "no generation without it was written");
    world.reconcile(first);
    world.run(|tx| sql::end_dropped(tx, 10));
    assert_eq!(guard(&world), "whole", "none was observed");
    world.advance(86_400_000);
    world.run(|tx| sql::end_dropped(tx, 10));
    assert_eq!(guard(&world), "whole", "time alone ends nothing");
    world.settle(first);
    assert_eq!(guard(&world), "free");
    world.check_books();
}

#[test]
fn a_node_where_it_failed_is_tried_again_later() {
    let mut world = World::new(1);
    let id = binding(&mut world, 1);
    world.nodes[0].converge(true);
    world.settle(0);
    world.advance(1_000);
    world.place();
    assert_eq!(world.state(&id), Pending);
    let text = world.run(|tx| sql::explain_reservation(tx, &id)).unwrap().text;
    assert!(text.contains("recent-failure: the allocation failed here lately: resources-exhausted"), "{text}");
    world.advance(30_000);
    world.settle_all();
    assert_eq!(world.state(&id), Active);
    world.check_books();
}

#[test]
fn one_that_may_not_wait_fails_when_no_other_node_can() {
    let mut world = World::new(1);
    let id = world.try_create("a", Request::gpus(1), false).unwrap().id;
    world.reconcile(0);
    world.deliver(0);
    world.nodes[0].converge(true);
    world.settle(0);
    world.advance(1_000);
    world.place();
    let row = world.row(&id);
    assert_eq!((row.state, row.reason.as_str()), (Failed, "resources-exhausted"));
    world.settle(0);
    world.check_books();
    let node = world.id(0);
    assert!(world.run(|tx| sql::load_node(tx, &node)).nodes()[0].gpus.iter().all(|gpu| gpu.guard.name() == "free"));
}

#[test]
fn an_older_report_changes_nothing() {
    let mut world = World::new(2);
    let id = binding(&mut world, 1);
    let node = world.node_of(&id);
    let allocation = world.row(&id).allocation.unwrap().id.to_string();
    let failed = |generation| v1::AllocationFailed {
        allocation_id: allocation.clone(),
        reservation_id: id.to_string(),
        reason: "overlap".into(),
        message: String::new(),
        generation,
    };
    let bound = v1::AllocationBound {
        allocation_id: allocation.clone(),
        reservation_id: id.to_string(),
        cdi_devices: vec![],
        generation: 5,
    };
    world.nodes[node].event("allocationBound", &bound);
    world.nodes[node].event("allocationFailed", &failed(4));
    world.nodes[node].event("allocationFailed", &failed(u64::MAX));
    world.report_events(node, 10);
    let stale = SettledReport::Applied(Applied::Stale);
    assert_eq!(world.verify(10, &Verdict::Genuine), [SettledReport::Applied(Applied::Yes), stale, stale]);
    assert_eq!(world.state(&id), Active);
}

#[test]
fn reports_of_one_allocation_are_settled_in_order() {
    let mut world = World::new(1);
    let id = binding(&mut world, 1);
    world.nodes[0].converge(false);
    world.report_events(0, 10);
    world.release(&id, false);
    world.reconcile(0);
    world.deliver(0);
    world.nodes[0].converge(false);
    world.report_events(0, 10);
    let waiting = world.run(|tx| sql::take_unverified_reports(tx, 10));
    let settle = |n: u64| world.run(|tx| sql::settle_report(tx, n, &Verdict::Genuine));
    assert_eq!(waiting.len(), 2);
    assert_eq!(settle(waiting[1].n), SettledReport::NotYet);
    assert_eq!(settle(waiting[0].n), SettledReport::Applied(Applied::Yes));
    assert_eq!(settle(waiting[1].n), SettledReport::Applied(Applied::Yes));
    assert_eq!(settle(waiting[1].n), SettledReport::Gone);
    assert_eq!(world.state(&id), Released);
}

#[test]
fn a_late_word_of_an_ended_allocation_is_ignored() {
    let mut world = World::new(1);
    let id = binding(&mut world, 1);
    world.nodes[0].converge(false);
    world.report_events(0, 10);
    world.release(&id, true);
    assert!(world.verify(10, &Verdict::Genuine).is_empty(), "what waited went with the booking");
    world.settle(0);
    assert_eq!(world.state(&id), Released);
    world.check_books();
}

#[test]
fn texts_of_a_node_are_cut_and_cleaned() {
    let mut world = World::new(1);
    let id = binding(&mut world, 1);
    let body = v1::AllocationFailed {
        allocation_id: world.row(&id).allocation.unwrap().id.to_string(),
        reservation_id: id.to_string(),
        reason: String::new(),
        message: format!("line\n{}", "é".repeat(2000)),
        generation: 1,
    };
    world.nodes[0].event("allocationFailed", &body);
    world.report_events(0, 10);
    world.verify(10, &Verdict::Genuine);
    let row = world.row(&id);
    assert_eq!(row.reason, "failed");
    assert!(row.message.contains("line é") && row.message.len() < 1200);
}

#[test]
fn a_release_that_no_longer_knows_its_reservation_counts() {
    let mut world = World::new(1);
    let id = world.active("a", Request::gpus(1));
    let allocation_id = world.row(&id).allocation.unwrap().id.to_string();
    world.release(&id, false);
    world.reconcile(0);
    let of = |reservation_id: &str| v1::AllocationReleased {
        allocation_id: allocation_id.clone(),
        reservation_id: reservation_id.into(),
        generation: 2,
    };
    world.nodes[0].event("allocationReleased", &of("res_other"));
    world.report_events(0, 10);
    assert_eq!(world.verify(10, &Verdict::Genuine), [SettledReport::Applied(Applied::Unknown)]);
    world.nodes[0].event("allocationReleased", &of(""));
    world.report_events(0, 10);
    world.verify(10, &Verdict::Genuine);
    assert_eq!(world.state(&id), Released);
}

#[test]
fn an_event_shows_its_attested_report_decoded() {
    let mut world = World::new(1);
    let id = binding(&mut world, 1);
    world.nodes[0].converge(false);
    world.release(&id, false);
    world.reconcile(0);
    world.deliver(0);
    world.nodes[0].converge(false);
    let failed =
        v1::AllocationFailed { allocation_id: "alloc_x".into(), reason: "overlap".into(), ..Default::default() };
    world.nodes[0].event("allocationFailed", &failed);
    world.report_events(0, 10);
    let events: Vec<_> = world.published().into_iter().filter(|event| event.topic == "node.event").collect();
    let body = |index: usize, field: &str| events[index].payload["body"][field].clone();
    assert_eq!(body(0, "reservationId"), id.as_str());
    assert_eq!(body(0, "cdiDevices")[0], "bcd.dev/gpu=GPU-00000000-0000-0000-0000-000000000000");
    assert_eq!((body(1, "reservationId"), body(1, "generation")), (id.as_str().into(), 2.into()));
    assert_eq!(body(2, "reason"), "overlap");
}
