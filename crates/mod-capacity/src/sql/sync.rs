//! From stored inventories to guard rows and totals. What vanished and is booked stays booked, and is
//! shown; what vanished and is free is forgotten.

use super::{books, encode, fleet, place};
use crate::inventory::{self, InventoryGpu, NodeInventory};
use crate::placement::Guard;
use kernel::db::{StoreError, Tx, args};
use kernel::outbox::{self, EventRow};
use model::{NodeId, TenantId};
use serde_json::json;
use std::collections::BTreeMap;

/// What a sync did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synced {
    /// The books agree with the newest inventory already, or there is none.
    Unchanged,
    Changed,
}

#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    #[error("there is no such node")]
    NoSuch,
    #[error(transparent)]
    Inventory(#[from] inventory::InventoryError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Brings up to `limit` nodes' books to their newest inventories. Returns how many were looked at; one
/// that cannot be read is logged and tried again after its next inventory.
pub fn sync_due(tx: &mut Tx<'_>, limit: u32) -> Result<usize, StoreError> {
    let due: Vec<NodeId> = tx.query(
        "SELECT n.id FROM nodes n LEFT JOIN capacity_nodes c ON c.node_id = n.id
         WHERE n.inventory_digest <> '' AND n.role = 'node'
             AND (c.node_id IS NULL OR c.inventory_digest <> n.inventory_digest) ORDER BY n.id LIMIT ?1",
        args![limit],
        |row| row.take(),
    )?;
    for node in &due {
        match tx.savepoint(|tx| sync_inventory(tx, node))? {
            Ok(_) | Err(SyncError::NoSuch) => {}
            Err(SyncError::Store(error)) => return Err(error),
            Err(error @ SyncError::Inventory(_)) => {
                tracing::warn!(%node, %error, "an inventory cannot be read");
                // An empty one: nothing of the node is offered, what is booked stays.
                let digest = digest(tx, node)?;
                write(tx, node, &digest, &NodeInventory::default())?;
            }
        }
    }
    Ok(due.len())
}

/// Brings one node's books to its newest inventory.
pub fn sync_inventory(tx: &mut Tx<'_>, node: &NodeId) -> Result<Synced, SyncError> {
    let found = tx.query_opt(
        "SELECT n.inventory, n.inventory_digest, c.inventory_digest FROM nodes n
         LEFT JOIN capacity_nodes c ON c.node_id = n.id WHERE n.id = ?1",
        args![node],
        |row| Ok((row.take::<Option<Vec<u8>>>()?, row.take::<String>()?, row.take::<Option<String>>()?)),
    )?;
    let (bytes, digest, known) = found.ok_or(SyncError::NoSuch)?;
    let Some(bytes) = bytes.filter(|_| known.as_ref() != Some(&digest)) else { return Ok(Synced::Unchanged) };
    write(tx, node, &digest, &inventory::read(&bytes)?)?;
    Ok(Synced::Changed)
}

fn digest(tx: &mut Tx<'_>, node: &NodeId) -> Result<String, StoreError> {
    tx.query_one("SELECT inventory_digest FROM nodes WHERE id = ?1", args![node], |row| row.take())
}

fn write(tx: &mut Tx<'_>, node: &NodeId, digest: &str, inventory: &NodeInventory) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO capacity_nodes (node_id, inventory_digest, gpu_driver, numa, vcpu_total, vcpu_booked,
             memory_total, memory_booked, hugepages_total, hugepages_booked, spec_generation)
         VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, 0, ?7, 0, 0)
         ON CONFLICT (node_id) DO UPDATE SET inventory_digest = excluded.inventory_digest,
             gpu_driver = excluded.gpu_driver, numa = excluded.numa, vcpu_total = excluded.vcpu_total,
             memory_total = excluded.memory_total, hugepages_total = excluded.hugepages_total",
        args![
            node,
            digest,
            inventory.gpu_driver,
            encode::numa(&inventory.numa),
            inventory.vcpu,
            inventory.memory_bytes,
            inventory.hugepages_1gi
        ],
    )?;
    let before = guards(tx, node)?;
    tx.execute("UPDATE capacity_gpus SET present = 0 WHERE node_id = ?1", args![node])?;
    tx.execute("UPDATE capacity_instances SET present = 0 WHERE node_id = ?1", args![node])?;
    for gpu in &inventory.gpus {
        write_gpu(tx, node, gpu)?;
    }
    let missing: Vec<&str> = before
        .iter()
        .filter(|(uuid, (guard, present))| {
            *present && *guard != Guard::Free && !inventory.gpus.iter().any(|gpu| gpu.uuid == **uuid)
        })
        .map(|(uuid, _)| uuid.as_str())
        .collect();
    if !missing.is_empty() {
        let tenant: TenantId =
            tx.query_one("SELECT tenant_id FROM nodes WHERE id = ?1", args![node], |row| row.take())?;
        let payload = json!({ "nodeId": node.as_str(), "gpus": missing });
        outbox::publish(
            tx,
            &EventRow { topic: "node.booked-gpu-missing", tenant: &tenant, key: node.as_str(), payload },
        )?;
    }
    books::forget_vanished(tx, node)?;
    place::node_changed(tx, node)
}

/// Guard, and whether the last inventory had it.
fn guards(tx: &mut Tx<'_>, node: &NodeId) -> Result<BTreeMap<String, (Guard, bool)>, StoreError> {
    let sql = "SELECT uuid, guard, present FROM capacity_gpus WHERE node_id = ?1 ORDER BY uuid";
    let rows = tx.query(sql, args![node], |row| {
        let uuid: String = row.take()?;
        Ok((uuid, (fleet::read_guard(row)?, row.take()?)))
    })?;
    Ok(rows.into_iter().collect())
}

fn write_gpu(tx: &mut Tx<'_>, node: &NodeId, gpu: &InventoryGpu) -> Result<(), StoreError> {
    let elsewhere = settle_moves(tx, node, &gpu.uuid)?;
    tx.execute(
        "INSERT INTO capacity_gpus (node_id, uuid, numa, mig, present, elsewhere, guard, parts)
         VALUES (?1, ?2, ?3, ?4, 1, ?5, 'free', 0)
         ON CONFLICT (node_id, uuid) DO UPDATE SET numa = excluded.numa, mig = excluded.mig, present = 1,
             elsewhere = excluded.elsewhere",
        args![node, gpu.uuid, gpu.numa, gpu.mig, elsewhere],
    )?;
    for (atom, profile) in &gpu.instances {
        tx.execute(
            "INSERT INTO capacity_instances (node_id, atom_id, uuid, profile, present) VALUES (?1, ?2, ?3, ?4, 1)
             ON CONFLICT (node_id, atom_id) DO UPDATE SET profile = excluded.profile, present = 1",
            args![node, atom, gpu.uuid, profile],
        )?;
    }
    Ok(())
}

/// A card that another node of the same tenant has in its books was moved here: free there, it is
/// forgotten there; booked there, it is not offered here until that booking ends. Nodes of other
/// tenants are not believed about each other's cards.
fn settle_moves(tx: &mut Tx<'_>, node: &NodeId, uuid: &str) -> Result<Option<NodeId>, StoreError> {
    let others = tx.query(
        "SELECT g.node_id, g.guard FROM capacity_gpus g JOIN nodes n ON n.id = g.node_id
         WHERE g.uuid = ?2 AND g.node_id <> ?1 AND n.tenant_id = (SELECT tenant_id FROM nodes WHERE id = ?1)
         ORDER BY g.node_id",
        args![node, uuid],
        |row| Ok((row.take::<NodeId>()?, fleet::read_guard(row)?)),
    )?;
    let mut elsewhere = None;
    for (other, guard) in others {
        if guard == Guard::Free {
            let sql = "UPDATE capacity_instances SET present = 0 WHERE node_id = ?1 AND uuid = ?2";
            tx.execute(sql, args![other, uuid])?;
            tx.execute("UPDATE capacity_gpus SET present = 0 WHERE node_id = ?1 AND uuid = ?2", args![other, uuid])?;
            books::forget_vanished(tx, &other)?;
        } else {
            elsewhere = Some(other);
        }
    }
    Ok(elsewhere)
}
