//! Nodes as people and controllers read them: lifecycle, connection, what the daemon last said.

use crate::db::{Row, StoreError, Tx, args};
use crate::status::set_lifecycle;
use model::{BootId, GatewayId, Lifecycle, NodeId, PoolId, Role, ServerTimeMs, SiteId, TenantId};
use serde_json::Value;

/// Rows one list returns at most.
const LIST_ROWS_MAX: u32 = 1000;

/// A node, with its newest session.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRow {
    pub id: NodeId,
    pub name: String,
    pub tenant: TenantId,
    pub site: SiteId,
    pub pool: PoolId,
    pub role: Role,
    pub lifecycle: Lifecycle,
    pub revoked_at: Option<ServerTimeMs>,
    pub hostname: String,
    pub daemon_version: String,
    /// As advertised; each is the label `bc.dev/cap.<capability>=1`.
    pub capabilities: Vec<String>,
    pub applied_generation: u64,
    pub observed_generation: u64,
    /// `conditions` (with `sinceMs`), `gauges`, generations; `None` before the first report.
    pub status: Option<Value>,
    pub inventory_digest: String,
    pub inventory_at: Option<ServerTimeMs>,
    pub version: u64,
    pub created_at: ServerTimeMs,
    pub session: Option<SessionRow>,
}

/// A node's newest session, open or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    pub epoch: u64,
    pub gateway: GatewayId,
    pub connected: bool,
    pub boot: BootId,
    pub acked_event_seq: u64,
    pub upgrade_required: bool,
    pub connected_at: ServerTimeMs,
    pub last_seen_at: ServerTimeMs,
    pub lost_since: Option<ServerTimeMs>,
    pub end_code: Option<String>,
}

/// Which nodes a list returns.
#[derive(Clone, Debug, Default)]
pub struct NodeFilter {
    pub tenant: Option<TenantId>,
    pub pool: Option<PoolId>,
}

/// How many nodes there are, and how they stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    pub total: u64,
    pub connected: u64,
    pub adopting: u64,
    pub ready: u64,
}

const SELECT: &str = "SELECT n.id, n.name, n.tenant_id, n.site_id, n.pool_id, n.role, n.lifecycle, n.revoked_at,
        n.hostname, n.daemon_version, n.capabilities, n.applied_generation, n.observed_generation, n.status,
        n.inventory_digest, n.inventory_at, n.version, n.created_at,
        s.session_epoch, s.gateway_id, s.state <> 'closed', s.boot_id, s.acked_event_seq, s.upgrade_required,
        s.connected_at, s.last_seen_at, s.lost_since, s.end_code
    FROM nodes n LEFT JOIN node_sessions s ON s.node_id = n.id";

pub fn get_node(tx: &mut Tx<'_>, id: &NodeId) -> Result<Option<NodeRow>, StoreError> {
    tx.query_opt(&format!("{SELECT} WHERE n.id = ?1"), args![id], read)
}

/// The node of that name, if there is one.
pub fn node_by_name(tx: &mut Tx<'_>, name: &str) -> Result<Option<NodeRow>, StoreError> {
    tx.query_opt(&format!("{SELECT} WHERE n.name = ?1"), args![name], read)
}

/// Nodes by id, after `cursor`.
pub fn list_nodes(
    tx: &mut Tx<'_>,
    filter: &NodeFilter,
    cursor: Option<&str>,
    limit: u32,
) -> Result<Vec<NodeRow>, StoreError> {
    let sql = format!(
        "{SELECT} WHERE (?1 IS NULL OR n.tenant_id = ?1) AND (?2 IS NULL OR n.pool_id = ?2)
         AND (?3 IS NULL OR n.id > ?3) ORDER BY n.id LIMIT ?4"
    );
    tx.query(&sql, args![filter.tenant, filter.pool, cursor, limit.min(LIST_ROWS_MAX)], read)
}

/// The node's newest inventory as it came, if there is one.
pub fn node_inventory(tx: &mut Tx<'_>, id: &NodeId) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(tx.query_opt("SELECT inventory FROM nodes WHERE id = ?1", args![id], |row| row.take())?.flatten())
}

/// Counts the nodes of a tenant, or all, that are neither revoked nor retired.
pub fn count_nodes(tx: &mut Tx<'_>, tenant: Option<&TenantId>) -> Result<NodeCounts, StoreError> {
    tx.query_one(
        "SELECT count(*), COALESCE(sum(s.state IS NOT NULL AND s.state <> 'closed'), 0),
             COALESCE(sum(n.lifecycle = 'adopting'), 0), COALESCE(sum(n.lifecycle = 'ready'), 0)
         FROM nodes n LEFT JOIN node_sessions s ON s.node_id = n.id
         WHERE (?1 IS NULL OR n.tenant_id = ?1) AND n.revoked_at IS NULL AND n.lifecycle <> 'retired'",
        args![tenant],
        |row| Ok(NodeCounts { total: row.take()?, connected: row.take()?, adopting: row.take()?, ready: row.take()? }),
    )
}

/// A person adopts a node whose pool leaves that to people. `false` unless it is `adopting`.
pub fn adopt_node(tx: &mut Tx<'_>, id: &NodeId) -> Result<bool, StoreError> {
    let tenant: Option<TenantId> = tx.query_opt(
        "SELECT tenant_id FROM nodes WHERE id = ?1 AND lifecycle = 'adopting' AND revoked_at IS NULL",
        args![id],
        |row| row.take(),
    )?;
    let Some(tenant) = tenant else { return Ok(false) };
    set_lifecycle(tx, id, &tenant, Lifecycle::Ready)?;
    Ok(true)
}

fn read(row: &mut Row<'_>) -> Result<NodeRow, StoreError> {
    Ok(NodeRow {
        id: row.take()?,
        name: row.take()?,
        tenant: row.take()?,
        site: row.take()?,
        pool: row.take()?,
        role: row.take()?,
        lifecycle: row.take()?,
        revoked_at: row.take()?,
        hostname: row.take()?,
        daemon_version: row.take()?,
        capabilities: json(&row.take::<String>()?)?,
        applied_generation: row.take()?,
        observed_generation: row.take()?,
        status: row.take::<Option<String>>()?.as_deref().map(json).transpose()?,
        inventory_digest: row.take()?,
        inventory_at: row.take()?,
        version: row.take()?,
        created_at: row.take()?,
        session: read_session(row)?,
    })
}

fn read_session(row: &mut Row<'_>) -> Result<Option<SessionRow>, StoreError> {
    let Some(epoch) = row.take::<Option<u64>>()? else { return Ok(None) };
    Ok(Some(SessionRow {
        epoch,
        gateway: row.take()?,
        connected: row.take()?,
        boot: row.take()?,
        acked_event_seq: row.take()?,
        upgrade_required: row.take()?,
        connected_at: row.take()?,
        last_seen_at: row.take()?,
        lost_since: row.take()?,
        end_code: row.take()?,
    }))
}

fn json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt(format!("a JSON column: {error}")))
}
