//! A node whose disk, gateway and workers are in the test's hands.

use crate::*;
use model::frame::*;
use model::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use stdx::clock::Instant;

pub const NODE: &str = "node_1";
pub const T0: i64 = 1_800_000_000_000;

#[derive(Clone)]
pub struct Wire(Rc<RefCell<BTreeMap<Vec<u8>, CommandBody>>>);

/// Signatures here are the words `good` and `bad`; time statements are eight bytes.
pub struct FakeOutside {
    pub wire: Wire,
    pub roots: bool,
    pub implemented: BTreeSet<Kind>,
    pub signed: Rc<RefCell<Vec<ResultStatement>>>,
}

impl Outside for FakeOutside {
    fn decode_body(&self, bytes: &[u8]) -> Option<CommandBody> {
        self.wire.0.borrow().get(bytes).cloned()
    }
    fn decode_desired_state(&self, bytes: &[u8]) -> Option<DesiredStateBody> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (node, generation) = text.split_once(' ')?;
        let generation = generation.parse().ok()?;
        Some(DesiredStateBody {
            node_id: NodeId::new(node),
            generation,
            spec_hash: format!("hash{generation}"),
            full: vec![],
        })
    }
    fn can_hold_spec(&self, spec: &[u8]) -> bool {
        spec.is_empty()
    }
    fn encode_result(&self, result: &CommandResult) -> Vec<u8> {
        let value = result.value.as_ref().map_or(String::new(), |any| String::from_utf8_lossy(&any.value).into_owned());
        format!("{}|{value}", result.code).into_bytes()
    }
    fn encode_report(&self, report: &Report) -> Vec<u8> {
        report.kind.clone().into_bytes()
    }
    fn reboot_result(&self, previous: &BootId) -> Any {
        Any { type_url: "reboot".into(), value: previous.as_str().as_bytes().to_vec() }
    }
    fn has_command_roots(&self) -> bool {
        self.roots
    }
    fn verify_command(&self, signed: &Signed, _at: ServerTimeMs) -> bool {
        signed.signature == b"good"
    }
    fn verify_spec(&self, signed: &Signed, _at: ServerTimeMs) -> bool {
        signed.signature == b"good"
    }
    fn verify_server_time(&self, signed: &Signed) -> Option<ServerTimeMs> {
        let bytes: [u8; 8] = signed.body.as_slice().try_into().ok()?;
        (signed.signature == b"good").then_some(ServerTimeMs(i64::from_be_bytes(bytes)))
    }
    fn adopt_bundle(&mut self, signed: &Signed) -> BundleVerdict {
        match signed.signature.as_slice() {
            b"good" if !self.roots => {
                self.roots = true;
                BundleVerdict::Adopted
            }
            b"good" => BundleVerdict::Unchanged,
            _ => BundleVerdict::Refused,
        }
    }
    fn sign_result(&self, statement: &ResultStatement) -> Signed {
        self.signed.borrow_mut().push(statement.clone());
        Signed { signature: b"node".to_vec(), ..Signed::default() }
    }
    fn implements(&self, kind: Kind) -> bool {
        self.implemented.contains(&kind)
    }
    fn resources(&self, kind: Kind, payload: &Any) -> Vec<String> {
        if kind == Kind::GpuReset { vec![String::from_utf8_lossy(&payload.value).into_owned()] } else { Vec::new() }
    }
    fn random(&mut self, low: u64, _high: u64) -> u64 {
        low
    }
}

pub struct Node {
    pub engine: Engine<FakeOutside>,
    pub now: Instant,
    pub wire: Wire,
    pub sent: Vec<AgentFrame>,
    pub started: VecDeque<Work>,
    pub cancels: Vec<CommandId>,
    pub decisions: Vec<Decision>,
    pub commits: VecDeque<(Ticket, Vec<Mutation>)>,
    pub disconnects: Vec<SessionEnd>,
    /// What is on disk: the fold of every durable mutation.
    pub disk: JournalState,
    /// Commits are made durable by hand.
    pub slow_disk: bool,
    pub connects: usize,
    pub signed: Rc<RefCell<Vec<ResultStatement>>>,
}

pub fn fresh_disk() -> JournalState {
    let created = Mutation::Created {
        node_id: NodeId::new(NODE),
        journal_id: JournalId::new("j1"),
        birth: ServerTimeMs(T0 - 1000),
        time_mark: ServerTimeMs(T0),
    };
    JournalState::created(&created).expect("a first record")
}

impl Node {
    pub fn new() -> Self {
        Self::on(fresh_disk(), "boot1", "inc1", |_| {})
    }

    pub fn on(disk: JournalState, boot: &str, incarnation: &str, tune: impl FnOnce(&mut EngineConfig)) -> Self {
        let wire = Wire(Rc::default());
        let mut config = EngineConfig {
            node_id: NodeId::new(NODE),
            role: Role::Node,
            daemon_version: "0.1.0".into(),
            hostname: "host".into(),
            boot_id: BootId::new(boot),
            incarnation: IncarnationId::new(incarnation),
            capabilities: vec![],
            limits: JournalLimits::default(),
            awaits_approvers: false,
        };
        tune(&mut config);
        let implemented =
            [Kind::InventoryRefresh, Kind::DiagNvml, Kind::GpuReset, Kind::NodeReboot, Kind::LogsCollect].into();
        let signed = Rc::new(RefCell::new(Vec::new()));
        let outside = FakeOutside { wire: wire.clone(), roots: true, implemented, signed: signed.clone() };
        let now = Instant(1_000_000);
        Self {
            engine: Engine::new(config, disk.clone(), outside, now),
            now,
            wire,
            sent: vec![],
            started: VecDeque::new(),
            cancels: vec![],
            decisions: vec![],
            commits: VecDeque::new(),
            disconnects: vec![],
            disk,
            slow_disk: false,
            connects: 0,
            signed,
        }
    }

    /// Started, connected, welcomed, resumed.
    pub fn up(mut self) -> Self {
        self.input(Input::Start);
        self.connect();
        self.sent.clear();
        self.decisions.clear();
        self
    }

    pub fn connect(&mut self) {
        self.pass(60_000);
        self.input(Input::LinkUp);
        self.input(Input::Frame(GatewayFrame::Welcome(Box::new(self.welcome()))));
    }

    pub fn welcome(&self) -> Welcome {
        Welcome {
            session_epoch: self.engine.journal().meta().last_epoch + 1,
            protocol: 1,
            server_time: time(T0 + self.now.0 as i64 - 1_000_000),
            heartbeat_interval_ms: 10_000,
            lane_credits: [8, 4, 2],
            trust_bundle: None,
            acked_event_seq: 0,
            upgrade_required: false,
        }
    }

    pub fn input(&mut self, input: Input) {
        for output in self.engine.step(self.now, input) {
            match output {
                Output::Commit(ticket, mutations) => self.commits.push_back((ticket, mutations)),
                Output::Send(frame) => self.sent.push(frame),
                Output::Start(work) => self.started.push_back(work),
                Output::Cancel(id) => self.cancels.push(id),
                Output::Decided(decision) => self.decisions.push(decision),
                Output::Disconnect(code) => self.disconnects.push(code),
                Output::Connect => self.connects += 1,
                Output::StoreBundle(_) | Output::MirrorMark(_) | Output::Ticket { .. } => {}
            }
        }
        while !self.slow_disk && self.sync_one() {}
    }

    /// Makes the oldest commit durable; false when none waits.
    pub fn sync_one(&mut self) -> bool {
        let Some((ticket, mutations)) = self.commits.pop_front() else { return false };
        mutations.iter().for_each(|mutation| self.disk.apply(mutation));
        self.input(Input::Committed(ticket));
        true
    }

    pub fn pass(&mut self, ms: u64) {
        self.now = self.now.plus(ms);
        self.input(Input::Tick);
    }

    /// Kills the process and starts another on the same disk; only what is durable remains.
    pub fn crash(self, boot: &str, incarnation: &str) -> Node {
        let mut next = Node::on(self.disk, boot, incarnation, |_| {});
        next.now = self.now;
        next.wire = self.wire.clone();
        let outside = next.engine.outside_mut();
        outside.wire = self.wire;
        next.engine = Engine::new(
            EngineConfig {
                node_id: NodeId::new(NODE),
                role: Role::Node,
                daemon_version: "0.1.0".into(),
                hostname: "host".into(),
                boot_id: BootId::new(boot),
                incarnation: IncarnationId::new(incarnation),
                capabilities: vec![],
                limits: JournalLimits::default(),
                awaits_approvers: false,
            },
            next.disk.clone(),
            FakeOutside {
                wire: next.wire.clone(),
                roots: true,
                implemented: [
                    Kind::InventoryRefresh,
                    Kind::DiagNvml,
                    Kind::GpuReset,
                    Kind::NodeReboot,
                    Kind::LogsCollect,
                ]
                .into(),
                signed: next.signed.clone(),
            },
            next.now,
        );
        next
    }

    pub fn deliver(&mut self, body: &CommandBody) {
        self.deliver_signed(body, b"good");
    }

    pub fn deliver_signed(&mut self, body: &CommandBody, signature: &[u8]) {
        let bytes = format!("{body:?}").into_bytes();
        self.wire.0.borrow_mut().insert(bytes.clone(), body.clone());
        let signed = Signed { body: bytes, signature: signature.to_vec(), ..Signed::default() };
        self.input(Input::Frame(GatewayFrame::Command(Delivery { signed, attempt: 1 })));
    }

    pub fn finish(&mut self, id: &str) {
        self.started.retain(|work| work.id.as_str() != id);
        let result = WorkResult::Succeeded { code: String::new(), message: String::new(), value: None };
        self.input(Input::Finished { id: CommandId::new(id), result });
    }

    pub fn cancel(&mut self, id: &str) {
        let command_id = CommandId::new(id);
        self.input(Input::Frame(GatewayFrame::Cancel { command_id, reason: "unwanted".into() }));
    }

    pub fn server_now(&self) -> i64 {
        self.engine.server_time(self.now).0
    }

    /// `id STATE result` of every update sent since the last look, one a line.
    pub fn updates(&mut self) -> String {
        let mut lines = String::new();
        for frame in std::mem::take(&mut self.sent) {
            let updates = match frame {
                AgentFrame::Updates(updates) => updates,
                AgentFrame::Hello(hello) => hello.unacked_results,
                AgentFrame::SpecRequest { .. } => {
                    lines.push_str("spec request\n");
                    continue;
                }
                _ => continue,
            };
            for update in updates {
                let state = match &update.state {
                    UpdateState::Acked => "ACKED".to_owned(),
                    UpdateState::Running => "RUNNING".to_owned(),
                    UpdateState::Busy => "BUSY".to_owned(),
                    UpdateState::Done(settled) => {
                        let signed = if settled.node_sig.is_some() { " signed" } else { "" };
                        format!("{} {}{signed}", settled.outcome, String::from_utf8_lossy(&settled.result))
                    }
                };
                lines.push_str(&format!("{} {state}\n", update.command_id));
            }
        }
        lines
    }

    #[track_caller]
    pub fn expect_updates(&mut self, expected: &[&str]) {
        let updates = self.updates();
        let have: Vec<&str> = updates.lines().collect();
        assert_eq!(have, expected);
    }

    pub fn started_ids(&self) -> Vec<&str> {
        self.started.iter().map(|work| work.id.as_str()).collect()
    }
}

pub fn time(unix_ms: i64) -> TimeStatement {
    let signed = Signed { body: unix_ms.to_be_bytes().to_vec(), signature: b"good".to_vec(), ..Signed::default() };
    TimeStatement { signed: Some(signed), unsigned_ms: ServerTimeMs(unix_ms) }
}

/// A command of `kind`, valid for five minutes.
pub fn command(id: &str, kind: Kind) -> CommandBody {
    named_command(id, kind.name())
}

pub fn named_command(id: &str, kind: &str) -> CommandBody {
    let spec = Kind::parse(kind).map(Kind::spec);
    CommandBody {
        id: CommandId::new(id),
        node_id: NodeId::new(NODE),
        seq: 1,
        kind: kind.to_owned(),
        payload: Any::default(),
        lane: spec.map_or(Lane::Control, |spec| spec.lane),
        not_after: Some(ServerTimeMs(T0 + 400_000)),
        min_generation: 0,
        retry_safe: spec.is_some_and(|spec| spec.retry_safe),
        idempotency_key: id.to_owned(),
        self_terminating: spec.is_some_and(|spec| spec.self_terminating),
        attested: spec.is_some_and(|spec| spec.attested),
        workflow_id: String::new(),
        step_id: String::new(),
        traceparent: String::new(),
        batch_id: String::new(),
        issued_at: ServerTimeMs(T0),
    }
}
