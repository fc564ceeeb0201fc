//! Resume: what becomes of the commands an older session left in flight, once the node has sent every
//! result it has. The rows remember the boot and the journal they were sent to, so the rules compare
//! a row with the session, whatever sessions died in between.

use super::{Current, Outgoing, current};
use crate::commands::{self, Deliverable, Settle};
use crate::db::{Hint, StoreError, Tx, args};
use model::{BootId, CommandId, CommandState, FailCode, GatewayId, JournalId, Kind, NodeId};
use std::collections::BTreeSet;

/// The code of a self-terminating command that the host's next boot completed.
pub(crate) const REBOOTED: &str = "rebooted";

#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The session is no longer the node's current one.
    #[error("the session's epoch is no longer current")]
    EpochLost,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A command in flight, as far as the rules look at it.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    pub n: i64,
    pub id: CommandId,
    pub kind: String,
    pub self_terminating: bool,
    pub retry_safe: bool,
    pub boot: Option<BootId>,
    pub journal: Option<JournalId>,
}

/// What becomes of one command in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The node has it and reports its outcome.
    LeftToNode,
    /// A new boot completed it.
    Rebooted,
    /// A new journal cannot tell whether its effect happened.
    JournalLost,
    /// Sent again, byte for byte.
    Again,
    /// An upgrade-only session would burn it; it stays in flight for the next session.
    Kept,
}

/// Marks the session ready and settles or resends what older sessions left in flight, in `seq` order.
/// `in_flight` is what the node's `Hello` says it has accepted and not settled; its results were
/// applied before.
pub fn resume_done(
    tx: &mut Tx<'_>,
    gateway: &GatewayId,
    node: &NodeId,
    epoch: u64,
    in_flight: &[CommandId],
) -> Result<Vec<Outgoing>, ResumeError> {
    let session = current(tx, gateway.as_str(), node, epoch)?.ok_or(ResumeError::EpochLost)?;
    tx.execute("UPDATE node_sessions SET state = 'ready' WHERE node_id = ?1", args![node])?;
    tx.hint(Hint::Node(node.clone()));
    let reported: BTreeSet<&CommandId> = in_flight.iter().collect();
    let mut outgoing = Vec::new();
    for row in rows_in_flight(tx, node)? {
        match fate(&session, &reported, &row) {
            Fate::LeftToNode | Fate::Kept => {}
            Fate::Rebooted => settle(tx, row.n, CommandState::Succeeded, REBOOTED)?,
            Fate::JournalLost => settle(tx, row.n, CommandState::Failed, FailCode::JournalLost.name())?,
            Fate::Again => outgoing.extend(send_again(tx, node, &session, &row)?),
        }
    }
    Ok(outgoing)
}

/// The rules, in their order: the new-boot rule goes first (D-Q8).
pub(super) fn fate(session: &Current, reported: &BTreeSet<&CommandId>, row: &InFlight) -> Fate {
    if reported.contains(&row.id) {
        return Fate::LeftToNode;
    }
    let is_upgrade = row.kind == Kind::DaemonUpgrade.name();
    if row.self_terminating && !is_upgrade && row.boot.as_ref() != Some(&session.boot) {
        return Fate::Rebooted;
    }
    if !row.retry_safe && row.journal.as_ref() != Some(&session.journal) {
        return Fate::JournalLost;
    }
    if session.upgrade_required && !is_upgrade {
        return Fate::Kept;
    }
    Fate::Again
}

/// In flight and not waiting for the verifier, by `seq`.
const ROWS_IN_FLIGHT: &str = "
    SELECT n, id, kind, self_terminating, retry_safe, dispatched_boot_id, dispatched_journal_id FROM commands
    WHERE node_id = ?1 AND state IN ('dispatched', 'acked', 'running') AND awaiting = 0 ORDER BY seq";

fn rows_in_flight(tx: &mut Tx<'_>, node: &NodeId) -> Result<Vec<InFlight>, StoreError> {
    tx.query(ROWS_IN_FLIGHT, args![node], |row| {
        Ok(InFlight {
            n: row.take()?,
            id: row.take()?,
            kind: row.take()?,
            self_terminating: row.take()?,
            retry_safe: row.take()?,
            boot: row.take()?,
            journal: row.take()?,
        })
    })
}

fn send_again(
    tx: &mut Tx<'_>,
    node: &NodeId,
    session: &Current,
    row: &InFlight,
) -> Result<Option<Outgoing>, StoreError> {
    let now = tx.now()?;
    let Deliverable::Command { id, delivery } = commands::deliverable(tx, row.n)? else {
        settle(tx, row.n, CommandState::Cancelled, FailCode::InvalidBody.name())?;
        return Ok(None);
    };
    tx.execute(
        "UPDATE commands SET attempt = ?2, session_epoch = ?3, dispatched_boot_id = ?4, dispatched_journal_id = ?5,
             dispatched_at = ?6 WHERE n = ?1",
        args![row.n, delivery.attempt, session.epoch, session.boot, session.journal, now],
    )?;
    Ok(Some(Outgoing { node: node.clone(), epoch: session.epoch, command_id: id, delivery }))
}

fn settle(tx: &mut Tx<'_>, n: i64, state: CommandState, code: &str) -> Result<(), StoreError> {
    commands::settle(tx, n, &Settle { state, code, attestation: None })
}
