//! A command from its delivery to its acknowledged result.

use crate::checks::{CheckContext, Verdict, check};
use crate::engine::{Busy, CancelWish, Decision, Deferred, Engine, Execution, Output, Phase, Then, Work, WorkResult};
use crate::journal::{Accepted, EntryState, Mutation};
use crate::outside::Outside;
use crate::rules::{Recovery, Resolution, resolve};
use model::frame::{
    AgentFrame, CommandBody, CommandUpdate, Delivery, ResultStatement, Settled, SpecRequestReason, UpdateState,
};
use model::{CommandId, FailCode, Kind, Outcome, RejectReason, limits};
use stdx::clock::Instant;

/// Result code of a self-terminating command that a new boot completed.
const REBOOTED: &str = "rebooted";

impl<O: Outside> Engine<O> {
    pub(crate) fn delivered(&mut self, now: Instant, delivery: Delivery) {
        let Some(body) = self.outside.decode_body(&delivery.signed.body) else {
            return self.decide(Decision::Busy { id: None, why: Busy::Undecodable });
        };
        let id = body.id.clone();
        if self.executions.contains_key(&id) || self.refusing.contains_key(&id) || self.is_deferred(&id) {
            return self.decide(Decision::Reattached { id });
        }
        match resolve(self.journal.entry(&id), &self.config.incarnation, &self.config.boot_id) {
            Resolution::Execute => self.admit(now, delivery, body, false),
            Resolution::ReExecute => self.admit(now, delivery, body, true),
            Resolution::Resend => {
                self.decide(Decision::Resent { id: id.clone() });
                self.queue_result(&id);
            }
            // Executions are looked up above, and a start settles the other two before it connects.
            Resolution::Reattach | Resolution::Rebooted | Resolution::Interrupted => {
                self.decide(Decision::Reattached { id });
            }
        }
    }

    fn admit(&mut self, now: Instant, delivery: Delivery, body: CommandBody, again: bool) {
        if !self.has_journal_room() {
            self.evict_refusals();
        }
        let birth = self.journal.meta().birth;
        let retry_safe = Kind::parse(&body.kind).is_some_and(|kind| kind.spec().retry_safe);
        if !retry_safe && body.issued_at < birth {
            self.decide(Decision::JournalLost { id: body.id.clone() });
            let message = format!("signed before this journal began at {} ms", birth.0);
            let result = self.encode(FailCode::JournalLost.name(), message, None);
            return self.refuse(now, &body, Outcome::Failed, result);
        }
        let context = CheckContext {
            node_id: &self.config.node_id,
            role: self.config.role,
            applied_generation: self.journal.meta().applied_generation,
            now: self.clock.now(now),
            upgrade_only: self.link.upgrade_only(),
            awaits_approvers: self.config.awaits_approvers,
            has_credit: self.lanes.has_credit(body.lane),
            // What is in the journal unfinished was let in once: only new commands wait for room.
            has_journal_room: again || self.has_journal_room(),
        };
        match check(&context, &self.outside, &body, &delivery.signed) {
            Verdict::Accept(kind) => self.accept(now, kind, body, again),
            Verdict::Defer => self.defer(delivery, body),
            Verdict::Reject(RejectReason::Busy) => {
                let why = if context.has_credit { Busy::JournalFull } else { Busy::NoCredit };
                self.busy(body.id, why);
            }
            Verdict::Reject(reason) => self.reject(now, &body, reason),
        }
    }

    fn accept(&mut self, now: Instant, kind: Kind, body: CommandBody, again: bool) {
        let (id, lane, spec) = (body.id.clone(), kind.spec().lane, kind.spec());
        self.decide(Decision::Accepted { id: id.clone(), again });
        let accepted = Accepted {
            id: id.clone(),
            kind,
            lane,
            seq: body.seq,
            retry_safe: spec.retry_safe,
            self_terminating: spec.self_terminating,
            attested: spec.attested,
            incarnation: self.config.incarnation.clone(),
            at: self.clock.now(now),
        };
        self.lanes.take_credit(lane, &id);
        let execution = Execution { body, kind, phase: Phase::Accepting, cancel: CancelWish::None, again };
        self.executions.insert(id.clone(), execution);
        self.commit_then(vec![Mutation::Accepted(accepted)], Then::Accepted(id));
    }

    pub(crate) fn accepted_is_durable(&mut self, now: Instant, id: &CommandId) {
        self.update(id, UpdateState::Acked);
        let Some(execution) = self.executions.get_mut(id) else { return };
        execution.phase = Phase::Queued;
        if execution.cancel == CancelWish::Asked {
            return self.cancel_unstarted(now, id);
        }
        let (kind, payload) = (execution.kind, execution.body.payload.clone());
        let resources = self.outside.resources(kind, &payload);
        self.lanes.enqueue(id, kind.spec().lane, resources);
        self.start_queued();
    }

    /// Starts whatever has a free worker and free devices.
    pub(crate) fn start_queued(&mut self) {
        while let Some(id) = self.lanes.start_next() {
            let Some(execution) = self.executions.get_mut(&id) else { continue };
            if execution.kind.spec().self_terminating {
                execution.phase = Phase::Marking;
                let boot_id = self.config.boot_id.clone();
                self.commit_then(vec![Mutation::Running { id: id.clone(), boot_id }], Then::MarkedRunning(id));
            } else {
                self.start_work(&id);
            }
        }
    }

    pub(crate) fn running_is_durable(&mut self, id: &CommandId) {
        self.start_work(id);
    }

    fn start_work(&mut self, id: &CommandId) {
        let Some(execution) = self.executions.get_mut(id) else { return };
        execution.phase = Phase::Running;
        let is_unwanted = execution.cancel == CancelWish::Asked;
        let work = Work {
            id: id.clone(),
            kind: execution.kind,
            lane: execution.kind.spec().lane,
            payload: execution.body.payload.clone(),
            traceparent: execution.body.traceparent.clone(),
        };
        self.decide(Decision::Started { id: id.clone() });
        self.update(id, UpdateState::Running);
        self.out.push(Output::Start(work));
        if is_unwanted {
            self.decide(Decision::CancelTooLate { id: id.clone() });
            self.out.push(Output::Cancel(id.clone()));
        }
    }

    pub(crate) fn finished(&mut self, now: Instant, id: &CommandId, result: WorkResult) {
        let Some(execution) = self.executions.get_mut(id) else { return };
        if execution.phase != Phase::Running {
            return;
        }
        execution.phase = Phase::Settling;
        let attested = execution.kind.spec().attested;
        self.lanes.finish(id);
        let (outcome, code, message, value) = match result {
            WorkResult::Succeeded { code, message, value } => (Outcome::Succeeded, code, message, value),
            WorkResult::Failed { code, message, value } => (Outcome::Failed, code, message, value),
        };
        let mut encoded = self.encode(code, message, value);
        let mut outcome = outcome;
        if encoded.len() > limits::RESULT_BYTES_MAX {
            let message = format!("the result has {} bytes, at most {}", encoded.len(), limits::RESULT_BYTES_MAX);
            encoded = self.encode(FailCode::ResultTooLarge.name(), message, None);
            outcome = Outcome::Failed;
        }
        let done = self.done(now, id, outcome, encoded, attested);
        self.commit_then(vec![done], Then::Settled(id.clone()));
        self.start_queued();
    }

    pub(crate) fn outcome_is_durable(&mut self, now: Instant, id: &CommandId) {
        self.executions.remove(id);
        self.refusing.remove(id);
        self.lanes.return_credit(id);
        self.decide(Decision::Settled { id: id.clone() });
        self.queue_result(id);
        self.flush_results(now);
    }

    fn defer(&mut self, delivery: Delivery, body: CommandBody) {
        if self.deferred.len() >= limits::DEFERRED_COMMANDS_MAX {
            return self.busy(body.id, Busy::TooManyDeferred);
        }
        self.decide(Decision::Deferred { id: body.id.clone() });
        let have_generation = self.journal.meta().applied_generation;
        self.send_if_up(AgentFrame::SpecRequest { have_generation, reason: SpecRequestReason::MinGeneration });
        self.deferred.push(Deferred { delivery, body });
    }

    fn is_deferred(&self, id: &CommandId) -> bool {
        self.deferred.iter().any(|deferred| deferred.body.id == *id)
    }

    pub(crate) fn next_deferred_wake(&self) -> Option<Instant> {
        let earliest = self.deferred.iter().filter_map(|deferred| deferred.body.not_after).min()?;
        Some(self.clock.when(earliest.plus(1)))
    }

    /// Runs the checks of deferred commands whose time has come.
    pub(crate) fn expire_deferred(&mut self, now: Instant) {
        let server_now = self.clock.now(now);
        if self.deferred.iter().any(|deferred| deferred.body.not_after.is_none_or(|at| server_now > at)) {
            self.recheck_deferred(now);
        }
    }

    /// Runs the checks of every deferred command again.
    pub(crate) fn recheck_deferred(&mut self, now: Instant) {
        for Deferred { delivery, body } in std::mem::take(&mut self.deferred) {
            let still_behind = body.min_generation > self.journal.meta().applied_generation;
            let still_waiting = body.not_after.is_some_and(|at| self.clock.now(now) <= at);
            if still_behind && still_waiting {
                self.deferred.push(Deferred { delivery, body });
            } else {
                let again = self.journal.entry(&body.id).is_some();
                self.admit(now, delivery, body, again);
            }
        }
    }

    pub(crate) fn cancel(&mut self, now: Instant, id: &CommandId, reason: &str) {
        if let Some(index) = self.deferred.iter().position(|deferred| deferred.body.id == *id) {
            let deferred = self.deferred.remove(index);
            // A deferred command that a crash had interrupted may have had its effect already.
            return self.cancel_unaccepted(now, &deferred.body, reason);
        }
        let Some(execution) = self.executions.get_mut(id) else { return self.cancel_unheld(now, id, reason) };
        match execution.phase {
            Phase::Accepting | Phase::Marking => execution.cancel = CancelWish::Asked,
            Phase::Queued => self.cancel_unstarted(now, id),
            Phase::Running if execution.cancel == CancelWish::None => {
                execution.cancel = CancelWish::Asked;
                self.decide(Decision::CancelTooLate { id: id.clone() });
                self.out.push(Output::Cancel(id.clone()));
            }
            Phase::Running | Phase::Settling => self.decide(Decision::CancelTooLate { id: id.clone() }),
        }
    }

    /// Accepted, and its effect has not started in this process.
    fn cancel_unstarted(&mut self, now: Instant, id: &CommandId) {
        self.lanes.withdraw(id);
        let Some(execution) = self.executions.get_mut(id) else { return };
        execution.phase = Phase::Settling;
        if execution.again {
            return self.settle_interrupted(now, id);
        }
        let attested = execution.kind.spec().attested;
        self.decide(Decision::Cancelled { id: id.clone() });
        let result = self.encode(FailCode::CancelRequested.name(), "cancelled before it started", None);
        let done = self.done(now, id, Outcome::Cancelled, result, attested);
        self.commit_then(vec![done], Then::Settled(id.clone()));
    }

    fn cancel_unaccepted(&mut self, now: Instant, body: &CommandBody, reason: &str) {
        if self.journal.entry(&body.id).is_some() {
            return self.settle_interrupted(now, &body.id);
        }
        self.decide(Decision::Cancelled { id: body.id.clone() });
        let result = self.encode(FailCode::CancelRequested.name(), reason, None);
        self.refuse(now, body, Outcome::Cancelled, result);
    }

    /// This process does not hold the command: it is settled, or was left by an earlier process, or never
    /// came, in which case the answer is remembered so that a late delivery gets the same one.
    fn cancel_unheld(&mut self, now: Instant, id: &CommandId, reason: &str) {
        match self.journal.entry(id).map(|entry| &entry.state) {
            Some(EntryState::Done(_)) => {
                self.decide(Decision::CancelTooLate { id: id.clone() });
                self.queue_result(id);
            }
            Some(EntryState::Accepted | EntryState::Running { .. }) => self.settle_interrupted(now, id),
            None if self.refusing.contains_key(id) || !self.has_journal_room() => {}
            None => {
                self.decide(Decision::Cancelled { id: id.clone() });
                let result = self.encode(FailCode::CancelRequested.name(), reason, None);
                let done = self.done(now, id, Outcome::Cancelled, result, true);
                self.refusing.insert(id.clone(), ());
                self.commit_then(vec![done], Then::Settled(id.clone()));
            }
        }
    }

    /// A crash interrupted it and nobody wants it run again: its effect may have happened, so it is never
    /// `CANCELLED`.
    fn settle_interrupted(&mut self, now: Instant, id: &CommandId) {
        if self.refusing.insert(id.clone(), ()).is_some() {
            return;
        }
        self.decide(Decision::Interrupted { id: id.clone() });
        let attested = self.journal.entry(id).and_then(|entry| entry.accepted.as_ref()).is_some_and(|a| a.attested);
        let message = "a restart of the daemon interrupted it, and it was then cancelled";
        let result = self.encode(FailCode::Interrupted.name(), message, None);
        let done = self.done(now, id, Outcome::Failed, result, attested);
        self.commit_then(vec![done], Then::Settled(id.clone()));
    }

    fn reject(&mut self, now: Instant, body: &CommandBody, reason: RejectReason) {
        self.decide(Decision::Rejected { id: body.id.clone(), reason });
        let result = self.encode(reason.name(), reject_message(reason), None);
        self.refuse(now, body, Outcome::Rejected, result);
    }

    /// Settles a command that this process did not accept. A new one takes journal room: without any, `BUSY`.
    fn refuse(&mut self, now: Instant, body: &CommandBody, outcome: Outcome, result: Vec<u8>) {
        if self.journal.entry(&body.id).is_none() && !self.has_journal_room() {
            return self.busy(body.id.clone(), Busy::JournalFull);
        }
        let attested = Kind::parse(&body.kind).is_some_and(|kind| kind.spec().attested);
        let done = self.done(now, &body.id, outcome, result, attested);
        self.refusing.insert(body.id.clone(), ());
        self.commit_then(vec![done], Then::Settled(body.id.clone()));
    }

    fn busy(&mut self, id: CommandId, why: Busy) {
        self.decide(Decision::Busy { id: Some(id.clone()), why });
        self.update(&id, UpdateState::Busy);
    }

    pub(crate) fn recovered(&mut self, now: Instant, recovery: Recovery) -> Mutation {
        match recovery {
            Recovery::Rebooted { accepted, previous } => {
                self.decide(Decision::Rebooted { id: accepted.id.clone() });
                let value = self.outside.reboot_result(&previous);
                let result = self.encode(REBOOTED, "", Some(value));
                self.done(now, &accepted.id, Outcome::Succeeded, result, accepted.attested)
            }
            Recovery::Interrupted { accepted } => {
                self.decide(Decision::Interrupted { id: accepted.id.clone() });
                let message = "a restart of the daemon interrupted it; whether its effect happened is not known";
                let result = self.encode(FailCode::Interrupted.name(), message, None);
                self.done(now, &accepted.id, Outcome::Failed, result, accepted.attested)
            }
        }
    }

    fn done(&mut self, now: Instant, id: &CommandId, outcome: Outcome, result: Vec<u8>, attested: bool) -> Mutation {
        let node_sig = attested.then(|| {
            let result_sha256 = stdx::hex::sha256(&result);
            self.outside.sign_result(&ResultStatement { command_id: id.clone(), outcome, result_sha256 })
        });
        let settled = Settled { outcome, result, node_sig };
        Mutation::Done { id: id.clone(), settled, boot_id: self.config.boot_id.clone(), at: self.clock.now(now) }
    }

    fn update(&mut self, id: &CommandId, state: UpdateState) {
        let update = CommandUpdate { command_id: id.clone(), state, boot_id: self.config.boot_id.clone() };
        self.send_if_up(AgentFrame::Updates(vec![update]));
    }

    /// A full journal forgets acknowledged refusals early: delivered again, they are refused again, and
    /// nobody can fill a journal for a week with commands that never were valid.
    fn evict_refusals(&mut self) {
        let refused = self.journal.entries().filter(|(_, entry)| {
            // A cancellation stays: whatever comes late must find it.
            let EntryState::Done(done) = &entry.state else { return false };
            entry.accepted.is_none() && done.acked && done.settled.outcome == Outcome::Rejected
        });
        let ids: Vec<CommandId> = refused.map(|(id, _)| id.clone()).collect();
        if !ids.is_empty() {
            self.decide(Decision::Swept { count: ids.len() });
            self.commit(vec![Mutation::Swept(ids)]);
        }
    }

    /// Room for one more command with the largest result, beside those already admitted.
    pub(crate) fn has_journal_room(&self) -> bool {
        let limits = &self.config.limits;
        let reserve = (limits::RESULT_BYTES_MAX as u64).min(limits.bytes_max / 32);
        let admitted = (self.executions.len() + self.refusing.len()) as u64;
        let needed = self.journal.bytes() + (admitted + 1) * reserve;
        let events_fit = self.journal.event_count() < limits.events_max || self.has_droppable_metric();
        needed <= limits.bytes_max && events_fit
    }
}

fn reject_message(reason: RejectReason) -> &'static str {
    match reason {
        RejectReason::Unsupported => "this agent does not run this kind here, or the command names another node",
        RejectReason::StaleGeneration => "the spec generation it presupposes did not arrive in time",
        RejectReason::Expired => "its time to start has passed",
        RejectReason::BadSignature => "its signature is missing, by an unknown key, or invalid",
        RejectReason::BatchUnapproved => "nothing destructive runs before the pinned approver set has arrived",
        RejectReason::UnbatchedLimit => "the hourly allowance of destructive commands without a batch is used up",
        RejectReason::Busy => "busy",
    }
}
