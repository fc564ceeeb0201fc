//! Whether the books agree with themselves. For tests, simulations and `doctor`: an empty list is the
//! only right answer.

use super::encode;
use crate::placement::DeviceClass;
use kernel::db::{StoreError, Tx};
use model::{AllocationId, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Every disagreement, in words: an atom in two bookings, a guard that is not what its atoms make it,
/// host resources that are not the sum of the live allocations, a reservation without its booking.
pub fn check_books(tx: &mut Tx<'_>) -> Result<Vec<String>, StoreError> {
    let mut wrong = Vec::new();
    atoms(tx, &mut wrong)?;
    guards(tx, &mut wrong)?;
    hosts(tx, &mut wrong)?;
    reservations(tx, &mut wrong)?;
    Ok(wrong)
}

/// Atom rows are exactly the devices of the live allocations, and no GPU UUID is booked on two nodes of
/// one tenant.
fn atoms(tx: &mut Tx<'_>, wrong: &mut Vec<String>) -> Result<(), StoreError> {
    let rows: BTreeMap<(NodeId, String), AllocationId> = tx
        .query("SELECT node_id, atom_id, allocation_id FROM capacity_atoms", &[], |row| {
            Ok(((row.take()?, row.take()?), row.take()?))
        })?
        .into_iter()
        .collect();
    let live = tx.query(
        "SELECT id, node_id, devices FROM capacity_allocations WHERE ended_at IS NULL ORDER BY id",
        &[],
        |row| {
            let (id, node): (AllocationId, NodeId) = (row.take()?, row.take()?);
            Ok((id, node, encode::read_devices(&row.take::<String>()?)?))
        },
    )?;
    let mut seen = BTreeSet::new();
    for (id, node, devices) in live {
        for device in devices {
            let key = (node.clone(), device.id.clone());
            if rows.get(&key) != Some(&id) {
                wrong.push(format!("{} of {node} is not booked for {id}", device.id));
            }
            if !seen.insert(key) {
                wrong.push(format!("{} of {node} is in two bookings", device.id));
            }
        }
    }
    for (node, atom) in rows.keys().filter(|key| !seen.contains(*key)) {
        wrong.push(format!("{atom} of {node} is booked for nobody"));
    }
    let twice: Vec<String> = tx.query(
        "SELECT a.uuid FROM capacity_atoms a JOIN nodes n ON n.id = a.node_id
         GROUP BY a.uuid, n.tenant_id HAVING count(DISTINCT a.node_id) > 1",
        &[],
        |row| row.take(),
    )?;
    wrong.extend(twice.into_iter().map(|uuid| format!("{uuid} is booked on two nodes")));
    Ok(())
}

fn guards(tx: &mut Tx<'_>, wrong: &mut Vec<String>) -> Result<(), StoreError> {
    let mut booked: BTreeMap<(NodeId, String), (u64, u64)> = BTreeMap::new();
    let atoms: Vec<(NodeId, String, String)> =
        tx.query("SELECT node_id, uuid, class FROM capacity_atoms", &[], |row| {
            Ok((row.take()?, row.take()?, row.take()?))
        })?;
    for (node, uuid, class) in atoms {
        let (whole, parts) = booked.entry((node, uuid)).or_default();
        match class == DeviceClass::Gpu.name() {
            true => *whole += 1,
            false => *parts += 1,
        }
    }
    let guards: Vec<(NodeId, String, String, u64)> =
        tx.query("SELECT node_id, uuid, guard, parts FROM capacity_gpus ORDER BY node_id, uuid", &[], |row| {
            Ok((row.take()?, row.take()?, row.take()?, row.take()?))
        })?;
    for (node, uuid, guard, parts) in guards {
        let (whole_booked, parts_booked) = booked.remove(&(node.clone(), uuid.clone())).unwrap_or_default();
        let right = match guard.as_str() {
            "free" => (0, 0),
            "whole" => (1, 0),
            _ => (0, parts.max(1)),
        };
        if (whole_booked, parts_booked) != right || (guard != "parts" && parts != 0) {
            wrong.push(format!("{uuid} of {node} is {guard} ({parts}) and has {whole_booked} and {parts_booked}"));
        }
    }
    wrong.extend(booked.keys().map(|(node, uuid)| format!("{uuid} of {node} is booked and has no guard")));
    Ok(())
}

fn hosts(tx: &mut Tx<'_>, wrong: &mut Vec<String>) -> Result<(), StoreError> {
    let unequal: Vec<NodeId> = tx.query(
        "SELECT c.node_id FROM capacity_nodes c LEFT JOIN capacity_allocations a
             ON a.node_id = c.node_id AND a.ended_at IS NULL
         GROUP BY c.node_id, c.vcpu_booked, c.memory_booked, c.hugepages_booked
         HAVING c.vcpu_booked <> COALESCE(sum(a.vcpu), 0) OR c.memory_booked <> COALESCE(sum(a.memory_bytes), 0)
             OR c.hugepages_booked <> COALESCE(sum(a.hugepages_1gi), 0)",
        &[],
        |row| row.take(),
    )?;
    wrong.extend(unequal.into_iter().map(|node| format!("host resources of {node} are not the sum of bookings")));
    Ok(())
}

/// A reservation that is placed has a live, wanted allocation; one that is not has none in force.
fn reservations(tx: &mut Tx<'_>, wrong: &mut Vec<String>) -> Result<(), StoreError> {
    let odd: Vec<String> = tx.query(
        "SELECT r.id FROM capacity_reservations r LEFT JOIN capacity_allocations a ON a.id = r.allocation_id
         WHERE NOT CASE r.state
             WHEN 'pending' THEN r.allocation_id IS NULL
             WHEN 'failed' THEN r.allocation_id IS NULL
             WHEN 'released' THEN a.id IS NULL OR a.ended_at IS NOT NULL
             WHEN 'releasing' THEN a.id IS NOT NULL AND a.ended_at IS NULL AND a.wanted = 0
             WHEN 'active' THEN a.id IS NOT NULL AND a.ended_at IS NULL AND a.wanted = 1 AND a.bound = 1
             ELSE a.id IS NOT NULL AND a.ended_at IS NULL AND a.wanted = 1 END",
        &[],
        |row| row.take(),
    )?;
    wrong.extend(odd.into_iter().map(|id| format!("{id} and its allocation disagree")));
    let stray: Vec<String> = tx.query(
        "SELECT a.id FROM capacity_allocations a JOIN capacity_reservations r ON r.id = a.reservation_id
         WHERE a.ended_at IS NULL AND a.wanted = 1 AND (r.allocation_id IS NULL OR r.allocation_id <> a.id)",
        &[],
        |row| row.take(),
    )?;
    wrong.extend(stray.into_iter().map(|id| format!("{id} is wanted and nobody's")));
    Ok(())
}
