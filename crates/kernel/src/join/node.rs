//! The row a join makes or takes over.

use super::redeem::{JoinFacts, Token};
use crate::db::{StoreError, Tx, args};
use crate::outbox::{self, EventRow};
use model::{Lifecycle, NodeId, TenantId};
use serde_json::json;

/// Names tried with a number before the node's id makes one.
const NAME_TRIES_MAX: u32 = 100;

/// The node that holds the machine's hardware key, if one does.
pub(super) fn holder_of_key(tx: &mut Tx<'_>, facts: &JoinFacts) -> Result<Option<NodeId>, StoreError> {
    let Some(key) = &facts.hardware_key else { return Ok(None) };
    tx.query_opt(
        "SELECT id FROM nodes WHERE hardware_key = ?1 AND revoked_at IS NULL AND lifecycle <> 'retired'",
        args![key],
        |row| row.take(),
    )
}

/// A new node, `adopting`, named for its host. Its id follows from the token and the CSR.
pub(super) fn create(
    tx: &mut Tx<'_>,
    token: &Token,
    csr_sha256: &[u8; 32],
    facts: &JoinFacts,
) -> Result<NodeId, StoreError> {
    let now = tx.now()?;
    let hash = stdx::id::derive(&["join", token.id.as_str(), &stdx::hex::encode(csr_sha256)]);
    let node = NodeId::new(format!("node_{hash}"));
    let name = free_name(tx, &facts.hostname, &hash)?;
    tx.execute(
        "INSERT INTO nodes (id, name, tenant_id, site_id, pool_id, role, lifecycle, hardware_key, product_uuid,
             product_serial, next_cmd_seq, applied_generation, applied_spec_hash, observed_generation, hostname,
             daemon_version, capabilities, inventory_digest, version, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 1, 0, '', 0, ?11, ?12, '[]', '', 1, ?13)",
        args![
            node,
            name,
            token.tenant,
            token.site,
            token.pool,
            token.role,
            Lifecycle::Adopting,
            facts.hardware_key,
            facts.product_uuid,
            facts.product_serial,
            facts.hostname,
            facts.daemon_version,
            now
        ],
    )?;
    announce(tx, &node, &token.tenant, &name, false)?;
    Ok(node)
}

/// The node that holds the machine's key joins again: same node, another CSR.
pub(super) fn reclaim(tx: &mut Tx<'_>, node: &NodeId, token: &Token, facts: &JoinFacts) -> Result<NodeId, StoreError> {
    let name: String = tx.query_one(
        "UPDATE nodes SET tenant_id = ?2, site_id = ?3, pool_id = ?4, hostname = ?5, daemon_version = ?6,
             version = version + 1 WHERE id = ?1 RETURNING name",
        args![node, token.tenant, token.site, token.pool, facts.hostname, facts.daemon_version],
        |row| row.take(),
    )?;
    announce(tx, node, &token.tenant, &name, true)?;
    Ok(node.clone())
}

fn announce(tx: &mut Tx<'_>, node: &NodeId, tenant: &TenantId, name: &str, reclaimed: bool) -> Result<(), StoreError> {
    let payload = json!({ "nodeId": node.as_str(), "name": name, "reclaimed": reclaimed });
    outbox::publish(tx, &EventRow { topic: "node.joined", tenant, key: node.as_str(), payload })
}

/// The host name, with a number when it is taken.
fn free_name(tx: &mut Tx<'_>, hostname: &str, hash: &str) -> Result<String, StoreError> {
    let base = if hostname.is_empty() { "node" } else { hostname };
    let numbered = (2..=NAME_TRIES_MAX).map(|number| format!("{base}-{number}"));
    for name in std::iter::once(base.to_owned()).chain(numbered) {
        if !tx.exists("SELECT 1 FROM nodes WHERE name = ?1", args![name])? {
            return Ok(name);
        }
    }
    Ok(format!("{base}-{}", hash.to_ascii_lowercase()))
}
