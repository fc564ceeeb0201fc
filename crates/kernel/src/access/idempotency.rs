//! Requests that were made before. The record is written in the transaction of its effect, so a retry
//! finds either both or neither; it is kept for good and holds no secret.

use crate::db::{StoreError, Tx, args};
use model::{PrincipalId, TenantId};

/// What identifies a request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub tenant: &'a TenantId,
    pub principal: &'a PrincipalId,
    pub verb: &'a str,
    pub key: &'a str,
    /// SHA-256 of the canonical request.
    pub sha256: [u8; 32],
}

/// What the store knows about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Earlier {
    New,
    /// It was answered with this.
    Same(String),
    /// Another request had this key.
    Conflict,
}

/// Whether the request was made before.
pub fn earlier(tx: &mut Tx<'_>, request: &Request<'_>) -> Result<Earlier, StoreError> {
    let found = tx.query_opt(
        "SELECT request_sha256, response FROM idempotency
         WHERE tenant_id = ?1 AND principal_id = ?2 AND verb = ?3 AND key = ?4",
        args![request.tenant, request.principal, request.verb, request.key],
        |row| Ok((row.take::<[u8; 32]>()?, row.take::<String>()?)),
    )?;
    Ok(match found {
        None => Earlier::New,
        Some((sha256, response)) if sha256 == request.sha256 => Earlier::Same(response),
        Some(_) => Earlier::Conflict,
    })
}

/// Records the answer to a new request. `response` holds no secret.
pub fn record(tx: &mut Tx<'_>, request: &Request<'_>, response: &str) -> Result<(), StoreError> {
    let now = tx.now()?;
    tx.execute(
        "INSERT INTO idempotency (tenant_id, principal_id, verb, key, request_sha256, response, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        args![request.tenant, request.principal, request.verb, request.key, request.sha256, response, now],
    )?;
    Ok(())
}
