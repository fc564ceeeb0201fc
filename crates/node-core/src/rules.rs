//! The journal's rules (`delivery.md`, Duplicates and crash recovery; decisions D-Q8, D-Q9, F-Q13).
//! Pure tables: what a delivery means given what is remembered, what a start settles by itself, and
//! what may be forgotten.

use crate::journal::{Accepted, Entry, EntryState, JournalState};
use model::{BootId, CommandId, IncarnationId, Kind, ServerTimeMs, limits};

/// What to do with a delivered command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Not known: acceptance checks, journal `accepted`, run.
    Execute,
    /// Settled: send the stored result again.
    Resend,
    /// This process is at it; its execution reports.
    Reattach,
    /// The reboot it asked for has happened.
    Rebooted,
    /// A crash interrupted it and it may run again, after the acceptance checks.
    ReExecute,
    /// A crash interrupted it and it may not run again.
    Interrupted,
}

/// What a start settles without the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    Rebooted { accepted: Accepted, previous: BootId },
    Interrupted { accepted: Accepted },
}

pub fn resolve(entry: Option<&Entry>, incarnation: &IncarnationId, boot: &BootId) -> Resolution {
    let Some(entry) = entry else { return Resolution::Execute };
    let Some(accepted) = &entry.accepted else { return Resolution::Resend };
    match &entry.state {
        EntryState::Done(_) => Resolution::Resend,
        _ if accepted.incarnation == *incarnation => Resolution::Reattach,
        EntryState::Running { boot_id } if reboot_completed(accepted, boot_id, boot) => Resolution::Rebooted,
        _ if accepted.retry_safe => Resolution::ReExecute,
        _ => Resolution::Interrupted,
    }
}

/// A self-terminating command is completed by a new boot, except `daemon.upgrade`, whose outcome is the
/// update record's to tell (D-Q4).
fn reboot_completed(accepted: &Accepted, ran_in: &BootId, boot: &BootId) -> bool {
    accepted.self_terminating && accepted.kind != Kind::DaemonUpgrade && ran_in != boot
}

/// Entries of earlier processes whose outcome needs no server input. Retry-safe ones wait to be
/// delivered again, so that `not_after` and `min_generation` are checked anew.
pub fn recover(journal: &JournalState, incarnation: &IncarnationId, boot: &BootId) -> Vec<Recovery> {
    let mut found = Vec::new();
    for (_, entry) in journal.entries() {
        let Some(accepted) = entry.accepted.clone() else { continue };
        match resolve(Some(entry), incarnation, boot) {
            Resolution::Rebooted => {
                if let EntryState::Running { boot_id } = &entry.state {
                    found.push(Recovery::Rebooted { accepted, previous: boot_id.clone() });
                }
            }
            Resolution::Interrupted => found.push(Recovery::Interrupted { accepted }),
            Resolution::Execute | Resolution::Resend | Resolution::Reattach | Resolution::ReExecute => {}
        }
    }
    found
}

/// What may be forgotten: settled, acknowledged and seven days old; or left unfinished by an earlier
/// process and not delivered again within seven days. Never an entry of this process.
pub fn sweep(journal: &JournalState, incarnation: &IncarnationId, now: ServerTimeMs) -> Vec<CommandId> {
    let is_old = |at: ServerTimeMs| now.since(at) >= limits::JOURNAL_DONE_KEPT_MS as i64;
    journal
        .entries()
        .filter(|(_, entry)| match (&entry.state, &entry.accepted) {
            (EntryState::Done(done), _) => done.acked && is_old(done.at),
            (_, Some(accepted)) => accepted.incarnation != *incarnation && is_old(accepted.at),
            (_, None) => false,
        })
        .map(|(id, _)| id.clone())
        .collect()
}
