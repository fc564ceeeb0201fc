//! Tenants and principals.

use crate::db::{Row, StoreError, Tx, args};
use model::{PrincipalId, ServerTimeMs, TenantId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantRow {
    pub id: TenantId,
    /// `None` for the root.
    pub parent: Option<TenantId>,
    pub name: String,
    pub version: u64,
    pub created_at: ServerTimeMs,
}

/// Creates a tenant; one that exists already stays as it is.
pub fn create_tenant(tx: &mut Tx<'_>, id: &TenantId, parent: Option<&TenantId>, name: &str) -> Result<(), StoreError> {
    let now = tx.now()?;
    tx.execute(
        "INSERT INTO tenants (id, parent_id, name, version, created_at) VALUES (?1, ?2, ?3, 1, ?4)
         ON CONFLICT (id) DO NOTHING",
        args![id, parent, name, now],
    )?;
    Ok(())
}

pub fn get_tenant(tx: &mut Tx<'_>, id: &TenantId) -> Result<Option<TenantRow>, StoreError> {
    let sql = "SELECT id, parent_id, name, version, created_at FROM tenants WHERE id = ?1";
    tx.query_opt(sql, args![id], read)
}

/// Tenants by id, after `cursor`.
pub fn list_tenants(tx: &mut Tx<'_>, cursor: Option<&str>, limit: u32) -> Result<Vec<TenantRow>, StoreError> {
    tx.query(
        "SELECT id, parent_id, name, version, created_at FROM tenants WHERE ?1 IS NULL OR id > ?1
         ORDER BY id LIMIT ?2",
        args![cursor, limit],
        read,
    )
}

/// Whether `tenant` is `ancestor` or below it.
pub fn is_within(tx: &mut Tx<'_>, tenant: &TenantId, ancestor: &TenantId) -> Result<bool, StoreError> {
    tx.exists(
        "WITH RECURSIVE up (id) AS (
             SELECT id FROM tenants WHERE id = ?1
             UNION SELECT t.parent_id FROM tenants t JOIN up ON t.id = up.id WHERE t.parent_id IS NOT NULL
         ) SELECT 1 FROM up WHERE id = ?2",
        args![tenant, ancestor],
    )
}

/// Creates a principal; one that exists already stays as it is.
pub fn create_principal(tx: &mut Tx<'_>, id: &PrincipalId, tenant: &TenantId, name: &str) -> Result<(), StoreError> {
    let now = tx.now()?;
    tx.execute(
        "INSERT INTO principals (id, tenant_id, name, created_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (id) DO NOTHING",
        args![id, tenant, name, now],
    )?;
    Ok(())
}

fn read(row: &mut Row<'_>) -> Result<TenantRow, StoreError> {
    Ok(TenantRow {
        id: row.take()?,
        parent: row.take()?,
        name: row.take()?,
        version: row.take()?,
        created_at: row.take()?,
    })
}
