//! Cancel, as asked for. A command that waits is cancelled at once; one that is in flight is asked to
//! stop, and its real outcome wins over the request.

use super::settle::{Settle, settle};
use crate::db::{Hint, StoreError, Tx, args};
use model::{CommandId, CommandState, FailCode, NodeId};

/// One reason, bytes.
const REASON_BYTES_MAX: usize = 1024;

/// What a cancel request found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It waited and will never be sent.
    Cancelled,
    /// It is in flight; its node is asked to stop.
    Requested,
    /// It has its outcome already, which stands.
    Settled(CommandState),
    Unknown,
}

/// Asks for the cancellation of a command. The first reason stays.
pub fn request_cancel(tx: &mut Tx<'_>, id: &CommandId, reason: &str) -> Result<CancelOutcome, StoreError> {
    let now = tx.now()?;
    let found = tx.query_opt("SELECT n, node_id, state FROM commands WHERE id = ?1", args![id], |row| {
        Ok((row.take::<i64>()?, row.take::<NodeId>()?, row.take::<CommandState>()?))
    })?;
    let Some((n, node, state)) = found else { return Ok(CancelOutcome::Unknown) };
    if state.is_terminal() {
        return Ok(CancelOutcome::Settled(state));
    }
    tx.execute(
        "UPDATE commands SET cancel_requested_at = ?2, cancel_reason = ?3
         WHERE n = ?1 AND cancel_requested_at IS NULL",
        args![n, now, bounded(reason)],
    )?;
    if state == CommandState::Pending {
        let code = FailCode::CancelRequested.name();
        settle(tx, n, &Settle { state: CommandState::Cancelled, code, attestation: None })?;
        return Ok(CancelOutcome::Cancelled);
    }
    tx.hint(Hint::Node(node));
    Ok(CancelOutcome::Requested)
}

/// At most [`REASON_BYTES_MAX`] bytes of `reason`, whole characters.
fn bounded(reason: &str) -> &str {
    let end = (0..=reason.len().min(REASON_BYTES_MAX)).rev().find(|end| reason.is_char_boundary(*end));
    &reason[..end.unwrap_or(0)]
}
