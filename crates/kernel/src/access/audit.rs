//! What was decided about each mutation, and who asked. A denied one has nothing but this row.

use crate::db::{StoreError, Tx, args};
use model::{PrincipalId, ServerTimeMs, TenantId};

/// A decision to record.
#[derive(Clone, Debug)]
pub struct AuditEntry<'a> {
    pub tenant: &'a TenantId,
    pub principal: &'a PrincipalId,
    pub verb: &'a str,
    /// As `compute-node/{nodeId}`.
    pub resource: &'a str,
    pub allowed: bool,
    pub request_id: &'a str,
    /// JSON, without secrets.
    pub detail: &'a str,
}

/// A recorded decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    pub n: u64,
    pub at: ServerTimeMs,
    pub tenant: TenantId,
    pub principal: PrincipalId,
    pub verb: String,
    pub resource: String,
    pub allowed: bool,
    pub request_id: String,
    pub detail: String,
}

/// Records a decision in the caller's transaction.
pub fn audit(tx: &mut Tx<'_>, entry: &AuditEntry<'_>) -> Result<(), StoreError> {
    let now = tx.now()?;
    tx.execute(
        "INSERT INTO audit (at, tenant_id, principal_id, verb, resource, allowed, request_id, detail)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        args![
            now,
            entry.tenant,
            entry.principal,
            entry.verb,
            entry.resource,
            entry.allowed,
            entry.request_id,
            entry.detail
        ],
    )?;
    Ok(())
}

/// A tenant's decisions, newest first, before `cursor`.
pub fn audit_list(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    cursor: Option<u64>,
    limit: u32,
) -> Result<Vec<AuditRow>, StoreError> {
    tx.query(
        "SELECT n, at, tenant_id, principal_id, verb, resource, allowed, request_id, detail FROM audit
         WHERE tenant_id = ?1 AND (?2 IS NULL OR n < ?2) ORDER BY n DESC LIMIT ?3",
        args![tenant, cursor, limit],
        |row| {
            Ok(AuditRow {
                n: row.take()?,
                at: row.take()?,
                tenant: row.take()?,
                principal: row.take()?,
                verb: row.take()?,
                resource: row.take()?,
                allowed: row.take()?,
                request_id: row.take()?,
                detail: row.take()?,
            })
        },
    )
}
