//! Commands as people and controllers read them.

use crate::db::{FromValue, Row, StoreError, ToValue, Tx, Value, args};
use crate::signed;
use model::frame::Signed;
use model::{BootId, CommandId, CommandState, Lane, NodeId, Outcome, PrincipalId, ServerTimeMs, TenantId};

/// Rows one list returns at most.
const LIST_ROWS_MAX: u32 = 1000;

/// How far the node's signature of a result is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attestation {
    /// The kind is not attested.
    None,
    /// Not reported, or not verified yet.
    Unverified,
    Verified,
    Forged,
}

impl Attestation {
    const ALL: [Self; 4] = [Self::None, Self::Unverified, Self::Verified, Self::Forged];

    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Unverified => "unverified",
            Self::Verified => "verified",
            Self::Forged => "forged",
        }
    }
}

impl ToValue for Attestation {
    fn to_value(&self) -> Value<'_> {
        Value::Text(self.name())
    }
}

impl FromValue for Attestation {
    fn from_value(value: Value<'_>) -> Option<Self> {
        Self::ALL.into_iter().find(|known| Value::Text(known.name()) == value)
    }
}

/// A command without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRow {
    /// Where it stands among all commands; a list's cursor.
    pub n: u64,
    pub id: CommandId,
    pub node: NodeId,
    pub tenant: TenantId,
    pub principal: PrincipalId,
    pub seq: u64,
    pub kind: String,
    pub lane: Lane,
    pub state: CommandState,
    pub code: String,
    pub idempotency_key: String,
    pub min_generation: u64,
    pub workflow_id: String,
    pub step_id: String,
    pub batch_id: String,
    pub attempt: u32,
    pub session_epoch: Option<u64>,
    pub created_at: ServerTimeMs,
    pub issued_at: ServerTimeMs,
    pub not_before: ServerTimeMs,
    pub not_after: ServerTimeMs,
    pub dispatched_at: Option<ServerTimeMs>,
    pub acked_at: Option<ServerTimeMs>,
    pub running_at: Option<ServerTimeMs>,
    pub settled_at: Option<ServerTimeMs>,
    pub cancel_requested_at: Option<ServerTimeMs>,
    pub cancel_reason: Option<String>,
    /// What the node reported; for attested kinds it counts once verified.
    pub reported_outcome: Option<Outcome>,
    pub result_boot: Option<BootId>,
    pub attestation: Attestation,
    /// An attested result is stored and waits for the verifier.
    pub awaits_verification: bool,
}

/// A result exactly as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResult {
    pub outcome: Outcome,
    /// A serialized `CommandResult`.
    pub result: Vec<u8>,
    pub boot: BootId,
    pub node_sig: Option<Signed>,
}

/// Which commands a list returns.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    pub tenant: Option<TenantId>,
    pub node: Option<NodeId>,
    pub state: Option<CommandState>,
}

const COLUMNS: &str = "n, id, node_id, tenant_id, principal_id, seq, kind, lane, state, code, idempotency_key,
    min_generation, workflow_id, step_id, batch_id, attempt, session_epoch, created_at, issued_at, not_before,
    not_after, dispatched_at, acked_at, running_at, settled_at, cancel_requested_at, cancel_reason, reported_outcome,
    result_boot_id, attestation, awaiting";

/// One command.
pub fn get(tx: &mut Tx<'_>, id: &CommandId) -> Result<Option<CommandRow>, StoreError> {
    tx.query_opt(&format!("SELECT {COLUMNS} FROM commands WHERE id = ?1"), args![id], read_row)
}

/// Commands, newest first, before the row whose `n` is `cursor`.
pub fn list(
    tx: &mut Tx<'_>,
    filter: &ListFilter,
    cursor: Option<u64>,
    limit: u32,
) -> Result<Vec<CommandRow>, StoreError> {
    let node = if filter.node.is_some() { "node_id = ?1" } else { "?1 IS NULL" };
    let tenant = if filter.tenant.is_some() { "tenant_id = ?2" } else { "?2 IS NULL" };
    // A literal, so that the partial indexes on states can serve it.
    let state = filter.state.map_or_else(|| "1 = 1".to_owned(), |state| format!("state = '{}'", state.name()));
    let sql = format!(
        "SELECT {COLUMNS} FROM commands WHERE {node} AND {tenant} AND {state} AND (?3 IS NULL OR n < ?3)
         ORDER BY n DESC LIMIT ?4"
    );
    tx.query(&sql, args![filter.node, filter.tenant, cursor, limit.min(LIST_ROWS_MAX)], read_row)
}

/// The stored result of a command, if its node reported one.
pub fn result(tx: &mut Tx<'_>, id: &CommandId) -> Result<Option<StoredResult>, StoreError> {
    let found = tx.query_opt(
        "SELECT reported_outcome, result, result_boot_id, node_sig_body, node_sig_kid, node_sig_chain,
             node_sig_signature FROM commands WHERE id = ?1",
        args![id],
        |row| {
            let (outcome, result) = (row.take::<Option<Outcome>>()?, row.take::<Option<Vec<u8>>>()?);
            let (boot, node_sig) = (row.take::<Option<BootId>>()?, signed::take_opt(row)?);
            Ok((outcome, result, boot, node_sig))
        },
    )?;
    Ok(match found {
        Some((Some(outcome), Some(result), Some(boot), node_sig)) => {
            Some(StoredResult { outcome, result, boot, node_sig })
        }
        _ => None,
    })
}

/// Commands that have no outcome yet.
pub fn open_count(tx: &mut Tx<'_>, tenant: Option<&TenantId>) -> Result<u64, StoreError> {
    tx.query_one(
        "SELECT (SELECT count(*) FROM commands WHERE state = 'pending' AND (?1 IS NULL OR tenant_id = ?1))
             + (SELECT count(*) FROM commands WHERE state IN ('dispatched', 'acked', 'running') AND awaiting = 0
                 AND (?1 IS NULL OR tenant_id = ?1))
             + (SELECT count(*) FROM commands WHERE awaiting = 1 AND (?1 IS NULL OR tenant_id = ?1))",
        args![tenant],
        |row| row.take(),
    )
}

fn read_row(row: &mut Row<'_>) -> Result<CommandRow, StoreError> {
    Ok(CommandRow {
        n: row.take()?,
        id: row.take()?,
        node: row.take()?,
        tenant: row.take()?,
        principal: row.take()?,
        seq: row.take()?,
        kind: row.take()?,
        lane: row.take()?,
        state: row.take()?,
        code: row.take()?,
        idempotency_key: row.take()?,
        min_generation: row.take()?,
        workflow_id: row.take()?,
        step_id: row.take()?,
        batch_id: row.take()?,
        attempt: row.take()?,
        session_epoch: row.take()?,
        created_at: row.take()?,
        issued_at: row.take()?,
        not_before: row.take()?,
        not_after: row.take()?,
        dispatched_at: row.take()?,
        acked_at: row.take()?,
        running_at: row.take()?,
        settled_at: row.take()?,
        cancel_requested_at: row.take()?,
        cancel_reason: row.take()?,
        reported_outcome: row.take()?,
        result_boot: row.take()?,
        attestation: row.take()?,
        awaits_verification: row.take()?,
    })
}
