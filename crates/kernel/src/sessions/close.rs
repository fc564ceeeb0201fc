//! How sessions end, and what keeps them alive.

use crate::db::{StoreError, Tx, args};
use crate::outbox::{self, EventRow};
use model::{GatewayId, NodeId, SessionEnd, TenantId};
use serde_json::json;
use std::collections::BTreeMap;

/// Closes the node's session if `epoch` is still its own.
pub fn close_session(tx: &mut Tx<'_>, node: &NodeId, epoch: u64, end: SessionEnd) -> Result<bool, StoreError> {
    let now = tx.now()?;
    let closed = tx.execute(
        "UPDATE node_sessions SET state = 'closed', lost_since = ?3, end_code = ?4
         WHERE node_id = ?1 AND session_epoch = ?2 AND state <> 'closed'",
        args![node, epoch, now, end],
    )?;
    if closed == 0 {
        return Ok(false);
    }
    let tenant: TenantId = tx.query_one("SELECT tenant_id FROM nodes WHERE id = ?1", args![node], |row| row.take())?;
    let payload = json!({ "nodeId": node.as_str(), "epoch": epoch, "code": end.name() });
    outbox::publish(tx, &EventRow { topic: "node.disconnected", tenant: &tenant, key: node.as_str(), payload })?;
    Ok(true)
}

/// Which of the sessions in `epochs` must end, and why: a newer session exists, or the node or its
/// certificate was revoked. Looks at each session it is given, so a gateway passes those a hint
/// named, and all of them now and then.
pub fn sessions_to_close(
    tx: &mut Tx<'_>,
    gateway: &GatewayId,
    epochs: &BTreeMap<NodeId, u64>,
) -> Result<Vec<(NodeId, SessionEnd)>, StoreError> {
    let mut ending = Vec::new();
    for (node, epoch) in epochs {
        let stored = tx.query_opt(
            "SELECT s.session_epoch, s.gateway_id, s.state = 'closed',
                 n.revoked_at IS NOT NULL OR n.lifecycle = 'retired' OR c.revoked_at IS NOT NULL
             FROM node_sessions s JOIN nodes n ON n.id = s.node_id
             LEFT JOIN node_certificates c ON c.serial = s.certificate_serial AND c.node_id = s.node_id
             WHERE s.node_id = ?1",
            args![node],
            |row| Ok((row.take::<u64>()?, row.take::<GatewayId>()?, row.take::<bool>()?, row.take::<bool>()?)),
        )?;
        let end = match stored {
            Some((_, _, _, true)) => SessionEnd::Revoked,
            Some((stored, holder, closed, false)) if stored == *epoch && holder == *gateway => {
                if !closed {
                    continue;
                }
                SessionEnd::EpochLost
            }
            _ => SessionEnd::Superseded,
        };
        ending.push((node.clone(), end));
    }
    Ok(ending)
}

/// Notes that these sessions were heard from.
pub fn touch_sessions(tx: &mut Tx<'_>, gateway: &GatewayId, heard: &[(NodeId, u64)]) -> Result<(), StoreError> {
    let now = tx.now()?;
    for (node, epoch) in heard {
        tx.execute(
            "UPDATE node_sessions SET last_seen_at = ?4
             WHERE node_id = ?1 AND session_epoch = ?2 AND gateway_id = ?3 AND state <> 'closed'",
            args![node, epoch, gateway, now],
        )?;
    }
    Ok(())
}
