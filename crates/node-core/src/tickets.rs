//! Exec tickets are good for one use. The `jti` of each used one is kept in the journal until the ticket
//! expires, so that neither a replay nor a restart opens a second shell with it.

use crate::engine::{Decision, Engine, Output, Then};
use crate::journal::Mutation;
use crate::outside::Outside;
use model::{ServerTimeMs, limits};
use stdx::clock::Instant;

/// Longest `jti` kept, bytes.
pub const JTI_BYTES_MAX: usize = 128;

/// Whether a ticket may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TicketVerdict {
    /// Its use is durable; nobody else gets this answer for it.
    Granted,
    /// Used before.
    Reused,
    Expired,
    /// `EXEC_TICKETS_MAX` unexpired tickets are kept already, or the journal has no room.
    Full,
    /// Empty, or longer than `JTI_BYTES_MAX`.
    Malformed,
}

impl<O: Outside> Engine<O> {
    pub(crate) fn ticket(&mut self, now: Instant, jti: String, expires_at: ServerTimeMs) {
        self.forget_expired_tickets(now);
        match self.judge_ticket(now, &jti, expires_at) {
            TicketVerdict::Granted => {
                self.granting.insert(jti.clone());
                self.commit_then(vec![Mutation::TicketUsed { jti: jti.clone(), expires_at }], Then::TicketUsed(jti));
            }
            verdict => self.answer_ticket(jti, verdict),
        }
    }

    fn judge_ticket(&self, now: Instant, jti: &str, expires_at: ServerTimeMs) -> TicketVerdict {
        let kept = self.journal.tickets().len() + self.granting.len();
        if jti.is_empty() || jti.len() > JTI_BYTES_MAX {
            TicketVerdict::Malformed
        } else if self.journal.tickets().contains_key(jti) || self.granting.contains(jti) {
            TicketVerdict::Reused
        } else if expires_at <= self.clock.now(now) {
            TicketVerdict::Expired
        } else if kept >= limits::EXEC_TICKETS_MAX || !self.has_journal_room() {
            TicketVerdict::Full
        } else {
            TicketVerdict::Granted
        }
    }

    pub(crate) fn ticket_is_durable(&mut self, jti: String) {
        self.granting.remove(&jti);
        self.answer_ticket(jti, TicketVerdict::Granted);
    }

    fn answer_ticket(&mut self, jti: String, verdict: TicketVerdict) {
        self.decide(Decision::Ticket { verdict });
        self.out.push(Output::Ticket { jti, verdict });
    }

    fn forget_expired_tickets(&mut self, now: Instant) {
        let server_now = self.clock.now(now);
        let tickets = self.journal.tickets().iter();
        let expired: Vec<String> = tickets.filter(|(_, at)| **at <= server_now).map(|(jti, _)| jti.clone()).collect();
        if !expired.is_empty() {
            self.commit_lazily(now, Mutation::TicketsForgotten(expired));
        }
    }
}
