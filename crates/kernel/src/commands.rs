//! Commands: from `enqueue` to the one outcome each has. The row keeps the signed bytes as they were
//! sealed; every delivery sends exactly these.
//!
//! Not here: which session gets a command (`sessions`), what a node reports about it (`updates`), and
//! whether an attested result is genuine (`verifier`).

mod cancel;
mod deliver;
mod enqueue;
mod read;
mod resign;
mod settle;
mod sweep;

pub use cancel::{CancelOutcome, request_cancel};
pub use enqueue::{EnqueueError, NewCommand, PENDING_PER_NODE_MAX, enqueue};
pub use read::{Attestation, CommandRow, ListFilter, StoredResult, get, list, open_count, result};
pub use resign::resign;
pub use sweep::{Swept, sweep};

pub(crate) use deliver::{Deliverable, deliverable};
pub(crate) use settle::{Settle, settle, settle_node};

/// The statements whose plans are tested.
#[cfg(test)]
pub(crate) mod testing {
    pub(crate) use super::sweep::{EXPIRED, TIMED_OUT};
}
