//! Giving a reservation back. What is booked stays booked until the node has let go; a person who knows
//! that a node is lost ends the booking at once.

use super::books::{self, EndedBy};
use super::reservations::{self, ReservationRow};
use crate::state::ReservationState;
use kernel::db::{Hint, StoreError, Tx, args};
use model::{AllocationId, NodeId, ReservationId};

/// What is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Release {
    /// The node is gone and will not answer: every booking of the reservation ends now. The caller
    /// audits it.
    pub node_lost: bool,
    /// The version the caller has seen; another one is refused.
    pub version: Option<u64>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// `NOT_FOUND`.
    #[error("there is no such reservation")]
    NoSuch,
    /// `CONFLICT`.
    #[error("the reservation has changed: its version is {0}")]
    Stale(u64),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Releases a reservation. One that is over, or going, stays as it is: asking twice is asking once.
pub fn release(tx: &mut Tx<'_>, id: &ReservationId, release: &Release) -> Result<ReservationRow, ReleaseError> {
    let row = reservations::get_reservation(tx, id)?.ok_or(ReleaseError::NoSuch)?;
    if release.version.is_some_and(|version| version != row.version) {
        return Err(ReleaseError::Stale(row.version));
    }
    match row.state {
        ReservationState::Pending => {
            reservations::transition(tx, id, ReservationState::Released, "", "")?;
        }
        ReservationState::Placing | ReservationState::Binding | ReservationState::Active => {
            if let Some(allocation) = &row.allocation {
                drop_from_spec(tx, &allocation.id, &allocation.node)?;
            }
            reservations::transition(tx, id, ReservationState::Releasing, "", "")?;
        }
        ReservationState::Releasing | ReservationState::Released | ReservationState::Failed => {}
    }
    if release.node_lost {
        end_all(tx, id)?;
    }
    reservations::get_reservation(tx, id)?.ok_or(ReleaseError::NoSuch)
}

/// The spec of the node is to name the allocation no longer. Its booking stands.
pub(super) fn drop_from_spec(tx: &mut Tx<'_>, id: &AllocationId, node: &NodeId) -> Result<(), StoreError> {
    tx.execute("UPDATE capacity_allocations SET wanted = 0, silent_since = NULL WHERE id = ?1", args![id])?;
    tx.hint(Hint::Node(node.clone()));
    Ok(())
}

/// Ends every booking that the reservation still has, those of failed attempts too.
fn end_all(tx: &mut Tx<'_>, id: &ReservationId) -> Result<(), StoreError> {
    let booked: Vec<(AllocationId, NodeId)> = tx.query(
        "SELECT id, node_id FROM capacity_allocations WHERE reservation_id = ?1 AND ended_at IS NULL ORDER BY attempt",
        args![id],
        |row| Ok((row.take()?, row.take()?)),
    )?;
    for (allocation, node) in booked {
        books::end(tx, &allocation, EndedBy::NodeLost)?;
        tx.hint(Hint::Node(node));
    }
    Ok(())
}
