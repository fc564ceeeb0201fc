//! Sites: a place with machines, of a tenant.

use super::CreateError;
use crate::db::{Row, StoreError, Tx, args};
use crate::outbox::{self, EventRow};
use model::{ServerTimeMs, SiteId, TenantId};
use serde_json::json;

#[derive(Clone, Debug)]
pub struct NewSite {
    pub id: SiteId,
    pub tenant: TenantId,
    pub name: Option<String>,
    /// `shared`, `dedicated` or `owned`.
    pub kind: String,
    pub region: String,
    pub iam_region: Option<String>,
    pub dedicated_tenant: Option<TenantId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteRow {
    pub id: SiteId,
    pub tenant: TenantId,
    pub name: Option<String>,
    pub kind: String,
    pub region: String,
    pub iam_region: Option<String>,
    pub dedicated_tenant: Option<TenantId>,
    pub version: u64,
    pub created_at: ServerTimeMs,
}

const COLUMNS: &str = "id, tenant_id, name, kind, region, iam_region, dedicated_tenant_id, version, created_at";

pub fn create_site(tx: &mut Tx<'_>, new: &NewSite) -> Result<SiteRow, CreateError> {
    let now = tx.now()?;
    if let Some(name) = &new.name
        && tx.exists("SELECT 1 FROM sites WHERE tenant_id = ?1 AND name = ?2", args![new.tenant, name])?
    {
        return Err(CreateError::NameTaken(name.clone()));
    }
    for tenant in [Some(&new.tenant), new.dedicated_tenant.as_ref()].into_iter().flatten() {
        if !tx.exists("SELECT 1 FROM tenants WHERE id = ?1", args![tenant])? {
            return Err(CreateError::NoSuch(format!("tenant {tenant}")));
        }
    }
    tx.execute(
        "INSERT INTO sites (id, tenant_id, name, kind, region, iam_region, dedicated_tenant_id, version, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, ?8)",
        args![new.id, new.tenant, new.name, new.kind, new.region, new.iam_region, new.dedicated_tenant, now],
    )?;
    let payload = json!({ "siteId": new.id.as_str() });
    outbox::publish(tx, &EventRow { topic: "site.created", tenant: &new.tenant, key: new.id.as_str(), payload })?;
    let row = get_site(tx, &new.id)?;
    Ok(row.ok_or_else(|| StoreError::Corrupt(format!("the site {} just inserted is missing", new.id)))?)
}

pub fn get_site(tx: &mut Tx<'_>, id: &SiteId) -> Result<Option<SiteRow>, StoreError> {
    tx.query_opt(&format!("SELECT {COLUMNS} FROM sites WHERE id = ?1"), args![id], read)
}

/// Sites by id, after `cursor`: those of a tenant, or all.
pub fn list_sites(
    tx: &mut Tx<'_>,
    tenant: Option<&TenantId>,
    cursor: Option<&str>,
    limit: u32,
) -> Result<Vec<SiteRow>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM sites WHERE (?1 IS NULL OR tenant_id = ?1) AND (?2 IS NULL OR id > ?2)
         ORDER BY id LIMIT ?3"
    );
    tx.query(&sql, args![tenant, cursor, limit], read)
}

fn read(row: &mut Row<'_>) -> Result<SiteRow, StoreError> {
    Ok(SiteRow {
        id: row.take()?,
        tenant: row.take()?,
        name: row.take()?,
        kind: row.take()?,
        region: row.take()?,
        iam_region: row.take()?,
        dedicated_tenant: row.take()?,
        version: row.take()?,
        created_at: row.take()?,
    })
}
