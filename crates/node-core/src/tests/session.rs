use super::harness::*;
use crate::*;
use model::frame::*;
use model::*;

fn greeting() -> Node {
    let mut node = Node::new();
    node.input(Input::Start);
    node.pass(0);
    node.input(Input::LinkUp);
    node.sent.clear();
    node
}

fn answer(node: &mut Node, welcome: Welcome) {
    node.input(Input::Frame(GatewayFrame::Welcome(Box::new(welcome))));
}

#[test]
fn resume_done_follows_every_unacked_result() {
    let mut node = Node::new().up();
    for index in 0..8 {
        node.deliver(&command(&format!("c{index}"), Kind::InventoryRefresh));
    }
    for index in 0..8 {
        let value = Some(Any { type_url: String::new(), value: vec![b'x'; 200_000] });
        let result = WorkResult::Succeeded { code: String::new(), message: String::new(), value };
        node.input(Input::Finished { id: CommandId::new(format!("c{index}")), result });
    }
    node.input(Input::LinkDown);
    node.sent.clear();
    node.connect();
    let mut in_hello = 0;
    let mut after = 0;
    let mut resumed = false;
    for frame in &node.sent {
        match frame {
            AgentFrame::Hello(hello) => {
                in_hello = hello.unacked_results.len();
                assert!(hello.more_results);
            }
            AgentFrame::Updates(updates) => {
                assert!(!resumed, "results come before ResumeDone");
                after += updates.len();
            }
            AgentFrame::ResumeDone => resumed = true,
            _ => {}
        }
    }
    assert!(resumed);
    assert_eq!((in_hello, after), (5, 3), "1 MiB in Hello, the rest follows");
}

#[test]
fn an_epoch_is_durable_before_the_session_is_used_and_never_goes_back() {
    let mut node = greeting();
    node.slow_disk = true;
    let welcome = Welcome { session_epoch: 7, ..node.welcome() };
    answer(&mut node, welcome);
    assert!(node.sent.is_empty());
    node.sync_one();
    assert!(matches!(node.sent[0], AgentFrame::ResumeDone));
    assert_eq!(node.disk.meta().last_epoch, 7);

    let mut node = node.crash("boot1", "inc2");
    node.input(Input::Start);
    node.pass(0);
    node.input(Input::LinkUp);
    let welcome = Welcome { session_epoch: 7, ..node.welcome() };
    answer(&mut node, welcome);
    assert_eq!(node.disconnects, [SessionEnd::ProtocolError]);
}

#[test]
fn a_time_wound_back_by_more_than_five_minutes_is_refused() {
    for (stated, refused) in [(T0 - 300_001, true), (T0 - 300_000, false), (T0 + 900_000_000, false)] {
        let mut node = greeting();
        let welcome = Welcome { server_time: time(stated), ..node.welcome() };
        answer(&mut node, welcome);
        assert_eq!(node.disconnects.contains(&SessionEnd::TimeRefused), refused, "{stated}");
        let mark = node.disk.meta().time_mark.0;
        assert_eq!(mark, if refused { T0 } else { stated.max(T0) }, "the mark only moves forward");
    }
}

#[test]
fn with_roots_only_a_signed_time_counts() {
    let unsigned = |ms: i64| TimeStatement { signed: None, unsigned_ms: ServerTimeMs(ms) };
    let mut node = greeting();
    let welcome = Welcome { server_time: unsigned(T0 + 5), ..node.welcome() };
    answer(&mut node, welcome);
    assert_eq!(node.disconnects, [SessionEnd::TimeRefused]);
    assert_eq!(node.disk.meta().time_mark.0, T0);

    let mut node = Node::new().up();
    let mark = node.engine.journal().meta().time_mark;
    let mut forged = time(T0 + 999_999_999);
    forged.signed.as_mut().expect("signed").signature = b"bad".to_vec();
    for server_time in [unsigned(T0 + 999_999_999), forged] {
        node.input(Input::Frame(GatewayFrame::HeartbeatAck { sequence: 1, server_time }));
        assert_eq!(node.engine.journal().meta().time_mark, mark);
        assert_eq!(node.decisions.last(), Some(&Decision::TimeIgnored));
    }
}

#[test]
fn without_roots_the_gateways_word_is_the_time() {
    let mut node = greeting();
    node.engine.outside_mut().roots = false;
    let server_time = TimeStatement { signed: None, unsigned_ms: ServerTimeMs(T0 + 77) };
    let welcome = Welcome { server_time, ..node.welcome() };
    answer(&mut node, welcome);
    assert_eq!(node.server_now(), T0 + 77);
}

#[test]
fn server_time_never_falls_below_the_mark_plus_the_time_since() {
    let mut node = Node::new().up();
    let before = node.server_now();
    node.pass(9_000);
    let server_time = time(T0 - 1_000_000);
    node.input(Input::Frame(GatewayFrame::HeartbeatAck { sequence: 1, server_time }));
    assert_eq!(node.server_now(), before + 9_000);
}

#[test]
fn a_heartbeat_moves_the_mark_and_a_lost_journal_keeps_it() {
    let mut node = Node::new().up();
    let server_time = time(T0 + 100_000);
    node.input(Input::Frame(GatewayFrame::HeartbeatAck { sequence: 1, server_time }));
    assert_eq!(node.engine.journal().meta().time_mark.0, T0 + 100_000);
}

#[test]
fn three_missed_heartbeats_end_the_session() {
    let mut node = Node::new().up();
    node.pass(10_000);
    node.pass(10_000);
    let beats = node.sent.iter().filter(|frame| matches!(frame, AgentFrame::Heartbeat(_))).count();
    assert_eq!(beats, 2);
    assert!(node.disconnects.is_empty());
    node.pass(10_000);
    assert_eq!(node.disconnects, [SessionEnd::HeartbeatLost]);
    let connects = node.connects;
    node.pass(500);
    assert_eq!(node.connects, connects + 1, "it reconnects");
}

#[test]
fn reconnects_back_off_to_thirty_seconds() {
    let mut node = Node::new();
    node.input(Input::Start);
    node.pass(0);
    for _ in 0..12 {
        node.input(Input::LinkDown);
        let wait = node.engine.next_wake().expect("a reconnect is planned").since(node.now);
        assert!((500..=30_000).contains(&wait), "{wait}");
        node.pass(wait);
    }
    assert_eq!(node.connects, 13);
}

#[test]
fn an_end_from_the_gateway_closes_and_reconnects() {
    let mut node = Node::new().up();
    node.input(Input::Frame(GatewayFrame::End { code: SessionEnd::Superseded, message: String::new() }));
    assert_eq!(node.disconnects, [SessionEnd::Superseded]);
    let connects = node.connects;
    node.pass(500);
    assert_eq!(node.connects, connects + 1);
}

#[test]
fn a_bad_frame_ends_the_session_with_its_code() {
    for code in [SessionEnd::FrameTooLarge, SessionEnd::ProtocolError] {
        let mut node = Node::new().up();
        node.input(Input::BadFrame(code));
        assert_eq!(node.disconnects, [code]);
    }
}

#[test]
fn a_drain_reconnects_within_its_window() {
    let mut node = Node::new().up();
    node.input(Input::Frame(GatewayFrame::Drain { window_ms: 5_000 }));
    node.pass(5_000);
    assert_eq!(node.disconnects, [SessionEnd::Draining]);
}

#[test]
fn hello_names_what_this_process_is_at() {
    let mut node = Node::new().up();
    node.deliver(&command("c1", Kind::GpuReset));
    node.deliver(&CommandBody { min_generation: 9, ..command("c2", Kind::InventoryRefresh) });
    node.input(Input::LinkDown);
    node.sent.clear();
    node.connect();
    let Some(AgentFrame::Hello(hello)) = node.sent.first() else { panic!("no Hello") };
    assert_eq!(hello.in_flight, [CommandId::new("c1"), CommandId::new("c2")]);
    assert_eq!(hello.boot_id.as_str(), "boot1");
    assert_eq!(hello.last_epoch, 1);
}

#[test]
fn a_result_settled_while_the_session_comes_up_is_not_forgotten() {
    let mut node = Node::new().up();
    node.deliver(&command("c1", Kind::GpuReset));
    node.input(Input::LinkDown);
    node.pass(60_000);
    node.input(Input::LinkUp);
    node.sent.clear();
    node.finish("c1");
    node.expect_updates(&[]);
    let welcome = node.welcome();
    answer(&mut node, welcome);
    node.expect_updates(&["c1 succeeded | signed"]);
}

#[test]
fn a_newer_trust_bundle_is_adopted_before_the_time_is_judged() {
    let mut node = greeting();
    node.engine.outside_mut().roots = false;
    let bundle = Signed { signature: b"good".to_vec(), ..Signed::default() };
    let server_time = TimeStatement { signed: None, unsigned_ms: ServerTimeMs(T0) };
    let welcome = Welcome { trust_bundle: Some(bundle), server_time, ..node.welcome() };
    answer(&mut node, welcome);
    assert_eq!(node.disconnects, [SessionEnd::TimeRefused], "the new roots already want a signature");
}

#[test]
fn frames_that_come_before_the_epoch_is_durable_are_kept() {
    let mut node = greeting();
    node.slow_disk = true;
    let welcome = node.welcome();
    answer(&mut node, welcome);
    node.deliver(&command("c1", Kind::InventoryRefresh));
    assert!(
        node.disconnects.is_empty()
            && node.decisions.iter().all(|decision| !matches!(decision, Decision::Accepted { .. }))
    );
    while node.sync_one() {}
    node.expect_updates(&["c1 ACKED", "c1 RUNNING"]);
}
