//! The machine's state, its inputs and outputs, and the one entrance: [`Engine::step`].
//!
//! A commit is asked for with a [`Ticket`] and answered by `Input::Committed` in the same order; only
//! then are its mutations applied and its consequences (an `ACKED`, a start, a result) let out.

use crate::journal::{JournalLimits, JournalState, Mutation};
use crate::lanes::Lanes;
use crate::link::Link;
use crate::outside::Outside;
use crate::rules;
use crate::tickets::TicketVerdict;
use crate::time::ServerClock;
use model::frame::{
    AgentFrame, Any, CommandBody, CommandResult, CommandUpdate, Delivery, GatewayFrame, InventoryReport, Report,
    Signed, StatusReport, UpdateState,
};
use model::{
    BootId, CommandId, EventClass, IncarnationId, Kind, Lane, NodeId, RejectReason, Role, ServerTimeMs, SessionEnd,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stdx::clock::Instant;

/// Mutations that may wait for the next commit are written after this long at the latest.
pub(crate) const LAZY_FLUSH_MS: u64 = 5_000;
/// How often old entries are looked for.
pub(crate) const SWEEP_EVERY_MS: u64 = 3_600_000;

/// Names one commit; rises by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

#[derive(Clone, Debug)]
pub struct EngineConfig {
    pub node_id: NodeId,
    pub role: Role,
    pub daemon_version: String,
    pub hostname: String,
    pub boot_id: BootId,
    /// Fresh for this process.
    pub incarnation: IncarnationId,
    pub capabilities: Vec<String>,
    pub limits: JournalLimits,
    /// `approver_set_sha256` is configured and that set is not held.
    pub awaits_approvers: bool,
}

#[derive(Clone, Debug)]
pub enum Input {
    /// Once, first: settles what an earlier process left, then connects.
    Start,
    /// A transport asked for by `Output::Connect` is up.
    LinkUp,
    /// The transport, or the attempt at one, is gone.
    LinkDown,
    Frame(GatewayFrame),
    /// The gateway sent something that is no frame, or one that is too long.
    BadFrame(SessionEnd),
    /// The commit of this ticket is on disk.
    Committed(Ticket),
    /// A piece of work ended.
    Finished {
        id: CommandId,
        result: WorkResult,
    },
    /// The daemon observed something.
    Observed {
        class: EventClass,
        kind: String,
        attributes: Vec<(String, String)>,
        body: Option<Any>,
    },
    Status(StatusReport),
    Inventory(InventoryReport),
    /// Somebody shows an exec ticket whose signature is good; answered by `Output::Ticket`.
    Ticket {
        jti: String,
        expires_at: ServerTimeMs,
    },
    Tick,
    /// Say goodbye.
    Stop,
}

/// How a piece of work ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkResult {
    Succeeded { code: String, message: String, value: Option<Any> },
    Failed { code: String, message: String, value: Option<Any> },
}

/// A piece of work to start on a worker of its lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    pub id: CommandId,
    pub kind: Kind,
    pub lane: Lane,
    pub payload: Any,
    pub traceparent: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Open a transport; answer `LinkUp` or `LinkDown`.
    Connect,
    /// Close the transport; answer nothing.
    Disconnect(SessionEnd),
    Send(AgentFrame),
    /// Append and fsync, then answer `Committed`. Commits stay in order. If it cannot be done, stop the
    /// process: nothing was acknowledged yet.
    Commit(Ticket, Vec<Mutation>),
    /// Run it; answer `Finished`.
    Start(Work),
    /// Somebody wants it stopped: stop between actions, and report what really happened.
    Cancel(CommandId),
    /// Whether an exec ticket may be used.
    Ticket {
        jti: String,
        verdict: TicketVerdict,
    },
    /// The trust bundle changed; store it.
    StoreBundle(Signed),
    /// The server time mark, for the copy beside the journal.
    MirrorMark(ServerTimeMs),
    /// For the log, the metrics and the simulation's coverage.
    Decided(Decision),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Busy {
    NoCredit,
    JournalFull,
    TooManyDeferred,
    /// The body does not decode, so there is no id to refuse.
    Undecodable,
}

/// One decision, with its ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Accepted { id: CommandId, again: bool },
    Rejected { id: CommandId, reason: RejectReason },
    Busy { id: Option<CommandId>, why: Busy },
    Deferred { id: CommandId },
    Reattached { id: CommandId },
    Resent { id: CommandId },
    Rebooted { id: CommandId },
    Interrupted { id: CommandId },
    JournalLost { id: CommandId },
    Cancelled { id: CommandId },
    CancelTooLate { id: CommandId },
    Started { id: CommandId },
    Settled { id: CommandId },
    SessionUp { epoch: u64 },
    SessionDown { code: Option<SessionEnd> },
    Draining { delay_ms: u64 },
    TimeRefused,
    TimeIgnored,
    BundleAdopted,
    BundleRefused,
    SpecApplied { generation: u64 },
    SpecRefused { why: &'static str },
    EventsDropped { count: usize },
    Swept { count: usize },
    Ticket { verdict: TicketVerdict },
}

/// What this process is doing about a command. Dies with the process.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    pub body: CommandBody,
    pub kind: Kind,
    pub phase: Phase,
    pub cancel: CancelWish,
    /// An earlier process had accepted it too, so its effect may have happened already.
    pub again: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// `accepted` is on its way to disk.
    Accepting,
    Queued,
    /// `running` is on its way to disk.
    Marking,
    Running,
    /// The outcome is on its way to disk.
    Settling,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CancelWish {
    None,
    Asked,
}

/// What a durable commit lets out.
#[derive(Clone, Debug)]
pub(crate) enum Then {
    Ready,
    Accepted(CommandId),
    MarkedRunning(CommandId),
    Settled(CommandId),
    EventsReady,
    Welcomed,
    SpecApplied,
    TicketUsed(String),
}

#[derive(Debug)]
struct PendingCommit {
    ticket: Ticket,
    mutations: Vec<Mutation>,
    then: Vec<Then>,
}

#[derive(Clone, Debug)]
pub(crate) struct Deferred {
    pub delivery: Delivery,
    pub body: CommandBody,
}

pub struct Engine<O: Outside> {
    pub(crate) config: EngineConfig,
    pub(crate) outside: O,
    pub(crate) journal: JournalState,
    pub(crate) clock: ServerClock,
    pub(crate) link: Link,
    pub(crate) lanes: Lanes,
    pub(crate) executions: BTreeMap<CommandId, Execution>,
    /// Refusals and cancellations on their way to disk, of commands that were never accepted.
    pub(crate) refusing: BTreeMap<CommandId, ()>,
    pub(crate) deferred: Vec<Deferred>,
    /// Exec tickets whose use is on its way to disk.
    pub(crate) granting: BTreeSet<String>,
    pub(crate) event_seq: u64,
    pub(crate) status: Option<StatusReport>,
    pub(crate) inventory: Option<InventoryReport>,
    pub(crate) out: Vec<Output>,
    commits: VecDeque<PendingCommit>,
    next_ticket: u64,
    lazy: Vec<Mutation>,
    lazy_since: Option<Instant>,
    sweep_at: Instant,
}

impl<O: Outside> Engine<O> {
    /// `journal` as read from disk; `now` on the boot clock.
    pub fn new(config: EngineConfig, journal: JournalState, outside: O, now: Instant) -> Self {
        let clock = ServerClock::new(journal.meta().time_mark, now);
        let event_seq = journal.meta().event_seq;
        Self {
            config,
            outside,
            clock,
            event_seq,
            journal,
            link: Link::Off,
            lanes: Lanes::default(),
            executions: BTreeMap::new(),
            refusing: BTreeMap::new(),
            deferred: Vec::new(),
            granting: BTreeSet::new(),
            status: None,
            inventory: None,
            out: Vec::new(),
            commits: VecDeque::new(),
            next_ticket: 1,
            lazy: Vec::new(),
            lazy_since: None,
            sweep_at: now.plus(SWEEP_EVERY_MS),
        }
    }

    pub fn step(&mut self, now: Instant, input: Input) -> Vec<Output> {
        match input {
            Input::Start => self.start(now),
            Input::LinkUp => self.link_up(now),
            Input::LinkDown => self.link_down(now, None),
            Input::Frame(frame) => self.frame(now, frame),
            Input::BadFrame(code) => self.end_session(now, code, "a frame that is too long or does not decode"),
            Input::Committed(ticket) => self.committed(now, ticket),
            Input::Finished { id, result } => self.finished(now, &id, result),
            Input::Observed { class, kind, attributes, body } => self.observed(now, class, kind, attributes, body),
            Input::Status(report) => self.status_changed(report),
            Input::Inventory(report) => self.inventory_changed(report),
            Input::Ticket { jti, expires_at } => self.ticket(now, jti, expires_at),
            Input::Tick => {}
            Input::Stop => self.stop(),
        }
        self.tick(now);
        std::mem::take(&mut self.out)
    }

    /// When `Input::Tick` is wanted next, at the latest.
    pub fn next_wake(&self) -> Option<Instant> {
        let lazy = self.lazy_since.map(|since| since.plus(LAZY_FLUSH_MS));
        [self.link.next_wake(), lazy, self.next_deferred_wake(), Some(self.sweep_at)].into_iter().flatten().min()
    }

    pub fn journal(&self) -> &JournalState {
        &self.journal
    }

    pub fn outside(&self) -> &O {
        &self.outside
    }

    pub fn outside_mut(&mut self) -> &mut O {
        &mut self.outside
    }

    /// The epoch of a session that is up.
    pub fn session_epoch(&self) -> Option<u64> {
        self.link.live_epoch()
    }

    pub fn server_time(&self, now: Instant) -> ServerTimeMs {
        self.clock.now(now)
    }

    /// Commands this process is at.
    pub fn in_flight(&self) -> usize {
        self.executions.len()
    }

    fn start(&mut self, now: Instant) {
        let mut mutations = Vec::new();
        for recovery in rules::recover(&self.journal, &self.config.incarnation, &self.config.boot_id) {
            mutations.push(self.recovered(now, recovery));
        }
        self.commit_then(mutations, Then::Ready);
    }

    fn stop(&mut self) {
        if self.link.is_up() {
            self.send(AgentFrame::End { code: SessionEnd::Shutdown, message: String::new() });
            self.out.push(Output::Disconnect(SessionEnd::Shutdown));
        }
        self.link = Link::Stopped;
    }

    fn tick(&mut self, now: Instant) {
        self.tick_link(now);
        self.expire_deferred(now);
        if now >= self.sweep_at {
            self.sweep_at = now.plus(SWEEP_EVERY_MS);
            self.sweep(now);
        }
        if self.lazy_since.is_some_and(|since| now.since(since) >= LAZY_FLUSH_MS) {
            self.commit(Vec::new());
        }
    }

    fn sweep(&mut self, now: Instant) {
        if !self.clock.is_told() {
            return;
        }
        let mut old = rules::sweep(&self.journal, &self.config.incarnation, self.clock.now(now));
        // One that this process has taken up again, or settles, is its own, though not on disk yet.
        old.retain(|id| !self.executions.contains_key(id) && !self.refusing.contains_key(id));
        if !old.is_empty() {
            self.decide(Decision::Swept { count: old.len() });
            self.commit(vec![Mutation::Swept(old)]);
        }
    }

    fn committed(&mut self, now: Instant, ticket: Ticket) {
        let Some(commit) = self.commits.pop_front() else { return };
        assert_eq!(commit.ticket, ticket, "commits are answered in order");
        for mutation in &commit.mutations {
            self.journal.apply(mutation);
        }
        for then in commit.then {
            match then {
                Then::Ready => self.ready(now),
                Then::Accepted(id) => self.accepted_is_durable(now, &id),
                Then::MarkedRunning(id) => self.running_is_durable(&id),
                Then::Settled(id) => self.outcome_is_durable(now, &id),
                Then::EventsReady => self.send_events(),
                Then::Welcomed => self.welcomed_is_durable(now),
                Then::SpecApplied => self.recheck_deferred(now),
                Then::TicketUsed(jti) => self.ticket_is_durable(jti),
            }
        }
    }

    pub(crate) fn commit(&mut self, mutations: Vec<Mutation>) {
        self.commit_all(mutations, Vec::new());
    }

    pub(crate) fn commit_then(&mut self, mutations: Vec<Mutation>, then: Then) {
        self.commit_all(mutations, vec![then]);
    }

    /// What waited for a commit goes along; it was applied when it was decided.
    fn commit_all(&mut self, mutations: Vec<Mutation>, then: Vec<Then>) {
        let mut all = std::mem::take(&mut self.lazy);
        self.lazy_since = None;
        all.extend(mutations.iter().cloned());
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.commits.push_back(PendingCommit { ticket, mutations, then });
        self.out.push(Output::Commit(ticket, all));
    }

    /// A mutation whose loss only costs a repetition: applied at once, written with the next commit.
    pub(crate) fn commit_lazily(&mut self, now: Instant, mutation: Mutation) {
        self.journal.apply(&mutation);
        self.lazy.push(mutation);
        self.lazy_since.get_or_insert(now);
    }

    /// Progress that leaves in one step leaves in one frame.
    pub(crate) fn send(&mut self, frame: AgentFrame) {
        let last = self.out.iter_mut().rev().find_map(|output| match output {
            Output::Send(frame) => Some(frame),
            _ => None,
        });
        match (frame, last) {
            (AgentFrame::Updates(more), Some(AgentFrame::Updates(updates)))
                if is_progress(updates) && is_progress(&more) =>
            {
                updates.extend(more);
            }
            (frame, _) => self.out.push(Output::Send(frame)),
        }
    }

    pub(crate) fn decide(&mut self, decision: Decision) {
        self.out.push(Output::Decided(decision));
    }

    pub(crate) fn encode(&self, code: impl Into<String>, message: impl Into<String>, value: Option<Any>) -> Vec<u8> {
        self.outside.encode_result(&CommandResult { code: code.into(), message: message.into(), value })
    }

    pub(crate) fn report(
        &self,
        now: Instant,
        kind: String,
        mut attributes: Vec<(String, String)>,
        body: Option<Any>,
    ) -> Vec<u8> {
        attributes.sort();
        let observed_at = if self.clock.is_told() { self.clock.now(now) } else { ServerTimeMs::default() };
        self.outside.encode_report(&Report {
            node_id: self.config.node_id.clone(),
            kind,
            attributes,
            body,
            observed_at,
        })
    }
}

/// Updates without results, which are small.
fn is_progress(updates: &[CommandUpdate]) -> bool {
    updates.len() < 64 && updates.iter().all(|update| !matches!(update.state, UpdateState::Done(_)))
}
