//! Enqueue, reading and cancelling.

use super::world::*;
use crate::commands::{self, Attestation, CancelOutcome, EnqueueError, ListFilter, NewCommand, PENDING_PER_NODE_MAX};
use crate::db::{Hint, StoreError};
use crate::{join, sessions};
use model::frame::{Any, UpdateState};
use model::limits::{COMMAND_BODY_BYTES_MAX, COUNTER_MAX, NOT_AFTER_MAX_S};
use model::{CommandId, CommandState, Kind, Lane, NodeId, Outcome};

fn enqueue(world: &World, new: &NewCommand) -> Result<crate::commands::CommandRow, EnqueueError> {
    world.store.run(|tx| commands::enqueue(tx, &seal, new)).map(|(row, _)| row)
}

#[test]
fn a_command_carries_its_kinds_properties_and_the_next_seq() {
    let (world, node) = World::with_session();
    for (index, kind) in Kind::ALL.iter().enumerate() {
        let new = NewCommand {
            workflow_id: "wf1".into(),
            step_id: "s1".into(),
            traceparent: "00-aa-bb-01".into(),
            batch_id: "batch1".into(),
            min_generation: 3,
            ..new_command(&node, kind.name(), kind.name())
        };
        let mut sealed = None;
        let (row, hints) = world
            .store
            .run(|tx| {
                let seal_and_look = |body: &model::frame::CommandBody| seal(body);
                let row = commands::enqueue(tx, &seal_and_look, &new)?;
                let body: Vec<u8> =
                    tx.query_one("SELECT body FROM commands WHERE id = ?1", crate::db::args![row.id], |row| {
                        row.take()
                    })?;
                sealed = Some(proto::decode_body(&body).unwrap());
                Ok::<_, EnqueueError>(row)
            })
            .unwrap();
        let body = sealed.unwrap();
        let spec = kind.spec();
        assert_eq!(hints, [Hint::Node(node.clone())]);
        assert_eq!((row.state, row.seq, row.lane), (CommandState::Pending, index as u64 + 1, spec.lane));
        assert_eq!((body.id, body.node_id, body.seq), (new.id.clone(), node.clone(), row.seq));
        assert_eq!((body.kind.as_str(), body.lane, body.payload), (kind.name(), spec.lane, new.payload.clone()));
        assert_eq!(body.not_after, Some(world.now().plus(300_000)));
        assert_eq!((body.issued_at, row.not_after), (world.now(), world.now().plus(300_000)));
        assert_eq!((body.retry_safe, body.self_terminating), (spec.retry_safe, spec.self_terminating));
        assert_eq!((body.attested, body.min_generation), (spec.attested, 3));
        assert_eq!((body.workflow_id.as_str(), body.step_id.as_str()), ("wf1", "s1"));
        assert_eq!((body.traceparent.as_str(), body.batch_id.as_str()), ("00-aa-bb-01", "batch1"));
        assert_eq!(body.idempotency_key, kind.name());
    }
}

#[test]
fn each_node_counts_its_own_commands_from_one() {
    let (world, first) = World::with_node();
    let second = world.join("host-b");
    let seqs = |node: &NodeId| [world.enqueue(node, "a", "diag.nvml").seq, world.enqueue(node, "b", "diag.nvml").seq];
    assert_eq!(seqs(&first), [1, 2]);
    assert_eq!(seqs(&second), [1, 2]);
}

#[test]
fn the_same_key_with_the_same_request_is_the_same_command() {
    let (world, node) = World::with_node();
    let first = world.enqueue(&node, "key", "diag.nvml");
    world.clock.advance(5_000);
    let again = NewCommand { traceparent: "00-other".into(), ..new_command(&node, "key", "diag.nvml") };
    assert_eq!(enqueue(&world, &again).unwrap(), first);
    assert_eq!(world.enqueue(&node, "next", "diag.nvml").seq, 2, "a retry uses no seq");
}

#[test]
fn another_request_under_a_key_or_an_id_is_a_conflict() {
    let (world, node) = World::with_node();
    let new = new_command(&node, "key", "diag.nvml");
    let first = enqueue(&world, &new).unwrap();
    let others = [
        NewCommand { kind: "gpu.reset".into(), ..new.clone() },
        NewCommand { payload: Any { value: b"x".to_vec(), ..new.payload.clone() }, ..new.clone() },
        NewCommand { not_after_in_ms: 1, ..new.clone() },
        NewCommand { min_generation: 1, ..new.clone() },
        NewCommand { batch_id: "b".into(), ..new.clone() },
        NewCommand { idempotency_key: "other".into(), ..new.clone() },
    ];
    for other in others {
        match enqueue(&world, &other) {
            Err(EnqueueError::Conflict(id)) => assert_eq!(id, first.id),
            outcome => panic!("{other:?}: {outcome:?}"),
        }
    }
    let elsewhere = world.join("host-b");
    assert!(enqueue(&world, &new_command(&elsewhere, "key", "gpu.reset")).is_ok(), "keys are per node");
}

#[test]
fn a_rollback_leaves_no_command_and_no_used_seq() {
    let (world, node) = World::with_node();
    let new = new_command(&node, "key", "diag.nvml");
    let failed = world.store.run(|tx| {
        commands::enqueue(tx, &seal, &new)?;
        Err::<(), _>(EnqueueError::BadKey)
    });
    assert!(failed.is_err());
    assert!(world.store.run_failing_commit(|tx| commands::enqueue(tx, &seal, &new)).is_err());
    assert_eq!(world.run(|tx| commands::get(tx, &new.id)), None);
    assert_eq!(enqueue(&world, &new).unwrap().seq, 1);
}

#[test]
fn what_breaks_a_bound_is_refused() {
    let (world, node) = World::with_node();
    let good = new_command(&node, "key", "diag.nvml");
    let with = |not_after_in_ms| NewCommand { not_after_in_ms, ..good.clone() };
    assert!(matches!(enqueue(&world, &with(0)), Err(EnqueueError::BadDeadline)));
    assert!(matches!(enqueue(&world, &with(NOT_AFTER_MAX_S * 1000 + 1)), Err(EnqueueError::BadDeadline)));
    let key = NewCommand { idempotency_key: String::new(), ..good.clone() };
    assert!(matches!(enqueue(&world, &key), Err(EnqueueError::BadKey)));
    let key = NewCommand { idempotency_key: "k".repeat(257), ..good.clone() };
    assert!(matches!(enqueue(&world, &key), Err(EnqueueError::BadKey)));
    let generation = NewCommand { min_generation: COUNTER_MAX + 1, ..good.clone() };
    assert!(matches!(enqueue(&world, &generation), Err(EnqueueError::BadGeneration)));
    let payload = Any { type_url: String::new(), value: vec![0; COMMAND_BODY_BYTES_MAX] };
    assert!(matches!(enqueue(&world, &NewCommand { payload, ..good.clone() }), Err(EnqueueError::TooLarge(_))));
    let nowhere = NewCommand { node: NodeId::new("node_x"), ..good.clone() };
    assert!(matches!(enqueue(&world, &nowhere), Err(EnqueueError::UnknownNode(_))));
    assert!(enqueue(&world, &with(NOT_AFTER_MAX_S * 1000)).is_ok());
}

#[test]
fn a_nodes_queue_is_bounded() {
    let (world, node) = World::with_node();
    for number in 0..PENDING_PER_NODE_MAX {
        world.enqueue(&node, &format!("key-{number}"), "diag.nvml");
    }
    assert!(matches!(enqueue(&world, &new_command(&node, "more", "diag.nvml")), Err(EnqueueError::QueueFull)));
}

#[test]
fn a_revoked_or_retired_node_takes_no_commands() {
    let (world, node) = World::with_node();
    world.run(|tx| join::revoke_node(tx, &node, "stolen"));
    assert!(matches!(enqueue(&world, &new_command(&node, "k", "diag.nvml")), Err(EnqueueError::NodeGone(_))));
    let other = world.join("host-b");
    world.run(|tx| join::retire_node(tx, &other));
    assert!(matches!(enqueue(&world, &new_command(&other, "k", "diag.nvml")), Err(EnqueueError::NodeGone(_))));
}

#[test]
fn a_kind_no_build_knows_goes_by_the_control_lane_without_flags() {
    let (world, node) = World::with_node();
    let row = world.enqueue(&node, "key", "vendor.special");
    assert_eq!((row.lane, row.attestation), (Lane::Control, Attestation::None));
}

#[test]
fn a_cancel_before_dispatch_wins_and_the_command_is_never_sent() {
    let (world, node) = World::with_session();
    let id = world.enqueue(&node, "key", "diag.nvml").id;
    assert_eq!(world.run(|tx| commands::request_cancel(tx, &id, "no longer needed")), CancelOutcome::Cancelled);
    assert_eq!(world.state(&id), (CommandState::Cancelled, "cancel-requested".into()));
    assert!(world.dispatch(&[(&node, 1)]).is_empty());
    assert_eq!(world.row(&id).cancel_reason.as_deref(), Some("no longer needed"));
    assert_eq!(world.count("command.settled"), 1);
}

#[test]
fn a_cancel_of_a_command_in_flight_goes_out_once_a_session_until_it_is_settled() {
    let (world, node) = World::with_session();
    let id = world.dispatched(&node, 1, "key", "logs.collect");
    assert!(world.run(|tx| sessions::pending_cancels(tx, &world.gateway)).is_empty());
    let hints = world.hints(|tx| commands::request_cancel(tx, &id, "stop"));
    assert_eq!(hints, [Hint::Node(node.clone())]);
    assert_eq!(world.row(&id).state, CommandState::Dispatched);
    let cancels = || world.run(|tx| sessions::pending_cancels(tx, &world.gateway));
    assert_eq!(cancels(), [(node.clone(), 1, id.clone(), "stop".to_owned())]);
    assert!(cancels().is_empty(), "once a session");
    let (epoch, _) = world.resume(&node, "boot-1", "journal-1", std::slice::from_ref(&id));
    assert_eq!(cancels(), [(node.clone(), epoch, id.clone(), "stop".to_owned())]);
    world.report(&node, &id, done(Outcome::Cancelled, "cancel-requested"));
    world.connect(&node, "boot-1", "journal-1");
    assert!(cancels().is_empty(), "settled");
}

#[test]
fn a_cancel_waits_for_the_session_to_be_ready() {
    let (world, node) = World::with_session();
    let id = world.dispatched(&node, 1, "key", "logs.collect");
    world.run(|tx| commands::request_cancel(tx, &id, "stop"));
    world.accept(&node, &hello("boot-1", "journal-1"));
    assert!(world.run(|tx| sessions::pending_cancels(tx, &world.gateway)).is_empty());
}

#[test]
fn a_late_cancel_never_hides_a_result() {
    let (world, node) = World::with_session();
    let id = world.dispatched(&node, 1, "key", "logs.collect");
    assert_eq!(world.run(|tx| commands::request_cancel(tx, &id, "stop")), CancelOutcome::Requested);
    world.report(&node, &id, done(Outcome::Succeeded, ""));
    assert_eq!(world.state(&id), (CommandState::Succeeded, String::new()));
    let late = world.run(|tx| commands::request_cancel(tx, &id, "stop"));
    assert_eq!(late, CancelOutcome::Settled(CommandState::Succeeded));
    let unknown = CommandId::new("nothing");
    assert_eq!(world.run(|tx| commands::request_cancel(tx, &unknown, "")), CancelOutcome::Unknown);
}

#[test]
fn a_command_that_was_busy_after_a_cancel_request_is_cancelled_at_dispatch() {
    let (world, node) = World::with_session();
    let id = world.dispatched(&node, 1, "key", "logs.collect");
    world.run(|tx| commands::request_cancel(tx, &id, "stop"));
    world.report(&node, &id, UpdateState::Busy);
    assert_eq!(world.row(&id).state, CommandState::Pending);
    assert!(world.dispatch(&[(&node, 1)]).is_empty());
    assert_eq!(world.state(&id), (CommandState::Cancelled, "cancel-requested".into()));
}

#[test]
fn lists_are_newest_first_filtered_and_paged() {
    let (world, node) = World::with_session();
    let other = world.join("host-b");
    let one = world.enqueue(&node, "1", "diag.nvml").id;
    let two = world.enqueue(&other, "2", "diag.nvml").id;
    let three = world.enqueue(&node, "3", "diag.nvml").id;
    world.run(|tx| commands::request_cancel(tx, &three, ""));
    let list = |filter: ListFilter, cursor, limit| -> Vec<CommandId> {
        world.run(|tx| commands::list(tx, &filter, cursor, limit)).into_iter().map(|row| row.id).collect()
    };
    let all = ListFilter::default();
    assert_eq!(list(all.clone(), None, 10), [three.clone(), two.clone(), one.clone()]);
    let cursor = world.row(&two).n;
    assert_eq!(list(all, Some(cursor), 10), std::slice::from_ref(&one));
    let of_node = ListFilter { node: Some(node.clone()), ..ListFilter::default() };
    assert_eq!(list(of_node.clone(), None, 1), std::slice::from_ref(&three));
    let pending = ListFilter { state: Some(CommandState::Pending), ..of_node };
    assert_eq!(list(pending, None, 10), [one]);
    let foreign = ListFilter { tenant: Some(model::TenantId::new("tenant_x")), ..ListFilter::default() };
    assert!(list(foreign, None, 10).is_empty());
    assert_eq!(world.run(|tx| commands::open_count(tx, None)), 2);
}

#[test]
fn a_terminal_row_is_never_settled_again() {
    let (world, node) = World::with_session();
    let id = world.enqueue(&node, "key", "diag.nvml").id;
    world.run(|tx| commands::request_cancel(tx, &id, ""));
    let n = world.row(&id).n as i64;
    let again = commands::Settle { state: CommandState::Failed, code: "timeout", attestation: None };
    assert!(matches!(world.store.run(|tx| commands::settle(tx, n, &again)), Err(StoreError::Statement(_))));
    assert_eq!(world.state(&id).0, CommandState::Cancelled);
}
