//! The books: making a booking and ending it. Guard rows in the order of their UUIDs, then the node's
//! resource row; each statement takes its row and checks it in one, so on an engine with row locks two
//! placements of the same GPU never both pass.

use super::{encode, place, reservations};
use crate::placement::{Device, DeviceClass, Limits, Placement, Request};
use crate::state::ReservationState;
use kernel::db::{Hint, StoreError, Tx, args};
use model::{AllocationId, NodeId, PoolId, ReservationId};
use std::collections::BTreeMap;

const MILLIS_PER_CPU: u64 = 1000;

/// Why a placement was not written down.
#[derive(Debug, thiserror::Error)]
pub(super) enum BookError {
    /// The books changed after the decision: decide again.
    #[error("what was to be booked is taken")]
    Conflict,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What ends a booking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndedBy {
    /// The node's own report.
    Released,
    /// A failed allocation whose dropping generation was observed.
    Failed,
    /// One that was never bound, likewise.
    Unbound,
    /// A person.
    NodeLost,
}

impl EndedBy {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Failed => "failed",
            Self::Unbound => "unbound",
            Self::NodeLost => "node-lost",
        }
    }
}

/// Books a placement of a pending reservation, which is `placing` from then on.
pub(super) fn book(
    tx: &mut Tx<'_>,
    reservation: &ReservationId,
    request: &Request,
    placement: &Placement,
) -> Result<AllocationId, BookError> {
    for (uuid, (whole, parts)) in by_gpu(&placement.devices) {
        take_guard(tx, &placement.node, uuid, whole, parts)?;
    }
    let limits = placement.limits.clone().unwrap_or_default();
    take_host(tx, &placement.node, &limits)?;
    let attempt: u32 = tx.query_one(
        "UPDATE capacity_reservations SET attempt = attempt + 1 WHERE id = ?1 RETURNING attempt",
        args![reservation],
        |row| row.take(),
    )?;
    let id = stdx::id::derive(&["allocation", reservation.as_str(), &attempt.to_string()]);
    let id = AllocationId::new(format!("alloc_{id}"));
    insert(tx, &id, reservation, attempt, request, placement)?;
    for device in &placement.devices {
        // Parts of one GPU share its guard, so the same part is taken by its own row.
        let taken = tx.execute(
            "INSERT INTO capacity_atoms (node_id, atom_id, uuid, class, allocation_id) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (node_id, atom_id) DO NOTHING",
            args![placement.node, device.id, device.gpu, device.class.name(), id],
        )?;
        if taken == 0 {
            return Err(BookError::Conflict);
        }
    }
    let sql = "UPDATE capacity_reservations SET allocation_id = ?2 WHERE id = ?1";
    tx.execute(sql, args![reservation, id])?;
    reservations::transition(tx, reservation, ReservationState::Placing, "", "")?;
    tx.hint(Hint::Node(placement.node.clone()));
    Ok(id)
}

fn insert(
    tx: &mut Tx<'_>,
    id: &AllocationId,
    reservation: &ReservationId,
    attempt: u32,
    request: &Request,
    placement: &Placement,
) -> Result<(), StoreError> {
    let now = tx.now()?;
    let limits = placement.limits.clone().unwrap_or_default();
    let (cpus, mems) = placement.limits.as_ref().map(|limits| (&limits.cpus, &limits.mems)).unzip();
    tx.execute(
        "INSERT INTO capacity_allocations (id, reservation_id, node_id, attempt, binding, devices, vcpu, memory_bytes,
             hugepages_1gi, cpus, mems, wanted, bound, failed, last_generation, cdi_devices, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 1, 0, 0, 0, '[]', ?12)",
        args![
            id,
            reservation,
            placement.node,
            attempt,
            request.binding.name(),
            encode::devices(&placement.devices),
            limits.cpu_millis / MILLIS_PER_CPU,
            limits.memory_bytes,
            limits.hugepages_1gi,
            cpus,
            mems,
            now
        ],
    )?;
    Ok(())
}

/// For each GPU, whether it goes whole, and how many of its parts go.
fn by_gpu(devices: &[Device]) -> BTreeMap<&str, (bool, u32)> {
    let mut gpus: BTreeMap<&str, (bool, u32)> = BTreeMap::new();
    for device in devices {
        let (whole, parts) = gpus.entry(&device.gpu).or_default();
        match device.class {
            DeviceClass::Gpu => *whole = true,
            DeviceClass::Mig | DeviceClass::Slot => *parts += 1,
        }
    }
    gpus
}

fn take_guard(tx: &mut Tx<'_>, node: &NodeId, uuid: &str, whole: bool, parts: u32) -> Result<(), BookError> {
    let taken = match (whole, parts) {
        (true, 0) => tx.execute(
            "UPDATE capacity_gpus SET guard = 'whole' WHERE node_id = ?1 AND uuid = ?2 AND guard = 'free'
             AND present = 1 AND elsewhere IS NULL",
            args![node, uuid],
        )?,
        (false, parts) => tx.execute(
            "UPDATE capacity_gpus SET guard = 'parts', parts = parts + ?3 WHERE node_id = ?1 AND uuid = ?2
             AND guard <> 'whole' AND present = 1 AND elsewhere IS NULL",
            args![node, uuid, parts],
        )?,
        // A GPU cannot go whole and in parts at once.
        (true, _) => 0,
    };
    if taken == 1 { Ok(()) } else { Err(BookError::Conflict) }
}

fn take_host(tx: &mut Tx<'_>, node: &NodeId, limits: &Limits) -> Result<(), BookError> {
    // The row is taken even where nothing of the host is asked for: it is the last lock of every placement.
    let taken = tx.execute(
        "UPDATE capacity_nodes SET vcpu_booked = vcpu_booked + ?2, memory_booked = memory_booked + ?3,
             hugepages_booked = hugepages_booked + ?4
         WHERE node_id = ?1 AND (?2 = 0 OR vcpu_booked + ?2 <= vcpu_total)
             AND (?3 = 0 OR memory_booked + ?3 <= memory_total)
             AND (?4 = 0 OR hugepages_booked + ?4 <= hugepages_total)",
        args![node, limits.cpu_millis / MILLIS_PER_CPU, limits.memory_bytes, limits.hugepages_1gi],
    )?;
    if taken == 1 { Ok(()) } else { Err(BookError::Conflict) }
}

/// Ends a booking: its atoms and host resources are free, and a reservation that waited to go is gone.
/// `false` when it has ended already.
pub(super) fn end(tx: &mut Tx<'_>, id: &AllocationId, by: EndedBy) -> Result<bool, StoreError> {
    let now = tx.now()?;
    // Taken and checked in one statement: a booking ends once, whoever else wants to end it.
    let found = tx.query_opt(
        "UPDATE capacity_allocations SET ended_at = ?2, ended_by = ?3, wanted = 0 WHERE id = ?1 AND ended_at IS NULL
         RETURNING reservation_id, node_id, devices, vcpu, memory_bytes, hugepages_1gi",
        args![id, now, by.name()],
        |row| {
            let (reservation, node) = (row.take::<ReservationId>()?, row.take::<NodeId>()?);
            let devices = encode::read_devices(&row.take::<String>()?)?;
            Ok((reservation, node, devices, row.take::<u64>()?, row.take::<u64>()?, row.take::<u64>()?))
        },
    )?;
    let Some((reservation, node, devices, vcpu, memory, hugepages)) = found else { return Ok(false) };
    tx.execute("DELETE FROM capacity_atoms WHERE allocation_id = ?1", args![id])?;
    for (uuid, (whole, parts)) in by_gpu(&devices) {
        give_guard(tx, &node, uuid, whole, parts)?;
    }
    tx.execute(
        "UPDATE capacity_nodes SET vcpu_booked = vcpu_booked - ?2, memory_booked = memory_booked - ?3,
             hugepages_booked = hugepages_booked - ?4 WHERE node_id = ?1",
        args![node, vcpu, memory, hugepages],
    )?;
    tx.execute("DELETE FROM capacity_reports WHERE allocation_id = ?1", args![id])?;
    forget_vanished(tx, &node)?;
    place::node_changed(tx, &node)?;
    let waits = "SELECT 1 FROM capacity_reservations WHERE id = ?1 AND allocation_id = ?2 AND state = 'releasing'";
    if tx.exists(waits, args![reservation, id])? {
        let reason = if by == EndedBy::NodeLost { by.name() } else { "" };
        reservations::transition(tx, &reservation, ReservationState::Released, reason, "")?;
    }
    Ok(true)
}

fn give_guard(tx: &mut Tx<'_>, node: &NodeId, uuid: &str, whole: bool, parts: u32) -> Result<(), StoreError> {
    if whole {
        let sql = "UPDATE capacity_gpus SET guard = 'free' WHERE node_id = ?1 AND uuid = ?2";
        tx.execute(sql, args![node, uuid])?;
    } else {
        tx.execute(
            "UPDATE capacity_gpus SET guard = CASE WHEN parts = ?3 THEN 'free' ELSE 'parts' END, parts = parts - ?3
             WHERE node_id = ?1 AND uuid = ?2",
            args![node, uuid, parts],
        )?;
    }
    // Another node lists the card: it is its now.
    let pools: Vec<PoolId> = tx.query(
        "SELECT DISTINCT n.pool_id FROM capacity_gpus g JOIN nodes n ON n.id = g.node_id
         WHERE g.uuid = ?2 AND g.elsewhere = ?1",
        args![node, uuid],
        |row| row.take(),
    )?;
    let moved = tx.execute(
        "UPDATE capacity_gpus SET elsewhere = NULL WHERE uuid = ?2 AND elsewhere = ?1
         AND NOT EXISTS (SELECT 1 FROM capacity_atoms a WHERE a.node_id = ?1 AND a.uuid = ?2)",
        args![node, uuid],
    )?;
    if moved > 0 {
        tx.execute("UPDATE capacity_gpus SET present = 0 WHERE node_id = ?1 AND uuid = ?2", args![node, uuid])?;
    }
    for pool in pools {
        place::wake_pool(tx, &pool)?;
    }
    Ok(())
}

/// Forgets what the inventory no longer has, once nothing of it is booked.
pub(super) fn forget_vanished(tx: &mut Tx<'_>, node: &NodeId) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM capacity_instances WHERE node_id = ?1 AND present = 0 AND NOT EXISTS
             (SELECT 1 FROM capacity_atoms a WHERE a.node_id = ?1 AND a.atom_id = capacity_instances.atom_id)",
        args![node],
    )?;
    tx.execute("DELETE FROM capacity_gpus WHERE node_id = ?1 AND present = 0 AND guard = 'free'", args![node])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::{self, Device};
    use crate::sql::load_pool;
    use crate::tests::world::{World, host, mig, pool, slots};

    /// Books for `second` what was decided before `first` was placed.
    fn stale(first: Request, second: Request) -> bool {
        let world = World::new(1);
        let fleet = world.run(|tx| load_pool(tx, &pool()));
        let decided = placement::decide(&second, &[], &fleet).expect("it fits");
        world.create("first", first);
        world.place();
        let id = world.create("second", second.clone());
        let booked = world.store.run(|tx| book(tx, &id, &second, &decided));
        world.check_books();
        assert!(matches!(booked, Ok(_) | Err(BookError::Conflict)), "a defect, not a conflict");
        booked.is_err()
    }

    #[test]
    fn a_decision_that_is_out_of_date_books_nothing() {
        let whole = Request::gpus(1);
        assert!(stale(whole.clone(), whole.clone()));
        assert!(stale(slots(1), whole.clone()));
        assert!(stale(Request::gpus(2), slots(1)));
        assert!(stale(slots(1), slots(1)));
        assert!(stale(mig(1), mig(1)));
        assert!(stale(host(mig(1), 5), host(slots(1), 4)), "host resources are short");
        assert!(!stale(host(mig(1), 4), host(slots(1), 4)));
    }

    #[test]
    fn a_gpu_never_goes_whole_and_in_parts_to_one_allocation() {
        let world = World::new(1);
        let request = Request::gpus(1);
        let id = world.create("a", request.clone());
        let device =
            |id: &str, class| Device { id: id.into(), class, gpu: "GPU-00000000-0000-0000-0000-000000000000".into() };
        let devices = vec![
            device("GPU-00000000-0000-0000-0000-000000000000", DeviceClass::Gpu),
            device("GPU-00000000-0000-0000-0000-000000000000/s0", DeviceClass::Slot),
        ];
        let placement = Placement { node: world.id(0), devices, limits: None };
        let booked = world.store.run(|tx| book(tx, &id, &request, &placement));
        assert!(matches!(booked, Err(BookError::Conflict)));
    }

    #[test]
    fn what_vanished_or_is_booked_elsewhere_is_not_booked() {
        for change in ["present = 0", "elsewhere = 'node_x'"] {
            let world = World::new(1);
            let request = Request::gpus(1);
            let id = world.create("a", request.clone());
            let fleet = world.run(|tx| load_pool(tx, &pool()));
            let decided = placement::decide(&request, &[], &fleet).expect("it fits");
            world.run(|tx| tx.execute(&format!("UPDATE capacity_gpus SET {change}"), &[]));
            let booked = world.store.run(|tx| book(tx, &id, &request, &decided));
            assert!(matches!(booked, Err(BookError::Conflict)), "{change}");
        }
    }
}
