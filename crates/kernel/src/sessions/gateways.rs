//! Gateways as the store sees them: a heartbeat each, and the sessions of one that fell silent.

use super::close_session;
use crate::db::{StoreError, Tx, args};
use model::{GatewayId, NodeId, SessionEnd};

/// A gateway silent for this long has lost its sessions, milliseconds.
pub const GATEWAY_SILENT_MS: i64 = 30_000;
/// Sessions that one call closes.
const CLOSED_MAX: u32 = 1000;

/// A gateway process starts: whatever sessions its id still holds are an earlier process's.
pub fn gateway_started(tx: &mut Tx<'_>, gateway: &GatewayId) -> Result<(), StoreError> {
    let now = tx.now()?;
    tx.execute(
        "INSERT INTO gateways (id, started_at, heartbeat_at) VALUES (?1, ?2, ?2)
         ON CONFLICT (id) DO UPDATE SET started_at = excluded.started_at, heartbeat_at = excluded.heartbeat_at",
        args![gateway, now],
    )?;
    while close_some(tx, gateway, SessionEnd::Shutdown)? == CLOSED_MAX as usize {}
    Ok(())
}

/// A gateway is alive. Closes, up to a bound, the sessions of gateways that are not.
pub fn gateway_heartbeat(tx: &mut Tx<'_>, gateway: &GatewayId) -> Result<(), StoreError> {
    let now = tx.now()?;
    tx.execute(
        "INSERT INTO gateways (id, started_at, heartbeat_at) VALUES (?1, ?2, ?2)
         ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at",
        args![gateway, now],
    )?;
    let silent: Vec<GatewayId> =
        tx.query("SELECT id FROM gateways WHERE heartbeat_at <= ?1", args![now.plus(-GATEWAY_SILENT_MS)], |row| {
            row.take()
        })?;
    for other in silent {
        if close_some(tx, &other, SessionEnd::HeartbeatLost)? == 0 {
            tx.execute("DELETE FROM gateways WHERE id = ?1", args![other])?;
        }
    }
    Ok(())
}

fn close_some(tx: &mut Tx<'_>, gateway: &GatewayId, end: SessionEnd) -> Result<usize, StoreError> {
    let open: Vec<(NodeId, u64)> = tx.query(
        "SELECT node_id, session_epoch FROM node_sessions WHERE gateway_id = ?1 AND state <> 'closed' LIMIT ?2",
        args![gateway, CLOSED_MAX],
        |row| Ok((row.take()?, row.take()?)),
    )?;
    for (node, epoch) in &open {
        close_session(tx, node, *epoch, end)?;
    }
    Ok(open.len())
}
