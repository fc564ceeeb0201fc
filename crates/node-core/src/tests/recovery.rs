use super::harness::*;
use crate::*;
use model::frame::*;
use model::*;

fn entry(kind: Kind, incarnation: &str, state: EntryState) -> Entry {
    let spec = kind.spec();
    let accepted = Accepted {
        id: CommandId::new("c"),
        kind,
        lane: spec.lane,
        seq: 1,
        retry_safe: spec.retry_safe,
        self_terminating: spec.self_terminating,
        attested: spec.attested,
        incarnation: IncarnationId::new(incarnation),
        at: ServerTimeMs(T0),
    };
    Entry { accepted: Some(accepted), state }
}

/// The page's table of duplicates, row by row.
#[test]
fn every_row_of_the_duplicate_table() {
    let running = |boot: &str| EntryState::Running { boot_id: BootId::new(boot) };
    let settled = Settled { outcome: Outcome::Failed, result: vec![], node_sig: None };
    let done = EntryState::Done(DoneEntry { settled, boot_id: BootId::new("b1"), at: ServerTimeMs(T0), acked: true });
    let rows = [
        (None, Resolution::Execute),
        (Some(entry(Kind::GpuReset, "i1", done.clone())), Resolution::Resend),
        (Some(Entry { accepted: None, state: done }), Resolution::Resend),
        (Some(entry(Kind::GpuReset, "i2", EntryState::Accepted)), Resolution::Reattach),
        (Some(entry(Kind::NodeReboot, "i2", running("b2"))), Resolution::Reattach),
        (Some(entry(Kind::NodeReboot, "i1", running("b1"))), Resolution::Rebooted),
        (Some(entry(Kind::BootKexec, "i1", running("b1"))), Resolution::Rebooted),
        (Some(entry(Kind::NodeReboot, "i1", running("b2"))), Resolution::ReExecute),
        (Some(entry(Kind::BootKexec, "i1", running("b2"))), Resolution::Interrupted),
        (Some(entry(Kind::NodeReboot, "i1", EntryState::Accepted)), Resolution::ReExecute),
        (Some(entry(Kind::BootKexec, "i1", EntryState::Accepted)), Resolution::Interrupted),
        (Some(entry(Kind::DaemonUpgrade, "i1", running("b1"))), Resolution::ReExecute),
        (Some(entry(Kind::DiagNvml, "i1", EntryState::Accepted)), Resolution::ReExecute),
        (Some(entry(Kind::GpuReset, "i1", EntryState::Accepted)), Resolution::Interrupted),
    ];
    for (index, (entry, expected)) in rows.into_iter().enumerate() {
        let resolution = resolve(entry.as_ref(), &IncarnationId::new("i2"), &BootId::new("b2"));
        assert_eq!(resolution, expected, "row {index}");
    }
}

#[test]
fn kinds_that_are_not_retry_safe_are_interrupted_by_a_crash() {
    let unsafe_kinds: Vec<&str> =
        Kind::ALL.iter().filter(|kind| !kind.spec().retry_safe).map(|kind| kind.name()).collect();
    assert_eq!(
        unsafe_kinds,
        [
            "gpu.reset",
            "bmc.power",
            "bmc.firmware",
            "bmc.storage",
            "bmc.rotate",
            "site.httpProxy",
            "boot.kexec",
            "disk.wipe",
            "deploy.image",
            "driver.invoke",
            "instance.snapshot"
        ]
    );
    for kind in Kind::ALL.iter().filter(|kind| !kind.spec().retry_safe) {
        let left = entry(*kind, "i1", EntryState::Accepted);
        assert_eq!(resolve(Some(&left), &IncarnationId::new("i2"), &BootId::new("b")), Resolution::Interrupted);
    }
}

#[test]
fn a_reboot_completes_from_the_next_boot_in_hello() {
    let mut node = Node::new().up();
    node.deliver(&command("c1", Kind::NodeReboot));
    assert!(matches!(node.disk.entry(&CommandId::new("c1")).map(|e| &e.state), Some(EntryState::Running { .. })));
    let mut node = node.crash("boot2", "inc2");
    node.input(Input::Start);
    node.pass(0);
    node.input(Input::LinkUp);
    node.expect_updates(&["c1 succeeded rebooted|boot1"]);
}

#[test]
fn running_is_on_disk_before_a_self_terminating_effect() {
    let mut node = Node::new().up();
    node.slow_disk = true;
    node.deliver(&command("c1", Kind::NodeReboot));
    node.sync_one();
    assert!(node.started.is_empty());
    node.expect_updates(&["c1 ACKED"]);
    node.sync_one();
    assert_eq!(node.started_ids(), ["c1"]);
    node.expect_updates(&["c1 RUNNING"]);
}

#[test]
fn an_interrupted_command_is_settled_at_start_and_does_not_run() {
    let mut node = Node::new().up();
    let body = command("c1", Kind::GpuReset);
    node.deliver(&body);
    let mut node = node.crash("boot1", "inc2");
    node.slow_disk = true;
    node.input(Input::Start);
    node.pass(60_000);
    assert_eq!(node.connects, 0, "no session before the recovery is durable");
    node.slow_disk = false;
    node.sync_one();
    node.pass(0);
    node.input(Input::LinkUp);
    node.expect_updates(&["c1 failed interrupted| signed"]);
    let welcome = node.welcome();
    node.input(Input::Frame(GatewayFrame::Welcome(Box::new(welcome))));
    node.deliver(&body);
    node.expect_updates(&["c1 failed interrupted| signed"]);
    assert!(node.started.is_empty());
}

#[test]
fn a_retry_safe_command_waits_for_redelivery_and_passes_the_checks_again() {
    let body = command("c1", Kind::InventoryRefresh);
    let crashed = || {
        let mut node = Node::new().up();
        node.deliver(&body);
        let mut node = node.crash("boot1", "inc2");
        node.input(Input::Start);
        node.connect();
        assert!(node.started.is_empty(), "a start alone runs nothing");
        node.updates();
        node
    };
    let mut node = crashed();
    node.deliver(&body);
    node.expect_updates(&["c1 ACKED", "c1 RUNNING"]);

    let mut node = crashed();
    node.pass(401_000);
    node.connect();
    node.updates();
    node.deliver(&body);
    node.expect_updates(&["c1 rejected EXPIRED|"]);

    let mut node = crashed();
    node.deliver(&CommandBody { min_generation: 4, ..body.clone() });
    node.expect_updates(&["spec request"]);
    assert!(node.started.is_empty());
}

#[test]
fn a_second_acceptance_keeps_the_mark_of_the_first_reboot() {
    let mut node = Node::new().up();
    let body = command("c1", Kind::NodeReboot);
    node.deliver(&body);
    let mut node = node.crash("boot1", "inc2").up();
    node.slow_disk = true;
    node.deliver(&body);
    node.sync_one();
    let mut node = node.crash("boot2", "inc3");
    node.input(Input::Start);
    node.pass(0);
    node.input(Input::LinkUp);
    node.expect_updates(&["c1 succeeded rebooted|boot1"]);
}

#[test]
fn the_sweep_takes_only_what_is_settled_acked_and_old() {
    let week = limits::JOURNAL_DONE_KEPT_MS as i64;
    let mut state = fresh_disk();
    for (id, incarnation) in [("acked", "i1"), ("unacked", "i1"), ("left", "i1"), ("mine", "i2")] {
        let mut accepted = entry(Kind::DiagNvml, incarnation, EntryState::Accepted).accepted.expect("accepted");
        accepted.id = CommandId::new(id);
        state.apply(&Mutation::Accepted(accepted));
    }
    let settled = Settled { outcome: Outcome::Succeeded, result: vec![], node_sig: None };
    for id in ["acked", "unacked"] {
        let (id, boot_id) = (CommandId::new(id), BootId::new("b"));
        state.apply(&Mutation::Done { id, settled: settled.clone(), boot_id, at: ServerTimeMs(T0) });
    }
    state.apply(&Mutation::ResultsAcked(vec![CommandId::new("acked")]));
    let swept = |at: i64| -> Vec<String> {
        sweep(&state, &IncarnationId::new("i2"), ServerTimeMs(at)).iter().map(|id| id.to_string()).collect()
    };
    assert!(swept(T0 + week - 1).is_empty());
    assert_eq!(swept(T0 + week), ["acked", "left"]);
}

#[test]
fn a_sweep_runs_by_itself_once_the_time_is_known() {
    let mut node = Node::new().up();
    node.deliver(&command("c1", Kind::InventoryRefresh));
    node.finish("c1");
    let command_ids = vec![CommandId::new("c1")];
    node.input(Input::Frame(GatewayFrame::Ack(Ack { command_ids, events: None })));
    node.pass(limits::JOURNAL_DONE_KEPT_MS + 3_600_000);
    assert!(node.disk.entry(&CommandId::new("c1")).is_none());
}

/// It would wait for its timeout: the control plane takes `BUSY` only for what was never accepted.
#[test]
fn an_interrupted_command_needs_no_new_room_in_a_full_journal() {
    let events_max = 3;
    let small =
        |disk, incarnation| Node::on(disk, "boot1", incarnation, |config| config.limits.events_max = events_max);
    let mut node = small(fresh_disk(), "inc1").up();
    let again = command("c1", Kind::DiagNvml);
    let late = CommandBody { not_after: Some(ServerTimeMs(T0 + 100_000)), ..command("c2", Kind::DiagNvml) };
    node.deliver(&again);
    node.deliver(&late);
    let mut node = small(node.disk, "inc2");
    node.now = node.now.plus(200_000);
    let mut node = node.up();
    for _ in 0..events_max {
        let (class, kind) = (EventClass::Transition, "full".to_owned());
        node.input(Input::Observed { class, kind, attributes: vec![], body: None });
    }
    node.sent.clear();
    node.deliver(&command("c3", Kind::DiagNvml));
    node.deliver(&again);
    node.expect_updates(&["c3 BUSY", "c1 ACKED", "c1 RUNNING"]);
    node.deliver(&late);
    node.expect_updates(&["c2 rejected EXPIRED| signed"]);
}

#[test]
fn a_sweep_leaves_what_this_process_has_just_taken_up_again() {
    let mut node = Node::new().up();
    let body = CommandBody { not_after: Some(ServerTimeMs(i64::MAX)), ..command("c1", Kind::DiagNvml) };
    node.deliver(&body);
    let mut node = node.crash("boot1", "inc2").up();
    node.slow_disk = true;
    node.now = node.now.plus(limits::JOURNAL_DONE_KEPT_MS);
    node.deliver(&body);
    node.pass(3_600_000);
    while node.sync_one() {}
    assert!(node.disk.entry(&body.id).is_some(), "it is this process's own");
}
