//! What the control plane has been told about allocations, and what it is still owed.
//!
//! The holds themselves are read back from the host on every pass. This is about reports alone: an allocation
//! enters when a spec assigns it and leaves when its release is reported, so a crash between a change to the
//! host and its report loses none. It is meant to live in the journal, each change in the commit of the spec or the
//! event that causes it. Where it is lost (a new journal) it starts empty: holds that the spec still wants are
//! reported bound once more, which says nothing new, and those it does not want are released and reported.

use model::spec::{AllocationReport, DeviceAssignment};
use model::{AllocationId, ReservationId};
use std::collections::BTreeMap;

/// One allocation whose release is not reported yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    pub reservation: ReservationId,
    /// The CDI devices of the last `AllocationBound`; `None` before the first.
    pub bound: Option<Vec<String>>,
    /// The last `AllocationFailed`. It is neither tried nor reported again in the same generation.
    pub failed: Option<LedgerFailure>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerFailure {
    pub generation: u64,
    pub reason: String,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    entries: BTreeMap<AllocationId, LedgerEntry>,
}

impl Ledger {
    /// A ledger as it was kept.
    pub fn restored(entries: impl IntoIterator<Item = (AllocationId, LedgerEntry)>) -> Self {
        Self { entries: entries.into_iter().collect() }
    }

    pub fn entries(&self) -> impl Iterator<Item = (&AllocationId, &LedgerEntry)> {
        self.entries.iter()
    }

    pub fn get(&self, allocation: &AllocationId) -> Option<&LedgerEntry> {
        self.entries.get(allocation)
    }

    pub fn is_bound(&self, allocation: &AllocationId) -> bool {
        self.get(allocation).is_some_and(|entry| entry.bound.is_some())
    }

    /// Applies a spec that became durable: each of its assignments is owed a release from now on.
    pub fn spec_applied(&mut self, assignments: &[DeviceAssignment]) {
        for assignment in assignments {
            self.entry(&assignment.allocation, &assignment.reservation);
        }
    }

    /// Applies a report that became durable.
    pub fn reported(&mut self, report: &AllocationReport) {
        match report {
            AllocationReport::Bound { allocation, reservation, cdi_devices, .. } => {
                self.entry(allocation, reservation).bound = Some(cdi_devices.clone());
            }
            AllocationReport::Released { allocation, .. } => {
                self.entries.remove(allocation);
            }
            AllocationReport::Failed { allocation, reservation, reason, message, generation } => {
                let (reason, message) = (reason.clone(), message.clone());
                self.entry(allocation, reservation).failed =
                    Some(LedgerFailure { generation: *generation, reason, message });
            }
        }
    }

    fn entry(&mut self, allocation: &AllocationId, reservation: &ReservationId) -> &mut LedgerEntry {
        let fresh = || LedgerEntry { reservation: reservation.clone(), bound: None, failed: None };
        let entry = self.entries.entry(allocation.clone()).or_insert_with(fresh);
        entry.reservation = reservation.clone();
        entry
    }
}
