//! Pools: machines of one site under one policy.

use super::CreateError;
use crate::db::{Row, StoreError, Tx, args};
use crate::outbox::{self, EventRow};
use crate::status::{ADOPTION_AUTO, ADOPTION_MANUAL};
use model::{PoolId, ServerTimeMs, SiteId, TenantId};
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub struct NewPool {
    pub id: PoolId,
    pub tenant: TenantId,
    pub site: SiteId,
    pub name: String,
    /// Read here: `adoption` (`auto` or `manual`) and `joinAttestors`.
    pub policy: Value,
    /// No destructive command goes to a node of it (F-Q6).
    pub tenant_controlled: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PoolRow {
    pub id: PoolId,
    pub tenant: TenantId,
    pub site: SiteId,
    pub name: String,
    pub policy: Value,
    pub tenant_controlled: bool,
    pub version: u64,
    pub created_at: ServerTimeMs,
}

/// What to change; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct PoolUpdate {
    pub policy: Option<Value>,
    pub tenant_controlled: Option<bool>,
    /// The version the caller has seen.
    pub version: Option<u64>,
}

#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    #[error("there is no such pool")]
    NoSuch,
    #[error("the pool has changed: its version is {0}")]
    Stale(u64),
    #[error(transparent)]
    Store(#[from] StoreError),
}

const COLUMNS: &str = "id, tenant_id, site_id, name, policy, tenant_controlled, version, created_at";

pub fn create_pool(tx: &mut Tx<'_>, new: &NewPool) -> Result<PoolRow, CreateError> {
    let now = tx.now()?;
    if !tx.exists("SELECT 1 FROM sites WHERE id = ?1", args![new.site])? {
        return Err(CreateError::NoSuch(format!("site {}", new.site)));
    }
    if tx.exists("SELECT 1 FROM pools WHERE site_id = ?1 AND name = ?2", args![new.site, new.name])? {
        return Err(CreateError::NameTaken(new.name.clone()));
    }
    tx.execute(
        "INSERT INTO pools (id, tenant_id, site_id, name, policy, tenant_controlled, adoption, version, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, ?8)",
        args![
            new.id,
            new.tenant,
            new.site,
            new.name,
            new.policy.to_string(),
            new.tenant_controlled,
            adoption(&new.policy),
            now
        ],
    )?;
    publish(tx, "pool.created", &new.tenant, &new.id)?;
    let row = get_pool(tx, &new.id)?;
    Ok(row.ok_or_else(|| StoreError::Corrupt(format!("the pool {} just inserted is missing", new.id)))?)
}

pub fn get_pool(tx: &mut Tx<'_>, id: &PoolId) -> Result<Option<PoolRow>, StoreError> {
    tx.query_opt(&format!("SELECT {COLUMNS} FROM pools WHERE id = ?1"), args![id], read)
}

/// Pools by id, after `cursor`: those of a tenant, or all.
pub fn list_pools(
    tx: &mut Tx<'_>,
    tenant: Option<&TenantId>,
    cursor: Option<&str>,
    limit: u32,
) -> Result<Vec<PoolRow>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM pools WHERE (?1 IS NULL OR tenant_id = ?1) AND (?2 IS NULL OR id > ?2)
         ORDER BY id LIMIT ?3"
    );
    tx.query(&sql, args![tenant, cursor, limit], read)
}

/// Changes a pool; a stale version is refused.
pub fn update_pool(tx: &mut Tx<'_>, id: &PoolId, update: &PoolUpdate) -> Result<PoolRow, UpdateError> {
    let row = get_pool(tx, id)?.ok_or(UpdateError::NoSuch)?;
    if update.version.is_some_and(|version| version != row.version) {
        return Err(UpdateError::Stale(row.version));
    }
    let policy = update.policy.clone().unwrap_or(row.policy);
    let tenant_controlled = update.tenant_controlled.unwrap_or(row.tenant_controlled);
    tx.execute(
        "UPDATE pools SET policy = ?2, adoption = ?3, tenant_controlled = ?4, version = version + 1 WHERE id = ?1",
        args![id, policy.to_string(), adoption(&policy), tenant_controlled],
    )?;
    publish(tx, "pool.updated", &row.tenant, id)?;
    get_pool(tx, id)?.ok_or(UpdateError::NoSuch)
}

fn publish(tx: &mut Tx<'_>, topic: &str, tenant: &TenantId, id: &PoolId) -> Result<(), StoreError> {
    let payload = json!({ "poolId": id.as_str() });
    outbox::publish(tx, &EventRow { topic, tenant, key: id.as_str(), payload })
}

fn adoption(policy: &Value) -> &'static str {
    let manual = policy.get("adoption").and_then(Value::as_str) == Some(ADOPTION_MANUAL);
    if manual { ADOPTION_MANUAL } else { ADOPTION_AUTO }
}

fn read(row: &mut Row<'_>) -> Result<PoolRow, StoreError> {
    let (id, tenant, site, name) = (row.take()?, row.take()?, row.take()?, row.take()?);
    let policy: String = row.take()?;
    let policy = serde_json::from_str(&policy)
        .map_err(|error| StoreError::Corrupt(format!("the policy of pool {id}: {error}")))?;
    Ok(PoolRow {
        id,
        tenant,
        site,
        name,
        policy,
        tenant_controlled: row.take()?,
        version: row.take()?,
        created_at: row.take()?,
    })
}
