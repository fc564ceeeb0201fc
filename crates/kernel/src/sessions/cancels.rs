//! Cancels of commands in flight: each goes out once a session, until the node settles its command.

use crate::db::{StoreError, Tx, args};
use model::{CommandId, GatewayId, NodeId};

/// Cancels that one call hands out.
const CANCELS_MAX: u32 = 256;

pub(crate) const CANCELLING: &str = "
    SELECT c.n, c.node_id, s.session_epoch, c.id, c.cancel_reason
    FROM commands c CROSS JOIN node_sessions s ON s.node_id = c.node_id
    WHERE c.state IN ('dispatched', 'acked', 'running') AND c.awaiting = 0 AND c.cancel_requested_at IS NOT NULL
        AND s.gateway_id = ?1 AND s.state = 'ready'
        AND (c.cancel_sent_epoch IS NULL OR c.cancel_sent_epoch <> s.session_epoch)
    ORDER BY c.node_id, c.seq LIMIT ?2";

/// Cancels not yet sent on the current session of their node, with that session's epoch. Marks them
/// sent, so that a later call, or another session, does not repeat them.
pub fn pending_cancels(
    tx: &mut Tx<'_>,
    gateway: &GatewayId,
) -> Result<Vec<(NodeId, u64, CommandId, String)>, StoreError> {
    let found: Vec<(i64, (NodeId, u64, CommandId, String))> =
        tx.query(CANCELLING, args![gateway, CANCELS_MAX], |row| {
            let n = row.take()?;
            let (node, epoch, id, reason) = (row.take()?, row.take()?, row.take()?, row.take::<Option<String>>()?);
            Ok((n, (node, epoch, id, reason.unwrap_or_default())))
        })?;
    for (n, (_, epoch, _, _)) in &found {
        tx.execute("UPDATE commands SET cancel_sent_epoch = ?2 WHERE n = ?1", args![n, epoch])?;
    }
    Ok(found.into_iter().map(|(_, cancel)| cancel).collect())
}
