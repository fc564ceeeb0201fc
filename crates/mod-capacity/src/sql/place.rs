//! Placing what waits. The nodes of a pool are read once for all reservations of an activation; each
//! decision sees the ones before it.

use super::books::{self, BookError};
use super::fleet;
use super::quota;
use super::reservations::{self, ReservationRow, ReserveError};
use crate::placement::{self, Avoided, Fleet, Placement, Prospect, Request};
use crate::state::{FailureReason, ReservationState};
use kernel::db::{StoreError, Tx, args};
use model::{NodeId, PoolId, ReservationId, ServerTimeMs, TenantId};
use std::collections::BTreeMap;

/// A waiting reservation is looked at again after this long even if nothing seems to have changed.
const RECHECK_MS: i64 = 10_000;

/// What one activation did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceSummary {
    pub placed: Vec<(ReservationId, NodeId)>,
    /// Looked at, and left waiting or failed.
    pub refused: u32,
}

/// Looks at up to `limit` waiting reservations, oldest first. Fewer than `limit` in all: nothing waits
/// that could be looked at now.
pub fn place_next(tx: &mut Tx<'_>, limit: u32) -> Result<PlaceSummary, StoreError> {
    let now = tx.now()?;
    let due: Vec<ReservationId> = tx.query(
        "SELECT r.id FROM capacity_reservations r LEFT JOIN capacity_pools p ON p.pool_id = r.pool_id
         WHERE r.state = 'pending' AND r.not_before <= ?1
             AND (r.recheck_at <= ?1 OR r.checked_revision <> COALESCE(p.revision, 0))
         ORDER BY r.n LIMIT ?2",
        args![now, limit],
        |row| row.take(),
    )?;
    let mut fleets: BTreeMap<PoolId, Fleet> = BTreeMap::new();
    let mut summary = PlaceSummary::default();
    for id in due {
        let Some(row) = reservations::get_reservation(tx, &id)? else { continue };
        if !fleets.contains_key(&row.pool) {
            let loaded = fleet::load_pool(tx, &row.pool)?;
            fleets.insert(row.pool.clone(), loaded);
        }
        let Some(fleet) = fleets.get_mut(&row.pool) else { continue };
        match place_one(tx, &row, fleet)? {
            Some(placement) => summary.placed.push((id, placement.node)),
            None => {
                refuse(tx, &row, fleet)?;
                summary.refused += 1;
            }
        }
    }
    Ok(summary)
}

/// Decides and books. `None`: no node can take it, or the books are ahead of what was read.
fn place_one(tx: &mut Tx<'_>, row: &ReservationRow, fleet: &mut Fleet) -> Result<Option<Placement>, StoreError> {
    let avoided = avoided(tx, &row.id)?;
    let Some(placement) = placement::decide(&row.request, &avoided, fleet) else { return Ok(None) };
    match tx.savepoint(|tx| books::book(tx, &row.id, &row.request, &placement))? {
        Ok(_) => {
            fleet.apply(&placement);
            Ok(Some(placement))
        }
        Err(BookError::Conflict) => {
            tracing::debug!(reservation = %row.id, node = %placement.node, "a placement found its atoms taken");
            Ok(None)
        }
        Err(BookError::Store(error)) => Err(error),
    }
}

/// It waits, and says for what; one that may not wait has failed.
fn refuse(tx: &mut Tx<'_>, row: &ReservationRow, fleet: &Fleet) -> Result<(), StoreError> {
    let avoided = avoided(tx, &row.id)?;
    let prospect = placement::could_ever_fit(&row.request, &avoided, fleet);
    let reason = match prospect {
        Prospect::Now | Prospect::Later => FailureReason::NoCapacity,
        Prospect::Never(_) => FailureReason::NeverFits,
    };
    let message = prospect.sentence();
    if !row.may_wait {
        let reason = if row.attempt == 0 { reason.name() } else { &row.reason };
        return reservations::transition(tx, &row.id, ReservationState::Failed, reason, &message);
    }
    let now = tx.now()?;
    let revision = revision(tx, &row.pool)?;
    tx.execute(
        "UPDATE capacity_reservations SET recheck_at = ?2, checked_revision = ?3 WHERE id = ?1",
        args![row.id, now.plus(RECHECK_MS), revision],
    )?;
    if row.reason != reason.name() || row.message != message {
        reservations::transition(tx, &row.id, ReservationState::Pending, reason.name(), &message)?;
    }
    Ok(())
}

/// Places a reservation that may not wait, or refuses it.
pub(super) fn place_now(tx: &mut Tx<'_>, id: &ReservationId) -> Result<(), ReserveError> {
    let Some(row) = reservations::get_reservation(tx, id)? else { return Ok(()) };
    let mut fleet = fleet::load_pool(tx, &row.pool)?;
    match place_one(tx, &row, &mut fleet)? {
        Some(_) => Ok(()),
        None => Err(no_capacity(&row.request, &fleet)),
    }
}

/// Where a request would go now, with its quota checked. Nothing changes.
pub fn plan(tx: &mut Tx<'_>, tenant: &TenantId, pool: &PoolId, request: &Request) -> Result<Placement, ReserveError> {
    request.check()?;
    if !tx.exists("SELECT 1 FROM pools WHERE id = ?1", args![pool])? {
        return Err(ReserveError::NoSuchPool);
    }
    quota::would_fit(tx, tenant, request)?;
    let fleet = fleet::load_pool(tx, pool)?;
    placement::decide(request, &[], &fleet).ok_or_else(|| no_capacity(request, &fleet))
}

fn no_capacity(request: &Request, fleet: &Fleet) -> ReserveError {
    ReserveError::NoCapacity(Box::new(placement::explain(request, &[], fleet)))
}

/// Nodes where the reservation failed lately.
pub(super) fn avoided(tx: &mut Tx<'_>, id: &ReservationId) -> Result<Vec<Avoided>, StoreError> {
    let now = tx.now()?;
    tx.query(
        "SELECT node_id, until, reason FROM capacity_avoided WHERE reservation_id = ?1 AND until > ?2",
        args![id, now],
        |row| Ok(Avoided { node: row.take()?, until: row.take::<ServerTimeMs>()?, reason: row.take()? }),
    )
}

fn revision(tx: &mut Tx<'_>, pool: &PoolId) -> Result<u64, StoreError> {
    let found =
        tx.query_opt("SELECT revision FROM capacity_pools WHERE pool_id = ?1", args![pool], |row| row.take())?;
    Ok(found.unwrap_or(0))
}

/// Something of the pool changed that may let a waiting reservation through: a booking ended, a node
/// came, was uncordoned or labelled, its inventory grew.
pub fn wake_pool(tx: &mut Tx<'_>, pool: &PoolId) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO capacity_pools (pool_id, revision) VALUES (?1, 1)
         ON CONFLICT (pool_id) DO UPDATE SET revision = capacity_pools.revision + 1",
        args![pool],
    )?;
    Ok(())
}

/// [`wake_pool`] for the pool of a node.
pub(super) fn node_changed(tx: &mut Tx<'_>, node: &NodeId) -> Result<(), StoreError> {
    let pool: Option<PoolId> =
        tx.query_opt("SELECT pool_id FROM nodes WHERE id = ?1", args![node], |row| row.take())?;
    pool.map_or(Ok(()), |pool| wake_pool(tx, &pool))
}
