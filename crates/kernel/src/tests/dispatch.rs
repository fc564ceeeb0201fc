//! Dispatch on rows: credits, order, epochs, and what is cancelled instead of sent.

use super::world::*;
use crate::commands::{self, NewCommand};
use crate::db::args;
use crate::sessions::{self, Outgoing};
use model::frame::UpdateState;
use model::limits::DISPATCH_ROWS_MAX;
use model::{CommandId, CommandState, GatewayId, Kind, Lane, NodeId, Outcome, ServerTimeMs};
use std::collections::BTreeMap;

fn corrupt(world: &World, id: &CommandId, change: impl FnOnce(&mut model::frame::CommandBody)) {
    world.run(|tx| {
        let body: Vec<u8> = tx.query_one("SELECT body FROM commands WHERE id = ?1", args![id], |row| row.take())?;
        let mut body = proto::decode_body(&body).unwrap();
        change(&mut body);
        tx.execute("UPDATE commands SET body = ?2 WHERE id = ?1", args![id, proto::encode_body(&body)])
    });
}

#[test]
fn a_command_goes_out_byte_for_byte_as_it_was_sealed() {
    let (world, node) = World::with_session();
    let row = world.enqueue(&node, "key", "diag.nvml");
    let sent = world.dispatch(&[(&node, 1)]);
    let [Outgoing { node: to, epoch, command_id, delivery }] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!((to, *epoch, command_id, delivery.attempt), (&node, 1, &row.id, 1));
    let body = proto::decode_body(&delivery.signed.body).unwrap();
    assert_eq!(delivery.signed, seal(&body));
    assert_eq!((body.batch_id.as_str(), body.min_generation), ("", 0), "unbatched, and no generation presupposed");
    let row = world.row(&row.id);
    assert_eq!((row.state, row.attempt, row.session_epoch), (CommandState::Dispatched, 1, Some(1)));
    assert!(world.dispatch(&[(&node, 1)]).is_empty(), "a row is sent once");
}

#[test]
fn nothing_is_sent_before_resume_done() {
    let (world, node) = World::with_node();
    world.enqueue(&node, "key", "diag.nvml");
    let epoch = epoch_of(&world.accept(&node, &hello("boot-1", "journal-1")));
    assert!(world.dispatch(&[(&node, epoch)]).is_empty());
    world.store.run(|tx| sessions::resume_done(tx, &world.gateway, &node, epoch, &[])).unwrap();
    assert_eq!(world.dispatch(&[(&node, epoch)]).len(), 1);
}

#[test]
fn another_epoch_or_another_gateway_gets_nothing() {
    let (world, node) = World::with_session();
    world.enqueue(&node, "key", "diag.nvml");
    assert!(world.dispatch(&[(&node, 2)]).is_empty());
    assert!(world.dispatch(&[]).is_empty());
    let epochs = BTreeMap::from([(node.clone(), 1)]);
    let other = GatewayId::new("gw-2");
    assert!(world.run(|tx| sessions::dispatch(tx, &other, &epochs)).is_empty());
    assert_eq!(world.dispatch(&[(&node, 1)]).len(), 1);
}

#[test]
fn a_lost_commit_sends_nothing_and_the_row_goes_next_time() {
    let (world, node) = World::with_session();
    let id = world.enqueue(&node, "key", "diag.nvml").id;
    let epochs = BTreeMap::from([(node.clone(), 1)]);
    assert!(world.store.run_failing_commit(|tx| sessions::dispatch(tx, &world.gateway, &epochs)).is_err());
    assert_eq!((world.row(&id).state, world.row(&id).attempt), (CommandState::Pending, 0));
    assert_eq!(ids(&world.dispatch(&[(&node, 1)])), [id]);
}

#[test]
fn each_lane_has_its_credits_and_a_full_one_blocks_no_other() {
    let (world, node) = World::with_session();
    let control: Vec<CommandId> =
        (0..10).map(|number| world.enqueue(&node, &format!("c{number}"), "inventory.refresh").id).collect();
    let bulk: Vec<CommandId> =
        (0..3).map(|number| world.enqueue(&node, &format!("b{number}"), "logs.collect").id).collect();
    let provision = world.enqueue(&node, "p", "diag.dcgm").id;
    let sent = ids(&world.dispatch(&[(&node, 1)]));
    assert_eq!(sent, [&control[..8], &bulk[..2], &[provision][..]].concat(), "by seq, within credits");
    assert!(world.dispatch(&[(&node, 1)]).is_empty());
    world.report(&node, &control[3], done(Outcome::Succeeded, ""));
    assert_eq!(ids(&world.dispatch(&[(&node, 1)])), [control[8].clone()], "one credit back, the next in order");
    assert_eq!((Lane::Control.credits(), Lane::Provision.credits(), Lane::Bulk.credits()), (8, 4, 2));
}

#[test]
fn a_command_keeps_its_credit_until_its_result_is_stored() {
    let (world, node) = World::with_session();
    let first: Vec<CommandId> =
        (0..2).map(|number| world.enqueue(&node, &format!("b{number}"), "logs.collect").id).collect();
    world.dispatch(&[(&node, 1)]);
    let third = world.enqueue(&node, "b2", "logs.collect").id;
    world.report(&node, &first[0], UpdateState::Acked);
    world.report(&node, &first[1], UpdateState::Running);
    assert!(world.dispatch(&[(&node, 1)]).is_empty());
    world.report(&node, &first[1], done(Outcome::Failed, "internal"));
    assert_eq!(ids(&world.dispatch(&[(&node, 1)])), [third]);
}

#[test]
fn rows_are_taken_by_node_then_seq() {
    let (world, first) = World::with_session();
    let second = world.join("host-b");
    world.connect(&second, "boot-1", "journal-2");
    let mut expected = Vec::new();
    for node in [&first, &second] {
        for (key, kind) in [("1", "logs.collect"), ("2", "inventory.refresh"), ("3", "logs.collect")] {
            expected.push((node.clone(), world.enqueue(node, key, kind).seq));
        }
    }
    expected.sort();
    let sent = world.dispatch(&[(&first, 1), (&second, 1)]);
    let order: Vec<(NodeId, u64)> = sent.iter().map(|out| (out.node.clone(), world.row(&out.command_id).seq)).collect();
    assert_eq!(order, expected);
}

#[test]
fn one_dispatch_takes_at_most_1000_rows_and_the_rest_follow() {
    let world = World::new();
    let mut epochs = BTreeMap::new();
    for number in 0..130 {
        let node = world.join(&format!("host-{number}"));
        epochs.insert(node.clone(), world.connect(&node, "boot-1", "journal-1"));
        for key in 0..8 {
            world.enqueue(&node, &key.to_string(), "inventory.refresh");
        }
    }
    let first = world.run(|tx| sessions::dispatch(tx, &world.gateway, &epochs));
    assert_eq!(first.len(), DISPATCH_ROWS_MAX as usize);
    let rest = world.run(|tx| sessions::dispatch(tx, &world.gateway, &epochs));
    assert_eq!(rest.len(), 40, "blocked nodes do not fill the limit");
}

#[test]
fn a_row_goes_only_from_not_before_and_until_not_after() {
    let (world, node) = World::with_session();
    let row = world.enqueue(&node, "key", "diag.nvml");
    world.run(|tx| {
        let at = ServerTimeMs(START + 1000);
        tx.execute("UPDATE commands SET not_before = ?2 WHERE id = ?1", args![row.id, at])
    });
    world.clock.advance(999);
    assert!(world.dispatch(&[(&node, 1)]).is_empty());
    world.clock.advance(1);
    assert_eq!(world.dispatch(&[(&node, 1)]).len(), 1);
    world.enqueue(&node, "late", "diag.nvml");
    world.clock.advance(300_000);
    assert!(world.dispatch(&[(&node, 1)]).is_empty(), "not_after has come");
}

#[test]
fn an_expired_row_holds_nobody_back() {
    let (world, node) = World::with_session();
    let short = NewCommand { not_after_in_ms: 10, ..new_command(&node, "short", "diag.nvml") };
    world.store.run(|tx| commands::enqueue(tx, &seal, &short)).unwrap();
    let next = world.enqueue(&node, "next", "diag.nvml").id;
    world.clock.advance(10);
    assert_eq!(ids(&world.dispatch(&[(&node, 1)])), [next]);
}

#[test]
fn a_busy_command_goes_back_to_its_place_with_a_doubling_delay() {
    let (world, node) = World::with_session();
    let id = world.dispatched(&node, 1, "key", "logs.collect");
    let later = world.enqueue(&node, "later", "logs.collect").id;
    for (attempt, delay) in [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000].into_iter().enumerate() {
        world.report(&node, &id, UpdateState::Busy);
        let row = world.row(&id);
        assert_eq!((row.state, row.not_before), (CommandState::Pending, world.now().plus(delay)));
        world.clock.advance(delay - 1);
        assert!(world.dispatch(&[(&node, 1)]).is_empty(), "nobody overtakes it");
        world.clock.advance(1);
        let sent = world.dispatch(&[(&node, 1)]);
        assert_eq!(sent[0].command_id, id);
        assert_eq!(sent[0].delivery.attempt, attempt as u32 + 2);
        if attempt == 0 {
            assert_eq!(ids(&sent), [id.clone(), later.clone()]);
            world.report(&node, &later, done(Outcome::Succeeded, ""));
        }
    }
}

#[test]
fn a_body_that_is_not_what_the_row_says_is_cancelled_and_not_sent() {
    let (world, node) = World::with_session();
    let kinds: Vec<CommandId> =
        (0..4).map(|number| world.enqueue(&node, &number.to_string(), "diag.nvml").id).collect();
    corrupt(&world, &kinds[0], |body| body.not_after = None);
    corrupt(&world, &kinds[1], |body| body.id = CommandId::new("another"));
    corrupt(&world, &kinds[2], |body| body.node_id = NodeId::new("another"));
    world.run(|tx| tx.execute("UPDATE commands SET body = ?2 WHERE id = ?1", args![kinds[3], vec![0xff_u8; 9]]));
    let good = world.enqueue(&node, "good", "diag.nvml").id;
    assert_eq!(ids(&world.dispatch(&[(&node, 1)])), [good]);
    for id in &kinds {
        assert_eq!(world.state(id), (CommandState::Cancelled, "invalid-body".into()));
    }
    assert_eq!(world.count("command.settled"), 4);
}

#[test]
fn a_kind_outside_the_certificate_is_cancelled() {
    let (world, node) = World::with_session();
    let id = world.enqueue(&node, "key", "bmc.power").id;
    assert!(world.dispatch(&[(&node, 1)]).is_empty());
    assert_eq!(world.state(&id), (CommandState::Cancelled, "kind-not-allowed".into()));
}

#[test]
fn every_destructive_kind_is_cancelled_for_a_node_its_tenant_controls() {
    let (world, node) = World::with_session();
    world.run(|tx| tx.execute("UPDATE pools SET tenant_controlled = 1", &[]));
    for kind in Kind::ALL.iter().filter(|kind| kind.runs_on(model::Role::Node)) {
        let id = world.enqueue(&node, kind.name(), kind.name()).id;
        world.resign();
        let sent = world.dispatch(&[(&node, 1)]);
        if kind.spec().destructive {
            assert_eq!(world.state(&id), (CommandState::Cancelled, "tenant-controlled".into()), "{kind}");
        } else {
            assert_eq!(ids(&sent), std::slice::from_ref(&id), "{kind}");
            world.run(|tx| tx.execute("UPDATE commands SET state = 'failed', settled_at = 1 WHERE id = ?1", args![id]));
        }
    }
}

#[test]
fn an_upgrade_only_session_gets_the_upgrade_and_everything_else_stays_pending() {
    let (world, node) = World::with_node();
    let old = model::frame::Hello { protocol_min: 0, protocol_max: 0, ..hello("boot-1", "journal-1") };
    let epoch = epoch_of(&world.accept(&node, &old));
    world.store.run(|tx| sessions::resume_done(tx, &world.gateway, &node, epoch, &[])).unwrap();
    let waits = world.enqueue(&node, "1", "diag.nvml").id;
    let upgrade = world.enqueue(&node, "2", "daemon.upgrade").id;
    assert_eq!(ids(&world.dispatch(&[(&node, epoch)])), [upgrade]);
    assert_eq!(world.row(&waits).state, CommandState::Pending);
    let epoch = world.connect(&node, "boot-1", "journal-1");
    assert_eq!(ids(&world.dispatch(&[(&node, epoch)])), [waits]);
}

#[test]
fn a_closed_session_or_a_revoked_node_gets_nothing() {
    let (world, node) = World::with_session();
    world.enqueue(&node, "key", "diag.nvml");
    world.run(|tx| sessions::close_session(tx, &node, 1, model::SessionEnd::Shutdown));
    assert!(world.dispatch(&[(&node, 1)]).is_empty());
    let epoch = world.connect(&node, "boot-1", "journal-1");
    world.run(|tx| tx.execute("UPDATE nodes SET revoked_at = 1", &[]));
    assert!(world.dispatch(&[(&node, epoch)]).is_empty());
}
