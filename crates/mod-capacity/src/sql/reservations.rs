//! Reservations as rows: made, read, listed, and moved from state to state, each move with its event.

use super::{encode, place, quota};
use crate::placement::{Device, DeviceClass, Explanation, Limits, Request, RequestError};
use crate::state::ReservationState;
use kernel::db::{Row, StoreError, Tx, args};
use kernel::outbox::{self, EventRow};
use model::{AllocationId, NodeId, PoolId, PrincipalId, ReservationId, ServerTimeMs, TenantId};
use serde_json::json;

/// Rows one list returns at most.
const LIST_ROWS_MAX: u32 = 1000;
const MILLIS_PER_CPU: u64 = 1000;

#[derive(Clone, Debug)]
pub struct NewReservation {
    pub id: ReservationId,
    pub tenant: TenantId,
    pub principal: PrincipalId,
    pub pool: PoolId,
    pub request: Request,
    /// Whether it may wait for capacity; one that may not is placed at once or refused.
    pub may_wait: bool,
}

/// A reservation, with its newest allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationRow {
    pub id: ReservationId,
    pub tenant: TenantId,
    pub principal: PrincipalId,
    pub pool: PoolId,
    pub request: Request,
    pub may_wait: bool,
    pub state: ReservationState,
    /// Why it waits, was placed again, or failed; empty where nothing is to be said.
    pub reason: String,
    pub message: String,
    /// Placements so far.
    pub attempt: u32,
    pub version: u64,
    pub created_at: ServerTimeMs,
    pub updated_at: ServerTimeMs,
    pub active_at: Option<ServerTimeMs>,
    pub over_at: Option<ServerTimeMs>,
    /// The allocation in force, or of a released one its last; `None` while it waits.
    pub allocation: Option<AllocationRow>,
}

/// A reservation on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationRow {
    pub id: AllocationId,
    pub node: NodeId,
    /// By atom id.
    pub devices: Vec<Device>,
    pub limits: Option<Limits>,
    /// As the node reported them, `bcd.dev/gpu=...`; empty until it is bound.
    pub cdi_devices: Vec<String>,
    pub bound: bool,
    /// The first generation of the node's spec that names it, and that drops it.
    pub spec_generation: Option<u64>,
    pub drop_generation: Option<u64>,
    pub ended_at: Option<ServerTimeMs>,
    /// `released`, `failed`, `unbound` or `node-lost`.
    pub ended_by: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct ReservationFilter {
    pub tenant: Option<TenantId>,
    pub pool: Option<PoolId>,
    pub state: Option<ReservationState>,
    /// Only those on this node now.
    pub node: Option<NodeId>,
}

/// Why a reservation was not made.
#[derive(Debug, thiserror::Error)]
pub enum ReserveError {
    /// `INVALID_INPUT`.
    #[error(transparent)]
    Invalid(#[from] RequestError),
    /// `NOT_FOUND`.
    #[error("there is no such pool")]
    NoSuchPool,
    /// `CONFLICT`.
    #[error("the reservation exists")]
    Exists,
    /// `QUOTA_EXCEEDED`.
    #[error(transparent)]
    Quota(#[from] quota::QuotaError),
    /// `NO_CAPACITY`: for plans and for requests that may not wait (F-Q16).
    #[error("no capacity: {}", .0.prospect.sentence())]
    NoCapacity(Box<Explanation>),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes a reservation. One that may wait is `pending`; one that may not is placed in this transaction.
pub fn create_reservation(tx: &mut Tx<'_>, new: &NewReservation) -> Result<ReservationRow, ReserveError> {
    new.request.check()?;
    if !tx.exists("SELECT 1 FROM pools WHERE id = ?1", args![new.pool])? {
        return Err(ReserveError::NoSuchPool);
    }
    if tx.exists("SELECT 1 FROM capacity_reservations WHERE id = ?1", args![new.id])? {
        return Err(ReserveError::Exists);
    }
    quota::check(tx, &new.tenant, &new.request)?;
    insert(tx, new)?;
    publish(tx, &new.id)?;
    if !new.may_wait {
        place::place_now(tx, &new.id)?;
    }
    get_reservation(tx, &new.id)?.ok_or_else(|| missing(&new.id).into())
}

fn insert(tx: &mut Tx<'_>, new: &NewReservation) -> Result<(), StoreError> {
    let now = tx.now()?;
    let request = &new.request;
    tx.execute(
        "INSERT INTO capacity_reservations (id, tenant_id, principal_id, pool_id, request, may_wait, state, reason,
             message, attempt, not_before, recheck_at, checked_revision, gpus, migs, slots, vcpu, memory_gib,
             hugepages_1gi, version, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'pending', '', '', 0, 0, 0, 0, ?7, ?8, ?9, ?10, ?11, ?12, 1, ?13, ?13)",
        args![
            new.id,
            new.tenant,
            new.principal,
            new.pool,
            encode::request(request),
            new.may_wait,
            request.count(DeviceClass::Gpu),
            request.count(DeviceClass::Mig),
            request.count(DeviceClass::Slot),
            request.host.vcpu,
            request.host.memory_gib,
            request.host.hugepages_1gi,
            now
        ],
    )?;
    Ok(())
}

const SELECT: &str = "SELECT r.id, r.tenant_id, r.principal_id, r.pool_id, r.request, r.may_wait, r.state, r.reason,
        r.message, r.attempt, r.version, r.created_at, r.updated_at, r.active_at, r.over_at,
        a.id, a.node_id, a.devices, a.vcpu, a.memory_bytes, a.hugepages_1gi, a.cpus, a.mems, a.cdi_devices, a.bound,
        a.spec_generation, a.drop_generation, a.ended_at, a.ended_by
    FROM capacity_reservations r LEFT JOIN capacity_allocations a ON a.id = r.allocation_id";

pub fn get_reservation(tx: &mut Tx<'_>, id: &ReservationId) -> Result<Option<ReservationRow>, StoreError> {
    tx.query_opt(&format!("{SELECT} WHERE r.id = ?1"), args![id], read)
}

/// Reservations in the order they were made, after the one that `cursor` names.
pub fn list_reservations(
    tx: &mut Tx<'_>,
    filter: &ReservationFilter,
    cursor: Option<&str>,
    limit: u32,
) -> Result<Vec<ReservationRow>, StoreError> {
    let sql = format!(
        "{SELECT} WHERE (?1 IS NULL OR r.tenant_id = ?1) AND (?2 IS NULL OR r.pool_id = ?2)
         AND (?3 IS NULL OR r.state = ?3) AND (?4 IS NULL OR (a.node_id = ?4 AND a.ended_at IS NULL))
         AND r.n > COALESCE((SELECT n FROM capacity_reservations WHERE id = ?5), 0) ORDER BY r.n LIMIT ?6"
    );
    let (state, limit) = (filter.state.map(ReservationState::name), limit.min(LIST_ROWS_MAX));
    tx.query(&sql, args![filter.tenant, filter.pool, state, filter.node, cursor, limit], read)
}

fn read(row: &mut Row<'_>) -> Result<ReservationRow, StoreError> {
    Ok(ReservationRow {
        id: row.take()?,
        tenant: row.take()?,
        principal: row.take()?,
        pool: row.take()?,
        request: encode::read_request(&row.take::<String>()?)?,
        may_wait: row.take()?,
        state: read_state(row)?,
        reason: row.take()?,
        message: row.take()?,
        attempt: row.take()?,
        version: row.take()?,
        created_at: row.take()?,
        updated_at: row.take()?,
        active_at: row.take()?,
        over_at: row.take()?,
        allocation: read_allocation(row)?,
    })
}

fn read_state(row: &mut Row<'_>) -> Result<ReservationState, StoreError> {
    let state: String = row.take()?;
    ReservationState::parse(&state).ok_or_else(|| StoreError::Corrupt(format!("a reservation is {state}")))
}

fn read_allocation(row: &mut Row<'_>) -> Result<Option<AllocationRow>, StoreError> {
    let Some(id) = row.take::<Option<AllocationId>>()? else { return Ok(None) };
    let node = row.take()?;
    let devices = encode::read_devices(&row.take::<String>()?)?;
    let limits = read_limits(row)?;
    Ok(Some(AllocationRow {
        id,
        node,
        devices,
        limits,
        cdi_devices: encode::read_strings(&row.take::<String>()?)?,
        bound: row.take()?,
        spec_generation: row.take()?,
        drop_generation: row.take()?,
        ended_at: row.take()?,
        ended_by: row.take()?,
    }))
}

/// Reads `vcpu, memory_bytes, hugepages_1gi, cpus, mems`.
pub(super) fn read_limits(row: &mut Row<'_>) -> Result<Option<Limits>, StoreError> {
    let (vcpu, memory_bytes, hugepages_1gi): (u64, u64, u64) = (row.take()?, row.take()?, row.take()?);
    let (cpus, mems): (Option<String>, Option<String>) = (row.take()?, row.take()?);
    let (Some(cpus), Some(mems)) = (cpus, mems) else { return Ok(None) };
    Ok(Some(Limits { cpu_millis: vcpu * MILLIS_PER_CPU, memory_bytes, hugepages_1gi, cpus, mems }))
}

/// Moves a reservation to another state, and says so.
pub(super) fn transition(
    tx: &mut Tx<'_>,
    id: &ReservationId,
    state: ReservationState,
    reason: &str,
    message: &str,
) -> Result<(), StoreError> {
    let now = tx.now()?;
    let (active, over) = (state == ReservationState::Active, state.is_over());
    tx.execute(
        "UPDATE capacity_reservations SET state = ?2, reason = ?3, message = ?4, version = version + 1,
             updated_at = ?5, active_at = CASE WHEN ?6 = 1 THEN ?5 ELSE active_at END,
             over_at = CASE WHEN ?7 = 1 THEN ?5 ELSE over_at END WHERE id = ?1",
        args![id, state.name(), reason, message, now, active, over],
    )?;
    if state.is_over() {
        tx.execute("DELETE FROM capacity_avoided WHERE reservation_id = ?1", args![id])?;
    }
    publish(tx, id)
}

/// `reservation.<state>`, with what a reader needs to follow it.
pub(super) fn publish(tx: &mut Tx<'_>, id: &ReservationId) -> Result<(), StoreError> {
    let row = get_reservation(tx, id)?.ok_or_else(|| missing(id))?;
    let mut payload = json!({
        "reservationId": row.id.as_str(), "poolId": row.pool.as_str(), "state": row.state.name(),
        "reason": row.reason, "message": row.message, "attempt": row.attempt, "version": row.version,
    });
    if let Some(allocation) = &row.allocation {
        payload["nodeId"] = json!(allocation.node.as_str());
        payload["allocationId"] = json!(allocation.id.as_str());
    }
    let topic = format!("reservation.{}", row.state);
    outbox::publish(tx, &EventRow { topic: &topic, tenant: &row.tenant, key: row.id.as_str(), payload })
}

fn missing(id: &ReservationId) -> StoreError {
    StoreError::Corrupt(format!("the reservation {id} is missing"))
}
