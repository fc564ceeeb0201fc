//! What a daemon may decide, say, start and write.

use super::Durable;
use crate::coverage::decision_name;
use crate::node::Process;
use crate::outside::{IMPLEMENTED, gpus};
use crate::world::World;
use model::frame::{AgentFrame, CommandUpdate, UpdateState};
use model::limits::JOURNAL_DONE_KEPT_MS;
use model::{CommandId, Kind, Outcome, RejectReason, ServerTimeMs};
use node_core::{Decision, EntryState, JournalState, Mutation, Work};
use std::collections::BTreeSet;
use stdx::clock::Instant;

/// How far a node's time may be behind the world's when it says that something is old, milliseconds.
const SLACK_MS: i64 = 600_000;

impl World {
    pub(crate) fn node_decides(&mut self, n: usize, process: &mut Process, decision: &Decision, now: Instant) {
        self.coverage.hit("decision", &decision_name(decision));
        self.note(format_args!("n{n} {decision:?}"));
        let holds = match decision {
            Decision::Accepted { id, .. } => self.may_accept(n, process, id, now),
            Decision::Rejected { id, reason } => self.may_reject(n, process, id, *reason, now),
            Decision::Deferred { id } => self.may_defer(n, process, id),
            Decision::Cancelled { id } => self.may_cancel(n, id),
            Decision::JournalLost { .. } if self.nodes[n].journals.len() < 2 => Err("no journal was lost"),
            Decision::SessionUp { .. } => {
                if let Some(stated) = process.welcomed.take() {
                    process.hears_time(stated, now);
                }
                Ok(())
            }
            _ => Ok(()),
        };
        if let Decision::Busy { id: Some(id), .. } = decision
            && let Some(command) = self.known.commands.get_mut(id)
        {
            // A lane full of what a lying gateway sent before its turn.
            command.crowded_out |= self.plan.lie_every_ms.is_some() && command.started > 0;
        }
        if let Some(id) = settles(decision) {
            process.deferred.remove(id);
        }
        if let Err(why) = holds {
            self.fail(format!("n{n} {decision:?}: {why}"));
        }
        match decision {
            Decision::Deferred { id } => {
                process.deferred.insert(id.clone());
            }
            Decision::Rejected { id, .. } | Decision::JournalLost { id } => {
                process.refused.insert(id.clone());
            }
            Decision::Cancelled { id } | Decision::Interrupted { id } => {
                process.refused.insert(id.clone());
            }
            Decision::SessionDown { .. } => process.upgrade_only = false,
            _ => {}
        }
    }

    fn may_accept(
        &mut self,
        n: usize,
        process: &mut Process,
        id: &CommandId,
        now: Instant,
    ) -> Result<(), &'static str> {
        let command = self.known.commands.get(id).ok_or("nobody made it")?;
        let node = &self.nodes[n];
        let is_late = process.time_at_least(now).is_none_or(|time| time > command.not_after);
        let applied = process.engine.journal().meta().applied_generation;
        let is_implemented = Kind::parse(&command.new.kind).is_some_and(|kind| IMPLEMENTED.contains(&kind));
        process.open.insert(id.clone(), command.lane);
        let used = process.open.values().filter(|lane| **lane == command.lane).count();
        let faults = [
            (command.node != n, "it is another node's"),
            (!is_implemented, "nothing here runs it"),
            (is_late, "its time to start has passed"),
            (!node.genuine.contains(id), "nobody who may signed it"),
            (command.new.min_generation > applied, "the spec it presupposes is not here"),
            (command.destructive() && node.awaits_approvers, "the approvers are not known"),
            (used > command.lane.credits() as usize, "its lane has no credit left"),
        ];
        first_fault(&faults)
    }

    fn may_reject(
        &mut self,
        n: usize,
        process: &Process,
        id: &CommandId,
        reason: RejectReason,
        now: Instant,
    ) -> Result<(), &'static str> {
        let Some(command) = self.known.commands.get(id) else { return Ok(()) };
        let node = &self.nodes[n];
        let is_implemented = Kind::parse(&command.new.kind).is_some_and(|kind| IMPLEMENTED.contains(&kind));
        let is_foreign = command.node != n;
        let applied = process.engine.journal().meta().applied_generation;
        let is_late = process.engine.server_time(now).0 > command.not_after;
        let was_forged = node.forged.contains(id);
        let unsupported = is_foreign || !is_implemented || process.upgrade_only;
        let because = match reason {
            RejectReason::Unsupported => unsupported,
            RejectReason::StaleGeneration => is_late && command.new.min_generation > applied,
            RejectReason::Expired => is_late,
            RejectReason::BadSignature => was_forged,
            RejectReason::BatchUnapproved => command.destructive() && node.awaits_approvers,
            RejectReason::UnbatchedLimit | RejectReason::Busy => false,
        };
        let faults = [
            (is_foreign && reason != RejectReason::Unsupported, "another node's command is UNSUPPORTED"),
            (!because && !was_forged, "that is not so"),
            // What was settled is forgotten after seven days; a repetition is then refused as too late.
            (!is_foreign && !command.retry_safe() && command.started > 0 && !self.has_leapt, "it was started"),
        ];
        first_fault(&faults)
    }

    fn may_defer(&mut self, n: usize, process: &Process, id: &CommandId) -> Result<(), &'static str> {
        let Some(command) = self.known.commands.get(id) else { return Err("nobody made it") };
        let applied = process.engine.journal().meta().applied_generation;
        let faults = [
            (command.node != n, "it is another node's"),
            (command.new.min_generation <= applied, "the spec it presupposes is here"),
        ];
        first_fault(&faults)
    }

    fn may_cancel(&mut self, n: usize, id: &CommandId) -> Result<(), &'static str> {
        let Some(command) = self.known.commands.get(id) else { return Err("nobody made it") };
        let node = &self.nodes[n];
        let may_have_run_before = command.retry_safe() && node.journals.len() > 1;
        let faults = [
            (!node.cancels.contains(id), "nobody asked for it"),
            (command.node == n && command.started > 0 && !may_have_run_before, "its effect may have happened"),
        ];
        first_fault(&faults)
    }

    /// What is on disk before a side effect, and that the effect may happen.
    pub(crate) fn may_start(&mut self, n: usize, process: &Process, work: &Work, now: Instant) {
        let id = &work.id;
        let durable = process.journal.state().entry(id);
        let accepted = durable.and_then(|entry| entry.accepted.as_ref());
        let boot = self.nodes[n].boot_id();
        let is_accepted = accepted.is_some_and(|accepted| accepted.incarnation == process.incarnation)
            && durable.is_some_and(|entry| !matches!(entry.state, EntryState::Done(_)));
        let is_marked =
            durable.is_some_and(|entry| matches!(&entry.state, EntryState::Running { boot_id } if *boot_id == boot));
        let in_lane = process.works.values().filter(|running| running.work.lane == work.lane).count();
        let wanted: BTreeSet<String> =
            if work.kind == Kind::GpuReset { gpus(&work.payload) } else { Vec::new() }.into_iter().collect();
        let held = process.works.values().filter(|running| running.work.kind == Kind::GpuReset);
        let collides = held.flat_map(|running| gpus(&running.work.payload)).any(|gpu| wanted.contains(&gpu));
        let is_late = process.time_at_least(now);
        let journals = self.nodes[n].journals.len();
        let Some(command) = self.known.commands.get_mut(id) else {
            return self.fail(format!("n{n} starts {id}, which nobody made"));
        };
        command.started += 1;
        let late = is_late.is_some_and(|time| time > command.not_after);
        let again = command.started > 1 && !command.retry_safe() && !(command.early && journals > 1);
        let faults = [
            (!is_accepted, "`accepted` of this process is not on disk"),
            (command.self_terminating() && !is_marked, "`running` in this boot is not on disk"),
            (command.new.kind != work.kind.name() || command.new.payload != work.payload, "not what was asked for"),
            (command.node != n, "it is another node's"),
            (again, "it may not run twice"),
            (in_lane >= work.lane.workers() as usize, "its lane has no worker left"),
            (collides, "a device it acts on is in use"),
        ];
        if late {
            self.coverage.hit("note", "started after not_after, accepted before");
        }
        if let Err(why) = first_fault(&faults) {
            self.fail(format!("n{n} starts {id}: {why}"));
        }
    }

    /// A GPU is reset: once for a command, and never for one that is settled otherwise.
    pub(crate) fn gpu_is_reset(&mut self, n: usize, id: &CommandId, gpu: &str) {
        self.note(format_args!("n{n} resets {gpu} for {id}"));
        let line = (id.clone(), gpu.to_owned());
        let was_early = self.known.commands.get(id).is_some_and(|command| command.early);
        let is_new = !self.nodes[n].resets.contains(&line) || (was_early && self.nodes[n].journals.len() > 1);
        self.require(is_new, || format!("n{n} resets {gpu} twice for {id}"));
        self.nodes[n].resets.push(line);
    }

    /// What a daemon says is on its disk.
    pub(crate) fn node_says(&mut self, n: usize, process: &Process, frame: &AgentFrame) {
        match frame {
            AgentFrame::Hello(hello) => {
                let last_epoch = process.journal.state().meta().last_epoch;
                self.require(hello.last_epoch <= last_epoch, || format!("n{n} says an epoch that is not on disk"));
                hello.unacked_results.iter().for_each(|update| self.is_on_disk(n, process, update));
            }
            AgentFrame::Updates(updates) => updates.iter().for_each(|update| self.is_on_disk(n, process, update)),
            AgentFrame::Events(batch) => {
                let durable = process.journal.state().meta();
                let is_durable = batch.events.iter().all(|event| event.seq <= durable.event_seq);
                let is_own = batch.journal_id == durable.journal_id;
                self.require(is_durable && is_own, || format!("n{n} sends an event that is not on disk"));
            }
            _ => {}
        }
    }

    fn is_on_disk(&mut self, n: usize, process: &Process, update: &CommandUpdate) {
        let entry = process.journal.state().entry(&update.command_id);
        let holds = match &update.state {
            UpdateState::Acked | UpdateState::Running => entry
                .and_then(|entry| entry.accepted.as_ref())
                .is_some_and(|accepted| accepted.incarnation == process.incarnation),
            UpdateState::Busy => true,
            // One that was acknowledged may be forgotten on disk a moment before the machine hears of it.
            UpdateState::Done(_) if entry.is_none() => process.forgotten.contains(&update.command_id),
            UpdateState::Done(settled) => {
                entry.is_some_and(|entry| matches!(&entry.state, EntryState::Done(done) if done.settled == *settled))
            }
        };
        self.require(holds, || format!("n{n} says of {} what is not on disk", update.command_id));
    }

    /// The mark comes from a genuine statement, or from the join.
    pub(crate) fn mark_is_stated(&mut self, n: usize, mark: ServerTimeMs) {
        let is_stated = mark.0 == crate::keys::JOINED_AT || self.statements.contains_key(&mark.0);
        self.require(is_stated, || format!("n{n} marks a time that nobody signed"));
    }

    /// What a journal opened with is what was acknowledged, and perhaps a beginning of what was not.
    pub(crate) fn opened_as_left(&mut self, n: usize, state: &JournalState) {
        let node = &mut self.nodes[n];
        node.damage = false;
        let in_doubt = std::mem::take(&mut node.in_doubt);
        if let Some(mut expected) = node.durable.take() {
            let mut rest = in_doubt.iter();
            while expected != *state {
                let Some(next) = rest.next() else {
                    return self.fail(format!("n{n} the journal does not hold what was acknowledged"));
                };
                expected.apply(next);
            }
            for mutation in &in_doubt[..in_doubt.len() - rest.len()] {
                self.wrote(n, &state.meta().journal_id.clone(), mutation);
            }
        }
        let id = state.meta().journal_id.clone();
        let node = &mut self.nodes[n];
        if !node.journals.contains(&id) {
            node.journals.push(id);
            node.epoch = 0;
        }
    }

    /// A commit is on disk.
    pub(crate) fn committed(&mut self, n: usize, process: &mut Process, before: &JournalState, mutations: &[Mutation]) {
        let mut acked: BTreeSet<&CommandId> = BTreeSet::new();
        let mut event_seq = before.meta().event_seq;
        let journal = before.meta().journal_id.clone();
        for mutation in mutations {
            match mutation {
                Mutation::TimeMark(mark) => self.mark_is_stated(n, *mark),
                Mutation::Epoch(epoch) => {
                    let last = self.nodes[n].epoch.max(before.meta().last_epoch);
                    self.nodes[n].epoch = *epoch;
                    self.require(*epoch > last, || format!("n{n} takes epoch {epoch} after {last}"));
                }
                Mutation::ResultsAcked(ids) => acked.extend(ids),
                Mutation::Swept(ids) => {
                    let early = ids
                        .iter()
                        .find(|id| !may_be_forgotten(before, id, acked.contains(*id), process, self.server_now()));
                    if let Some(id) = early.cloned() {
                        self.fail(format!("n{n} forgets {id} too early"));
                    }
                    process.forgotten.extend(ids.iter().cloned());
                }
                Mutation::Done { id, settled, .. } => {
                    process.open.remove(id);
                    process.refused.remove(id);
                    let earlier = before.entry(id).map(|entry| &entry.state);
                    let contradicts =
                        matches!(earlier, Some(EntryState::Done(done)) if done.settled.outcome != settled.outcome);
                    self.require(!contradicts, || format!("n{n} settles {id} twice"));
                }
                Mutation::Event(event) => {
                    self.require(event.seq == event_seq + 1, || format!("n{n} event {} after {event_seq}", event.seq));
                    event_seq = event.seq;
                }
                _ => {}
            }
            self.wrote(n, &journal, mutation);
        }
        let mark = process.journal.state().meta().time_mark;
        self.require(mark >= before.meta().time_mark, || format!("n{n} the time mark moves back"));
        self.nodes[n].durable = Some(process.journal.state().clone());
    }

    fn wrote(&mut self, n: usize, journal: &model::JournalId, mutation: &Mutation) {
        match mutation {
            Mutation::Done { id, settled, .. } => {
                if let Some(command) = self.known.commands.get_mut(id).filter(|command| command.node == n) {
                    let durable =
                        Durable { journal: journal.clone(), outcome: settled.outcome, result: settled.result.clone() };
                    if !command.outcomes.iter().any(|earlier| earlier.journal == *journal) {
                        command.outcomes.push(durable);
                    }
                }
            }
            Mutation::Event(event) => {
                self.known.events.entry(journal.clone()).or_default().written.insert(event.seq, event.class);
            }
            Mutation::EventsDropped(seqs) => {
                let events = self.known.events.entry(journal.clone()).or_default();
                let all_metrics = seqs
                    .iter()
                    .all(|seq| events.written.get(seq).is_none_or(|class| *class == model::EventClass::Metric));
                events.dropped.extend(seqs);
                self.require(all_metrics, || format!("n{n} drops an event that is no metric"));
            }
            _ => {}
        }
    }
}

/// Settled, acknowledged and old; refused and acknowledged; or unfinished, of an earlier process, and old.
fn may_be_forgotten(journal: &JournalState, id: &CommandId, acked: bool, process: &Process, server_now: i64) -> bool {
    let Some(entry) = journal.entry(id) else { return true };
    let is_old = |at: ServerTimeMs| server_now + SLACK_MS - at.0 >= JOURNAL_DONE_KEPT_MS as i64;
    match (&entry.state, &entry.accepted) {
        (EntryState::Done(done), None) if done.settled.outcome == Outcome::Rejected => done.acked || acked,
        (EntryState::Done(done), None) => (done.acked || acked) && is_old(done.at),
        (EntryState::Done(done), Some(_)) => (done.acked || acked) && is_old(done.at),
        (_, Some(accepted)) => accepted.incarnation != process.incarnation && is_old(accepted.at),
        (_, None) => false,
    }
}

/// The command that a decision takes out of the deferred ones.
fn settles(decision: &Decision) -> Option<&CommandId> {
    match decision {
        Decision::Accepted { id, .. }
        | Decision::Rejected { id, .. }
        | Decision::Cancelled { id }
        | Decision::Interrupted { id }
        | Decision::JournalLost { id } => Some(id),
        Decision::Busy { id, .. } => id.as_ref(),
        _ => None,
    }
}

fn first_fault(faults: &[(bool, &'static str)]) -> Result<(), &'static str> {
    faults.iter().find(|(is_so, _)| *is_so).map_or(Ok(()), |(_, why)| Err(*why))
}
