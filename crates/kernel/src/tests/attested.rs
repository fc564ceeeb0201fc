//! Attested results: stored and acknowledged, believed only once verified.

use super::world::*;
use crate::commands::{self, Attestation};
use crate::db::Hint;
use crate::verifier::{self, Verdict};
use crate::{join, sessions, updates};
use model::frame::{CommandResult, CommandUpdate, Settled, Signed, UpdateState};
use model::{BootId, CommandId, CommandState, NodeId, Outcome, ServerTimeMs};

fn signed_done() -> UpdateState {
    let result = CommandResult { code: String::new(), message: "8 GPUs".into(), value: None };
    let node_sig = Signed { body: vec![1], kid: "k".into(), chain: Vec::new(), signature: vec![2; 64] };
    let result = proto::encode_result(&result);
    UpdateState::Done(Settled { outcome: Outcome::Succeeded, result, node_sig: Some(node_sig) })
}

fn awaiting() -> (World, NodeId, CommandId) {
    let (world, node) = World::with_session();
    let id = world.dispatched(&node, 1, "key", "diag.nvml");
    world.report(&node, &id, signed_done());
    (world, node, id)
}

#[test]
fn an_attested_result_is_acknowledged_and_settles_nothing() {
    let (world, node) = World::with_session();
    let id = world.dispatched(&node, 1, "key", "diag.nvml");
    assert_eq!(world.row(&id).attestation, Attestation::Unverified);
    let update = CommandUpdate { command_id: id.clone(), state: signed_done(), boot_id: BootId::new("boot-1") };
    let (ingested, hints) =
        world.store.run(|tx| updates::ingest_updates(tx, &node, std::slice::from_ref(&update))).unwrap();
    assert_eq!(ingested.acks, std::slice::from_ref(&id));
    assert_eq!(hints, [Hint::Verify, Hint::Node(node)]);
    let row = world.row(&id);
    assert_eq!((row.state, row.reported_outcome), (CommandState::Dispatched, Some(Outcome::Succeeded)));
    assert!(row.awaits_verification);
    assert_eq!(world.count("command.settled"), 0);
}

#[test]
fn the_verifier_gets_everything_as_received_and_every_certificate_of_the_node() {
    let (world, node, id) = awaiting();
    let later = ServerTimeMs(START + 1);
    world.run(|tx| join::store_certificate(tx, &node, "aa", &[1], &[11], later));
    world.clock.advance(1);
    world.run(|tx| join::store_certificate(tx, &node, "bb", &[2], &[22], later));
    let other = world.join("host-b");
    world.run(|tx| join::store_certificate(tx, &other, "cc", &[3], &[33], later));
    let waiting = world.run(|tx| verifier::take_unverified(tx, 10));
    let [unverified] = waiting.as_slice() else { panic!("{waiting:?}") };
    let UpdateState::Done(reported) = signed_done() else { unreachable!() };
    assert_eq!((&unverified.command, &unverified.node), (&id, &node));
    assert_eq!((unverified.outcome, &unverified.result), (reported.outcome, &reported.result));
    assert_eq!(unverified.node_sig, reported.node_sig);
    assert_eq!(unverified.certs, [vec![1], vec![2]]);
    assert_eq!(unverified.kind, "diag.nvml");
}

#[test]
fn a_genuine_result_settles_the_command_as_reported() {
    let (world, _, id) = awaiting();
    assert!(world.run(|tx| verifier::settle_verified(tx, &id, &Verdict::Genuine)));
    assert_eq!(world.state(&id), (CommandState::Succeeded, String::new()));
    assert_eq!(world.row(&id).attestation, Attestation::Verified);
    assert_eq!(world.count("command.settled"), 1);
    assert!(!world.run(|tx| verifier::settle_verified(tx, &id, &Verdict::Genuine)), "once");
    assert!(world.run(|tx| verifier::take_unverified(tx, 10)).is_empty());
    assert_eq!(world.count("command.settled"), 1);
}

#[test]
fn a_forged_result_fails_the_command() {
    let (world, _, id) = awaiting();
    let forged = Verdict::Forged("the signature does not verify".into());
    assert!(world.run(|tx| verifier::settle_verified(tx, &id, &forged)));
    assert_eq!(world.state(&id), (CommandState::Failed, "bad-attestation".into()));
    assert_eq!(world.row(&id).attestation, Attestation::Forged);
    assert!(world.run(|tx| commands::result(tx, &id)).is_some(), "what was reported is kept");
}

#[test]
fn the_first_result_stays_and_a_repeated_one_is_only_acknowledged() {
    let (world, node, id) = awaiting();
    let before = world.row(&id);
    assert_eq!(world.report(&node, &id, done(Outcome::Failed, "internal")), std::slice::from_ref(&id));
    for state in [UpdateState::Acked, UpdateState::Running, UpdateState::Busy] {
        assert!(world.report(&node, &id, state).is_empty());
    }
    assert_eq!(world.row(&id), before);
}

#[test]
fn a_result_that_waits_holds_no_credit_is_not_resent_and_not_timed_out() {
    let (world, node) = World::with_session();
    let first: Vec<CommandId> =
        (0..8).map(|number| world.enqueue(&node, &number.to_string(), "diag.nvml").id).collect();
    world.dispatch(&[(&node, 1)]);
    let next = world.enqueue(&node, "next", "diag.nvml").id;
    for id in &first {
        world.report(&node, id, signed_done());
    }
    assert_eq!(ids(&world.dispatch(&[(&node, 1)])), std::slice::from_ref(&next));
    let (_, again) = world.resume(&node, "boot-2", "journal-2", &[]);
    assert_eq!(ids(&again), [next]);
    world.clock.advance(7 * 24 * 3_600_000);
    let swept = world.run(|tx| commands::sweep(tx, 100));
    assert_eq!((swept.expired, swept.timed_out), (0, 1), "only the one without a result");
    assert!(world.run(|tx| sessions::pending_cancels(tx, &world.gateway)).is_empty());
}

#[test]
fn an_attested_result_for_a_row_that_waits_again_is_not_dispatched() {
    let (world, node) = World::with_session();
    let id = world.dispatched(&node, 1, "key", "diag.nvml");
    world.report(&node, &id, UpdateState::Busy);
    world.report(&node, &id, signed_done());
    world.clock.advance(60_000);
    assert!(world.dispatch(&[(&node, 1)]).is_empty());
    assert!(world.run(|tx| verifier::settle_verified(tx, &id, &Verdict::Genuine)));
    assert_eq!(world.state(&id).0, CommandState::Succeeded);
}

#[test]
fn a_missing_signature_is_the_verifiers_to_judge() {
    let (world, node) = World::with_session();
    let id = world.dispatched(&node, 1, "key", "diag.nvml");
    world.report(&node, &id, done(Outcome::Succeeded, ""));
    assert!(world.row(&id).awaits_verification);
    assert_eq!(world.run(|tx| verifier::take_unverified(tx, 10))[0].node_sig, None);
}
