//! Drives the session machine: everything that happens to a daemon becomes one `Input`, every `Output` is
//! carried out, and nothing is decided here.
//!
//! ```text
//! workers, renewals, status ─▶ Event ─┐                 ┌─▶ Commit ─▶ journal thread ─▶ Committed
//! link ─▶ Frame, LinkDown ────────────┼─▶ Engine::step ─┼─▶ Send, Connect, Disconnect ─▶ link
//! timer ─▶ Tick ──────────────────────┘                 └─▶ Start, Cancel ─▶ workers
//! ```

use crate::clock::AgentClock;
use crate::conditions::{Conditions, JOURNAL_FULL};
use crate::decisions;
use crate::inventory::Observed;
use crate::journal_thread::JournalThread;
use crate::keeper::Keeper;
use crate::kinds::Workers;
use crate::link::{Closing, Incoming, Link};
use crate::outside::NodeOutside;
use crate::process;
use crate::status::{self, StatusDocument};
use crate::transport::{self, Client, ConnectError, Gateway};
use model::frame::{Signed, StatusReport};
use model::{CommandId, EventClass, ServerTimeMs};
use node_core::{Busy, Decision, Engine, Input, Output, WorkResult};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use stdx::clock::{Instant, boottime};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Interval, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

/// Status goes out this often even when nothing changed, for its gauges.
const STATUS_EVERY: Duration = Duration::from_secs(60);
const METRICS_EVERY: Duration = Duration::from_secs(5 * 60);
/// The engine always wants to be woken within this.
const SLEEP_MOST_MS: u64 = 60_000;
/// Changes of `identity.json` that wait for the disk.
pub const KEEP_QUEUE: usize = 64;

/// What the rest of the daemon tells the driver.
#[derive(Debug)]
pub enum Event {
    Finished {
        id: CommandId,
        result: WorkResult,
    },
    Inventory(Observed),
    /// The simulated machine under this node was rebooted.
    RestartSimulated,
    Renewed {
        serial: String,
        not_after_ms: i64,
    },
    /// Somebody asks at the status socket.
    Status(oneshot::Sender<StatusDocument>),
}

/// A change of `identity.json` that the machine asked for.
#[derive(Debug)]
pub enum Keep {
    Bundle(Signed),
    Mark(ServerTimeMs),
}

/// Why the driver returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Stopped,
    /// The daemon starts again, in the next boot of its simulated machine.
    RestartSimulated,
}

type Connecting = Pin<Box<dyn Future<Output = Result<Client, ConnectError>> + Send>>;

/// The parts a driver is made of.
pub struct Parts {
    pub engine: Engine<NodeOutside>,
    pub journal: JournalThread,
    pub workers: Workers,
    pub events: mpsc::Receiver<Event>,
    pub keep: mpsc::Sender<Keep>,
    pub keeper: Keeper,
    pub gateway: Gateway,
    pub clock: AgentClock,
    pub conditions: Arc<Conditions>,
    pub about: status::About,
    /// Inputs to begin with, after the start: what happened before there was an engine.
    pub first: Vec<Input>,
}

pub struct Driver {
    parts: Parts,
    connecting: Option<Connecting>,
    link: Option<Link>,
    /// The session that ended last: its goodbye may still be on the way.
    closing: Option<Closing>,
    /// What carrying out an output led to.
    inputs: VecDeque<Input>,
    started: Instant,
    status_tick: Interval,
    metrics_tick: Interval,
    restarts: bool,
}

fn every(period: Duration, first: Duration) -> Interval {
    let mut ticks = interval_at(tokio::time::Instant::now() + first, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

impl Driver {
    pub fn new(parts: Parts) -> Self {
        Self {
            parts,
            connecting: None,
            link: None,
            closing: None,
            inputs: VecDeque::new(),
            started: boottime(),
            status_tick: every(STATUS_EVERY, Duration::ZERO),
            metrics_tick: every(METRICS_EVERY, METRICS_EVERY),
            restarts: false,
        }
    }

    /// Runs until `stop`, or until a simulated machine reboots.
    pub async fn run(mut self, stop: CancellationToken) -> Exit {
        self.step(Input::Start).await;
        for input in std::mem::take(&mut self.parts.first) {
            self.step(input).await;
        }
        while !self.restarts {
            let sleep = self.until_wake();
            let input = tokio::select! {
                // Cancel-safe: a token only ever changes to cancelled.
                () = stop.cancelled() => break,
                // Cancel-safe: a channel gives a message up only to a receiver that takes it.
                Some(ticket) = self.parts.journal.committed.recv() => Some(Input::Committed(ticket)),
                // Cancel-safe, likewise.
                Some(event) = self.parts.events.recv() => self.happened(event),
                // Cancel-safe: the attempt is kept in `connecting` and polled again.
                result = finished(&mut self.connecting) => Some(self.connected(result)),
                // Cancel-safe: see `Link::next`.
                incoming = received(&mut self.link) => Some(self.received(incoming)),
                // Cancel-safe: an interval counts ticks, not polls.
                _ = self.status_tick.tick() => Some(Input::Status(self.status_report())),
                // Cancel-safe, likewise.
                _ = self.metrics_tick.tick() => Some(self.metrics()),
                // Cancel-safe: the time to wake is computed anew each round.
                () = tokio::time::sleep(sleep) => Some(Input::Tick),
            };
            if let Some(input) = input {
                self.step(input).await;
            }
        }
        self.finish().await
    }

    async fn finish(mut self) -> Exit {
        let exit = if self.restarts { Exit::RestartSimulated } else { Exit::Stopped };
        if exit == Exit::Stopped {
            self.step(Input::Stop).await;
        }
        drop(self.link);
        drop(self.parts.events);
        self.parts.workers.end().await;
        if let Some(closing) = self.closing
            && closing.await.is_err()
        {
            tracing::debug!("the last session was cut off");
        }
        // The journal is free for the next process once its thread is gone.
        self.parts.journal.close().await;
        exit
    }

    fn until_wake(&self) -> Duration {
        let now = boottime();
        let wake = self.parts.engine.next_wake().map_or(SLEEP_MOST_MS, |at| at.since(now));
        Duration::from_millis(wake.min(SLEEP_MOST_MS))
    }

    async fn step(&mut self, input: Input) {
        self.inputs.push_back(input);
        while let Some(input) = self.inputs.pop_front() {
            let now = boottime();
            let outputs = self.parts.engine.step(now, input);
            if self.parts.engine.session_epoch().is_some() {
                self.parts.clock.tell(self.parts.engine.server_time(now));
            }
            for output in outputs {
                self.carry_out(output).await;
            }
        }
    }

    async fn carry_out(&mut self, output: Output) {
        match output {
            Output::Connect => self.connect(),
            Output::Disconnect(_) => self.closing = self.link.take().map(Link::close),
            Output::Send(frame) => {
                if self.link.as_ref().is_some_and(|link| !link.send(frame)) {
                    tracing::warn!("the gateway stopped reading");
                    self.link = None;
                    self.inputs.push_back(Input::LinkDown);
                }
            }
            Output::Commit(ticket, mutations) => self.parts.journal.commit(ticket, mutations).await,
            Output::Start(work) => self.parts.workers.start(work),
            Output::Cancel(id) => self.parts.workers.cancel(&id),
            Output::StoreBundle(signed) => self.keep(Keep::Bundle(signed)).await,
            Output::MirrorMark(mark) => self.keep(Keep::Mark(mark)).await,
            // Nothing of this version asks about tickets; what tunnels need of the journal is there.
            Output::Ticket { .. } => {}
            Output::Decided(decision) => self.decided(&decision),
        }
    }

    async fn keep(&mut self, change: Keep) {
        if self.parts.keep.send(change).await.is_err() {
            tracing::error!("identity.json is no longer written");
        }
    }

    /// The certificate of this moment: a renewed one is used from the next connection on.
    fn connect(&mut self) {
        let (gateway, clock) = (self.parts.gateway.clone(), self.parts.clock.clone());
        let tls = self.parts.keeper.credentials().tls();
        self.connecting = Some(Box::pin(async move { transport::connect(&gateway, Some(&tls), &clock).await }));
    }

    fn connected(&mut self, result: Result<Client, ConnectError>) -> Input {
        self.connecting = None;
        match result {
            Ok(client) => {
                self.link = Some(Link::open(client));
                Input::LinkUp
            }
            Err(error) => {
                tracing::warn!(error = stdx::error::chain(&error), "the gateway cannot be reached");
                Input::LinkDown
            }
        }
    }

    fn received(&mut self, incoming: Incoming) -> Input {
        match incoming {
            Incoming::Frame(frame) => Input::Frame(frame),
            Incoming::Bad(code, why) => {
                tracing::error!(code = code.name(), why, "the gateway sent a bad frame");
                Input::BadFrame(code)
            }
            Incoming::Gone(why) => {
                tracing::warn!(why, "the transport is gone");
                self.link = None;
                Input::LinkDown
            }
        }
    }

    fn happened(&mut self, event: Event) -> Option<Input> {
        match event {
            Event::Finished { id, result } => Some(Input::Finished { id, result }),
            Event::Inventory(observed) => {
                if observed.is_changed {
                    let digest = observed.report.digest.clone();
                    self.inputs.push_back(transition("inventory.changed", [("digest", digest)]));
                }
                Some(Input::Inventory(observed.report))
            }
            Event::RestartSimulated => {
                self.restarts = true;
                None
            }
            Event::Renewed { serial, not_after_ms } => {
                let attributes = [("serial", serial), ("not_after_ms", not_after_ms.to_string())];
                Some(transition("certificate.renewed", attributes))
            }
            Event::Status(reply) => {
                // Whoever asked may be gone.
                if reply.send(self.status_document()).is_err() {
                    tracing::debug!("nobody waits for the status any more");
                }
                None
            }
        }
    }

    fn decided(&mut self, decision: &Decision) {
        decisions::log(&self.parts.about.node_id, decision);
        let now = boottime();
        let conditions = &self.parts.conditions;
        let is_news = match decision {
            Decision::Busy { why: Busy::JournalFull, .. } => {
                conditions.raise(JOURNAL_FULL, "", "commands are answered BUSY until results are acknowledged", now)
            }
            Decision::Accepted { .. } => conditions.clear(JOURNAL_FULL, ""),
            Decision::SpecApplied { .. } => true,
            _ => false,
        };
        if is_news {
            self.inputs.push_back(Input::Status(self.status_report()));
        }
    }

    /// Before specs exist only empty ones are applied, and those have converged at once.
    fn status_report(&self) -> StatusReport {
        let meta = self.parts.engine.journal().meta();
        StatusReport {
            applied_generation: meta.applied_generation,
            observed_generation: meta.applied_generation,
            applied_spec_hash: meta.applied_spec_hash.clone(),
            conditions: self.parts.conditions.report(boottime()),
            gauges: self.gauges(),
        }
    }

    fn gauges(&self) -> Vec<(String, i64)> {
        let journal = self.parts.engine.journal();
        [
            ("commands_in_flight", self.parts.engine.in_flight() as i64),
            ("journal_bytes", journal.bytes() as i64),
            ("journal_events", i64::from(journal.event_count())),
            ("resident_bytes", process::resident_bytes() as i64),
            ("uptime_ms", boottime().since(self.started) as i64),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn metrics(&self) -> Input {
        let attributes = self.gauges().into_iter().map(|(name, value)| (name, value.to_string())).collect();
        Input::Observed { class: EventClass::Metric, kind: "daemon.metrics".to_owned(), attributes, body: None }
    }

    fn status_document(&self) -> StatusDocument {
        let engine = &self.parts.engine;
        let leaf = self.parts.keeper.credentials().leaf();
        StatusDocument {
            about: self.parts.about.clone(),
            session_epoch: engine.session_epoch(),
            server_time_ms: self.parts.clock.is_told().then(|| engine.server_time(boottime()).0),
            certificate_serial: leaf.serial_hex,
            certificate_not_after_ms: leaf.not_after_ms,
            journal_id: engine.journal().meta().journal_id.to_string(),
            results_unacked: engine.journal().unacked().count(),
            applied_generation: engine.journal().meta().applied_generation,
            conditions: self.parts.conditions.report(boottime()),
            gauges: self.gauges(),
        }
    }
}

/// A transition event with its attributes.
pub fn transition<const N: usize>(kind: &str, attributes: [(&str, String); N]) -> Input {
    let attributes = attributes.map(|(name, value)| (name.to_owned(), value)).into();
    Input::Observed { class: EventClass::Transition, kind: kind.to_owned(), attributes, body: None }
}

/// Waits for an attempt to connect; for ever when there is none.
async fn finished(connecting: &mut Option<Connecting>) -> Result<Client, ConnectError> {
    match connecting {
        Some(attempt) => attempt.await,
        None => std::future::pending().await,
    }
}

/// Waits for a frame; for ever when there is no link.
async fn received(link: &mut Option<Link>) -> Incoming {
    match link {
        Some(link) => link.next().await,
        None => std::future::pending().await,
    }
}
