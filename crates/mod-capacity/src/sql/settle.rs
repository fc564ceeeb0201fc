//! What a believed report does to the books.
//!
//! A report counts for the allocation it names on the node that sent it, and only in the order of
//! generations: a replayed older one changes nothing.

use super::books::{self, EndedBy};
use super::release::drop_from_spec;
use super::{encode, place, reservations};
use crate::state::{FailureReason, ReservationState};
use kernel::db::{StoreError, Tx, args};
use model::limits::COUNTER_MAX;
use model::{AllocationId, NodeId, ReservationId};
use stdx::backoff::delay_ms;

/// How long a node is kept out of the way of a reservation that failed there: doubling between these.
const AVOID_FIRST_MS: i64 = 30_000;
const AVOID_MOST_MS: i64 = 600_000;
/// How long a failed reservation waits before it is placed again: doubling between these.
const AGAIN_FIRST_MS: i64 = 1_000;
const AGAIN_MOST_MS: i64 = 60_000;

/// A decoded allocation report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationReport {
    pub allocation: AllocationId,
    /// `None` where the node no longer knows it, as after it lost its journal.
    pub reservation: Option<ReservationId>,
    /// The generation that the node converged on.
    pub generation: u64,
    pub state: ReportedState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportedState {
    Bound { cdi_devices: Vec<String> },
    Released,
    Failed { reason: String, message: String },
}

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    Yes,
    /// No booked allocation of that name is on that node.
    Unknown,
    /// A newer report of the allocation was acted on before, or a counter is above 2^53.
    Stale,
}

struct Booked {
    reservation: ReservationId,
    wanted: bool,
    last_generation: u64,
    drop_generation: Option<u64>,
    attempt: u32,
}

/// Acts on a report of `node`.
pub(super) fn apply(tx: &mut Tx<'_>, node: &NodeId, report: &AllocationReport) -> Result<Applied, StoreError> {
    let id = &report.allocation;
    let found = tx.query_opt(
        "SELECT reservation_id, wanted, last_generation, drop_generation, attempt FROM capacity_allocations
         WHERE id = ?1 AND node_id = ?2 AND ended_at IS NULL",
        args![id, node],
        |row| {
            Ok(Booked {
                reservation: row.take()?,
                wanted: row.take()?,
                last_generation: row.take()?,
                drop_generation: row.take()?,
                attempt: row.take()?,
            })
        },
    )?;
    let Some(booked) =
        found.filter(|booked| report.reservation.as_ref().is_none_or(|named| *named == booked.reservation))
    else {
        return Ok(Applied::Unknown);
    };
    if report.generation < booked.last_generation || report.generation > COUNTER_MAX {
        return Ok(Applied::Stale);
    }
    tx.execute(
        "UPDATE capacity_allocations SET last_generation = ?2, silent_since = NULL WHERE id = ?1",
        args![id, report.generation],
    )?;
    match &report.state {
        ReportedState::Bound { cdi_devices } => bound(tx, id, &booked, cdi_devices)?,
        ReportedState::Released => released(tx, id, &booked, report.generation)?,
        ReportedState::Failed { reason, message } => failed(tx, id, node, &booked, reason, message)?,
    }
    Ok(Applied::Yes)
}

fn bound(tx: &mut Tx<'_>, id: &AllocationId, booked: &Booked, cdi_devices: &[String]) -> Result<(), StoreError> {
    let now = tx.now()?;
    tx.execute(
        "UPDATE capacity_allocations SET bound = 1, bound_at = ?2, cdi_devices = ?3 WHERE id = ?1",
        args![id, now, encode::strings(cdi_devices)],
    )?;
    let state = state_of(tx, &booked.reservation, id)?;
    if booked.wanted && matches!(state, Some(ReservationState::Placing | ReservationState::Binding)) {
        reservations::transition(tx, &booked.reservation, ReservationState::Active, "", "")?;
    }
    Ok(())
}

/// A release of what is still wanted ends nothing: the node acted on a spec that these books do not know,
/// as after a restore, and will bind it again. So does one that is older than the generation that drops
/// it: the node may have bound it again in between.
fn released(tx: &mut Tx<'_>, id: &AllocationId, booked: &Booked, generation: u64) -> Result<(), StoreError> {
    tx.execute("UPDATE capacity_allocations SET bound = 0 WHERE id = ?1", args![id])?;
    if !booked.wanted {
        if booked.drop_generation.is_some_and(|dropped| generation >= dropped) {
            books::end(tx, id, EndedBy::Released)?;
        }
        return Ok(());
    }
    if state_of(tx, &booked.reservation, id)? == Some(ReservationState::Active) {
        let reason = FailureReason::ReleasedByNode.name();
        let message = "the node let go of it under a spec these books do not know; it is bound again";
        reservations::transition(tx, &booked.reservation, ReservationState::Binding, reason, message)?;
    }
    Ok(())
}

/// The reservation is placed again, elsewhere; what was booked here stays booked until the node has
/// observed a spec without it.
fn failed(
    tx: &mut Tx<'_>,
    id: &AllocationId,
    node: &NodeId,
    booked: &Booked,
    reason: &str,
    message: &str,
) -> Result<(), StoreError> {
    tx.execute("UPDATE capacity_allocations SET failed = 1 WHERE id = ?1", args![id])?;
    if booked.wanted {
        place_again(tx, id, node, &booked.reservation, booked.attempt, reason, message)?;
    }
    Ok(())
}

/// Takes a reservation off a node and lets it wait for another.
pub(super) fn place_again(
    tx: &mut Tx<'_>,
    id: &AllocationId,
    node: &NodeId,
    reservation: &ReservationId,
    attempt: u32,
    reason: &str,
    message: &str,
) -> Result<(), StoreError> {
    drop_from_spec(tx, id, node)?;
    if state_of(tx, reservation, id)?.is_none() {
        return Ok(());
    }
    let now = tx.now()?;
    let failures: u32 = tx.query_one(
        "INSERT INTO capacity_avoided (reservation_id, node_id, failures, until, reason) VALUES (?1, ?2, 1, ?3, ?4)
         ON CONFLICT (reservation_id, node_id) DO UPDATE SET failures = capacity_avoided.failures + 1,
             reason = excluded.reason RETURNING failures",
        args![reservation, node, now, reason],
        |row| row.take(),
    )?;
    let until = now.plus(delay_ms(failures, AVOID_FIRST_MS, AVOID_MOST_MS));
    tx.execute(
        "UPDATE capacity_avoided SET until = ?3 WHERE reservation_id = ?1 AND node_id = ?2",
        args![reservation, node, until],
    )?;
    let not_before = now.plus(delay_ms(attempt, AGAIN_FIRST_MS, AGAIN_MOST_MS));
    tx.execute(
        "UPDATE capacity_reservations SET allocation_id = NULL, not_before = ?2, recheck_at = ?2 WHERE id = ?1",
        args![reservation, not_before],
    )?;
    let message = if message.is_empty() { format!("on {node}") } else { format!("on {node}: {message}") };
    reservations::transition(tx, reservation, ReservationState::Pending, reason, &message)?;
    place::node_changed(tx, node)
}

/// The state of the reservation, if this allocation is the one in force.
fn state_of(
    tx: &mut Tx<'_>,
    reservation: &ReservationId,
    id: &AllocationId,
) -> Result<Option<ReservationState>, StoreError> {
    let state: Option<String> = tx.query_opt(
        "SELECT state FROM capacity_reservations WHERE id = ?1 AND allocation_id = ?2",
        args![reservation, id],
        |row| row.take(),
    )?;
    Ok(state.as_deref().and_then(ReservationState::parse))
}
