//! The one way a command becomes terminal: state and code, the event, the wake-up, all in the
//! transaction that decided it. A terminal row never changes.

use super::read::Attestation;
use crate::db::{Hint, StoreError, Tx, args};
use crate::outbox::{self, EventRow};
use model::{CommandId, CommandState, FailCode, NodeId, TenantId};
use serde_json::json;

/// How a command ends.
#[derive(Clone, Debug)]
pub(crate) struct Settle<'a> {
    pub state: CommandState,
    /// A `FailCode`, a `RejectReason`, a kind's own code, `rebooted`, or empty.
    pub code: &'a str,
    /// The verifier's finding, where there is one.
    pub attestation: Option<Attestation>,
}

struct Settled {
    id: CommandId,
    node: NodeId,
    tenant: TenantId,
    seq: u64,
    kind: String,
}

/// Ends row `n`, publishes `command.settled` and wakes whoever waits for the node.
pub(crate) fn settle(tx: &mut Tx<'_>, n: i64, how: &Settle<'_>) -> Result<(), StoreError> {
    debug_assert!(how.state.is_terminal());
    let now = tx.now()?;
    let changed = tx.execute(
        "UPDATE commands SET state = ?2, code = ?3, settled_at = ?4, awaiting = 0,
             attestation = COALESCE(?5, attestation)
         WHERE n = ?1 AND settled_at IS NULL",
        args![n, how.state, how.code, now, how.attestation],
    )?;
    if changed != 1 {
        return Err(StoreError::Statement(format!("command row {n} was settled twice")));
    }
    let row = tx.query_one("SELECT id, node_id, tenant_id, seq, kind FROM commands WHERE n = ?1", args![n], |row| {
        Ok(Settled { id: row.take()?, node: row.take()?, tenant: row.take()?, seq: row.take()?, kind: row.take()? })
    })?;
    publish(tx, &row, how)?;
    // Credit is free, or a waiting controller can go on.
    tx.hint(Hint::Node(row.node));
    Ok(())
}

fn publish(tx: &mut Tx<'_>, row: &Settled, how: &Settle<'_>) -> Result<(), StoreError> {
    let payload = json!({
        "commandId": row.id.as_str(), "nodeId": row.node.as_str(), "seq": row.seq, "kind": row.kind,
        "state": how.state.name(), "code": how.code,
    });
    let event = EventRow { topic: "command.settled", tenant: &row.tenant, key: row.id.as_str(), payload };
    outbox::publish(tx, &event)
}

/// Ends every open command of a node that was revoked or retired. Stored results that wait for the
/// verifier stay with it. Bounded by the queue's bound and the credits.
pub(crate) fn settle_node(tx: &mut Tx<'_>, node: &NodeId) -> Result<(), StoreError> {
    let pending: Vec<i64> =
        tx.query("SELECT n FROM commands WHERE state = 'pending' AND node_id = ?1", args![node], |row| row.take())?;
    let in_flight: Vec<i64> = tx.query(
        "SELECT n FROM commands
         WHERE node_id = ?1 AND state IN ('dispatched', 'acked', 'running') AND awaiting = 0",
        args![node],
        |row| row.take(),
    )?;
    let code = FailCode::NodeRetired.name();
    for n in pending {
        settle(tx, n, &Settle { state: CommandState::Cancelled, code, attestation: None })?;
    }
    for n in in_flight {
        settle(tx, n, &Settle { state: CommandState::Failed, code, attestation: None })?;
    }
    Ok(())
}
