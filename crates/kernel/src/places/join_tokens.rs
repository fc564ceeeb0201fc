//! Join tokens `bcjt_<id>.<secret>`: bound to site, pool, role, uses and expiry; of the secret only
//! the hash is kept. Using one is `join::redeem_token`.

use super::CreateError;
use crate::db::{Row, StoreError, Tx, args};
use crate::outbox::{self, EventRow};
use model::{PoolId, Role, ServerTimeMs, SiteId, TenantId, TokenId};
use serde_json::json;

#[derive(Clone, Debug)]
pub struct NewJoinToken {
    pub id: TokenId,
    pub tenant: TenantId,
    /// Its site is the token's.
    pub pool: PoolId,
    pub role: Role,
    pub secret_sha256: [u8; 32],
    pub uses_max: u32,
    pub expires_at: ServerTimeMs,
    pub expect_mac: Option<String>,
    pub allow_reclaim: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinTokenRow {
    pub id: TokenId,
    pub tenant: TenantId,
    pub site: SiteId,
    pub pool: PoolId,
    pub role: Role,
    pub uses_max: u32,
    pub uses: u32,
    pub expires_at: ServerTimeMs,
    pub expect_mac: Option<String>,
    pub allow_reclaim: bool,
    pub revoked_at: Option<ServerTimeMs>,
    pub created_at: ServerTimeMs,
}

const COLUMNS: &str = "id, tenant_id, site_id, pool_id, role, uses_max, uses, expires_at, expect_mac, allow_reclaim,
    revoked_at, created_at";

pub fn create_join_token(tx: &mut Tx<'_>, new: &NewJoinToken) -> Result<JoinTokenRow, CreateError> {
    let now = tx.now()?;
    let site: Option<SiteId> =
        tx.query_opt("SELECT site_id FROM pools WHERE id = ?1", args![new.pool], |row| row.take())?;
    let site = site.ok_or_else(|| CreateError::NoSuch(format!("pool {}", new.pool)))?;
    tx.execute(
        "INSERT INTO join_tokens (id, tenant_id, site_id, pool_id, role, secret_sha256, uses_max, uses, expires_at,
             expect_mac, allow_reclaim, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9, ?10, ?11)",
        args![
            new.id,
            new.tenant,
            site,
            new.pool,
            new.role,
            new.secret_sha256,
            new.uses_max,
            new.expires_at,
            new.expect_mac,
            new.allow_reclaim,
            now
        ],
    )?;
    publish(tx, "join-token.created", &new.tenant, &new.id)?;
    let row = get_join_token(tx, &new.id)?;
    Ok(row.ok_or_else(|| StoreError::Corrupt(format!("the join token {} just inserted is missing", new.id)))?)
}

pub fn get_join_token(tx: &mut Tx<'_>, id: &TokenId) -> Result<Option<JoinTokenRow>, StoreError> {
    tx.query_opt(&format!("SELECT {COLUMNS} FROM join_tokens WHERE id = ?1"), args![id], read)
}

/// Join tokens of a tenant by id, after `cursor`, of one pool or of all.
pub fn list_join_tokens(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    pool: Option<&PoolId>,
    cursor: Option<&str>,
    limit: u32,
) -> Result<Vec<JoinTokenRow>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM join_tokens
         WHERE tenant_id = ?1 AND (?2 IS NULL OR pool_id = ?2) AND (?3 IS NULL OR id > ?3) ORDER BY id LIMIT ?4"
    );
    tx.query(&sql, args![tenant, pool, cursor, limit], read)
}

/// Revokes a token: no further machine gets in by it. `false` if there is none, or it was revoked.
pub fn revoke_join_token(tx: &mut Tx<'_>, id: &TokenId) -> Result<bool, StoreError> {
    let now = tx.now()?;
    let tenant: Option<TenantId> = tx.query_opt(
        "UPDATE join_tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL RETURNING tenant_id",
        args![id, now],
        |row| row.take(),
    )?;
    let Some(tenant) = tenant else { return Ok(false) };
    publish(tx, "join-token.revoked", &tenant, id)?;
    Ok(true)
}

fn publish(tx: &mut Tx<'_>, topic: &str, tenant: &TenantId, id: &TokenId) -> Result<(), StoreError> {
    let payload = json!({ "tokenId": id.as_str() });
    outbox::publish(tx, &EventRow { topic, tenant, key: id.as_str(), payload })
}

fn read(row: &mut Row<'_>) -> Result<JoinTokenRow, StoreError> {
    Ok(JoinTokenRow {
        id: row.take()?,
        tenant: row.take()?,
        site: row.take()?,
        pool: row.take()?,
        role: row.take()?,
        uses_max: row.take()?,
        uses: row.take()?,
        expires_at: row.take()?,
        expect_mac: row.take()?,
        allow_reclaim: row.take()?,
        revoked_at: row.take()?,
        created_at: row.take()?,
    })
}
