//! What the journal remembers, as a value, and every way it can change.
//!
//! [`JournalState`] is exactly the fold of the [`Mutation`]s on disk; the same `apply` runs when a
//! commit became durable and when the file is read back, so memory and disk cannot disagree.

use model::frame::{Event, Settled, Signed};
use model::{BootId, CommandId, EventClass, IncarnationId, JournalId, Kind, Lane, NodeId, ServerTimeMs, limits};
use std::collections::BTreeMap;

/// The `meta` part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    pub node_id: NodeId,
    pub journal_id: JournalId,
    /// Server time this journal was born at (F-Q13).
    pub birth: ServerTimeMs,
    pub last_epoch: u64,
    /// The sequence of the newest event written, acknowledged or not.
    pub event_seq: u64,
    /// Events up to this are acknowledged.
    pub acked_event_seq: u64,
    pub applied_generation: u64,
    pub applied_spec_hash: String,
    pub time_mark: ServerTimeMs,
}

/// What is remembered of a command from its acceptance on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub id: CommandId,
    pub kind: Kind,
    pub lane: Lane,
    pub seq: u64,
    pub retry_safe: bool,
    pub self_terminating: bool,
    pub attested: bool,
    /// The process that accepted it.
    pub incarnation: IncarnationId,
    pub at: ServerTimeMs,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// `None` for a command that was refused or cancelled before it was accepted.
    pub accepted: Option<Accepted>,
    pub state: EntryState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryState {
    Accepted,
    /// A self-terminating effect was about to start in this boot.
    Running {
        boot_id: BootId,
    },
    Done(DoneEntry),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoneEntry {
    pub settled: Settled,
    /// The boot that produced it.
    pub boot_id: BootId,
    pub at: ServerTimeMs,
    /// The control plane has stored it; it is no longer replayed and may be swept.
    pub acked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// The first record of a journal.
    Created {
        node_id: NodeId,
        journal_id: JournalId,
        birth: ServerTimeMs,
        time_mark: ServerTimeMs,
    },
    Accepted(Accepted),
    Running {
        id: CommandId,
        boot_id: BootId,
    },
    Done {
        id: CommandId,
        settled: Settled,
        boot_id: BootId,
        at: ServerTimeMs,
    },
    ResultsAcked(Vec<CommandId>),
    Swept(Vec<CommandId>),
    Event(Event),
    /// Metric events given up by a full journal.
    EventsDropped(Vec<u64>),
    EventsAcked(u64),
    Epoch(u64),
    TimeMark(ServerTimeMs),
    Spec {
        generation: u64,
        spec_hash: String,
        signed: Signed,
    },
    /// An exec ticket was used; its `jti` counts until the ticket expires.
    TicketUsed {
        jti: String,
        expires_at: ServerTimeMs,
    },
    TicketsForgotten(Vec<String>),
}

/// Bounds, at most those of `model::limits`; `config.toml` may lower them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalLimits {
    pub bytes_max: u64,
    pub events_max: u32,
}

impl Default for JournalLimits {
    fn default() -> Self {
        Self { bytes_max: limits::JOURNAL_BYTES_MAX, events_max: limits::JOURNAL_EVENTS_MAX }
    }
}

/// Accounted for each entry and event beside its own bytes.
const OVERHEAD_BYTES: u64 = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalState {
    meta: Meta,
    commands: BTreeMap<CommandId, Entry>,
    events: BTreeMap<u64, Event>,
    spec: Option<Signed>,
    tickets: BTreeMap<String, ServerTimeMs>,
    bytes: u64,
}

impl JournalState {
    /// The state after the first record, `None` when `mutation` is not one.
    pub fn created(mutation: &Mutation) -> Option<Self> {
        let Mutation::Created { node_id, journal_id, birth, time_mark } = mutation else { return None };
        let meta = Meta {
            node_id: node_id.clone(),
            journal_id: journal_id.clone(),
            birth: *birth,
            last_epoch: 0,
            event_seq: 0,
            acked_event_seq: 0,
            applied_generation: 0,
            applied_spec_hash: String::new(),
            time_mark: *time_mark,
        };
        Some(Self {
            meta,
            commands: BTreeMap::new(),
            events: BTreeMap::new(),
            spec: None,
            tickets: BTreeMap::new(),
            bytes: OVERHEAD_BYTES,
        })
    }

    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    pub fn entry(&self, id: &CommandId) -> Option<&Entry> {
        self.commands.get(id)
    }

    pub fn entries(&self) -> impl Iterator<Item = (&CommandId, &Entry)> {
        self.commands.iter()
    }

    pub fn spec(&self) -> Option<&Signed> {
        self.spec.as_ref()
    }

    /// Used exec tickets and when each expires.
    pub fn tickets(&self) -> &BTreeMap<String, ServerTimeMs> {
        &self.tickets
    }

    /// Unacknowledged events, oldest first.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.events.values()
    }

    pub fn events_after(&self, seq: u64) -> impl Iterator<Item = &Event> {
        self.events.range(seq + 1..).map(|(_, event)| event)
    }

    pub fn event_count(&self) -> u32 {
        self.events.len() as u32
    }

    /// Live bytes: what a rewritten journal would hold, and what the bound counts.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Settled and not yet acknowledged, in id order.
    pub fn unacked(&self) -> impl Iterator<Item = (&CommandId, &DoneEntry)> {
        self.commands.iter().filter_map(|(id, entry)| match &entry.state {
            EntryState::Done(done) if !done.acked => Some((id, done)),
            _ => None,
        })
    }

    /// Applies one durable mutation. Applying one twice changes nothing more.
    pub fn apply(&mut self, mutation: &Mutation) {
        match mutation {
            Mutation::Created { .. } => {}
            Mutation::Accepted(accepted) => self.accept(accepted),
            Mutation::Running { id, boot_id } => {
                if let Some(entry) =
                    self.commands.get_mut(id).filter(|entry| !matches!(entry.state, EntryState::Done(_)))
                {
                    entry.state = EntryState::Running { boot_id: boot_id.clone() };
                }
            }
            Mutation::Done { id, settled, boot_id, at } => self.settle(id, settled, boot_id, *at),
            Mutation::ResultsAcked(ids) => self.acknowledge(ids),
            Mutation::Swept(ids) => ids.iter().for_each(|id| self.remove(id)),
            Mutation::Event(event) => {
                self.meta.event_seq = self.meta.event_seq.max(event.seq);
                if event.seq > self.meta.acked_event_seq && !self.events.contains_key(&event.seq) {
                    self.bytes += event_bytes(event);
                    self.events.insert(event.seq, event.clone());
                }
            }
            Mutation::EventsDropped(seqs) => seqs.iter().for_each(|seq| self.drop_event(*seq)),
            Mutation::EventsAcked(seq) => {
                self.meta.acked_event_seq = self.meta.acked_event_seq.max(*seq);
                let acked: Vec<u64> = self.events.range(..=*seq).map(|(seq, _)| *seq).collect();
                acked.into_iter().for_each(|seq| self.drop_event(seq));
            }
            Mutation::Epoch(epoch) => self.meta.last_epoch = self.meta.last_epoch.max(*epoch),
            Mutation::TimeMark(mark) => self.meta.time_mark = self.meta.time_mark.max(*mark),
            Mutation::Spec { generation, spec_hash, signed } => {
                self.meta.applied_generation = *generation;
                self.meta.applied_spec_hash.clone_from(spec_hash);
                self.spec = Some(signed.clone());
            }
            Mutation::TicketUsed { jti, expires_at } => {
                if self.tickets.insert(jti.clone(), *expires_at).is_none() {
                    self.bytes += ticket_bytes(jti);
                }
            }
            Mutation::TicketsForgotten(jtis) => {
                for jti in jtis {
                    if self.tickets.remove(jti).is_some() {
                        self.bytes -= ticket_bytes(jti);
                    }
                }
            }
        }
    }

    /// Everything alive as mutations that rebuild it, for a rewrite of the file.
    pub fn snapshot(&self) -> Vec<Mutation> {
        let meta = &self.meta;
        let mut all = vec![Mutation::Created {
            node_id: meta.node_id.clone(),
            journal_id: meta.journal_id.clone(),
            birth: meta.birth,
            time_mark: meta.time_mark,
        }];
        all.push(Mutation::Epoch(meta.last_epoch));
        if let Some(signed) = &self.spec {
            let (generation, spec_hash) = (meta.applied_generation, meta.applied_spec_hash.clone());
            all.push(Mutation::Spec { generation, spec_hash, signed: signed.clone() });
        }
        for (id, entry) in &self.commands {
            all.extend(entry.accepted.iter().cloned().map(Mutation::Accepted));
            match &entry.state {
                EntryState::Accepted => {}
                EntryState::Running { boot_id } => {
                    all.push(Mutation::Running { id: id.clone(), boot_id: boot_id.clone() });
                }
                EntryState::Done(done) => {
                    let DoneEntry { settled, boot_id, at, acked } = done.clone();
                    all.push(Mutation::Done { id: id.clone(), settled, boot_id, at });
                    if acked {
                        all.push(Mutation::ResultsAcked(vec![id.clone()]));
                    }
                }
            }
        }
        let tickets = self.tickets.iter();
        all.extend(tickets.map(|(jti, expires_at)| Mutation::TicketUsed { jti: jti.clone(), expires_at: *expires_at }));
        // The acknowledgement goes first: an event at or below it is not taken back.
        all.push(Mutation::EventsAcked(meta.acked_event_seq));
        all.extend(self.events.values().cloned().map(Mutation::Event));
        if self.events.keys().next_back().copied().unwrap_or(0) < meta.event_seq {
            all.push(Mutation::Event(tombstone(meta.event_seq)));
            all.push(Mutation::EventsDropped(vec![meta.event_seq]));
        }
        all
    }

    /// The oldest metric events, enough that `incoming` bytes and one more event fit.
    pub fn droppable_metrics(&self, limits: &JournalLimits, incoming: u64) -> Vec<u64> {
        let mut count = u64::from(self.event_count()) + 1;
        let mut bytes = self.bytes + incoming;
        let mut dropped = Vec::new();
        for event in self.events.values() {
            if count <= u64::from(limits.events_max) && bytes <= limits.bytes_max {
                break;
            }
            if event.class == EventClass::Metric {
                count -= 1;
                bytes -= event_bytes(event);
                dropped.push(event.seq);
            }
        }
        dropped
    }

    /// Accepting again after a crash keeps a `running` mark: if its boot has ended by the next start, the
    /// reboot was this command's.
    fn accept(&mut self, accepted: &Accepted) {
        let state = match self.commands.get(&accepted.id).map(|entry| &entry.state) {
            Some(EntryState::Running { boot_id }) => EntryState::Running { boot_id: boot_id.clone() },
            Some(EntryState::Accepted) | None => EntryState::Accepted,
            Some(EntryState::Done(_)) => return,
        };
        self.put(accepted.id.clone(), Entry { accepted: Some(accepted.clone()), state });
    }

    fn settle(&mut self, id: &CommandId, settled: &Settled, boot_id: &BootId, at: ServerTimeMs) {
        let done = DoneEntry { settled: settled.clone(), boot_id: boot_id.clone(), at, acked: false };
        let accepted = match self.commands.get(id) {
            Some(Entry { state: EntryState::Done(_), .. }) => return,
            Some(entry) => entry.accepted.clone(),
            None => None,
        };
        self.put(id.clone(), Entry { accepted, state: EntryState::Done(done) });
    }

    fn acknowledge(&mut self, ids: &[CommandId]) {
        for id in ids {
            if let Some(Entry { state: EntryState::Done(done), .. }) = self.commands.get_mut(id) {
                done.acked = true;
            }
        }
    }

    fn put(&mut self, id: CommandId, entry: Entry) {
        self.remove(&id);
        self.bytes += entry_bytes(&entry);
        self.commands.insert(id, entry);
    }

    fn remove(&mut self, id: &CommandId) {
        if let Some(entry) = self.commands.remove(id) {
            self.bytes -= entry_bytes(&entry);
        }
    }

    fn drop_event(&mut self, seq: u64) {
        if let Some(event) = self.events.remove(&seq) {
            self.bytes -= event_bytes(&event);
        }
    }
}

/// Keeps the event sequence across a rewrite when its newest event is already gone.
fn tombstone(seq: u64) -> Event {
    Event { seq, class: EventClass::Metric, report: Vec::new(), node_sig: None }
}

pub(crate) fn event_bytes(event: &Event) -> u64 {
    OVERHEAD_BYTES + event.report.len() as u64 + event.node_sig.as_ref().map_or(0, signed_bytes)
}

fn ticket_bytes(jti: &str) -> u64 {
    OVERHEAD_BYTES / 4 + jti.len() as u64
}

fn entry_bytes(entry: &Entry) -> u64 {
    match &entry.state {
        EntryState::Done(done) => {
            let signature = done.settled.node_sig.as_ref().map_or(0, signed_bytes);
            OVERHEAD_BYTES + done.settled.result.len() as u64 + signature
        }
        EntryState::Accepted | EntryState::Running { .. } => OVERHEAD_BYTES,
    }
}

fn signed_bytes(signed: &Signed) -> u64 {
    let chain: usize = signed.chain.iter().map(Vec::len).sum();
    (signed.body.len() + chain + signed.signature.len()) as u64
}
