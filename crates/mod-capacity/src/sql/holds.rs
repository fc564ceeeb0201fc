//! What nodes say they hold, against what is booked. A difference is shown and told, never acted on: a
//! node's word without a signature ends no booking and makes none.

use super::encode;
use kernel::db::{StoreError, Tx, args};
use kernel::outbox::{self, EventRow};
use model::{AllocationId, NodeId, TenantId};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Holds of one node that are kept.
const HOLDS_MAX: usize = 1024;

/// One hold as its node reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedHold {
    pub allocation: AllocationId,
    /// Atom ids; empty where the node names only the allocation.
    pub devices: Vec<String>,
}

/// Where a node's word and the books differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldDifference {
    /// Held there, and no booking explains it.
    NotBooked { allocation: AllocationId, devices: Vec<String> },
    /// Bound according to the books, and not held.
    NotHeld { allocation: AllocationId },
    /// Held with other devices than were booked.
    OtherDevices { allocation: AllocationId, held: Vec<String>, booked: Vec<String> },
}

/// Keeps what the node says it holds, all of it, and tells of differences that are new.
pub fn holds_reported(tx: &mut Tx<'_>, node: &NodeId, holds: &[ReportedHold]) -> Result<(), StoreError> {
    let before = hold_differences(tx, node)?;
    let list: Vec<Value> =
        holds.iter().take(HOLDS_MAX).map(|hold| json!([hold.allocation.as_str(), hold.devices])).collect();
    let now = tx.now()?;
    tx.execute(
        "UPDATE capacity_nodes SET holds = ?2, holds_at = ?3 WHERE node_id = ?1",
        args![node, Value::from(list).to_string(), now],
    )?;
    let after = hold_differences(tx, node)?;
    if after.is_empty() || after == before {
        return Ok(());
    }
    let tenant: TenantId = tx.query_one("SELECT tenant_id FROM nodes WHERE id = ?1", args![node], |row| row.take())?;
    let differences: Vec<String> = after.iter().map(HoldDifference::sentence).collect();
    let payload = json!({ "nodeId": node.as_str(), "differences": differences });
    outbox::publish(tx, &EventRow { topic: "node.holds-differ", tenant: &tenant, key: node.as_str(), payload })
}

/// Where what the node last said it holds differs from the books of now. Empty before it said anything.
pub fn hold_differences(tx: &mut Tx<'_>, node: &NodeId) -> Result<Vec<HoldDifference>, StoreError> {
    let stored: Option<String> =
        tx.query_opt("SELECT holds FROM capacity_nodes WHERE node_id = ?1", args![node], |row| row.take())?.flatten();
    let Some(stored) = stored else { return Ok(Vec::new()) };
    let held = read_holds(&stored)?;
    let booked: BTreeMap<AllocationId, (bool, BTreeSet<String>)> = tx
        .query(
            "SELECT id, bound, devices FROM capacity_allocations WHERE node_id = ?1 AND ended_at IS NULL",
            args![node],
            |row| {
                let (id, bound) = (row.take()?, row.take()?);
                let devices = encode::read_devices(&row.take::<String>()?)?;
                Ok((id, (bound, devices.into_iter().map(|device| device.id).collect())))
            },
        )?
        .into_iter()
        .collect();
    let mut differences = Vec::new();
    for (allocation, devices) in &held {
        match booked.get(allocation) {
            None => differences.push(HoldDifference::NotBooked {
                allocation: allocation.clone(),
                devices: devices.iter().cloned().collect(),
            }),
            Some((_, wanted)) if !devices.is_empty() && devices != wanted => {
                differences.push(HoldDifference::OtherDevices {
                    allocation: allocation.clone(),
                    held: devices.iter().cloned().collect(),
                    booked: wanted.iter().cloned().collect(),
                });
            }
            Some(_) => {}
        }
    }
    let lacking = booked.iter().filter(|(id, (bound, _))| *bound && !held.contains_key(*id));
    differences.extend(lacking.map(|(id, _)| HoldDifference::NotHeld { allocation: id.clone() }));
    Ok(differences)
}

fn read_holds(text: &str) -> Result<BTreeMap<AllocationId, BTreeSet<String>>, StoreError> {
    let list: Vec<(String, Vec<String>)> = encode::parse(text)?;
    Ok(list.into_iter().map(|(id, devices)| (AllocationId::new(id), devices.into_iter().collect())).collect())
}

impl HoldDifference {
    /// For people.
    pub fn sentence(&self) -> String {
        match self {
            Self::NotBooked { allocation, devices } if devices.is_empty() => {
                format!("the node holds {allocation}, which is not booked there")
            }
            Self::NotBooked { allocation, devices } => {
                format!("the node holds {} for {allocation}, which is not booked there", devices.join(", "))
            }
            Self::NotHeld { allocation } => format!("{allocation} is booked as bound, and the node does not hold it"),
            Self::OtherDevices { allocation, held, booked } => {
                format!("{allocation} holds {} and has {} booked", held.join(", "), booked.join(", "))
            }
        }
    }
}
