//! API tokens `bct_<id>.<secret>`: the id is a key here, of the secret only the hash is kept.

use crate::db::{Row, StoreError, Tx, args};
use model::{PrincipalId, ServerTimeMs, TenantId};

/// A token to keep.
#[derive(Clone, Debug)]
pub struct NewApiToken {
    pub id: String,
    pub tenant: TenantId,
    pub principal: PrincipalId,
    pub name: String,
    pub secret_sha256: [u8; 32],
    pub expires_at: Option<ServerTimeMs>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiTokenRow {
    pub id: String,
    pub tenant: TenantId,
    pub principal: PrincipalId,
    pub name: String,
    pub expires_at: Option<ServerTimeMs>,
    pub revoked_at: Option<ServerTimeMs>,
    pub created_at: ServerTimeMs,
}

/// Who a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub tenant: TenantId,
    pub principal: PrincipalId,
    pub token_id: String,
}

const COLUMNS: &str = "id, tenant_id, principal_id, name, expires_at, revoked_at, created_at";

/// Keeps a token; one that exists already stays as it is.
pub fn create_api_token(tx: &mut Tx<'_>, new: &NewApiToken) -> Result<(), StoreError> {
    let now = tx.now()?;
    tx.execute(
        "INSERT INTO api_tokens (id, tenant_id, principal_id, name, secret_sha256, expires_at, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (id) DO NOTHING",
        args![new.id, new.tenant, new.principal, new.name, new.secret_sha256, new.expires_at, now],
    )?;
    Ok(())
}

/// Whose token this is, if it is neither unknown, revoked nor expired. The caller compares nothing:
/// hashes are looked up by id and compared here.
pub fn authenticate(tx: &mut Tx<'_>, id: &str, secret_sha256: &[u8; 32]) -> Result<Option<Identity>, StoreError> {
    let now = tx.now()?;
    tx.query_opt(
        "SELECT tenant_id, principal_id, id FROM api_tokens
         WHERE id = ?1 AND secret_sha256 = ?2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?3)",
        args![id, secret_sha256, now],
        |row| Ok(Identity { tenant: row.take()?, principal: row.take()?, token_id: row.take()? }),
    )
}

pub fn get_api_token(tx: &mut Tx<'_>, id: &str) -> Result<Option<ApiTokenRow>, StoreError> {
    tx.query_opt(&format!("SELECT {COLUMNS} FROM api_tokens WHERE id = ?1"), args![id], read)
}

/// Tokens of a tenant by id, after `cursor`.
pub fn list_api_tokens(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    cursor: Option<&str>,
    limit: u32,
) -> Result<Vec<ApiTokenRow>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM api_tokens WHERE tenant_id = ?1 AND (?2 IS NULL OR id > ?2) ORDER BY id LIMIT ?3"
    );
    tx.query(&sql, args![tenant, cursor, limit], read)
}

/// Revokes a token. `false` if there is none, or it was revoked before.
pub fn revoke_api_token(tx: &mut Tx<'_>, id: &str) -> Result<bool, StoreError> {
    let now = tx.now()?;
    let sql = "UPDATE api_tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
    Ok(tx.execute(sql, args![id, now])? == 1)
}

fn read(row: &mut Row<'_>) -> Result<ApiTokenRow, StoreError> {
    Ok(ApiTokenRow {
        id: row.take()?,
        tenant: row.take()?,
        principal: row.take()?,
        name: row.take()?,
        expires_at: row.take()?,
        revoked_at: row.take()?,
        created_at: row.take()?,
    })
}
