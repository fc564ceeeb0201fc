//! Taking trust back: of one certificate, of a node, for good. The node's session ends at once.

use crate::commands::settle_node;
use crate::db::{Hint, StoreError, Tx, args};
use crate::outbox::{self, EventRow};
use crate::status::set_lifecycle;
use model::{Lifecycle, NodeId, TenantId};
use serde_json::json;

/// Revokes a node: no session, no renewal, no command any more. `false` if there is none, or it was
/// revoked before.
pub fn revoke_node(tx: &mut Tx<'_>, node: &NodeId, reason: &str) -> Result<bool, StoreError> {
    let now = tx.now()?;
    let tenant: Option<TenantId> = tx.query_opt(
        "UPDATE nodes SET revoked_at = ?2, revoked_reason = ?3, version = version + 1
         WHERE id = ?1 AND revoked_at IS NULL RETURNING tenant_id",
        args![node, now, reason],
        |row| row.take(),
    )?;
    let Some(tenant) = tenant else { return Ok(false) };
    let payload = json!({ "nodeId": node.as_str(), "reason": reason });
    outbox::publish(tx, &EventRow { topic: "node.revoked", tenant: &tenant, key: node.as_str(), payload })?;
    end(tx, node)?;
    Ok(true)
}

/// Retires a node. `false` if there is none, or it was retired before.
pub fn retire_node(tx: &mut Tx<'_>, node: &NodeId) -> Result<bool, StoreError> {
    let tenant: Option<TenantId> =
        tx.query_opt("SELECT tenant_id FROM nodes WHERE id = ?1 AND lifecycle <> 'retired'", args![node], |row| {
            row.take()
        })?;
    let Some(tenant) = tenant else { return Ok(false) };
    set_lifecycle(tx, node, &tenant, Lifecycle::Retired)?;
    end(tx, node)?;
    Ok(true)
}

/// Revokes one certificate; the session that uses it ends. `false` if there is none, or it was
/// revoked before.
pub fn revoke_certificate(tx: &mut Tx<'_>, serial: &str) -> Result<bool, StoreError> {
    let now = tx.now()?;
    let node: Option<NodeId> = tx.query_opt(
        "UPDATE node_certificates SET revoked_at = ?2 WHERE serial = ?1 AND revoked_at IS NULL RETURNING node_id",
        args![serial, now],
        |row| row.take(),
    )?;
    let Some(node) = node else { return Ok(false) };
    let tenant: TenantId = tx.query_one("SELECT tenant_id FROM nodes WHERE id = ?1", args![node], |row| row.take())?;
    let payload = json!({ "nodeId": node.as_str(), "serial": serial });
    let event = EventRow { topic: "node.certificate-revoked", tenant: &tenant, key: node.as_str(), payload };
    outbox::publish(tx, &event)?;
    tx.hint(Hint::Session(node));
    Ok(true)
}

fn end(tx: &mut Tx<'_>, node: &NodeId) -> Result<(), StoreError> {
    settle_node(tx, node)?;
    tx.hint(Hint::Session(node.clone()));
    Ok(())
}
