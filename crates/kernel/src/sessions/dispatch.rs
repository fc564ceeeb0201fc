//! Dispatch: which pending commands go to which sessions of one gateway, now (`delivery.md`,
//! Dispatch; F-Q2).
//!
//! Its cost follows the nodes that have pending commands, never the idle ones: the nodes are found by
//! skipping through the partial index of pending rows. Every row it sends is marked in the same
//! transaction, so two gateways, or two calls, never send one row.

use super::plan::{Decision, SessionFacts, Waiting, plan_lane};
use crate::commands::{self, Deliverable, Settle};
use crate::db::{StoreError, Tx, args};
use model::frame::Delivery;
use model::limits::DISPATCH_ROWS_MAX;
use model::{BootId, CommandId, CommandState, FailCode, GatewayId, JournalId, Kind, Lane, NodeId, ServerTimeMs};
use std::collections::BTreeMap;

/// Rows of one lane that one dispatch looks at: its credit, and room for rows it cancels instead.
const LANE_ROWS_MAX: u32 = 64;

/// A command to send on a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub node: NodeId,
    pub epoch: u64,
    pub command_id: CommandId,
    pub delivery: Delivery,
}

struct Session {
    node: NodeId,
    epoch: u64,
    boot: BootId,
    journal: JournalId,
    upgrade_required: bool,
    facts: SessionFacts,
}

/// Marks up to [`DISPATCH_ROWS_MAX`] pending rows `dispatched` and returns what to send, by node and
/// then by `seq`. `epochs` is what the gateway holds in memory; a node under another epoch gets nothing.
pub fn dispatch(
    tx: &mut Tx<'_>,
    gateway: &GatewayId,
    epochs: &BTreeMap<NodeId, u64>,
) -> Result<Vec<Outgoing>, StoreError> {
    let now = tx.now()?;
    let mut outgoing = Vec::new();
    let mut left = DISPATCH_ROWS_MAX as usize;
    for session in sessions_with_work(tx, gateway)? {
        if epochs.get(&session.node) != Some(&session.epoch) {
            continue;
        }
        for (row, decision) in plan_node(tx, &session, now)? {
            if left == 0 {
                return Ok(outgoing);
            }
            left -= 1;
            match decision {
                Decision::Send => outgoing.extend(send(tx, &session, &row, now)?),
                Decision::Cancel(code) => cancel(tx, row.n, code)?,
            }
        }
    }
    Ok(outgoing)
}

/// Ready sessions of this gateway whose node has a pending row, by node.
pub(crate) const SESSIONS_WITH_WORK: &str = "
    WITH RECURSIVE waiting (node_id) AS (
        SELECT min(node_id) FROM commands WHERE state = 'pending'
        UNION ALL
        SELECT (SELECT min(c.node_id) FROM commands c WHERE c.state = 'pending' AND c.node_id > w.node_id)
        FROM waiting w WHERE w.node_id IS NOT NULL
    )
    SELECT s.node_id, s.session_epoch, s.boot_id, s.journal_id, s.upgrade_required, s.allowed_kinds,
        p.tenant_controlled, s.journal_since
    FROM waiting w
    CROSS JOIN node_sessions s ON s.node_id = w.node_id
    CROSS JOIN nodes n ON n.id = s.node_id
    CROSS JOIN pools p ON p.id = n.pool_id
    WHERE s.gateway_id = ?1 AND s.state = 'ready' AND n.revoked_at IS NULL AND n.lifecycle <> 'retired'";

fn sessions_with_work(tx: &mut Tx<'_>, gateway: &GatewayId) -> Result<Vec<Session>, StoreError> {
    let mut sessions = tx.query(SESSIONS_WITH_WORK, args![gateway], |row| {
        let (node, epoch, boot, journal) = (row.take()?, row.take()?, row.take()?, row.take()?);
        let (upgrade_required, allowed): (_, String) = (row.take()?, row.take()?);
        let allowed_kinds = serde_json::from_str(&allowed)
            .map_err(|error| StoreError::Corrupt(format!("the allowed kinds of {node}: {error}")))?;
        let facts = SessionFacts { allowed_kinds, tenant_controlled: row.take()?, journal_since: row.take()? };
        Ok(Session { node, epoch, boot, journal, upgrade_required, facts })
    })?;
    sessions.sort_by(|one, other| one.node.cmp(&other.node));
    Ok(sessions)
}

/// The decisions of every lane of one node, by `seq`.
fn plan_node(tx: &mut Tx<'_>, session: &Session, now: ServerTimeMs) -> Result<Vec<(Waiting, Decision)>, StoreError> {
    let in_flight = in_flight(tx, &session.node)?;
    let mut planned = Vec::new();
    for lane in Lane::ALL {
        let used = in_flight.get(&lane).copied().unwrap_or(0);
        let rows = waiting(tx, session, lane, now)?;
        let decisions = plan_lane(&session.facts, &rows, lane.credits().saturating_sub(used), now);
        planned.extend(decisions.into_iter().map(|(index, decision)| (rows[index].clone(), decision)));
    }
    planned.sort_by_key(|(row, _)| row.seq);
    Ok(planned)
}

/// Credits in use by lane: rows in flight whose result is not stored yet.
pub(crate) const IN_FLIGHT: &str = "
    SELECT lane, count(*) FROM commands
    WHERE node_id = ?1 AND state IN ('dispatched', 'acked', 'running') AND awaiting = 0 GROUP BY lane";

fn in_flight(tx: &mut Tx<'_>, node: &NodeId) -> Result<BTreeMap<Lane, u32>, StoreError> {
    let counts = tx.query(IN_FLIGHT, args![node], |row| Ok((row.take()?, row.take()?)))?;
    Ok(counts.into_iter().collect())
}

/// The pending rows of a lane in order, those past `not_after` left to the sweeper. On an
/// upgrade-only session nothing but the upgrade counts.
pub(crate) const WAITING: &str = "
    SELECT n, seq, kind, destructive, retry_safe, cancel_requested_at IS NOT NULL, attempt, issued_at, not_before
    FROM commands
    WHERE state = 'pending' AND node_id = ?1 AND lane = ?2 AND not_after > ?3 AND (?4 IS NULL OR kind = ?4)
    ORDER BY seq LIMIT ?5";

fn waiting(tx: &mut Tx<'_>, session: &Session, lane: Lane, now: ServerTimeMs) -> Result<Vec<Waiting>, StoreError> {
    let only = session.upgrade_required.then(|| Kind::DaemonUpgrade.name());
    tx.query(WAITING, args![session.node, lane, now, only, LANE_ROWS_MAX], |row| {
        Ok(Waiting {
            n: row.take()?,
            seq: row.take()?,
            kind: row.take()?,
            destructive: row.take()?,
            retry_safe: row.take()?,
            cancel_requested: row.take()?,
            attempt: row.take()?,
            issued_at: row.take()?,
            not_before: row.take()?,
        })
    })
}

/// Marks a row dispatched on the session; `None` if its body must not be sent.
fn send(tx: &mut Tx<'_>, session: &Session, row: &Waiting, now: ServerTimeMs) -> Result<Option<Outgoing>, StoreError> {
    let Deliverable::Command { id, delivery } = commands::deliverable(tx, row.n)? else {
        cancel(tx, row.n, FailCode::InvalidBody)?;
        return Ok(None);
    };
    tx.execute(
        "UPDATE commands SET state = 'dispatched', attempt = ?2, session_epoch = ?3, dispatched_boot_id = ?4,
             dispatched_journal_id = ?5, dispatched_at = ?6 WHERE n = ?1",
        args![row.n, delivery.attempt, session.epoch, session.boot, session.journal, now],
    )?;
    Ok(Some(Outgoing { node: session.node.clone(), epoch: session.epoch, command_id: id, delivery }))
}

fn cancel(tx: &mut Tx<'_>, n: i64, code: FailCode) -> Result<(), StoreError> {
    commands::settle(tx, n, &Settle { state: CommandState::Cancelled, code: code.name(), attestation: None })
}
