//! Reports of nodes against rows.

use super::world::*;
use crate::commands::{self, StoredResult};
use crate::db::Hint;
use crate::updates;
use model::frame::{CommandUpdate, Settled, Signed, UpdateState};
use model::{BootId, CommandId, CommandState, Outcome};

#[test]
fn progress_and_the_outcome_follow_the_reports() {
    let (world, node) = World::with_session();
    let id = world.dispatched(&node, 1, "key", "logs.collect");
    assert!(world.report(&node, &id, UpdateState::Acked).is_empty(), "only outcomes are acknowledged");
    assert_eq!(world.row(&id).state, CommandState::Acked);
    world.clock.advance(10);
    assert!(world.report(&node, &id, UpdateState::Running).is_empty());
    let row = world.row(&id);
    assert_eq!(
        (row.state, row.acked_at, row.running_at),
        (CommandState::Running, Some(model::ServerTimeMs(START)), Some(world.now()))
    );
    assert_eq!(world.report(&node, &id, done(Outcome::Failed, "internal")), std::slice::from_ref(&id));
    assert_eq!(world.state(&id), (CommandState::Failed, "internal".into()));
}

#[test]
fn every_outcome_lands_although_its_steps_were_lost() {
    let (world, node) = World::with_session();
    let outcomes = [
        (Outcome::Succeeded, "", CommandState::Succeeded),
        (Outcome::Failed, "interrupted", CommandState::Failed),
        (Outcome::Rejected, "EXPIRED", CommandState::Rejected),
        (Outcome::Cancelled, "cancel-requested", CommandState::Cancelled),
    ];
    for (outcome, code, state) in outcomes {
        let id = world.dispatched(&node, 1, outcome.name(), "logs.collect");
        world.report(&node, &id, done(outcome, code));
        assert_eq!(world.state(&id), (state, code.to_owned()));
    }
}

#[test]
fn a_stale_or_repeated_report_changes_nothing_and_an_outcome_is_acknowledged_again() {
    let (world, node) = World::with_session();
    let id = world.dispatched(&node, 1, "key", "logs.collect");
    world.report(&node, &id, UpdateState::Running);
    world.report(&node, &id, UpdateState::Acked);
    assert_eq!(world.row(&id).state, CommandState::Running);
    world.report(&node, &id, UpdateState::Busy);
    assert_eq!(world.row(&id).state, CommandState::Running, "an accepted command is not busy");
    world.report(&node, &id, done(Outcome::Succeeded, ""));
    let settled = world.row(&id);
    world.clock.advance(1);
    for state in [UpdateState::Acked, UpdateState::Running, UpdateState::Busy] {
        assert!(world.report(&node, &id, state).is_empty());
    }
    assert_eq!(world.report(&node, &id, done(Outcome::Failed, "internal")), std::slice::from_ref(&id));
    assert_eq!(world.row(&id), settled);
    assert_eq!(world.count("command.settled"), 1);
}

#[test]
fn a_node_never_moves_another_nodes_command() {
    let (world, node) = World::with_session();
    let other = world.join("host-b");
    world.connect(&other, "boot-1", "journal-2");
    let id = world.dispatched(&node, 1, "key", "logs.collect");
    let before = world.row(&id);
    for state in [UpdateState::Acked, UpdateState::Running, UpdateState::Busy] {
        assert!(world.report(&other, &id, state).is_empty());
    }
    assert_eq!(world.report(&other, &id, done(Outcome::Succeeded, "")), std::slice::from_ref(&id));
    assert_eq!(world.row(&id), before);
}

#[test]
fn an_outcome_of_a_command_nobody_knows_is_acknowledged() {
    let (world, node) = World::with_session();
    let id = CommandId::new("01UNKNOWN");
    assert_eq!(world.report(&node, &id, done(Outcome::Succeeded, "")), std::slice::from_ref(&id));
    assert!(world.report(&node, &id, UpdateState::Acked).is_empty());
}

#[test]
fn a_result_and_its_signature_are_stored_byte_for_byte() {
    let (world, node) = World::with_session();
    for (key, result, node_sig) in [
        ("plain", vec![0xff, 0x00, 0x80], None),
        (
            "signed",
            Vec::new(),
            Some(Signed {
                body: vec![9; 40],
                kid: "not even a kid".into(),
                chain: vec![vec![0; 3], vec![], vec![1]],
                signature: vec![1, 2, 3],
            }),
        ),
    ] {
        let id = world.dispatched(&node, 1, key, "logs.collect");
        let settled = Settled { outcome: Outcome::Succeeded, result: result.clone(), node_sig: node_sig.clone() };
        let update = CommandUpdate {
            command_id: id.clone(),
            state: UpdateState::Done(settled),
            boot_id: BootId::new("boot-of-the-result"),
        };
        world.run(|tx| updates::ingest_updates(tx, &node, std::slice::from_ref(&update)));
        let stored = world.run(|tx| commands::result(tx, &id));
        let boot = BootId::new("boot-of-the-result");
        assert_eq!(stored, Some(StoredResult { outcome: Outcome::Succeeded, result, boot: boot.clone(), node_sig }));
        assert_eq!(world.row(&id).result_boot, Some(boot));
    }
}

#[test]
fn a_settled_command_is_published_once_and_wakes_its_node() {
    let (world, node) = World::with_session();
    let id = world.dispatched(&node, 1, "key", "logs.collect");
    let update = CommandUpdate {
        command_id: id.clone(),
        state: done(Outcome::Failed, "unsupported-host"),
        boot_id: BootId::new("boot-1"),
    };
    let hints = world.hints(|tx| updates::ingest_updates(tx, &node, std::slice::from_ref(&update)));
    assert!(hints.contains(&Hint::Node(node.clone())) && hints.contains(&Hint::Outbox), "{hints:?}");
    let event = world.published().into_iter().find(|event| event.topic == "command.settled").unwrap();
    assert_eq!(event.key, id.as_str());
    assert_eq!(
        event.payload,
        serde_json::json!({
            "commandId": id.as_str(), "nodeId": node.as_str(), "seq": 1, "kind": "logs.collect", "state": "failed",
            "code": "unsupported-host",
        })
    );
}

#[test]
fn a_report_for_a_row_whose_dispatch_was_lost_still_lands() {
    let (world, node) = World::with_session();
    let id = world.enqueue(&node, "key", "logs.collect").id;
    world.report(&node, &id, UpdateState::Acked);
    assert_eq!(world.row(&id).state, CommandState::Acked);
    assert!(world.dispatch(&[(&node, 1)]).is_empty());
    let (_, again) = world.resume(&node, "boot-1", "journal-1", &[]);
    assert_eq!(ids(&again), [id]);
}

#[test]
fn a_failed_commit_applies_and_acknowledges_nothing() {
    let (world, node) = World::with_session();
    let id = world.dispatched(&node, 1, "key", "logs.collect");
    let update =
        CommandUpdate { command_id: id.clone(), state: done(Outcome::Succeeded, ""), boot_id: BootId::new("boot-1") };
    let updates = std::slice::from_ref(&update);
    assert!(world.store.run_failing_commit(|tx| updates::ingest_updates(tx, &node, updates)).is_err());
    assert_eq!(world.row(&id).state, CommandState::Dispatched);
    assert_eq!(world.count("command.settled"), 0);
}
