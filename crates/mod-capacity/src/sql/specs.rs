//! Where bookings and a node's desired state meet: what its `devices` section is to hold, which
//! generation first says so, and what follows once the node has observed it.
//!
//! A generation is evidence only within the line of generations these books have written. A node that
//! is ahead of it, as after a restore, is no evidence of anything until a newer one was written; the
//! write then moves the generations that drop allocations along.

use super::books::{self, EndedBy};
use super::{encode, reservations, settle};
use crate::placement;
use crate::state::{FailureReason, ReservationState};
use kernel::db::{StoreError, Tx, args};
use model::spec::{Binding, Device, DeviceAssignment, HoldLimits};
use model::{AllocationId, NodeId, ReservationId};

/// How long a node that observed an allocation may say nothing of it, milliseconds: its reports travel
/// apart from its status.
const SILENT_MS: i64 = 60_000;

/// Read through the index of allocations that are being dropped.
const DROPPED: &str = "SELECT a.id, a.failed FROM capacity_allocations a
         JOIN nodes n ON n.id = a.node_id JOIN capacity_nodes c ON c.node_id = a.node_id
         WHERE a.ended_at IS NULL AND a.wanted = 0 AND (a.failed = 1 OR a.bound = 0)
             AND a.drop_generation <= n.observed_generation AND n.observed_generation <= c.spec_generation
             AND NOT EXISTS (SELECT 1 FROM capacity_reports r WHERE r.allocation_id = a.id)
         ORDER BY a.id LIMIT ?1";

/// Read through the index of allocations that are not bound.
const SILENT: &str = "SELECT a.id, a.node_id, a.reservation_id, a.attempt, a.silent_since FROM capacity_allocations a
         JOIN nodes n ON n.id = a.node_id JOIN capacity_nodes c ON c.node_id = a.node_id
         JOIN node_sessions s ON s.node_id = a.node_id
         WHERE a.ended_at IS NULL AND a.wanted = 1 AND a.bound = 0 AND a.spec_generation <= n.observed_generation
             AND n.observed_generation <= c.spec_generation AND s.state <> 'closed'
             AND (a.silent_since IS NULL OR a.silent_since <= ?2)
             AND NOT EXISTS (SELECT 1 FROM capacity_reports r WHERE r.allocation_id = a.id)
         ORDER BY a.id LIMIT ?1";

/// What a node's spec is to hold, by allocation: every reservation that is placing, binding or active
/// there.
pub fn device_assignments(tx: &mut Tx<'_>, node: &NodeId) -> Result<Vec<DeviceAssignment>, StoreError> {
    tx.query(
        "SELECT id, reservation_id, binding, devices, vcpu, memory_bytes, hugepages_1gi, cpus, mems
         FROM capacity_allocations WHERE node_id = ?1 AND ended_at IS NULL AND wanted = 1 ORDER BY id",
        args![node],
        |row| {
            let (allocation, reservation) = (row.take()?, row.take()?);
            let binding = match row.take::<String>()?.as_str() {
                "hold" => Binding::Hold,
                "kubernetes" => Binding::Kubernetes,
                other => return Err(StoreError::Corrupt(format!("a binding: {other}"))),
            };
            let devices = encode::read_devices(&row.take::<String>()?)?;
            let device =
                |device: placement::Device| Device { device_class: device.class.name().to_owned(), id: device.id };
            Ok(DeviceAssignment {
                allocation,
                reservation,
                binding,
                devices: devices.into_iter().map(device).collect(),
                env: Vec::new(),
                limits: reservations::read_limits(row)?.map(hold_limits),
            })
        },
    )
}

/// 2 MiB pages cannot be booked (D-Q28).
fn hold_limits(limits: placement::Limits) -> HoldLimits {
    let placement::Limits { cpu_millis, memory_bytes, hugepages_1gi, cpus, mems } = limits;
    HoldLimits { cpu_millis, memory_bytes, hugepages_2mi: 0, hugepages_1gi, cpus, mems }
}

/// The spec of `node` stands at `generation` with the devices that [`device_assignments`] gave in this
/// same transaction, whether or not that made a new generation.
pub fn spec_written(tx: &mut Tx<'_>, node: &NodeId, generation: u64) -> Result<(), StoreError> {
    let was_ahead = tx.exists(
        "SELECT 1 FROM capacity_nodes c JOIN nodes n ON n.id = c.node_id WHERE c.node_id = ?1
         AND (n.observed_generation > c.spec_generation OR n.applied_generation > c.spec_generation)",
        args![node],
    )?;
    let sql = "UPDATE capacity_nodes SET spec_generation = ?2 WHERE node_id = ?1 AND spec_generation < ?2";
    tx.execute(sql, args![node, generation])?;
    tx.execute(
        "UPDATE capacity_allocations SET drop_generation = ?2 WHERE node_id = ?1 AND ended_at IS NULL AND wanted = 0
         AND (drop_generation IS NULL OR (?3 = 1 AND drop_generation < ?2))",
        args![node, generation, was_ahead],
    )?;
    let named: Vec<(AllocationId, ReservationId)> = tx.query(
        "SELECT id, reservation_id FROM capacity_allocations
         WHERE node_id = ?1 AND ended_at IS NULL AND wanted = 1 AND spec_generation IS NULL ORDER BY id",
        args![node],
        |row| Ok((row.take()?, row.take()?)),
    )?;
    for (allocation, reservation) in named {
        let sql = "UPDATE capacity_allocations SET spec_generation = ?2 WHERE id = ?1";
        tx.execute(sql, args![allocation, generation])?;
        let placing = "SELECT 1 FROM capacity_reservations WHERE id = ?1 AND allocation_id = ?2 AND state = 'placing'";
        if tx.exists(placing, args![reservation, allocation])? {
            reservations::transition(tx, &reservation, ReservationState::Binding, "", "")?;
        }
    }
    Ok(())
}

/// Ends up to `limit` bookings of allocations that their nodes do not hold: they failed or were never
/// bound, and the node has observed a generation that drops them. Returns how many.
///
/// A bound one waits for the node's own report.
pub fn end_dropped(tx: &mut Tx<'_>, limit: u32) -> Result<usize, StoreError> {
    let done: Vec<(AllocationId, bool)> = tx.query(DROPPED, args![limit], |row| Ok((row.take()?, row.take()?)))?;
    for (id, failed) in &done {
        books::end(tx, id, if *failed { EndedBy::Failed } else { EndedBy::Unbound })?;
    }
    Ok(done.len())
}

/// Places again up to `limit` reservations whose node has long observed a spec that names them and
/// reports neither bound nor failed: its report was lost with a journal or with a restored store, and
/// will not come. Returns how many.
pub fn replace_silent(tx: &mut Tx<'_>, limit: u32) -> Result<usize, StoreError> {
    let now = tx.now()?;
    let silent: Vec<(AllocationId, NodeId, ReservationId, u32, Option<i64>)> =
        tx.query(SILENT, args![limit, now.plus(-SILENT_MS)], |row| {
            Ok((row.take()?, row.take()?, row.take()?, row.take()?, row.take()?))
        })?;
    let mut replaced = 0;
    for (id, node, reservation, attempt, since) in silent {
        if since.is_none() {
            tx.execute("UPDATE capacity_allocations SET silent_since = ?2 WHERE id = ?1", args![id, now])?;
            continue;
        }
        let message = "the node observed it and reported neither that it is bound nor that it failed";
        settle::place_again(tx, &id, &node, &reservation, attempt, FailureReason::NoReport.name(), message)?;
        replaced += 1;
    }
    Ok(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::world::World;

    /// Which index each table is read through, with `limit` and, where it is asked for, a time.
    fn plan(sql: &str) -> String {
        let world = World::new(1);
        let explain = format!("EXPLAIN QUERY PLAN {sql}");
        let (limit, time) = (10u32, 0i64);
        let all = args![limit, time];
        let args = if sql.contains("?2") { all } else { &all[..1] };
        let lines = world.run(|tx| {
            tx.query(&explain, args, |row| {
                let _: (i64, i64, i64) = (row.take()?, row.take()?, row.take()?);
                row.take::<String>()
            })
        });
        lines.join("\n")
    }

    #[test]
    fn periodic_queries_are_flat_in_what_is_at_rest() {
        for (sql, index) in [(DROPPED, "capacity_allocations_dropping"), (SILENT, "capacity_allocations_unbound")] {
            let plan = plan(sql);
            assert!(plan.starts_with(&format!("SCAN a USING INDEX {index}")), "{plan}");
            assert!(!plan.contains("SCAN n") && !plan.contains("SCAN c") && !plan.contains("SCAN r"), "{plan}");
        }
    }
}
