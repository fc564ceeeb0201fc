//! Explanations, for whoever asks: where a reservation stands and which filter refuses which node, and
//! what a node offers and why it does not.

use super::holds::{HoldDifference, hold_differences};
use super::reservations::{self, ReservationRow};
use super::{fleet, place};
use crate::placement::{self, Explanation, Guard, Node, Refusal, Request};
use crate::state::ReservationState;
use kernel::db::{StoreError, Tx, args};
use model::{AllocationId, NodeId, ReservationId};
use std::fmt::Write;

/// Why a reservation is where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationExplanation {
    pub reservation: ReservationRow,
    /// Which filter refuses which node; only while it waits.
    pub placement: Option<Explanation>,
    /// All of it in words, one line each.
    pub text: String,
}

/// What a node offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeExplanation {
    pub node: Node,
    /// Why it takes no reservation at all, whatever is asked for.
    pub refusals: Vec<Refusal>,
    pub booked: Vec<AllocationId>,
    pub differences: Vec<HoldDifference>,
    /// All of it in words, one line each.
    pub text: String,
}

/// `None` when there is no such reservation.
pub fn explain_reservation(tx: &mut Tx<'_>, id: &ReservationId) -> Result<Option<ReservationExplanation>, StoreError> {
    let Some(row) = reservations::get_reservation(tx, id)? else { return Ok(None) };
    let mut text = format!("{} is {}", row.id, row.state);
    if !row.reason.is_empty() {
        put(&mut text, format_args!(" ({})", row.reason));
    }
    if let Some(allocation) = &row.allocation {
        put(&mut text, format_args!(" on {}", allocation.node));
    }
    text.push('\n');
    if !row.message.is_empty() {
        put(&mut text, format_args!("{}\n", row.message));
    }
    put(&mut text, format_args!("{}", waits_for(&row)));
    let placement = if row.state == ReservationState::Pending {
        let fleet = fleet::load_pool(tx, &row.pool)?;
        Some(placement::explain(&row.request, &place::avoided(tx, id)?, &fleet))
    } else {
        None
    };
    if let Some(explanation) = &placement {
        put(&mut text, format_args!("{explanation}"));
    }
    Ok(Some(ReservationExplanation { reservation: row, placement, text }))
}

/// What the next step waits for, as a line; empty where nothing is waited for.
fn waits_for(row: &ReservationRow) -> String {
    let Some(allocation) = &row.allocation else { return String::new() };
    let node = &allocation.node;
    match row.state {
        ReservationState::Placing => format!("waits until the spec of {node} names it\n"),
        ReservationState::Binding => format!("waits for {node} to report that it is bound\n"),
        ReservationState::Releasing if allocation.bound => {
            format!(
                "waits for {node} to report that it let go; if the node is lost for good, release it with --node-lost\n"
            )
        }
        ReservationState::Releasing => {
            format!("waits until {node} has observed a spec without it; if the node is lost, use --node-lost\n")
        }
        _ => String::new(),
    }
}

/// `None` when there is no such node, or its role takes no reservations.
pub fn explain_node(tx: &mut Tx<'_>, id: &NodeId) -> Result<Option<NodeExplanation>, StoreError> {
    let fleet = fleet::load_node(tx, id)?;
    // A request for nothing: what still refuses it refuses everything.
    let nothing = Request::default();
    let refusals = placement::explain(&nothing, &[], &fleet).nodes.into_iter().next();
    let (Some(node), Some(verdict)) = (fleet.nodes().first(), refusals) else { return Ok(None) };
    let booked = tx.query(
        "SELECT id FROM capacity_allocations WHERE node_id = ?1 AND ended_at IS NULL ORDER BY id",
        args![id],
        |row| row.take(),
    )?;
    let differences = hold_differences(tx, id)?;
    let text = describe(node, &verdict.refusals, &booked, &differences);
    Ok(Some(NodeExplanation { node: node.clone(), refusals: verdict.refusals, booked, differences, text }))
}

fn describe(node: &Node, refusals: &[Refusal], booked: &[AllocationId], differences: &[HoldDifference]) -> String {
    let mut text = match refusals.is_empty() {
        true => format!("{} takes reservations\n", node.id),
        false => format!("{} takes no reservations\n", node.id),
    };
    for refusal in refusals {
        put(&mut text, format_args!("  {}: {}\n", refusal.filter.name(), refusal.message));
    }
    for gpu in &node.gpus {
        put(&mut text, format_args!("  {}: {}", gpu.uuid, gpu.guard.name()));
        if gpu.mig {
            let free = gpu.instances.iter().filter(|instance| !instance.booked && instance.present).count();
            put(&mut text, format_args!(", {} MIG instances, {free} free", gpu.instances.len()));
        } else if gpu.guard == Guard::Parts {
            put(&mut text, format_args!(", {} of {} slots", gpu.slots_booked.count_ones(), node.slots_per_gpu));
        }
        if !gpu.present {
            text.push_str(", missing from the newest inventory");
        }
        if let Some(other) = &gpu.elsewhere {
            put(&mut text, format_args!(", booked on {other}"));
        }
        text.push('\n');
    }
    let host = [
        ("vCPU", node.host.vcpu, 0),
        ("GiB of memory", node.host.memory_bytes, 30),
        ("pages of 1 GiB", node.host.hugepages_1gi, 0),
    ];
    for (what, amount, shift) in host {
        put(&mut text, format_args!("  {} of {} {what} free\n", amount.free() >> shift, amount.total >> shift));
    }
    if !booked.is_empty() {
        let booked: Vec<&str> = booked.iter().map(AllocationId::as_str).collect();
        put(&mut text, format_args!("  booked: {}\n", booked.join(", ")));
    }
    for difference in differences {
        put(&mut text, format_args!("  differs: {}\n", difference.sentence()));
    }
    text
}

fn put(text: &mut String, what: std::fmt::Arguments<'_>) {
    text.write_fmt(what).expect("a string takes every text");
}
