//! The index of blobs: which command's result names which content. The bytes lie in files.

use crate::db::{Row, StoreError, Tx, args};
use model::{CommandId, NodeId, ServerTimeMs};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobRow {
    /// Lower-case hex.
    pub sha256: String,
    pub command: CommandId,
    pub node: NodeId,
    pub size: u64,
    pub stored_at: ServerTimeMs,
}

/// Records that a blob's file is durable. `false` when the command is not that node's.
pub fn put(tx: &mut Tx<'_>, sha256: &str, size: u64, node: &NodeId, command: &CommandId) -> Result<bool, StoreError> {
    if !tx.exists("SELECT 1 FROM commands WHERE id = ?1 AND node_id = ?2", args![command, node])? {
        return Ok(false);
    }
    let now = tx.now()?;
    tx.execute(
        "INSERT INTO blobs (sha256, command_id, node_id, size, stored_at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (sha256, command_id) DO NOTHING",
        args![sha256, command, node, size, now],
    )?;
    Ok(true)
}

/// The blobs of a command.
pub fn list(tx: &mut Tx<'_>, command: &CommandId) -> Result<Vec<BlobRow>, StoreError> {
    tx.query(
        "SELECT sha256, command_id, node_id, size, stored_at FROM blobs WHERE command_id = ?1 ORDER BY sha256",
        args![command],
        read,
    )
}

/// Which commands brought this content.
pub fn find(tx: &mut Tx<'_>, sha256: &str) -> Result<Vec<BlobRow>, StoreError> {
    tx.query(
        "SELECT sha256, command_id, node_id, size, stored_at FROM blobs WHERE sha256 = ?1 ORDER BY command_id",
        args![sha256],
        read,
    )
}

fn read(row: &mut Row<'_>) -> Result<BlobRow, StoreError> {
    Ok(BlobRow {
        sha256: row.take()?,
        command: row.take()?,
        node: row.take()?,
        size: row.take()?,
        stored_at: row.take()?,
    })
}
