//! How commands may end, that they stay ended, and what is left when everything is quiet.

use super::{Command, Events};
use crate::outside::gpus;
use crate::world::World;
use kernel::commands::{self, Attestation, CommandRow, ListFilter};
use kernel::outbox::{self, Filter};
use model::kind::timeout_ms;
use model::{CommandId, CommandState, EventClass, FailCode, JournalId, Kind, Role};
use std::collections::{BTreeMap, BTreeSet};

/// Rows of one page.
const ROWS: u32 = 1000;
/// How long a frame may be on its way in a quiet world, milliseconds.
const ON_ITS_WAY_MS: i64 = 60_000;

impl World {
    pub(crate) fn all_rows(&self) -> Vec<CommandRow> {
        self.read(|tx| commands::list(tx, &ListFilter::default(), None, ROWS))
    }

    /// A settled row stays as it is, and was settled for a reason.
    pub(crate) fn check_rows(&mut self) {
        for row in self.all_rows() {
            let ended =
                row.state.is_terminal().then(|| (row.state, row.code.clone(), row.settled_at.map_or(0, |at| at.0)));
            let Some(command) = self.known.commands.get(&row.id) else {
                self.fail(format!("a command {} that nobody made", row.id));
                return;
            };
            match (&command.ended, ended) {
                (None, None) => {}
                (Some(earlier), Some(ended)) if *earlier == ended => {}
                (None, Some(ended)) => {
                    self.ended(&row);
                    if let Some(command) = self.known.commands.get_mut(&row.id) {
                        command.ended = Some(ended);
                    }
                }
                (Some(earlier), now) => {
                    let what = format!("{} was settled as {earlier:?} and is {now:?}", row.id);
                    self.fail(what);
                }
            }
        }
    }

    fn ended(&mut self, row: &CommandRow) {
        let name =
            if row.code.is_empty() { row.state.name().to_owned() } else { format!("{} {}", row.state, row.code) };
        self.coverage.hit("settled", &name);
        self.note(format_args!("{} {} settled {name}", row.id, row.kind));
        let Some(command) = self.known.commands.get(&row.id) else { return };
        let stored = self.read(|tx| commands::result(tx, &row.id));
        let from_node = stored.as_ref().is_some_and(|stored| {
            command.outcomes.iter().any(|known| known.outcome == stored.outcome && known.result == stored.result)
        });
        let why = if let Some(stored) = &stored {
            if command.result_changed {
                changed_result(row)
            } else if !from_node {
                Some("its result is not what its node made durable")
            } else if stored.outcome.state() != row.state {
                Some("its state is not what its node reported")
            } else if command.attested != (row.attestation == Attestation::Verified) {
                Some("its result counts and was not verified")
            } else {
                None
            }
        } else {
            self.without_result(row, command)
        };
        if let Some(why) = why {
            self.fail(format!("{} ended {name}: {why}", row.id));
        }
    }

    /// What the control plane may settle by itself.
    fn without_result(&self, row: &CommandRow, command: &Command) -> Option<&'static str> {
        let node = &self.nodes[command.node];
        let is_retired = self.revoked.contains(node.id());
        let settled_at = row.settled_at.map_or(0, |at| at.0);
        let is_destructive = command.destructive();
        let code = row.code.as_str();
        let holds = match row.state {
            CommandState::Expired => settled_at >= command.not_after,
            CommandState::Cancelled => {
                (code == FailCode::CancelRequested.name() && command.cancel_asked)
                    || (code == FailCode::InvalidBody.name() && command.is_invalid)
                    || (code == FailCode::NodeRetired.name() && is_retired)
                    || (code == FailCode::TenantControlled.name() && self.plan.tenant_controlled && is_destructive)
                    || (code == FailCode::KindNotAllowed.name() && !is_allowed(&row.kind))
            }
            CommandState::Failed => {
                let times_out_at = command.not_after + timeout_ms(&row.kind);
                (code == FailCode::Timeout.name() && settled_at >= times_out_at)
                    || (code == FailCode::NodeRetired.name() && is_retired)
                    || (code == FailCode::JournalLost.name() && node.journals.len() > 1 && !command.retry_safe())
            }
            CommandState::Succeeded => code == "rebooted" && command.self_terminating() && node.boot > 1,
            _ => false,
        };
        (!holds).then_some("nothing says why")
    }

    /// What still waits for something.
    pub(crate) fn what_waits(&self) -> Vec<String> {
        let mut waiting: Vec<String> = self
            .all_rows()
            .iter()
            .filter(|row| !row.state.is_terminal())
            .map(|row| format!("{} is {}", row.id, row.state))
            .collect();
        for (n, node) in self.nodes.iter().enumerate() {
            if self.known.distrusted.contains(&n) {
                continue;
            }
            let Some(process) = &node.process else {
                waiting.push(format!("n{n} is down"));
                continue;
            };
            let journal = process.engine.journal();
            let facts = [
                (process.engine.session_epoch().is_none(), "has no session"),
                (process.engine.in_flight() > 0, "is at work"),
                (journal.unacked().next().is_some(), "has results nobody took"),
                (!process.deferred.is_empty(), "has deferred commands"),
                (journal.event_count() > 0, "has events nobody took"),
            ];
            waiting.extend(facts.iter().filter(|(is_so, _)| *is_so).map(|(_, what)| format!("n{n} {what}")));
        }
        waiting
    }

    /// Long after the last fault, what is in flight is known to its node, or it was lost on the way.
    pub(crate) fn check_in_flight(&mut self) {
        let now = self.server_now();
        for row in self.all_rows() {
            if !row.state.is_in_flight() || row.awaits_verification {
                continue;
            }
            let Some(command) = self.known.commands.get(&row.id) else { continue };
            let n = command.node;
            if self.known.distrusted.contains(&n) {
                continue;
            }
            let is_fresh = row.dispatched_at.is_some_and(|at| now - at.0 < ON_ITS_WAY_MS);
            let is_known = self.nodes[n].process.as_ref().is_some_and(|process| {
                process.open.contains_key(&row.id)
                    || process.deferred.contains(&row.id)
                    || process.refused.contains(&row.id)
                    || process.engine.journal().unacked().any(|(id, _)| *id == row.id)
            });
            let (is_rebooting, is_crowded_out) = (command.self_terminating(), command.crowded_out);
            self.require(is_fresh || is_known || is_rebooting || is_crowded_out, || {
                format!("{} is {} and its node knows nothing of it", row.id, row.state)
            });
        }
    }

    /// When nothing waits any more.
    pub(crate) fn check_end(&mut self) {
        let ids: Vec<CommandId> = self.known.commands.keys().cloned().collect();
        let rows: BTreeMap<CommandId, CommandRow> =
            self.all_rows().into_iter().map(|row| (row.id.clone(), row)).collect();
        for id in ids {
            if let (Some(row), Some(command)) = (rows.get(&id), self.known.commands.get(&id)) {
                let why = self.effects(row, command).or_else(|| self.result_arrived(row, command));
                if let Some(why) = why {
                    let what = format!("{id} ended {} {}: {why}", row.state, row.code);
                    self.fail(what);
                }
            }
        }
        self.check_outbox(&rows);
    }

    /// The host's own count against the outcome.
    fn effects(&self, row: &CommandRow, command: &Command) -> Option<&'static str> {
        let node = &self.nodes[command.node];
        let resets: BTreeSet<&String> =
            node.resets.iter().filter(|(id, _)| *id == row.id).map(|(_, gpu)| gpu).collect();
        let wanted = if row.kind == Kind::GpuReset.name() { gpus(&command.new.payload).len() } else { 0 };
        let may_have_run_before = command.retry_safe() && node.journals.len() > 1;
        // The store knows nothing of what a lying gateway repeats.
        let is_believed = !command.replayed && !command.result_changed;
        match row.state {
            CommandState::Succeeded if is_believed && resets.len() != wanted => Some("its effect did not happen"),
            CommandState::Cancelled | CommandState::Expired
                if is_believed && command.started > 0 && !may_have_run_before =>
            {
                Some("its effect may have happened")
            }
            // A full journal forgets refusals, and a gateway may first forge a command and then repeat it.
            CommandState::Rejected if is_believed && command.started > 0 && !command.retry_safe() => {
                Some("its effect may have happened")
            }
            _ => None,
        }
    }

    /// A durable result of a journal that still exists is what is stored, or came too late by the rules.
    fn result_arrived(&self, row: &CommandRow, command: &Command) -> Option<&'static str> {
        let node = &self.nodes[command.node];
        if command.result_changed || self.known.distrusted.contains(&command.node) {
            return None;
        }
        let durable = command.outcomes.iter().find(|known| node.journals.last() == Some(&known.journal))?;
        let stored = self.read(|tx| commands::result(tx, &row.id));
        match stored {
            Some(stored) => {
                let is_known = command
                    .outcomes
                    .iter()
                    .any(|known| known.outcome == stored.outcome && known.result == stored.result);
                (!is_known).then_some("its node made another result durable")
            }
            None => {
                let by_itself = [FailCode::Timeout.name(), FailCode::JournalLost.name(), "rebooted"];
                let is_ruled = by_itself.contains(&row.code.as_str())
                    || command.replayed
                    || node.forged.contains(&row.id)
                    || durable.outcome == model::Outcome::Cancelled;
                (!is_ruled).then_some("the result its node made durable was lost")
            }
        }
    }

    /// What was published: each settlement once, each event once and in order, positions without a hole.
    fn check_outbox(&mut self, rows: &BTreeMap<CommandId, CommandRow>) {
        while self.read(|tx| outbox::sequence(tx, ROWS)) > 0 {}
        let mut settled: BTreeMap<String, u32> = BTreeMap::new();
        let mut events: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let mut gaps: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
        let mut after = 0;
        loop {
            let page = self.store.run(|tx| outbox::read(tx, after, ROWS, &Filter::default()));
            let Ok((page, _)) = page else { return self.fail("the outbox cannot be read from its start") };
            for event in page.events {
                let is_next = event.position == after + 1;
                self.require(is_next, || format!("position {} after {after}", event.position));
                after = event.position;
                let number = |name: &str| event.payload[name].as_u64().unwrap_or(0);
                let journal = event.payload["journalId"].as_str().unwrap_or_default().to_owned();
                match event.topic.as_str() {
                    "command.settled" => *settled.entry(event.key).or_default() += 1,
                    "node.event" => events.entry(journal).or_default().push(number("seq")),
                    "node.events-gap" => {
                        self.coverage.hit("events", "gap recorded");
                        gaps.entry(journal).or_default().push((number("first"), number("last")));
                    }
                    _ => {}
                }
            }
            if page.at_end {
                break;
            }
        }
        for (id, row) in rows {
            let count = settled.get(id.as_str()).copied().unwrap_or(0);
            let expected = u32::from(row.state.is_terminal());
            self.require(count == expected, || format!("{id} is {} and was published {count} times", row.state));
        }
        self.check_events(&events, &gaps);
    }

    fn check_events(&mut self, stored: &BTreeMap<String, Vec<u64>>, gaps: &BTreeMap<String, Vec<(u64, u64)>>) {
        let current: BTreeSet<JournalId> = (0..self.nodes.len())
            .filter(|n| !self.known.distrusted.contains(n))
            .filter_map(|n| self.nodes[n].journals.last().cloned())
            .collect();
        let mut faults = Vec::new();
        for (journal, events) in &self.known.events {
            let none = Vec::new();
            let seqs = stored.get(journal.as_str()).unwrap_or(&none);
            if seqs.windows(2).any(|pair| pair[0] >= pair[1]) {
                faults.push(format!("events of {journal} are stored out of order or twice: {seqs:?}"));
            }
            let in_gap = |seq: u64| {
                gaps.get(journal.as_str())
                    .is_some_and(|gaps| gaps.iter().any(|(first, last)| (*first..=*last).contains(&seq)))
            };
            let newest = seqs.last().copied().unwrap_or(0);
            let lost = events.written.keys().find(|seq| {
                let is_due = **seq <= newest || current.contains(journal);
                let is_there = seqs.binary_search(seq).is_ok();
                is_due && !is_there && !may_be_missing(events, **seq, in_gap(**seq))
            });
            if let Some(seq) = lost {
                faults.push(format!("event {seq} of {journal} was lost"));
            }
        }
        for fault in faults {
            self.fail(fault);
        }
    }
}

/// A metric that its journal gave up, which the store knows as a gap if anything came after it.
fn may_be_missing(events: &Events, seq: u64, in_gap: bool) -> bool {
    let is_metric = events.written.get(&seq) == Some(&EventClass::Metric);
    let is_last = events.written.keys().next_back() == Some(&seq);
    is_metric && events.dropped.contains(&seq) && (in_gap || is_last || events.stored < seq)
}

/// A changed result counts for nothing, unless the change was made to one that came too late.
fn changed_result(row: &CommandRow) -> Option<&'static str> {
    let is_forged = row.attestation == Attestation::Forged && row.code == FailCode::BadAttestation.name();
    let is_genuine = row.attestation == Attestation::Verified;
    (!is_forged && !is_genuine && row.code != FailCode::Timeout.name()).then_some("a changed result counts")
}

fn is_allowed(kind: &str) -> bool {
    Kind::parse(kind).is_some_and(|kind| kind.runs_on(Role::Node))
}
