//! One connection of one agent.
//!
//! ```text
//! Greeting ──Hello──▶ Accepting ──▶ Applying (its results) ──Welcome──▶ Resuming ──ResumeDone──▶ Finishing ──▶ Live
//! ```
//!
//! `busy` is the store operation under way; while there is one, no frame is read. Progress (`ACKED`,
//! `RUNNING`) waits a moment for the result it usually precedes, so that both cost one commit.

use super::Facts;
use super::ops::{OpFailure, StoreOp, StoreReply};
use kernel::sessions::{CertFacts, SessionAnswer};
use model::frame::{Ack, AgentFrame, CommandUpdate, GatewayFrame, Hello, StatusReport, UpdateState, Welcome};
use model::session::{HEARTBEATS_MISSED_MAX, PROTOCOL_MAX, heartbeat_interval_ms};
use model::{CommandId, Lane, NodeId, SessionEnd, limits};
use stdx::clock::Instant;

/// How long a connection may stay without `Hello`, milliseconds.
const HELLO_WITHIN_MS: u64 = 10_000;
/// Progress waits this long for a result to go with, milliseconds.
const PROGRESS_WAIT_MS: u64 = 100;
/// An operation the store could not do is tried again after this long, milliseconds.
const RETRY_MS: u64 = 1_000;

/// What a session wants done.
#[derive(Debug)]
pub(super) enum Step {
    Send(GatewayFrame),
    Store(StoreOp),
    Read,
    Close(SessionEnd, String),
    /// The store holds this session as the node's.
    Up,
    /// It may be sent commands.
    Live,
    CreditFreed,
}

#[derive(Debug)]
enum State {
    Greeting,
    Accepting(Box<Hello>),
    /// Accepted; the results of `Hello` are being stored.
    Applying(Box<Hello>),
    /// Accepted and applied; the time for `Welcome` is not known yet.
    Welcoming {
        hello: Box<Hello>,
        acks: Vec<CommandId>,
    },
    Resuming {
        in_flight: Vec<CommandId>,
    },
    Finishing,
    Live,
}

#[derive(Clone, Debug)]
struct Accepted {
    epoch: u64,
    acked_event_seq: u64,
    upgrade_required: bool,
    want_inventory: bool,
}

#[derive(Debug)]
pub(super) struct Session {
    certificate: CertFacts,
    state: State,
    accepted: Option<Accepted>,
    since: Instant,
    heard_at: Instant,
    /// The operation under way, kept to be tried again.
    busy: Option<StoreOp>,
    /// The next frame may come; it came while an operation of the timer's was under way, and waits.
    may_read: bool,
    held: Option<AgentFrame>,
    retry_at: Option<Instant>,
    progress: Vec<CommandUpdate>,
    progress_since: Option<Instant>,
    status: Option<StatusReport>,
    status_at: Instant,
    published: Option<[u8; 32]>,
}

impl Session {
    pub(super) fn new(certificate: CertFacts, now: Instant) -> Self {
        Self {
            certificate,
            state: State::Greeting,
            accepted: None,
            since: now,
            heard_at: now,
            busy: None,
            may_read: true,
            held: None,
            retry_at: None,
            progress: Vec::new(),
            progress_since: None,
            status: None,
            status_at: now,
            published: None,
        }
    }

    pub(super) fn node(&self) -> &NodeId {
        &self.certificate.node_id
    }

    pub(super) fn epoch(&self) -> Option<u64> {
        self.accepted.as_ref().map(|accepted| accepted.epoch)
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.progress_since.is_some() || self.retry_at.is_some() || self.wants_time()
    }

    pub(super) fn wants_time(&self) -> bool {
        matches!(self.state, State::Welcoming { .. })
    }

    pub(super) fn frame(&mut self, now: Instant, facts: &Facts, frame: AgentFrame) -> Vec<Step> {
        self.heard_at = now;
        self.may_read = false;
        if self.busy.is_some() {
            // Status and progress are written by the timer, while a frame may be on its way in.
            self.held = Some(frame);
            return Vec::new();
        }
        let steps = self.take(now, facts, frame);
        self.read_once(steps)
    }

    /// At most one frame is asked for at a time.
    fn read_once(&mut self, mut steps: Vec<Step>) -> Vec<Step> {
        steps.retain(|step| !matches!(step, Step::Read) || !std::mem::replace(&mut self.may_read, true));
        steps
    }

    fn take(&mut self, now: Instant, facts: &Facts, frame: AgentFrame) -> Vec<Step> {
        match (&mut self.state, frame) {
            (State::Greeting, AgentFrame::Hello(hello)) => {
                let op = StoreOp::Accept { certificate: self.certificate.clone(), hello: hello.clone() };
                self.state = State::Accepting(hello);
                self.begin(op)
            }
            (_, AgentFrame::End { code, .. }) => vec![Step::Close(code, "the agent ended the session".to_owned())],
            (State::Resuming { .. } | State::Live, AgentFrame::Updates(updates)) => self.updates(now, updates),
            (State::Resuming { in_flight }, AgentFrame::ResumeDone) => {
                let (node, in_flight) = (self.certificate.node_id.clone(), std::mem::take(in_flight));
                let Some(epoch) = self.epoch() else { return Vec::new() };
                self.state = State::Finishing;
                self.begin(StoreOp::ResumeDone { node, epoch, in_flight })
            }
            (State::Resuming { .. } | State::Live, AgentFrame::Heartbeat(heartbeat)) => {
                let answer =
                    GatewayFrame::HeartbeatAck { sequence: heartbeat.sequence, server_time: facts.statement() };
                vec![Step::Send(answer), Step::Read]
            }
            (State::Live, AgentFrame::Events(batch)) => {
                self.begin_in_session(|node, epoch| StoreOp::Events { node, epoch, batch })
            }
            (State::Live, AgentFrame::Status(report)) => {
                self.status = Some(report);
                vec![Step::Read]
            }
            (State::Live, AgentFrame::Inventory(report)) => {
                self.begin_in_session(|node, epoch| StoreOp::Inventory { node, epoch, report })
            }
            // No spec is kept for any node in this version; the command that asked waits until `not_after`.
            (State::Live, AgentFrame::SpecRequest { .. }) => vec![Step::Read],
            (_, frame) => {
                let message = format!("{} out of order", frame_name(&frame));
                vec![Step::Close(SessionEnd::ProtocolError, message)]
            }
        }
    }

    fn updates(&mut self, now: Instant, updates: Vec<CommandUpdate>) -> Vec<Step> {
        let has_result = updates.iter().any(|update| !is_progress(&update.state));
        self.progress.extend(updates);
        self.progress_since.get_or_insert(now);
        if has_result { self.flush_progress() } else { vec![Step::Read] }
    }

    fn flush_progress(&mut self) -> Vec<Step> {
        self.progress_since = None;
        let updates = std::mem::take(&mut self.progress);
        self.begin(StoreOp::Updates { node: self.certificate.node_id.clone(), updates })
    }

    fn begin(&mut self, op: StoreOp) -> Vec<Step> {
        self.busy = Some(op.clone());
        vec![Step::Store(op)]
    }

    fn begin_in_session(&mut self, op: impl FnOnce(NodeId, u64) -> StoreOp) -> Vec<Step> {
        match self.epoch() {
            Some(epoch) => self.begin(op(self.certificate.node_id.clone(), epoch)),
            None => Vec::new(),
        }
    }

    pub(super) fn stored(&mut self, now: Instant, facts: &Facts, reply: Result<StoreReply, OpFailure>) -> Vec<Step> {
        let mut steps = self.replied(now, facts, reply);
        if self.busy.is_none()
            && let Some(frame) = self.held.take()
        {
            steps.retain(|step| !matches!(step, Step::Read));
            steps.extend(self.take(now, facts, frame));
        }
        self.read_once(steps)
    }

    fn replied(&mut self, now: Instant, facts: &Facts, reply: Result<StoreReply, OpFailure>) -> Vec<Step> {
        let reply = match reply {
            Ok(reply) => reply,
            Err(OpFailure::NotStored) => {
                // Nothing was acknowledged, so the same operation is simply tried again.
                self.retry_at = Some(now.plus(RETRY_MS));
                return Vec::new();
            }
            Err(OpFailure::Unknown) => {
                return vec![Step::Close(SessionEnd::EpochLost, "the store's answer was lost".to_owned())];
            }
        };
        self.busy = None;
        match reply {
            StoreReply::Answer(answer) => self.answered(facts, answer),
            StoreReply::Ingested(acks) => self.ingested(facts, acks),
            StoreReply::Resumed(Some(outgoing)) => {
                self.state = State::Live;
                let commands = outgoing.into_iter().map(|command| Step::Send(GatewayFrame::Command(command.delivery)));
                commands.chain([Step::Live, Step::Read]).collect()
            }
            StoreReply::Resumed(None) => {
                vec![Step::Close(SessionEnd::EpochLost, "the node has a newer session".to_owned())]
            }
            StoreReply::EventsStored(acked) => {
                let ack = acked.map(|(journal, seq)| Ack { command_ids: Vec::new(), events: Some((journal, seq)) });
                ack.map(|ack| Step::Send(GatewayFrame::Ack(ack))).into_iter().chain([Step::Read]).collect()
            }
            StoreReply::Written { reading } => reading.then_some(Step::Read).into_iter().collect(),
            StoreReply::Outgoing(_) | StoreReply::Cancels(_) | StoreReply::Closings(_) | StoreReply::Facts(_) => {
                Vec::new()
            }
        }
    }

    fn answered(&mut self, facts: &Facts, answer: SessionAnswer) -> Vec<Step> {
        let (epoch, acked_event_seq, upgrade_required, want_inventory) = match answer {
            SessionAnswer::Accepted { epoch, acked_event_seq, upgrade_required, want_inventory, .. } => {
                (epoch, acked_event_seq, upgrade_required, want_inventory)
            }
            SessionAnswer::Refused(code, message) => return vec![Step::Close(code, message)],
        };
        let State::Accepting(hello) = std::mem::replace(&mut self.state, State::Greeting) else { return Vec::new() };
        self.accepted = Some(Accepted { epoch, acked_event_seq, upgrade_required, want_inventory });
        let mut steps = vec![Step::Up];
        if hello.unacked_results.is_empty() {
            self.state = State::Welcoming { hello, acks: Vec::new() };
            steps.extend(self.time_is_known(facts));
        } else {
            let updates = hello.unacked_results.clone();
            self.state = State::Applying(hello);
            steps.extend(self.begin(StoreOp::Updates { node: self.certificate.node_id.clone(), updates }));
        }
        steps
    }

    fn ingested(&mut self, facts: &Facts, acks: Vec<CommandId>) -> Vec<Step> {
        if let State::Applying(_) = self.state {
            let State::Applying(hello) = std::mem::replace(&mut self.state, State::Greeting) else { return Vec::new() };
            self.state = State::Welcoming { hello, acks };
            return self.time_is_known(facts);
        }
        let mut steps = Vec::new();
        if !acks.is_empty() {
            steps.push(Step::Send(GatewayFrame::Ack(Ack { command_ids: acks, events: None })));
        }
        steps.extend([Step::CreditFreed, Step::Read]);
        steps
    }

    /// Says `Welcome`, once there is a time to tell.
    pub(super) fn time_is_known(&mut self, facts: &Facts) -> Vec<Step> {
        if facts.now.0 == 0 {
            return Vec::new();
        }
        let (State::Welcoming { hello, acks }, Some(accepted)) = (&mut self.state, &self.accepted) else {
            return Vec::new();
        };
        let welcome = Welcome {
            session_epoch: accepted.epoch,
            protocol: PROTOCOL_MAX.min(hello.protocol_max),
            server_time: facts.statement(),
            heartbeat_interval_ms: heartbeat_interval_ms(self.certificate.role),
            lane_credits: Lane::ALL.map(Lane::credits),
            trust_bundle: facts.trust_bundle.clone(),
            acked_event_seq: accepted.acked_event_seq,
            upgrade_required: accepted.upgrade_required,
        };
        let mut steps = vec![Step::Send(GatewayFrame::Welcome(Box::new(welcome)))];
        if !acks.is_empty() {
            steps.push(Step::Send(GatewayFrame::Ack(Ack { command_ids: std::mem::take(acks), events: None })));
        }
        if accepted.want_inventory {
            steps.push(Step::Send(GatewayFrame::InventoryRequest));
        }
        steps.push(Step::Read);
        self.state = State::Resuming { in_flight: std::mem::take(&mut hello.in_flight) };
        steps
    }

    pub(super) fn tick(&mut self, now: Instant) -> Vec<Step> {
        if let Some(silent) = self.silence(now) {
            return vec![silent];
        }
        if self.retry_at.is_some_and(|at| now >= at) {
            self.retry_at = None;
            return self.busy.clone().map(Step::Store).into_iter().collect();
        }
        if self.busy.is_some() {
            return Vec::new();
        }
        if self.progress_since.is_some_and(|since| now.since(since) >= PROGRESS_WAIT_MS) {
            return self.flush_progress();
        }
        if now.since(self.status_at) >= limits::STATUS_WRITE_EVERY_MS
            && let Some(report) = self.status.take()
        {
            self.status_at = now;
            let key = status_key(&report);
            let publish = self.published.replace(key) != Some(key);
            return self.begin_in_session(|node, epoch| StoreOp::Status { node, epoch, report, publish });
        }
        Vec::new()
    }

    fn silence(&self, now: Instant) -> Option<Step> {
        if matches!(self.state, State::Greeting) && now.since(self.since) >= HELLO_WITHIN_MS {
            return Some(Step::Close(SessionEnd::ProtocolError, "no Hello".to_owned()));
        }
        let lost_after = u64::from(heartbeat_interval_ms(self.certificate.role) * HEARTBEATS_MISSED_MAX);
        // A session that waits for the store is not the agent's fault.
        (self.busy.is_none() && now.since(self.heard_at) >= lost_after)
            .then(|| Step::Close(SessionEnd::HeartbeatLost, "three heartbeats were missed".to_owned()))
    }
}

fn is_progress(state: &UpdateState) -> bool {
    matches!(state, UpdateState::Acked | UpdateState::Running)
}

fn frame_name(frame: &AgentFrame) -> &'static str {
    match frame {
        AgentFrame::Hello(_) => "Hello",
        AgentFrame::Updates(_) => "CommandUpdates",
        AgentFrame::ResumeDone => "ResumeDone",
        AgentFrame::Heartbeat(_) => "Heartbeat",
        AgentFrame::Events(_) => "EventBatch",
        AgentFrame::Status(_) => "StatusReport",
        AgentFrame::Inventory(_) => "InventoryReport",
        AgentFrame::SpecRequest { .. } => "SpecRequest",
        AgentFrame::End { .. } => "SessionEnd",
    }
}

/// What makes a status report news: everything but its gauges and the ages (D-Q13).
pub fn status_key(report: &StatusReport) -> [u8; 32] {
    let mut text =
        format!("{}\0{}\0{}", report.applied_generation, report.observed_generation, report.applied_spec_hash);
    for condition in &report.conditions {
        for part in [&condition.kind, &condition.reason, &condition.message] {
            text.push_str(&format!("\0{}:{part}", part.len()));
        }
    }
    stdx::hex::sha256(text.as_bytes())
}
