//! What the store forgets, a bounded piece at a call. The outbox has its own rule (`outbox::prune`);
//! idempotency records and the audit are kept for good.

use crate::db::{StoreError, Tx, args};
use model::CommandId;
use model::limits::{CERT_GRACE_MS, OUTBOX_KEPT_MS};

/// Settled commands, their blobs and event gaps are kept as long as the events about them, milliseconds.
pub const COMMANDS_KEPT_MS: i64 = OUTBOX_KEPT_MS;
/// Certificates are kept this long after expiry, milliseconds: results signed before it may still
/// come in while the node's journal keeps them, and 30 days more for people to look.
pub const CERTIFICATES_KEPT_MS: i64 = CERT_GRACE_MS + OUTBOX_KEPT_MS;
/// Join requests are kept this long, milliseconds: far longer than a gateway waits for an answer.
pub const JOIN_REQUESTS_KEPT_MS: i64 = 3_600_000;

/// What one call deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    pub commands: usize,
    pub certificates: usize,
    pub join_requests: usize,
    pub event_gaps: usize,
    /// Content that no command names any more; its files may go once this has committed.
    pub blobs: Vec<String>,
}

/// Deletes up to `limit` rows of each sort that are past their time.
pub fn prune(tx: &mut Tx<'_>, limit: u32) -> Result<Pruned, StoreError> {
    let now = tx.now()?;
    let mut pruned = Pruned::default();
    let old: Vec<CommandId> = tx.query(
        "SELECT id FROM commands WHERE settled_at IS NOT NULL AND settled_at < ?1 ORDER BY settled_at LIMIT ?2",
        args![now.plus(-COMMANDS_KEPT_MS), limit],
        |row| row.take(),
    )?;
    for command in &old {
        pruned.blobs.extend(forget_blobs(tx, command)?);
        tx.execute("DELETE FROM commands WHERE id = ?1", args![command])?;
    }
    pruned.commands = old.len();
    pruned.certificates = tx.execute(
        "DELETE FROM node_certificates WHERE serial IN
             (SELECT serial FROM node_certificates WHERE not_after < ?1 ORDER BY not_after LIMIT ?2)",
        args![now.plus(-CERTIFICATES_KEPT_MS), limit],
    )?;
    pruned.join_requests = tx.execute(
        "DELETE FROM join_requests WHERE n IN
             (SELECT n FROM (SELECT n, created_at FROM join_requests ORDER BY n LIMIT ?2) WHERE created_at < ?1)",
        args![now.plus(-JOIN_REQUESTS_KEPT_MS), limit],
    )?;
    pruned.event_gaps = tx.execute(
        "DELETE FROM node_event_gaps WHERE n IN
             (SELECT n FROM (SELECT n, at FROM node_event_gaps ORDER BY n LIMIT ?2) WHERE at < ?1)",
        args![now.plus(-COMMANDS_KEPT_MS), limit],
    )?;
    Ok(pruned)
}

/// Drops a command's blobs from the index; returns those that no other command names.
fn forget_blobs(tx: &mut Tx<'_>, command: &CommandId) -> Result<Vec<String>, StoreError> {
    let named: Vec<String> =
        tx.query("DELETE FROM blobs WHERE command_id = ?1 RETURNING sha256", args![command], |row| row.take())?;
    let mut unnamed = Vec::new();
    for sha256 in named {
        if !tx.exists("SELECT 1 FROM blobs WHERE sha256 = ?1", args![sha256])? {
            unnamed.push(sha256);
        }
    }
    Ok(unnamed)
}
