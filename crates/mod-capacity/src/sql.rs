//! The module's SQL, as typed operations: each is one transaction over the kernel's `Tx`, and level
//! triggered, so running it again changes nothing and a lost hint costs only time.
//!
//! | who | operations |
//! |---|---|
//! | api | [`create_reservation`], [`plan`], [`release`], [`get_reservation`], [`list_reservations`], [`explain_reservation`], [`explain_node`], [`hold_differences`], quotas |
//! | placer (leased) | [`place_next`], [`end_dropped`], [`replace_silent`], [`sync_due`], [`wake_pool`] |
//! | spec reconciler | [`device_assignments`] and [`spec_written`], in one transaction |
//! | verifier (leased) | [`take_unverified_reports`], [`settle_report`] |
//! | gateway | the report handlers of [`crate::Capacity`], [`holds_reported`], [`sync_inventory`] |
//!
//! A placement takes the guard rows of its GPUs in the order of their UUIDs and then the node's
//! resource row; ending a booking does the same.

mod books;
mod check;
mod encode;
mod fleet;
mod holds;
mod place;
mod quota;
mod release;
pub(crate) mod reports;
mod reservations;
mod settle;
mod specs;
mod sync;
mod why;

pub use check::check_books;
pub use fleet::{load_node, load_pool};
pub use holds::{HoldDifference, ReportedHold, hold_differences, holds_reported};
pub use place::{PlaceSummary, place_next, plan, wake_pool};
pub use quota::{Quota, QuotaError, Resource, Usage, list_quotas, set_quota, usage};
pub use release::{Release, ReleaseError, release};
pub use reports::{SettledReport, UnverifiedReport, settle_report, take_unverified_reports};
pub use reservations::{
    AllocationRow, NewReservation, ReservationFilter, ReservationRow, ReserveError, create_reservation,
    get_reservation, list_reservations,
};
pub use settle::{AllocationReport, Applied, ReportedState};
pub use specs::{device_assignments, end_dropped, replace_silent, spec_written};
pub use sync::{SyncError, Synced, sync_due, sync_inventory};
pub use why::{NodeExplanation, ReservationExplanation, explain_node, explain_reservation};
