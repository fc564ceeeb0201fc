//! What a new session makes of the commands an older one left in flight.

use super::world::*;
use crate::commands::{self, NewCommand};
use crate::db::args;
use crate::sessions::{self, ResumeError};
use model::frame::UpdateState;
use model::{CommandId, CommandState, Kind, Outcome};

/// One command of `kind`, sent on boot 1 and journal 1, then a session on `boot` and `journal`.
fn after(kind: &str, boot: &str, journal: &str) -> (World, CommandId, Vec<sessions::Outgoing>) {
    let (world, node) = World::with_session();
    let all = crate::sessions::CertFacts {
        allowed_kinds: Kind::ALL.iter().map(|kind| kind.name().to_owned()).collect(),
        ..cert(&node)
    };
    let accept = |boot: &str, journal: &str| {
        epoch_of(&world.run(|tx| sessions::accept_session(tx, &world.gateway, &all, &hello(boot, journal))))
    };
    let epoch = accept("boot-1", "journal-1");
    world.store.run(|tx| sessions::resume_done(tx, &world.gateway, &node, epoch, &[])).unwrap();
    let id = world.dispatched(&node, epoch, "key", kind);
    let epoch = accept(boot, journal);
    let (sent, _) = world.store.run(|tx| sessions::resume_done(tx, &world.gateway, &node, epoch, &[])).unwrap();
    (world, id, sent)
}

#[test]
fn a_new_boot_completes_every_self_terminating_kind_but_the_upgrade() {
    for kind in Kind::ALL {
        let (world, id, sent) = after(kind.name(), "boot-2", "journal-1");
        if kind.spec().self_terminating && *kind != Kind::DaemonUpgrade {
            assert_eq!(world.state(&id), (CommandState::Succeeded, "rebooted".into()), "{kind}");
            assert!(sent.is_empty());
            assert_eq!(world.count("command.settled"), 1);
        } else {
            assert_eq!(world.state(&id), (CommandState::Dispatched, String::new()), "{kind}");
            assert_eq!(ids(&sent), [id], "{kind}");
        }
    }
}

#[test]
fn a_new_journal_fails_what_must_not_run_twice_and_never_replays_it() {
    for kind in Kind::ALL {
        let (world, id, sent) = after(kind.name(), "boot-1", "journal-2");
        if kind.spec().retry_safe {
            assert_eq!(ids(&sent), std::slice::from_ref(&id), "{kind}");
        } else {
            assert_eq!(world.state(&id), (CommandState::Failed, "journal-lost".into()), "{kind}");
            assert!(sent.is_empty(), "{kind}");
        }
    }
}

#[test]
fn the_new_boot_rule_goes_before_the_new_journal_rule() {
    let (world, id, _) = after("boot.kexec", "boot-2", "journal-2");
    assert_eq!(world.state(&id), (CommandState::Succeeded, "rebooted".into()));
}

#[test]
fn the_rest_is_sent_again_byte_for_byte_in_seq_order_under_the_new_epoch() {
    let (world, node) = World::with_session();
    for (key, kind) in [("1", "logs.collect"), ("2", "inventory.refresh"), ("3", "diag.dcgm")] {
        world.enqueue(&node, key, kind);
    }
    let first = world.dispatch(&[(&node, 1)]);
    world.clock.advance(3_600_000);
    let (epoch, again) = world.resume(&node, "boot-1", "journal-1", &[]);
    assert_eq!(epoch, 2);
    assert_eq!(ids(&again), ids(&first));
    for (before, after) in first.iter().zip(&again) {
        assert_eq!(before.delivery.signed, after.delivery.signed);
        assert_eq!((before.delivery.attempt, after.delivery.attempt), (1, 2));
        assert_eq!(after.epoch, 2);
        assert_eq!(world.row(&after.command_id).session_epoch, Some(2));
    }
}

#[test]
fn commands_the_node_reports_in_flight_are_left_to_it() {
    let (world, node) = World::with_session();
    let kept = world.dispatched(&node, 1, "1", "node.reboot");
    let lost = world.dispatched(&node, 1, "2", "gpu.reset");
    let (_, sent) = world.resume(&node, "boot-2", "journal-2", std::slice::from_ref(&kept));
    assert!(sent.is_empty());
    assert_eq!(world.row(&kept).state, CommandState::Dispatched);
    assert_eq!(world.state(&lost), (CommandState::Failed, "journal-lost".into()));
}

#[test]
fn results_applied_before_the_resume_settle_their_commands() {
    let (world, node) = World::with_session();
    let id = world.dispatched(&node, 1, "key", "gpu.reset");
    let reboot = world.dispatched(&node, 1, "reboot", "node.reboot");
    let epoch = epoch_of(&world.accept(&node, &hello("boot-2", "journal-1")));
    world.report(&node, &reboot, done(Outcome::Failed, "unsupported-host"));
    let (sent, _) = world.store.run(|tx| sessions::resume_done(tx, &world.gateway, &node, epoch, &[])).unwrap();
    assert_eq!(ids(&sent), [id]);
    assert_eq!(world.state(&reboot), (CommandState::Failed, "unsupported-host".into()));
}

#[test]
fn the_rules_compare_the_row_whatever_sessions_died_in_between() {
    let (world, node) = World::with_session();
    let reboot = world.dispatched(&node, 1, "1", "node.reboot");
    let reset = world.dispatched(&node, 1, "2", "gpu.reset");
    world.report(&node, &reset, UpdateState::Running);
    // Sessions on the new boot and the new journal that died before their resume.
    world.accept(&node, &hello("boot-2", "journal-1"));
    world.accept(&node, &hello("boot-2", "journal-2"));
    world.connect(&node, "boot-2", "journal-2");
    assert_eq!(world.state(&reboot), (CommandState::Succeeded, "rebooted".into()));
    assert_eq!(world.state(&reset), (CommandState::Failed, "journal-lost".into()));
}

#[test]
fn a_resent_command_belongs_to_the_boot_and_journal_it_was_sent_to_last() {
    let (world, node) = World::with_session();
    let id = world.dispatched(&node, 1, "1", "inventory.refresh");
    world.connect(&node, "boot-2", "journal-2");
    let (boot, journal): (String, String) = world.run(|tx| {
        tx.query_one("SELECT dispatched_boot_id, dispatched_journal_id FROM commands WHERE id = ?1", args![id], |row| {
            Ok((row.take()?, row.take()?))
        })
    });
    assert_eq!((boot.as_str(), journal.as_str()), ("boot-2", "journal-2"));
}

#[test]
fn a_session_that_was_superseded_cannot_finish_its_resume() {
    let (world, node) = World::with_session();
    let id = world.dispatched(&node, 1, "1", "gpu.reset");
    let old = epoch_of(&world.accept(&node, &hello("boot-1", "journal-2")));
    world.accept(&node, &hello("boot-1", "journal-1"));
    let outcome = world.store.run(|tx| sessions::resume_done(tx, &world.gateway, &node, old, &[]));
    assert!(matches!(outcome, Err(ResumeError::EpochLost)));
    assert_eq!(world.row(&id).state, CommandState::Dispatched);
}

#[test]
fn an_upgrade_only_session_keeps_what_is_in_flight_for_the_next_one() {
    let (world, node) = World::with_session();
    let id = world.dispatched(&node, 1, "1", "inventory.refresh");
    let upgrade = world.dispatched(&node, 1, "2", "daemon.upgrade");
    let old = model::frame::Hello { protocol_min: 0, protocol_max: 0, ..hello("boot-1", "journal-1") };
    let epoch = epoch_of(&world.accept(&node, &old));
    let (sent, _) = world.store.run(|tx| sessions::resume_done(tx, &world.gateway, &node, epoch, &[])).unwrap();
    assert_eq!(ids(&sent), [upgrade]);
    assert_eq!(world.row(&id).state, CommandState::Dispatched);
}

#[test]
fn pending_commands_never_sent_are_signed_again_for_a_new_journal() {
    let (world, node) = World::with_session();
    let reset = world.enqueue(&node, "1", "gpu.reset").id;
    let behind = world.enqueue(&node, "2", "inventory.refresh").id;
    world.clock.advance(1_000);
    let epoch = world.connect(&node, "boot-1", "journal-2");
    assert!(world.dispatch(&[(&node, epoch)]).is_empty(), "it would be journal-lost, and the lane keeps its order");
    let before = world.row(&reset);
    assert_eq!(world.resign(), 2);
    assert_eq!(world.resign(), 0);
    let after = world.row(&reset);
    assert_eq!((after.issued_at, after.not_after, after.seq), (world.now(), before.not_after, before.seq));
    let sent = world.dispatch(&[(&node, epoch)]);
    assert_eq!(ids(&sent), [reset, behind]);
    let body = proto::decode_body(&sent[0].delivery.signed.body).unwrap();
    assert_eq!((body.issued_at, body.not_after), (world.now(), Some(before.not_after)));
    assert_eq!(sent[0].delivery.signed, seal(&body));
}

#[test]
fn signing_again_is_bounded_and_touches_only_what_was_never_sent() {
    let (world, node) = World::with_session();
    let sent = world.dispatched(&node, 1, "sent", "logs.collect");
    world.report(&node, &sent, UpdateState::Busy);
    for number in 0..3 {
        let new = NewCommand { not_after_in_ms: 600_000, ..new_command(&node, &number.to_string(), "gpu.reset") };
        world.store.run(|tx| commands::enqueue(tx, &seal, &new)).unwrap();
    }
    world.clock.advance(1);
    world.connect(&node, "boot-1", "journal-2");
    let issued = world.row(&sent).issued_at;
    assert_eq!(world.run(|tx| commands::resign(tx, &seal, 2)), 2);
    assert_eq!(world.run(|tx| commands::resign(tx, &seal, 2)), 1);
    assert_eq!(world.run(|tx| commands::resign(tx, &seal, 2)), 0);
    assert_eq!(world.row(&sent).issued_at, issued);
}
