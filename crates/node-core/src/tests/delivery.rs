use super::harness::*;
use crate::*;
use model::frame::*;
use model::*;

#[test]
fn a_command_is_acked_only_when_accepted_is_durable_and_runs_only_after() {
    let mut node = Node::new().up();
    node.slow_disk = true;
    node.deliver(&command("c1", Kind::InventoryRefresh));
    node.expect_updates(&[]);
    assert!(node.started.is_empty(), "no side effect before `accepted` is on disk");
    node.sync_one();
    node.expect_updates(&["c1 ACKED", "c1 RUNNING"]);
    assert_eq!(node.started_ids(), ["c1"]);
}

#[test]
fn a_result_is_sent_only_when_it_is_durable() {
    let mut node = Node::new().up();
    node.deliver(&command("c1", Kind::InventoryRefresh));
    node.slow_disk = true;
    node.updates();
    node.finish("c1");
    node.expect_updates(&[]);
    node.sync_one();
    node.expect_updates(&["c1 succeeded |"]);
}

#[test]
fn a_duplicate_of_running_work_reattaches_and_of_settled_work_resends() {
    let mut node = Node::new().up();
    let body = command("c1", Kind::GpuReset);
    node.deliver(&body);
    node.deliver(&body);
    assert_eq!(node.started_ids(), ["c1"], "one execution");
    assert_eq!(node.decisions.last(), Some(&Decision::Reattached { id: CommandId::new("c1") }));
    node.finish("c1");
    node.updates();
    node.deliver(&body);
    node.expect_updates(&["c1 succeeded | signed"]);
    assert!(node.started.is_empty(), "a settled command never runs again");
}

#[test]
fn a_duplicate_between_acceptance_and_its_commit_reattaches() {
    let mut node = Node::new().up();
    node.slow_disk = true;
    let body = command("c1", Kind::GpuReset);
    node.deliver(&body);
    node.deliver(&body);
    while node.sync_one() {}
    assert_eq!(node.started_ids(), ["c1"]);
}

#[test]
fn the_journals_rules_come_before_every_check() {
    let mut node = Node::new().up();
    let body = command("c1", Kind::InventoryRefresh);
    node.deliver(&body);
    node.finish("c1");
    node.updates();
    node.pass(500_000);
    node.connect();
    node.updates();
    node.deliver_signed(&body, b"bad");
    node.expect_updates(&["c1 succeeded |"]);
}

/// One row a rule: what is wrong with the command, and the answer.
#[test]
fn checks_refuse_in_the_pages_order() {
    let foreign = CommandBody { node_id: NodeId::new("node_2"), ..command("c", Kind::DiagNvml) };
    let past = |body: CommandBody| CommandBody { not_after: Some(ServerTimeMs(T0 - 1)), ..body };
    let behind = |body: CommandBody| CommandBody { min_generation: 7, ..body };
    let unlimited = |body: CommandBody| CommandBody { not_after: None, ..body };
    let nvml = || command("c", Kind::DiagNvml);
    let rows: Vec<(&str, CommandBody, &[u8], &str)> = vec![
        (
            "another node's, and everything else wrong too",
            past(behind(foreign)),
            b"bad",
            "c rejected UNSUPPORTED| signed",
        ),
        ("unknown kind", past(named_command("c", "host.paint")), b"bad", "c rejected UNSUPPORTED|"),
        ("another role's kind", past(command("c", Kind::BmcPower)), b"bad", "c rejected UNSUPPORTED|"),
        ("behind and past", past(behind(nvml())), b"bad", "c rejected STALE_GENERATION| signed"),
        ("behind without a limit", unlimited(behind(nvml())), b"bad", "c rejected EXPIRED| signed"),
        ("past", past(nvml()), b"bad", "c rejected EXPIRED| signed"),
        ("without a limit", unlimited(nvml()), b"bad", "c rejected EXPIRED| signed"),
        ("forged", nvml(), b"bad", "c rejected BAD_SIGNATURE| signed"),
        ("unsigned", command("c", Kind::InventoryRefresh), b"", "c rejected BAD_SIGNATURE|"),
    ];
    for (what, body, signature, answer) in rows {
        let mut node = Node::new().up();
        node.deliver_signed(&body, signature);
        assert_eq!(node.updates().trim_end(), answer, "{what}");
        assert!(node.started.is_empty(), "{what}");
    }
}

#[test]
fn a_bad_signature_is_refused_even_without_credit() {
    let mut node = Node::new().up();
    for index in 0..8 {
        node.deliver(&command(&format!("c{index}"), Kind::DiagNvml));
    }
    node.updates();
    node.deliver_signed(&command("forged", Kind::DiagNvml), b"bad");
    node.expect_updates(&["forged rejected BAD_SIGNATURE| signed"]);
}

#[test]
fn a_terminal_rejection_is_journaled_and_a_duplicate_gets_the_same_answer() {
    let mut node = Node::new().up();
    let body = CommandBody { not_after: Some(ServerTimeMs(T0 - 1)), ..command("c1", Kind::InventoryRefresh) };
    node.slow_disk = true;
    node.deliver(&body);
    node.expect_updates(&[]);
    node.sync_one();
    node.expect_updates(&["c1 rejected EXPIRED|"]);
    let mut node = node.crash("boot1", "inc2").up();
    let fresh = CommandBody { not_after: Some(ServerTimeMs(T0 + 900_000)), ..body };
    node.deliver(&fresh);
    node.expect_updates(&["c1 rejected EXPIRED|"]);
}

#[test]
fn without_roots_an_unsigned_command_runs() {
    let mut node = Node::new().up();
    node.engine.outside_mut().roots = false;
    node.deliver_signed(&command("c1", Kind::InventoryRefresh), b"");
    node.expect_updates(&["c1 ACKED", "c1 RUNNING"]);
}

#[test]
fn an_upgrade_only_session_takes_nothing_else() {
    let mut node = Node::new();
    node.input(Input::Start);
    node.pass(0);
    node.input(Input::LinkUp);
    let welcome = Welcome { upgrade_required: true, ..node.welcome() };
    node.input(Input::Frame(GatewayFrame::Welcome(Box::new(welcome))));
    node.updates();
    node.deliver(&command("c1", Kind::DiagNvml));
    node.expect_updates(&["c1 rejected UNSUPPORTED| signed"]);
}

#[test]
fn nothing_destructive_runs_before_the_pinned_approvers_arrived() {
    let mut node = Node::on(fresh_disk(), "boot1", "inc1", |config| config.awaits_approvers = true).up();
    node.deliver(&command("c1", Kind::GpuReset));
    node.deliver(&command("c2", Kind::DiagNvml));
    node.expect_updates(&["c1 rejected BATCH_UNAPPROVED| signed", "c2 ACKED", "c2 RUNNING"]);
}

#[test]
fn the_host_clock_does_not_matter_to_expiry() {
    let mut node = Node::new().up();
    node.pass(401_000);
    node.connect();
    node.updates();
    node.deliver(&command("c1", Kind::InventoryRefresh));
    node.expect_updates(&["c1 rejected EXPIRED|"]);
}

#[test]
fn credits_bound_admission_and_workers_bound_running() {
    for (kind, lane) in [(Kind::DiagNvml, Lane::Control), (Kind::LogsCollect, Lane::Bulk)] {
        let mut node = Node::new().up();
        for index in 0..lane.credits() {
            node.deliver(&command(&format!("c{index}"), kind));
        }
        assert_eq!(node.started.len() as u32, lane.workers(), "{lane}");
        node.updates();
        node.deliver(&command("more", kind));
        node.expect_updates(&["more BUSY"]);
        assert!(node.disk.entry(&CommandId::new("more")).is_none(), "BUSY is never journaled");
        node.slow_disk = true;
        node.finish("c0");
        node.deliver(&command("more", kind));
        assert!(node.updates().contains("more BUSY"), "a credit is held until the result is durable");
        while node.sync_one() {}
        node.deliver(&command("more", kind));
        node.sync_one();
        assert!(node.updates().contains("more ACKED"));
    }
}

#[test]
fn two_commands_on_one_device_never_run_at_once_and_others_pass() {
    let mut node = Node::new().up();
    let on = |id: &str, gpu: &str| CommandBody {
        payload: Any { type_url: String::new(), value: gpu.as_bytes().to_vec() },
        ..command(id, Kind::GpuReset)
    };
    node.deliver(&on("c1", "gpu0"));
    node.deliver(&on("c2", "gpu0"));
    node.deliver(&on("c3", "gpu1"));
    assert_eq!(node.started_ids(), ["c1", "c3"]);
    node.finish("c1");
    assert_eq!(node.started_ids(), ["c3", "c2"]);
}

#[test]
fn a_command_that_presupposes_a_newer_spec_waits_for_it() {
    let mut node = Node::new().up();
    let body = CommandBody { min_generation: 3, ..command("c1", Kind::InventoryRefresh) };
    node.deliver(&body);
    node.expect_updates(&["spec request"]);
    node.deliver(&body);
    node.expect_updates(&[]);
    let spec = |generation: u64, signature: &[u8]| Signed {
        body: format!("{NODE} {generation}").into_bytes(),
        signature: signature.to_vec(),
        ..Signed::default()
    };
    node.input(Input::Frame(GatewayFrame::DesiredState(spec(9, b"bad"))));
    node.input(Input::Frame(GatewayFrame::DesiredState(spec(2, b"good"))));
    node.expect_updates(&[]);
    node.input(Input::Frame(GatewayFrame::DesiredState(spec(3, b"good"))));
    node.expect_updates(&["c1 ACKED", "c1 RUNNING"]);
    assert_eq!(node.disk.meta().applied_generation, 3);
}

#[test]
fn a_deferred_command_still_behind_at_its_time_is_stale() {
    let mut node = Node::new().up();
    node.deliver(&CommandBody { min_generation: 3, ..command("c1", Kind::InventoryRefresh) });
    node.updates();
    let wake = node.engine.next_wake().expect("a deferred command has a time");
    assert!(wake <= node.now.plus(10_001));
    for _ in 0..45 {
        node.pass(9_000);
        let server_time = time(node.server_now());
        node.input(Input::Frame(GatewayFrame::HeartbeatAck { sequence: 1, server_time }));
    }
    assert!(node.updates().contains("c1 rejected STALE_GENERATION|"));
}

#[test]
fn deferred_commands_are_bounded() {
    let mut node = Node::new().up();
    for index in 0..=limits::DEFERRED_COMMANDS_MAX {
        node.deliver(&CommandBody { min_generation: 3, ..command(&format!("c{index}"), Kind::InventoryRefresh) });
    }
    assert!(node.updates().ends_with("c64 BUSY\n"));
}

#[test]
fn a_result_above_its_bound_becomes_a_clear_failure() {
    let mut node = Node::new().up();
    node.deliver(&command("c1", Kind::InventoryRefresh));
    node.updates();
    let value = Some(Any { type_url: String::new(), value: vec![b'x'; limits::RESULT_BYTES_MAX + 1] });
    let result = WorkResult::Succeeded { code: String::new(), message: String::new(), value };
    node.input(Input::Finished { id: CommandId::new("c1"), result });
    node.expect_updates(&["c1 failed result-too-large|"]);
}

#[test]
fn attested_results_are_signed_over_id_outcome_and_digest() {
    let mut node = Node::new().up();
    node.deliver(&command("c1", Kind::DiagNvml));
    node.finish("c1");
    let signed = node.signed.borrow();
    assert_eq!(signed.len(), 1);
    assert_eq!(signed[0].command_id.as_str(), "c1");
    assert_eq!(signed[0].outcome, Outcome::Succeeded);
    assert_eq!(signed[0].result_sha256, stdx::hex::sha256(b"|"));
}

#[test]
fn a_command_signed_before_the_journal_began_is_journal_lost_unless_retry_safe() {
    let mut node = Node::new().up();
    let before = ServerTimeMs(T0 - 2000);
    node.deliver(&CommandBody { issued_at: before, ..command("c1", Kind::GpuReset) });
    node.expect_updates(&["c1 failed journal-lost| signed"]);
    node.deliver(&CommandBody { issued_at: before, ..command("c2", Kind::DiagNvml) });
    node.expect_updates(&["c2 ACKED", "c2 RUNNING"]);
}

#[test]
fn flags_in_the_body_never_loosen_the_table() {
    let mut node = Node::new().up();
    let body = CommandBody {
        retry_safe: true,
        attested: false,
        issued_at: ServerTimeMs(T0 - 2000),
        ..command("c1", Kind::GpuReset)
    };
    node.deliver(&body);
    node.expect_updates(&["c1 failed journal-lost| signed"]);
}

#[test]
fn the_trace_of_a_command_reaches_its_work() {
    let mut node = Node::new().up();
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    node.deliver(&CommandBody { traceparent: traceparent.into(), ..command("c1", Kind::DiagNvml) });
    assert_eq!(node.started[0].traceparent, traceparent);
}
