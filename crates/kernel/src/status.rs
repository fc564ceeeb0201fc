//! What nodes say about themselves: status and inventory. Both need the current epoch, except
//! `observed_generation`, which only rises and may come from any session of its node.

use crate::db::{StoreError, Tx, args};
use crate::outbox::{self, EventRow};
use crate::sessions;
use model::frame::{InventoryReport, StatusReport};
use model::limits::COUNTER_MAX;
use model::{Lifecycle, NodeId, TenantId};
use serde_json::{Value, json};

/// The adoption policy that leaves `adopting` to a person (F-Q5).
pub const ADOPTION_MANUAL: &str = "manual";
/// The adoption policy that adopts at the first inventory.
pub const ADOPTION_AUTO: &str = "auto";

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    Stored,
    /// The session is no longer the node's current one; only `observed_generation` may have moved.
    EpochLost,
    /// A counter above 2^53, or a digest that is not the inventory's.
    Refused,
}

/// Stores a status report. `publish` says whether it is news (`statusKey`).
pub fn write_status(
    tx: &mut Tx<'_>,
    node: &NodeId,
    epoch: u64,
    report: &StatusReport,
    publish: bool,
) -> Result<Written, StoreError> {
    if report.applied_generation > COUNTER_MAX || report.observed_generation > COUNTER_MAX {
        return Ok(Written::Refused);
    }
    tx.execute(
        "UPDATE nodes SET observed_generation = ?2 WHERE id = ?1 AND observed_generation < ?2",
        args![node, report.observed_generation],
    )?;
    if !sessions::is_current(tx, node, epoch)? {
        return Ok(Written::EpochLost);
    }
    let now = tx.now()?;
    let document = document(report, now.0);
    tx.execute(
        "UPDATE nodes SET status = ?2, status_at = ?3, applied_generation = ?4, applied_spec_hash = ?5 WHERE id = ?1",
        args![node, document.to_string(), now, report.applied_generation, report.applied_spec_hash],
    )?;
    if publish {
        let tenant = tenant_of(tx, node)?;
        let mut payload = document;
        payload["nodeId"] = json!(node.as_str());
        outbox::publish(tx, &EventRow { topic: "node.status", tenant: &tenant, key: node.as_str(), payload })?;
    }
    Ok(Written::Stored)
}

/// Ages become times here: agents report ages, never times of their own.
fn document(report: &StatusReport, now_ms: i64) -> Value {
    let conditions: Vec<Value> = report
        .conditions
        .iter()
        .map(|condition| {
            let age_ms = i64::try_from(condition.age_ms).unwrap_or(i64::MAX);
            json!({
                "kind": condition.kind, "reason": condition.reason, "message": condition.message,
                "sinceMs": now_ms.saturating_sub(age_ms).max(0),
            })
        })
        .collect();
    let gauges: serde_json::Map<String, Value> =
        report.gauges.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "appliedGeneration": report.applied_generation, "observedGeneration": report.observed_generation,
        "appliedSpecHash": report.applied_spec_hash, "conditions": conditions, "gauges": gauges,
    })
}

/// Stores an inventory as it came. The first one makes an adopting node ready, unless its pool leaves
/// that to a person.
pub fn write_inventory(
    tx: &mut Tx<'_>,
    node: &NodeId,
    epoch: u64,
    report: &InventoryReport,
) -> Result<Written, StoreError> {
    if stdx::hex::sha256_hex(&report.inventory) != report.digest {
        return Ok(Written::Refused);
    }
    if !sessions::is_current(tx, node, epoch)? {
        return Ok(Written::EpochLost);
    }
    let (tenant, lifecycle, adoption, stored) = tx.query_one(
        "SELECT n.tenant_id, n.lifecycle, p.adoption, n.inventory_digest
         FROM nodes n JOIN pools p ON p.id = n.pool_id WHERE n.id = ?1",
        args![node],
        |row| {
            let (tenant, lifecycle) = (row.take::<TenantId>()?, row.take::<Lifecycle>()?);
            Ok((tenant, lifecycle, row.take::<String>()?, row.take::<String>()?))
        },
    )?;
    let now = tx.now()?;
    tx.execute(
        "UPDATE nodes SET inventory = ?2, inventory_digest = ?3, inventory_at = ?4 WHERE id = ?1",
        args![node, report.inventory, report.digest, now],
    )?;
    if stored != report.digest {
        let payload = json!({ "nodeId": node.as_str(), "digest": report.digest });
        outbox::publish(tx, &EventRow { topic: "node.inventory", tenant: &tenant, key: node.as_str(), payload })?;
    }
    if lifecycle == Lifecycle::Adopting && adoption != ADOPTION_MANUAL {
        set_lifecycle(tx, node, &tenant, Lifecycle::Ready)?;
    }
    Ok(Written::Stored)
}

/// Moves a node to another point of its life and publishes it.
pub(crate) fn set_lifecycle(
    tx: &mut Tx<'_>,
    node: &NodeId,
    tenant: &TenantId,
    lifecycle: Lifecycle,
) -> Result<(), StoreError> {
    tx.execute("UPDATE nodes SET lifecycle = ?2, version = version + 1 WHERE id = ?1", args![node, lifecycle])?;
    let topic = format!("node.{}", lifecycle.name());
    let payload = json!({ "nodeId": node.as_str(), "lifecycle": lifecycle.name() });
    outbox::publish(tx, &EventRow { topic: &topic, tenant, key: node.as_str(), payload })
}

fn tenant_of(tx: &mut Tx<'_>, node: &NodeId) -> Result<TenantId, StoreError> {
    tx.query_one("SELECT tenant_id FROM nodes WHERE id = ?1", args![node], |row| row.take())
}
