//! The gateway as one pure machine: connections and hints in, frames and store operations out.
//!
//! Every connection has a [`session::Session`]. A session has at most one store operation under way
//! and asks for its next frame only when it can take one ([`Output::Read`]), so a slow store slows the
//! nodes down instead of filling memory. Dispatch, cancels and closings are operations of the whole
//! gateway, at most one of each at a time.

mod ops;
mod session;
#[cfg(test)]
mod tests;

pub use ops::{OpFailure, StoreOp, StoreReply, execute};
pub use session::status_key;

use model::frame::{AgentFrame, GatewayFrame, Signed, TimeStatement};
use model::{NodeId, ServerTimeMs, SessionEnd, limits};
use session::{Session, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stdx::clock::Instant;

/// How often sessions are written as heard from, and gateways say they live, milliseconds.
const TOUCH_EVERY_MS: u64 = 10_000;
/// How often the time statement and the trust bundle are read anew, milliseconds.
const FACTS_EVERY_MS: u64 = 5_000;
/// How often every session is checked for a newer one or a revocation without a hint, milliseconds.
const CLOSINGS_EVERY_MS: u64 = 5_000;
/// A failed operation of the whole gateway is tried again after this long, milliseconds.
const RETRY_MS: u64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// Names one store operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

#[derive(Debug)]
pub enum Input {
    /// A client proved possession of a key; what its certificate says, or why it may not have a session.
    Opened {
        conn: ConnId,
        certificate: Result<kernel::sessions::CertFacts, SessionEnd>,
    },
    Frame {
        conn: ConnId,
        frame: AgentFrame,
    },
    BadFrame {
        conn: ConnId,
        code: SessionEnd,
    },
    Closed {
        conn: ConnId,
    },
    Stored {
        op: OpId,
        reply: Result<StoreReply, OpFailure>,
    },
    /// The node may have commands or cancels waiting.
    NodeHint(NodeId),
    /// The node's session may have to end.
    SessionHint(NodeId),
    /// Ask every agent to reconnect elsewhere within the window, and take no new sessions.
    Drain {
        window_ms: u32,
    },
    Tick,
}

#[derive(Debug)]
pub enum Output {
    Send {
        conn: ConnId,
        frame: GatewayFrame,
    },
    /// Send what is queued, then close.
    Close {
        conn: ConnId,
        code: SessionEnd,
    },
    /// The session can take its next frame.
    Read {
        conn: ConnId,
    },
    /// Run it as one transaction and answer `Stored`.
    Store {
        op: OpId,
        what: StoreOp,
    },
    /// For metrics and logs.
    Ended {
        node: Option<NodeId>,
        code: SessionEnd,
    },
}

/// What the gateway tells nodes about time and trust, relayed from the store.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub server_time: Option<Signed>,
    pub trust_bundle: Option<Signed>,
    pub now: ServerTimeMs,
}

/// Which operation a reply belongs to.
#[derive(Debug)]
enum Pending {
    Session(ConnId),
    /// Its outcome is nobody's concern beyond a log line.
    Quiet,
    Dispatch(Arc<BTreeMap<NodeId, u64>>),
    Cancels,
    Closings,
    Facts,
}

/// An operation of the whole gateway: wanted, under way, or neither.
#[derive(Debug, Default)]
struct Errand {
    wanted: bool,
    under_way: bool,
    not_before: Instant,
}

impl Errand {
    fn start(&mut self, now: Instant) -> bool {
        let start = self.wanted && !self.under_way && now >= self.not_before;
        if start {
            self.wanted = false;
            self.under_way = true;
        }
        start
    }

    fn done(&mut self, now: Instant, failed: bool) {
        self.under_way = false;
        if failed {
            self.wanted = true;
            self.not_before = now.plus(RETRY_MS);
        }
    }
}

#[derive(Debug)]
pub struct Gateway {
    sessions: BTreeMap<ConnId, Session>,
    by_node: BTreeMap<NodeId, ConnId>,
    /// Node and epoch of every session that may be sent commands; replaced, never changed in place.
    epochs: Arc<BTreeMap<NodeId, u64>>,
    epochs_stale: bool,
    pending: BTreeMap<OpId, Pending>,
    next_op: u64,
    facts: Facts,
    dispatch: Errand,
    cancels: Errand,
    closings: Errand,
    to_check: BTreeSet<NodeId>,
    check_all: bool,
    facts_errand: Errand,
    dispatch_at: Instant,
    touch_at: Instant,
    facts_at: Instant,
    closings_at: Instant,
    draining: Option<u32>,
    out: Vec<Output>,
}

impl Gateway {
    pub fn new(now: Instant) -> Self {
        let mut gateway = Self {
            sessions: BTreeMap::new(),
            by_node: BTreeMap::new(),
            epochs: Arc::default(),
            epochs_stale: false,
            pending: BTreeMap::new(),
            next_op: 1,
            facts: Facts::default(),
            dispatch: Errand::default(),
            cancels: Errand::default(),
            closings: Errand::default(),
            to_check: BTreeSet::new(),
            check_all: false,
            facts_errand: Errand::default(),
            dispatch_at: now,
            touch_at: now,
            facts_at: now,
            closings_at: now,
            draining: None,
            out: Vec::new(),
        };
        gateway.facts_errand.wanted = true;
        gateway
    }

    pub fn step(&mut self, now: Instant, input: Input) -> Vec<Output> {
        match input {
            Input::Opened { conn, certificate } => self.opened(now, conn, certificate),
            Input::Frame { conn, frame } => {
                self.in_session(now, conn, |session, facts| session.frame(now, facts, frame))
            }
            Input::BadFrame { conn, code } => self.close(conn, code, "a frame that is too long or does not decode"),
            Input::Closed { conn } => self.lost(conn),
            Input::Stored { op, reply } => self.stored(now, op, reply),
            Input::NodeHint(node) => {
                if self.by_node.contains_key(&node) {
                    self.dispatch.wanted = true;
                    self.cancels.wanted = true;
                }
            }
            Input::SessionHint(node) => {
                if self.by_node.contains_key(&node) {
                    self.to_check.insert(node);
                    self.closings.wanted = true;
                }
            }
            Input::Drain { window_ms } => self.drain(window_ms),
            Input::Tick => self.tick(now),
        }
        self.run_errands(now);
        std::mem::take(&mut self.out)
    }

    /// Whether something waits for the next tick: progress for its result, a failed operation, a first time.
    pub fn is_waiting(&self) -> bool {
        self.sessions.values().any(Session::is_waiting)
    }

    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    fn opened(&mut self, now: Instant, conn: ConnId, certificate: Result<kernel::sessions::CertFacts, SessionEnd>) {
        let refusal = match (&certificate, self.draining) {
            (Err(code), _) => Some(*code),
            (Ok(_), Some(_)) => Some(SessionEnd::Draining),
            (Ok(_), None) => None,
        };
        match (refusal, certificate) {
            (None, Ok(certificate)) => {
                self.sessions.insert(conn, Session::new(certificate, now));
                self.out.push(Output::Read { conn });
            }
            (code, _) => {
                let code = code.unwrap_or(SessionEnd::ProtocolError);
                self.end(conn, None, code, "this connection may not have a session");
            }
        }
    }

    /// Runs one step of a session and carries out what it wants.
    fn in_session(&mut self, now: Instant, conn: ConnId, step: impl FnOnce(&mut Session, &Facts) -> Vec<Step>) {
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        let steps = step(session, &self.facts);
        for step in steps {
            match step {
                Step::Send(frame) => self.out.push(Output::Send { conn, frame }),
                Step::Store(what) => self.store(what, Pending::Session(conn)),
                Step::Read => self.out.push(Output::Read { conn }),
                Step::Close(code, message) => return self.close(conn, code, &message),
                Step::Up => self.up(conn),
                Step::Live => {
                    self.epochs_stale = true;
                    self.dispatch.wanted = true;
                    self.cancels.wanted = true;
                }
                Step::CreditFreed => self.dispatch.wanted = true,
            }
        }
        if let Some(session) = self.sessions.get_mut(&conn)
            && session.wants_time()
        {
            self.facts_errand.wanted = true;
            self.facts_at = now;
        }
    }

    /// The store has accepted this session: an older one of the node ends here and now.
    fn up(&mut self, conn: ConnId) {
        let Some(node) = self.sessions.get(&conn).map(|session| session.node().clone()) else { return };
        if let Some(older) = self.by_node.insert(node, conn).filter(|older| *older != conn) {
            self.close(older, SessionEnd::Superseded, "a newer session of this node was accepted");
        }
        self.epochs_stale = true;
    }

    /// The transport is gone.
    fn lost(&mut self, conn: ConnId) {
        if let Some(session) = self.sessions.remove(&conn) {
            self.forget(conn, &session, SessionEnd::HeartbeatLost);
        }
    }

    fn close(&mut self, conn: ConnId, code: SessionEnd, message: &str) {
        if let Some(session) = self.sessions.remove(&conn) {
            let node = session.node().clone();
            self.end(conn, Some(node), code, message);
            self.forget(conn, &session, code);
        }
    }

    fn end(&mut self, conn: ConnId, node: Option<NodeId>, code: SessionEnd, message: &str) {
        self.out.push(Output::Send { conn, frame: GatewayFrame::End { code, message: message.to_owned() } });
        self.out.push(Output::Close { conn, code });
        self.out.push(Output::Ended { node, code });
    }

    fn forget(&mut self, conn: ConnId, session: &Session, code: SessionEnd) {
        let node = session.node();
        if self.by_node.get(node) == Some(&conn) {
            self.by_node.remove(node);
            self.epochs_stale = true;
        }
        if let Some(epoch) = session.epoch() {
            self.store(StoreOp::Close { node: node.clone(), epoch, code }, Pending::Quiet);
        }
    }

    fn drain(&mut self, window_ms: u32) {
        self.draining = Some(window_ms);
        for (conn, session) in &self.sessions {
            if session.epoch().is_some() {
                self.out.push(Output::Send { conn: *conn, frame: GatewayFrame::Drain { window_ms } });
            }
        }
    }

    fn tick(&mut self, now: Instant) {
        if now >= self.dispatch_at {
            self.dispatch_at = now.plus(limits::DISPATCH_EVERY_MS);
            self.dispatch.wanted = true;
            self.cancels.wanted = true;
        }
        if now >= self.facts_at {
            self.facts_at = now.plus(FACTS_EVERY_MS);
            self.facts_errand.wanted = true;
        }
        if now >= self.closings_at {
            self.closings_at = now.plus(CLOSINGS_EVERY_MS);
            self.check_all = true;
            self.closings.wanted = true;
        }
        if now >= self.touch_at {
            self.touch_at = now.plus(TOUCH_EVERY_MS);
            let heard = self.sessions.values().filter_map(|session| Some((session.node().clone(), session.epoch()?)));
            let heard = heard.collect();
            self.store(StoreOp::Touch { heard }, Pending::Quiet);
        }
        let conns: Vec<ConnId> = self.sessions.keys().copied().collect();
        for conn in conns {
            self.in_session(now, conn, |session, _| session.tick(now));
        }
    }

    fn run_errands(&mut self, now: Instant) {
        if self.facts_errand.start(now) {
            self.store(StoreOp::Facts, Pending::Facts);
        }
        let epochs = self.epochs();
        if epochs.is_empty() {
            return;
        }
        if self.dispatch.start(now) {
            self.store(StoreOp::Dispatch { epochs: epochs.clone() }, Pending::Dispatch(epochs.clone()));
        }
        if self.cancels.start(now) {
            self.store(StoreOp::Cancels, Pending::Cancels);
        }
        if self.closings.start(now) {
            let wanted = std::mem::take(&mut self.to_check);
            let all = std::mem::take(&mut self.check_all);
            let epochs = epochs.iter().filter(|(node, _)| all || wanted.contains(*node));
            let epochs = epochs.map(|(node, epoch)| (node.clone(), *epoch)).collect();
            self.store(StoreOp::Closings { epochs }, Pending::Closings);
        }
    }

    fn epochs(&mut self) -> Arc<BTreeMap<NodeId, u64>> {
        if self.epochs_stale {
            self.epochs_stale = false;
            let sessions = self.by_node.iter();
            let held = sessions.filter_map(|(node, conn)| Some((node.clone(), self.sessions.get(conn)?.epoch()?)));
            self.epochs = Arc::new(held.collect());
        }
        self.epochs.clone()
    }

    fn store(&mut self, what: StoreOp, pending: Pending) {
        let op = OpId(self.next_op);
        self.next_op += 1;
        self.pending.insert(op, pending);
        self.out.push(Output::Store { op, what });
    }

    fn stored(&mut self, now: Instant, op: OpId, reply: Result<StoreReply, OpFailure>) {
        let Some(pending) = self.pending.remove(&op) else { return };
        let failed = reply.is_err();
        match pending {
            Pending::Session(conn) => self.in_session(now, conn, |session, facts| session.stored(now, facts, reply)),
            Pending::Quiet => {}
            Pending::Facts => {
                self.facts_errand.done(now, failed);
                if let Ok(StoreReply::Facts(facts)) = reply {
                    self.facts = facts;
                    let waiting: Vec<ConnId> = self
                        .sessions
                        .iter()
                        .filter(|(_, session)| session.wants_time())
                        .map(|(conn, _)| *conn)
                        .collect();
                    for conn in waiting {
                        self.in_session(now, conn, Session::time_is_known);
                    }
                }
            }
            Pending::Dispatch(epochs) => {
                self.dispatch.done(now, failed);
                self.dispatched(now, &epochs, reply);
            }
            Pending::Cancels => {
                self.cancels.done(now, failed);
                match reply {
                    Ok(StoreReply::Cancels(cancels)) => {
                        for (node, epoch, command_id, reason) in cancels {
                            let frame = GatewayFrame::Cancel { command_id, reason };
                            self.send_to(&node, epoch, frame);
                        }
                    }
                    Err(OpFailure::Unknown) => self.end_all(SessionEnd::EpochLost),
                    _ => {}
                }
            }
            Pending::Closings => {
                self.closings.done(now, failed);
                self.check_all |= failed;
                let Ok(StoreReply::Closings(closings)) = reply else { return };
                for (node, epoch, code) in closings {
                    if let Some(conn) = self.conn_of(&node, epoch) {
                        self.close(conn, code, "this session is no longer the node's");
                    }
                }
            }
        }
    }

    fn dispatched(&mut self, now: Instant, epochs: &BTreeMap<NodeId, u64>, reply: Result<StoreReply, OpFailure>) {
        match reply {
            Ok(StoreReply::Outgoing(outgoing)) => {
                if outgoing.len() >= limits::DISPATCH_ROWS_MAX as usize {
                    self.dispatch.wanted = true;
                    self.dispatch.not_before = now;
                }
                for command in outgoing {
                    self.send_to(&command.node, command.epoch, GatewayFrame::Command(command.delivery));
                }
            }
            // Rows may be marked as sent that were not: the next resume of those sessions sends them.
            Err(OpFailure::Unknown) => {
                for (node, epoch) in epochs {
                    if let Some(conn) = self.conn_of(node, *epoch) {
                        self.close(conn, SessionEnd::EpochLost, "the store's answer was lost");
                    }
                }
            }
            _ => {}
        }
    }

    fn end_all(&mut self, code: SessionEnd) {
        let conns: Vec<ConnId> = self.sessions.keys().copied().collect();
        conns.into_iter().for_each(|conn| self.close(conn, code, "the store's answer was lost"));
    }

    fn conn_of(&self, node: &NodeId, epoch: u64) -> Option<ConnId> {
        let conn = *self.by_node.get(node)?;
        (self.sessions.get(&conn)?.epoch() == Some(epoch)).then_some(conn)
    }

    /// Sends on the session of this very epoch, or not at all.
    fn send_to(&mut self, node: &NodeId, epoch: u64, frame: GatewayFrame) {
        if let Some(conn) = self.conn_of(node, epoch) {
            self.out.push(Output::Send { conn, frame });
        }
    }
}

impl Facts {
    pub(crate) fn statement(&self) -> TimeStatement {
        TimeStatement { signed: self.server_time.clone(), unsigned_ms: self.now }
    }
}
