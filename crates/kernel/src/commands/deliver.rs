//! A stored command as it goes out: the sealed bytes, after one look that they are what the row says.

use crate::db::{StoreError, Tx, args};
use crate::signed;
use model::frame::Delivery;
use model::{CommandId, NodeId};

/// A row to send, or one that must not be sent.
pub(crate) enum Deliverable {
    Command {
        id: CommandId,
        delivery: Delivery,
    },
    /// The body does not decode, lacks `not_after`, or names another command or node.
    InvalidBody,
}

/// Reads row `n` for its next delivery: `attempt` counts this one.
pub(crate) fn deliverable(tx: &mut Tx<'_>, n: i64) -> Result<Deliverable, StoreError> {
    let (id, node, attempt, signed) = tx.query_one(
        "SELECT id, node_id, attempt, body, kid, chain, signature FROM commands WHERE n = ?1",
        args![n],
        |row| Ok((row.take::<CommandId>()?, row.take::<NodeId>()?, row.take::<u32>()?, signed::take(row)?)),
    )?;
    let is_valid = match proto::decode_body(&signed.body) {
        Ok(body) => body.id == id && body.node_id == node && body.not_after.is_some(),
        Err(_) => false,
    };
    if !is_valid {
        return Ok(Deliverable::InvalidBody);
    }
    Ok(Deliverable::Command { id, delivery: Delivery { signed, attempt: attempt.saturating_add(1) } })
}
