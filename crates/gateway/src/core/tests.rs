//! The machine with a store in memory: frames in, frames out.

use super::*;
use kernel::db::{Clock, MemoryStore};
use kernel::sessions::CertFacts;
use model::frame::{CommandUpdate, Hello, StatusReport, UpdateState};
use model::{BootId, CommandId, IncarnationId, JournalId, Role};
use std::sync::atomic::{AtomicI64, Ordering};

struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the machine is given as store answers without a store: these tests are about order and flow.
struct Bench {
    gateway: Gateway,
    now: Instant,
    sent: Vec<(u64, GatewayFrame)>,
    reads: Vec<u64>,
    ops: Vec<(OpId, StoreOp)>,
    ended: Vec<SessionEnd>,
}

fn certificate(node: &str) -> CertFacts {
    CertFacts {
        node_id: NodeId::new(node),
        serial: "01".into(),
        role: Role::Node,
        allowed_kinds: vec!["diag.nvml".into()],
        not_after_ms: i64::MAX,
    }
}

fn hello() -> Hello {
    Hello {
        protocol_min: 1,
        protocol_max: 1,
        daemon_version: "0.1.0".into(),
        role: Role::Node,
        boot_id: BootId::new("b1"),
        incarnation: IncarnationId::new("i1"),
        journal_id: JournalId::new("j1"),
        last_epoch: 0,
        applied_generation: 0,
        applied_spec_hash: String::new(),
        in_flight: vec![],
        unacked_results: vec![],
        more_results: false,
        capabilities: vec![],
        inventory_digest: String::new(),
        hostname: "h".into(),
    }
}

impl Bench {
    fn new() -> Self {
        let now = Instant(1_000);
        Self { gateway: Gateway::new(now), now, sent: vec![], reads: vec![], ops: vec![], ended: vec![] }
    }

    fn input(&mut self, input: Input) {
        for output in self.gateway.step(self.now, input) {
            match output {
                Output::Send { conn, frame } => self.sent.push((conn.0, frame)),
                Output::Read { conn } => self.reads.push(conn.0),
                Output::Store { op, what } => self.ops.push((op, what)),
                Output::Ended { code, .. } => self.ended.push(code),
                Output::Close { .. } => {}
            }
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now.plus(ms);
        self.input(Input::Tick);
    }

    fn frame(&mut self, conn: u64, frame: AgentFrame) {
        self.input(Input::Frame { conn: ConnId(conn), frame });
    }

    /// Answers the oldest waiting operation that `wanted` names.
    fn answer(&mut self, wanted: &str, reply: Result<StoreReply, OpFailure>) {
        let index = self.ops.iter().position(|(_, op)| format!("{op:?}").starts_with(wanted));
        let (op, _) = self.ops.remove(index.unwrap_or_else(|| panic!("no {wanted} waits: {:?}", self.ops)));
        self.input(Input::Stored { op, reply });
    }

    fn facts(&mut self) {
        let facts = Facts { server_time: None, trust_bundle: None, now: ServerTimeMs(5) };
        self.answer("Facts", Ok(StoreReply::Facts(facts)));
    }

    fn accepted(&mut self, epoch: u64) {
        let answer = kernel::sessions::SessionAnswer::Accepted {
            epoch,
            acked_event_seq: 0,
            upgrade_required: false,
            want_inventory: false,
            site: model::SiteId::new("s"),
            pool: model::PoolId::new("p"),
        };
        self.answer("Accept", Ok(StoreReply::Answer(answer)));
    }

    fn open(&mut self, conn: u64, node: &str) {
        self.input(Input::Opened { conn: ConnId(conn), certificate: Ok(certificate(node)) });
        self.frame(conn, AgentFrame::Hello(Box::new(hello())));
    }

    /// A session that is live under `epoch`.
    fn up(&mut self, conn: u64, node: &str, epoch: u64) {
        self.open(conn, node);
        self.accepted(epoch);
        self.frame(conn, AgentFrame::ResumeDone);
        self.answer("ResumeDone", Ok(StoreReply::Resumed(Some(vec![]))));
        self.sent.clear();
        self.reads.clear();
    }
}

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.input(Input::Tick);
    bench.facts();
    bench
}

fn progress(id: &str) -> CommandUpdate {
    CommandUpdate { command_id: CommandId::new(id), state: UpdateState::Acked, boot_id: BootId::new("b1") }
}

fn result(id: &str) -> CommandUpdate {
    let settled = model::frame::Settled { outcome: model::Outcome::Succeeded, result: vec![], node_sig: None };
    CommandUpdate { state: UpdateState::Done(settled), ..progress(id) }
}

#[test]
fn results_in_hello_are_stored_before_welcome_and_acked_after_it() {
    let mut bench = bench();
    bench.input(Input::Opened { conn: ConnId(1), certificate: Ok(certificate("n1")) });
    let hello = Hello { unacked_results: vec![result("c1")], ..hello() };
    bench.frame(1, AgentFrame::Hello(Box::new(hello)));
    bench.accepted(1);
    assert!(bench.sent.is_empty());
    bench.answer("Updates", Ok(StoreReply::Ingested(vec![CommandId::new("c1")])));
    let names: Vec<&str> = bench
        .sent
        .iter()
        .map(|(_, frame)| match frame {
            GatewayFrame::Welcome(_) => "welcome",
            GatewayFrame::Ack(_) => "ack",
            _ => "other",
        })
        .collect();
    assert_eq!(names, ["welcome", "ack"]);
}

#[test]
fn nothing_is_dispatched_before_resume_done() {
    let mut bench = bench();
    bench.open(1, "n1");
    bench.accepted(1);
    bench.input(Input::NodeHint(NodeId::new("n1")));
    bench.answer("Dispatch", Ok(StoreReply::Outgoing(vec![])));
    bench.frame(1, AgentFrame::Status(StatusReport::default()));
    assert_eq!(bench.ended, [SessionEnd::ProtocolError], "no frame but results before ResumeDone");
}

#[test]
fn a_frame_is_read_only_when_the_last_one_is_stored() {
    let mut bench = bench();
    bench.up(1, "n1", 1);
    bench.frame(1, AgentFrame::Updates(vec![result("c1")]));
    assert!(bench.reads.is_empty());
    bench.answer("Updates", Ok(StoreReply::Ingested(vec![CommandId::new("c1")])));
    assert_eq!(bench.reads, [1]);
    assert!(matches!(&bench.sent[0].1, GatewayFrame::Ack(ack) if ack.command_ids == [CommandId::new("c1")]));
}

#[test]
fn nothing_is_acknowledged_that_was_not_stored_and_the_store_is_asked_again() {
    let mut bench = bench();
    bench.up(1, "n1", 1);
    bench.frame(1, AgentFrame::Updates(vec![result("c1")]));
    bench.answer("Updates", Err(OpFailure::NotStored));
    assert!(bench.sent.is_empty() && bench.reads.is_empty());
    bench.pass(1_000);
    bench.answer("Updates", Ok(StoreReply::Ingested(vec![CommandId::new("c1")])));
    assert!(matches!(bench.sent.last(), Some((1, GatewayFrame::Ack(_)))));
}

#[test]
fn an_unknown_outcome_ends_the_session() {
    let mut bench = bench();
    bench.up(1, "n1", 1);
    bench.frame(1, AgentFrame::Updates(vec![result("c1")]));
    bench.answer("Updates", Err(OpFailure::Unknown));
    assert_eq!(bench.ended, [SessionEnd::EpochLost]);

    let mut bench = super::tests::bench();
    bench.up(1, "n1", 1);
    bench.answer("Dispatch", Err(OpFailure::Unknown));
    assert_eq!(bench.ended, [SessionEnd::EpochLost], "rows may be marked sent that were not");
}

#[test]
fn progress_waits_for_its_result_or_a_moment() {
    let mut bench = bench();
    bench.up(1, "n1", 1);
    bench.frame(1, AgentFrame::Updates(vec![progress("c1")]));
    assert!(bench.ops.iter().all(|(_, op)| !matches!(op, StoreOp::Updates { .. })));
    bench.frame(1, AgentFrame::Updates(vec![result("c1")]));
    let stored = bench.ops.iter().find_map(|(_, op)| match op {
        StoreOp::Updates { updates, .. } => Some(updates.len()),
        _ => None,
    });
    assert_eq!(stored, Some(2), "one transaction for both");

    let mut bench = super::tests::bench();
    bench.up(1, "n1", 1);
    bench.frame(1, AgentFrame::Updates(vec![progress("c1")]));
    bench.pass(100);
    assert!(bench.ops.iter().any(|(_, op)| matches!(op, StoreOp::Updates { .. })));
}

#[test]
fn a_newer_session_of_a_node_ends_the_older_one() {
    let mut bench = bench();
    bench.up(1, "n1", 1);
    bench.open(2, "n1");
    bench.accepted(2);
    assert_eq!(bench.ended, [SessionEnd::Superseded]);
    assert!(bench.sent.iter().any(|(conn, frame)| *conn == 1 && matches!(frame, GatewayFrame::End { .. })));
}

#[test]
fn a_command_of_an_older_epoch_is_not_sent_on_a_newer_session() {
    let mut bench = bench();
    bench.up(1, "n1", 1);
    let command = |epoch| kernel::sessions::Outgoing {
        node: NodeId::new("n1"),
        epoch,
        command_id: CommandId::new("c1"),
        delivery: model::frame::Delivery { signed: Signed::default(), attempt: 1 },
    };
    bench.answer("Dispatch", Ok(StoreReply::Outgoing(vec![command(7)])));
    assert!(bench.sent.is_empty());
    bench.input(Input::NodeHint(NodeId::new("n1")));
    bench.answer("Dispatch", Ok(StoreReply::Outgoing(vec![command(1)])));
    assert_eq!(bench.sent.len(), 1);
}

#[test]
fn dispatch_runs_on_a_hint_and_each_second() {
    let mut bench = bench();
    bench.up(1, "n1", 1);
    for _ in 0..2 {
        bench.answer("Dispatch", Ok(StoreReply::Outgoing(vec![])));
    }
    let waiting = |bench: &Bench| bench.ops.iter().filter(|(_, op)| matches!(op, StoreOp::Dispatch { .. })).count();
    assert_eq!(waiting(&bench), 0);
    bench.input(Input::NodeHint(NodeId::new("other")));
    assert_eq!(waiting(&bench), 0, "another gateway's node");
    bench.input(Input::NodeHint(NodeId::new("n1")));
    assert_eq!(waiting(&bench), 1);
    bench.answer("Dispatch", Ok(StoreReply::Outgoing(vec![])));
    bench.pass(1_000);
    assert_eq!(waiting(&bench), 1);
}

#[test]
fn status_is_written_latest_wins_and_published_only_when_it_says_something_new() {
    let report = |gauge: i64, age_ms: u64, reason: &str| StatusReport {
        conditions: vec![model::frame::Condition {
            kind: "JournalFull".into(),
            reason: reason.into(),
            message: String::new(),
            age_ms,
        }],
        gauges: vec![("rss".into(), gauge)],
        ..StatusReport::default()
    };
    let mut bench = bench();
    bench.up(1, "n1", 1);
    let mut published = Vec::new();
    for (gauge, age, reason) in [(1, 10, "a"), (2, 20, "a"), (3, 30, "b")] {
        bench.frame(1, AgentFrame::Status(report(0, 0, "overwritten")));
        bench.frame(1, AgentFrame::Status(report(gauge, age, reason)));
        bench.pass(1_000);
        let index = bench.ops.iter().position(|(_, op)| matches!(op, StoreOp::Status { .. })).expect("written");
        let (op, what) = bench.ops.remove(index);
        let StoreOp::Status { report, publish, .. } = what else { panic!("a status") };
        assert_eq!(report.gauges[0].1, gauge, "the last report wins");
        published.push(publish);
        bench.input(Input::Stored { op, reply: Ok(StoreReply::Written { reading: false }) });
    }
    assert_eq!(published, [true, false, true]);
}

#[test]
fn three_missed_heartbeats_end_the_session() {
    let mut bench = bench();
    bench.up(1, "n1", 1);
    bench.pass(20_000);
    bench.frame(1, AgentFrame::Heartbeat(model::frame::Heartbeat { sequence: 1, applied_generation: 0 }));
    assert!(matches!(bench.sent.last(), Some((1, GatewayFrame::HeartbeatAck { sequence: 1, .. }))));
    bench.pass(29_999);
    assert!(bench.ended.is_empty());
    bench.pass(1);
    assert_eq!(bench.ended, [SessionEnd::HeartbeatLost]);
    assert!(bench.ops.iter().any(|(_, op)| matches!(op, StoreOp::Close { epoch: 1, .. })));
}

#[test]
fn draining_asks_everyone_to_leave_and_takes_nobody() {
    let mut bench = bench();
    bench.up(1, "n1", 1);
    bench.input(Input::Drain { window_ms: 9 });
    assert!(matches!(bench.sent[0], (1, GatewayFrame::Drain { window_ms: 9 })));
    bench.input(Input::Opened { conn: ConnId(2), certificate: Ok(certificate("n2")) });
    assert_eq!(bench.ended, [SessionEnd::Draining]);
}

#[test]
fn refused_certificates_get_their_code() {
    for code in [SessionEnd::WrongFleet, SessionEnd::CertificateExpired] {
        let mut bench = bench();
        bench.input(Input::Opened { conn: ConnId(1), certificate: Err(code) });
        assert!(matches!(&bench.sent[0].1, GatewayFrame::End { code: sent, .. } if *sent == code));
    }
}

#[test]
fn a_cancel_goes_to_the_session_of_its_epoch() {
    let mut bench = bench();
    bench.up(1, "n1", 4);
    let cancel = |epoch| (NodeId::new("n1"), epoch, CommandId::new("c1"), "why".to_owned());
    bench.answer("Cancels", Ok(StoreReply::Cancels(vec![cancel(3), cancel(4)])));
    assert_eq!(bench.sent.len(), 1);
    assert!(matches!(&bench.sent[0].1, GatewayFrame::Cancel { reason, .. } if reason == "why"));
}

#[test]
fn every_operation_runs_on_a_real_store() {
    let store = MemoryStore::new(Arc::new(TestClock(AtomicI64::new(1_800_000_000_000)))).expect("store");
    let gateway = model::GatewayId::new("g1");
    let handlers = kernel::events::Handlers::default();
    let node = NodeId::new("nobody");
    let ops = vec![
        StoreOp::Accept { certificate: certificate("nobody"), hello: Box::new(hello()) },
        StoreOp::Updates { node: node.clone(), updates: vec![result("c1")] },
        StoreOp::ResumeDone { node: node.clone(), epoch: 1, in_flight: vec![] },
        StoreOp::Touch { heard: vec![(node.clone(), 1)] },
        StoreOp::Dispatch { epochs: Arc::default() },
        StoreOp::Cancels,
        StoreOp::Closings { epochs: BTreeMap::from([(node, 1)]) },
        StoreOp::Facts,
    ];
    let mut lines = Vec::new();
    for op in ops {
        let (reply, _) = store.run(|tx| execute(tx, &gateway, &handlers, op)).expect("an answer");
        lines.push(match reply {
            StoreReply::Answer(kernel::sessions::SessionAnswer::Refused(code, _)) => format!("refused {code}"),
            StoreReply::Ingested(acks) => format!("acks {acks:?}"),
            StoreReply::Resumed(None) => "epoch lost".to_owned(),
            StoreReply::Closings(closings) => format!("{closings:?}"),
            StoreReply::Facts(facts) => format!("{}", facts.now.0),
            _ => "fine".to_owned(),
        });
    }
    let expected = [
        "refused revoked",
        "acks [c1]",
        "epoch lost",
        "fine",
        "fine",
        "fine",
        "[(nobody, 1, Superseded)]",
        "1800000000000",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn welcome_carries_the_trust_bundle_and_the_signed_time_as_stored() {
    let mut bench = Bench::new();
    bench.input(Input::Tick);
    let signed =
        |byte: u8| Signed { body: vec![byte; 3], kid: "k".into(), chain: vec![vec![byte]], signature: vec![byte; 64] };
    let facts = Facts { server_time: Some(signed(1)), trust_bundle: Some(signed(2)), now: ServerTimeMs(5) };
    bench.answer("Facts", Ok(StoreReply::Facts(facts)));
    bench.open(1, "n1");
    bench.accepted(3);
    let Some((1, GatewayFrame::Welcome(welcome))) = bench.sent.last() else { panic!("no Welcome: {:?}", bench.sent) };
    assert_eq!(welcome.trust_bundle, Some(signed(2)));
    assert_eq!(welcome.server_time.signed, Some(signed(1)));
    assert_eq!((welcome.session_epoch, welcome.heartbeat_interval_ms), (3, 10_000));
}
