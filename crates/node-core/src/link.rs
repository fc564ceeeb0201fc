//! The session: when to connect, what is said first, and when it is over.
//!
//! ```text
//! Off ──Ready──▶ Waiting ──due──▶ Connecting ──LinkUp, Hello──▶ Greeting ──Welcome──▶ Settling
//!                   ▲                  │                            │                    │ durable
//!                   └──────────────────┴────────────────────────────┴──── lost ─── Live ◀┘
//! ```
//!
//! In `Live` the remaining unacknowledged results go first, then `ResumeDone`; from then on anything.

use crate::engine::{Decision, Engine, Output};
use crate::journal::Mutation;
use crate::outside::{BundleVerdict, Outside};
use crate::time::TimeError;
use model::frame::{
    Ack, AgentFrame, CommandUpdate, GatewayFrame, Heartbeat, Hello, InventoryReport, StatusReport, TimeStatement,
    UpdateState, Welcome,
};
use model::session::{HEARTBEATS_MISSED_MAX, PROTOCOL_MAX, PROTOCOL_MIN, RECONNECT_FIRST_MS, RECONNECT_MOST_MS};
use model::{CommandId, ServerTimeMs, SessionEnd, limits};
use std::collections::VecDeque;
use stdx::clock::Instant;

/// How long a gateway may take to answer `Hello`, milliseconds.
const WELCOME_WITHIN_MS: u64 = 30_000;
/// Updates in one frame.
const UPDATES_MAX: usize = 256;
/// The copy of the time mark beside the journal is renewed when the mark has moved this far.
const MIRROR_EVERY_MS: i64 = 5 * 60_000;
/// Frames kept while the epoch of a new session goes to disk.
const EARLY_FRAMES_MAX: usize = 256;
/// Accounted for each update in a frame beside its result.
const UPDATE_OVERHEAD_BYTES: usize = 256;

#[derive(Debug)]
pub(crate) enum Link {
    /// Before the start was recovered.
    Off,
    Waiting {
        until: Instant,
        attempt: u32,
    },
    Connecting {
        attempt: u32,
    },
    Greeting {
        since: Instant,
        attempt: u32,
        results: VecDeque<CommandId>,
    },
    Settling(Box<Live>),
    Live(Box<Live>),
    Stopped,
}

#[derive(Debug)]
pub(crate) struct Live {
    epoch: u64,
    upgrade_only: bool,
    heartbeat_ms: u64,
    heartbeat_at: Instant,
    heartbeat_sequence: u64,
    heard_at: Instant,
    /// Results to send, oldest first; each is sent once a session.
    results: VecDeque<CommandId>,
    is_resumed: bool,
    events_sent: u64,
    /// Asked to reconnect elsewhere at this time.
    drain_at: Option<Instant>,
    /// Frames that came while the epoch was on its way to disk.
    early: VecDeque<GatewayFrame>,
}

impl Link {
    pub(crate) fn is_up(&self) -> bool {
        matches!(self, Self::Greeting { .. } | Self::Settling(_) | Self::Live(_))
    }

    pub(crate) fn live_epoch(&self) -> Option<u64> {
        match self {
            Self::Live(live) => Some(live.epoch),
            _ => None,
        }
    }

    pub(crate) fn upgrade_only(&self) -> bool {
        matches!(self, Self::Live(live) | Self::Settling(live) if live.upgrade_only)
    }

    pub(crate) fn next_wake(&self) -> Option<Instant> {
        match self {
            Self::Waiting { until, .. } => Some(*until),
            Self::Greeting { since, .. } => Some(since.plus(WELCOME_WITHIN_MS)),
            Self::Live(live) | Self::Settling(live) => {
                let lost_at = live.heard_at.plus(live.heartbeat_ms * u64::from(HEARTBEATS_MISSED_MAX));
                Some(live.heartbeat_at.min(lost_at).min(live.drain_at.unwrap_or(lost_at)))
            }
            Self::Off | Self::Connecting { .. } | Self::Stopped => None,
        }
    }

    /// Where the next batch begins, when one may be sent now.
    pub(crate) fn events_window(&self, acked: u64) -> Option<u64> {
        match self {
            Self::Live(live) if live.is_resumed && live.events_sent <= acked => Some(acked),
            _ => None,
        }
    }

    pub(crate) fn events_sent(&mut self, seq: u64) {
        if let Self::Live(live) = self {
            live.events_sent = seq;
        }
    }
}

impl<O: Outside> Engine<O> {
    /// Recovery is durable: its results are ready for `Hello`.
    pub(crate) fn ready(&mut self, now: Instant) {
        self.link = Link::Waiting { until: now, attempt: 0 };
    }

    pub(crate) fn tick_link(&mut self, now: Instant) {
        match &mut self.link {
            Link::Waiting { until, attempt } if now >= *until => {
                let attempt = *attempt;
                self.link = Link::Connecting { attempt };
                self.out.push(Output::Connect);
            }
            Link::Greeting { since, .. } if now.since(*since) >= WELCOME_WITHIN_MS => {
                self.end_session(now, SessionEnd::HeartbeatLost, "no Welcome");
            }
            Link::Live(live) | Link::Settling(live) => {
                let lost_after = live.heartbeat_ms * u64::from(HEARTBEATS_MISSED_MAX);
                if now.since(live.heard_at) >= lost_after {
                    return self.end_session(now, SessionEnd::HeartbeatLost, "three heartbeats without an answer");
                }
                if live.drain_at.is_some_and(|at| now >= at) {
                    return self.end_session(now, SessionEnd::Draining, "reconnecting as asked");
                }
                self.beat(now);
            }
            _ => {}
        }
    }

    fn beat(&mut self, now: Instant) {
        let applied_generation = self.journal.meta().applied_generation;
        let Link::Live(live) = &mut self.link else { return };
        if now < live.heartbeat_at {
            return;
        }
        live.heartbeat_at = now.plus(live.heartbeat_ms);
        live.heartbeat_sequence += 1;
        let sequence = live.heartbeat_sequence;
        self.send(AgentFrame::Heartbeat(Heartbeat { sequence, applied_generation }));
    }

    pub(crate) fn link_up(&mut self, now: Instant) {
        let Link::Connecting { attempt } = self.link else {
            return self.out.push(Output::Disconnect(SessionEnd::Shutdown));
        };
        let mut results: VecDeque<CommandId> = self.journal.unacked().map(|(id, _)| id.clone()).collect();
        let unacked_results = self.take_updates(&mut results, limits::HELLO_RESULTS_BYTES_MAX);
        let meta = self.journal.meta();
        let deferred = self.deferred.iter().map(|deferred| deferred.body.id.clone());
        let hello = Hello {
            protocol_min: PROTOCOL_MIN,
            protocol_max: PROTOCOL_MAX,
            daemon_version: self.config.daemon_version.clone(),
            role: self.config.role,
            boot_id: self.config.boot_id.clone(),
            incarnation: self.config.incarnation.clone(),
            journal_id: meta.journal_id.clone(),
            last_epoch: meta.last_epoch,
            applied_generation: meta.applied_generation,
            applied_spec_hash: meta.applied_spec_hash.clone(),
            in_flight: self
                .executions
                .keys()
                .chain(self.refusing.keys())
                .cloned()
                .chain(deferred)
                .take(limits::HELLO_IN_FLIGHT_MAX)
                .collect(),
            unacked_results,
            more_results: !results.is_empty(),
            capabilities: self.config.capabilities.clone(),
            inventory_digest: self.inventory.as_ref().map(|report| report.digest.clone()).unwrap_or_default(),
            hostname: self.config.hostname.clone(),
        };
        self.send(AgentFrame::Hello(Box::new(hello)));
        self.link = Link::Greeting { since: now, attempt, results };
    }

    pub(crate) fn link_down(&mut self, now: Instant, code: Option<SessionEnd>) {
        let attempt = match &self.link {
            Link::Off | Link::Stopped | Link::Waiting { .. } => return,
            Link::Connecting { attempt } | Link::Greeting { attempt, .. } => attempt.saturating_add(1),
            Link::Settling(_) | Link::Live(_) => 0,
        };
        let most = RECONNECT_FIRST_MS.saturating_mul(2 << attempt.min(16)).min(RECONNECT_MOST_MS);
        let delay = self.outside.random(RECONNECT_FIRST_MS, most);
        self.link = Link::Waiting { until: now.plus(delay), attempt };
        self.decide(Decision::SessionDown { code });
    }

    pub(crate) fn end_session(&mut self, now: Instant, code: SessionEnd, message: &str) {
        if self.link.is_up() {
            self.send(AgentFrame::End { code, message: message.to_owned() });
            self.out.push(Output::Disconnect(code));
            self.link_down(now, Some(code));
        }
    }

    pub(crate) fn frame(&mut self, now: Instant, frame: GatewayFrame) {
        if !self.link.is_up() {
            // A frame of a transport that is already given up.
            return;
        }
        if let GatewayFrame::End { code, .. } = frame {
            self.out.push(Output::Disconnect(code));
            return self.link_down(now, Some(code));
        }
        match (&mut self.link, frame) {
            (Link::Greeting { .. }, GatewayFrame::Welcome(welcome)) => self.welcome(now, *welcome),
            (Link::Live(live), frame) => {
                live.heard_at = now;
                self.live_frame(now, frame);
            }
            (Link::Settling(live), frame) if live.early.len() < EARLY_FRAMES_MAX => live.early.push_back(frame),
            _ => self.end_session(now, SessionEnd::ProtocolError, "a frame before the session was up"),
        }
    }

    fn live_frame(&mut self, now: Instant, frame: GatewayFrame) {
        match frame {
            GatewayFrame::Command(delivery) => self.delivered(now, delivery),
            GatewayFrame::Cancel { command_id, reason } => self.cancel(now, &command_id, &reason),
            GatewayFrame::Ack(ack) => self.acked(now, ack),
            GatewayFrame::HeartbeatAck { server_time, .. } => self.heartbeat_time(now, &server_time),
            GatewayFrame::Drain { window_ms } => self.drain(now, window_ms),
            GatewayFrame::InventoryRequest => self.send_inventory(),
            GatewayFrame::DesiredState(signed) => self.desired_state(now, signed),
            GatewayFrame::Welcome(_) | GatewayFrame::End { .. } => {
                self.end_session(now, SessionEnd::ProtocolError, "a second Welcome");
            }
        }
        self.flush_results(now);
    }

    fn welcome(&mut self, now: Instant, welcome: Welcome) {
        self.take_bundle(&welcome);
        let time = self.stated(&welcome.server_time).and_then(|stated| self.clock.welcome(now, stated));
        if time.is_err() {
            self.decide(Decision::TimeRefused);
            return self.end_session(now, SessionEnd::TimeRefused, "the server time is unsigned or wound back");
        }
        let (epoch, last) = (welcome.session_epoch, self.journal.meta().last_epoch);
        if epoch <= last || epoch > limits::COUNTER_MAX {
            let message = format!("session epoch {epoch} after epoch {last}");
            return self.end_session(now, SessionEnd::ProtocolError, &message);
        }
        let Link::Greeting { results, .. } = &mut self.link else { return };
        let heartbeat_ms = u64::from(welcome.heartbeat_interval_ms.clamp(100, 600_000));
        let live = Live {
            epoch,
            upgrade_only: welcome.upgrade_required,
            heartbeat_ms,
            heartbeat_at: now.plus(heartbeat_ms),
            heartbeat_sequence: 0,
            heard_at: now,
            results: std::mem::take(results),
            is_resumed: false,
            events_sent: 0,
            drain_at: None,
            early: VecDeque::new(),
        };
        self.link = Link::Settling(Box::new(live));
        let mut mutations = vec![Mutation::Epoch(epoch), Mutation::TimeMark(self.clock.mark())];
        let meta = self.journal.meta();
        if welcome.acked_event_seq > meta.acked_event_seq && welcome.acked_event_seq <= meta.event_seq {
            mutations.push(Mutation::EventsAcked(welcome.acked_event_seq));
        }
        self.out.push(Output::MirrorMark(self.clock.mark()));
        self.commit_then(mutations, crate::engine::Then::Welcomed);
    }

    /// The epoch is on disk: say the rest of the results, then that the resume is done.
    pub(crate) fn welcomed_is_durable(&mut self, now: Instant) {
        match std::mem::replace(&mut self.link, Link::Stopped) {
            Link::Settling(mut live) => {
                self.decide(Decision::SessionUp { epoch: live.epoch });
                let early = std::mem::take(&mut live.early);
                self.link = Link::Live(live);
                self.flush_results(now);
                early.into_iter().for_each(|frame| self.frame(now, frame));
            }
            other => self.link = other,
        }
    }

    fn take_bundle(&mut self, welcome: &Welcome) {
        let Some(signed) = &welcome.trust_bundle else { return };
        match self.outside.adopt_bundle(signed) {
            BundleVerdict::Adopted => {
                self.decide(Decision::BundleAdopted);
                self.out.push(Output::StoreBundle(signed.clone()));
            }
            BundleVerdict::Unchanged => {}
            BundleVerdict::Refused => self.decide(Decision::BundleRefused),
        }
    }

    /// What counts of a time statement: with command-signing roots only a signed one.
    fn stated(&self, statement: &TimeStatement) -> Result<ServerTimeMs, TimeError> {
        if !self.outside.has_command_roots() {
            return Ok(statement.unsigned_ms);
        }
        let signed = statement.signed.as_ref().ok_or(TimeError::Unsigned)?;
        self.outside.verify_server_time(signed).ok_or(TimeError::Unsigned)
    }

    fn heartbeat_time(&mut self, now: Instant, statement: &TimeStatement) {
        let Ok(stated) = self.stated(statement) else { return self.decide(Decision::TimeIgnored) };
        let before = self.clock.mark();
        if self.clock.observe(now, stated) {
            let mark = self.clock.mark();
            self.commit_lazily(now, Mutation::TimeMark(mark));
            if mark.0 / MIRROR_EVERY_MS != before.0 / MIRROR_EVERY_MS {
                self.out.push(Output::MirrorMark(mark));
            }
        }
    }

    fn drain(&mut self, now: Instant, window_ms: u32) {
        let delay_ms = self.outside.random(0, u64::from(window_ms));
        self.decide(Decision::Draining { delay_ms });
        if let Link::Live(live) = &mut self.link {
            live.drain_at = Some(now.plus(delay_ms));
        }
    }

    fn acked(&mut self, now: Instant, ack: Ack) {
        if !ack.command_ids.is_empty() {
            self.commit_lazily(now, Mutation::ResultsAcked(ack.command_ids));
        }
        if let Some((journal_id, seq)) = ack.events {
            self.events_acked(now, &journal_id, seq);
        }
    }

    pub(crate) fn queue_result(&mut self, id: &CommandId) {
        let results = match &mut self.link {
            Link::Greeting { results, .. } => results,
            Link::Live(live) | Link::Settling(live) => &mut live.results,
            Link::Off | Link::Waiting { .. } | Link::Connecting { .. } | Link::Stopped => return,
        };
        if !results.contains(id) {
            results.push_back(id.clone());
        }
    }

    /// Sends every result that waits, and `ResumeDone` after the first time.
    pub(crate) fn flush_results(&mut self, _now: Instant) {
        loop {
            let Link::Live(live) = &mut self.link else { return };
            let mut results = std::mem::take(&mut live.results);
            let updates = self.take_updates(&mut results, limits::HELLO_RESULTS_BYTES_MAX);
            if let Link::Live(live) = &mut self.link {
                live.results = results;
            }
            if updates.is_empty() {
                break;
            }
            self.send(AgentFrame::Updates(updates));
        }
        let Link::Live(live) = &mut self.link else { return };
        if !live.is_resumed {
            live.is_resumed = true;
            self.send(AgentFrame::ResumeDone);
            if let Some(status) = self.status.clone() {
                self.send(AgentFrame::Status(status));
            }
            self.send_events();
        }
    }

    /// The next updates of `waiting` that fit `bytes_max` and one frame; at least one if any is left.
    fn take_updates(&self, waiting: &mut VecDeque<CommandId>, bytes_max: usize) -> Vec<CommandUpdate> {
        let mut updates = Vec::new();
        let mut bytes = 0;
        while let Some(id) = waiting.front() {
            let Some(update) = self.terminal_update(id) else {
                waiting.pop_front();
                continue;
            };
            let UpdateState::Done(settled) = &update.state else { break };
            let signature = settled.node_sig.as_ref().map_or(0, |signed| signed.body.len() + 4096);
            bytes += settled.result.len() + signature + UPDATE_OVERHEAD_BYTES;
            if !updates.is_empty() && (updates.len() == UPDATES_MAX || bytes > bytes_max) {
                break;
            }
            waiting.pop_front();
            updates.push(update);
        }
        updates
    }

    fn terminal_update(&self, id: &CommandId) -> Option<CommandUpdate> {
        let crate::journal::EntryState::Done(done) = &self.journal.entry(id)?.state else { return None };
        let (state, boot_id) = (UpdateState::Done(done.settled.clone()), done.boot_id.clone());
        Some(CommandUpdate { command_id: id.clone(), state, boot_id })
    }

    pub(crate) fn send_if_up(&mut self, frame: AgentFrame) {
        if matches!(self.link, Link::Live(_)) {
            self.send(frame);
        }
    }

    pub(crate) fn status_changed(&mut self, report: StatusReport) {
        self.status = Some(report.clone());
        self.send_if_up(AgentFrame::Status(report));
    }

    pub(crate) fn inventory_changed(&mut self, report: InventoryReport) {
        let changed = self.inventory.as_ref().is_none_or(|known| known.digest != report.digest);
        self.inventory = Some(report);
        if changed {
            self.send_inventory();
        }
    }

    fn send_inventory(&mut self) {
        if let Some(report) = self.inventory.clone() {
            self.send_if_up(AgentFrame::Inventory(report));
        }
    }

    /// Signed, for this node, newer, and something this build can hold; else it is not applied.
    fn desired_state(&mut self, now: Instant, signed: model::frame::Signed) {
        let server_now = self.clock.now(now);
        if (self.outside.has_command_roots() || !signed.signature.is_empty())
            && !self.outside.verify_spec(&signed, server_now)
        {
            return self.decide(Decision::SpecRefused { why: "bad signature" });
        }
        let Some(body) = self.outside.decode_desired_state(&signed.body) else {
            return self.decide(Decision::SpecRefused { why: "does not decode" });
        };
        if body.node_id != self.config.node_id || body.generation <= self.journal.meta().applied_generation {
            return self.decide(Decision::SpecRefused { why: "another node's, or not newer" });
        }
        if !self.outside.can_hold_spec(&body.full) {
            return self.decide(Decision::SpecRefused { why: "has sections this version cannot hold" });
        }
        let (generation, spec_hash) = (body.generation, body.spec_hash);
        self.decide(Decision::SpecApplied { generation });
        self.commit_then(vec![Mutation::Spec { generation, spec_hash, signed }], crate::engine::Then::SpecApplied);
    }
}
