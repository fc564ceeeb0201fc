//! Capacity: what nodes have, who has booked it, and which reservation goes where.
//!
//! ```text
//! pending ──place──▶ placing ──spec written──▶ binding ──AllocationBound──▶ active
//!    ▲                  │                         │                          │
//!    └── AllocationFailed (elsewhere, later) ◀────┴──────────────────────────┤
//!                       └──────────── release ────┴──────────────────────────┴──▶ releasing ──▶ released
//! pending ──release──▶ released                       pending ──no other node can──▶ failed
//! ```
//!
//! A placement makes an **allocation**: one reservation on one node, with the atoms and the host
//! resources it books. Its booking outlives the reservation's interest in it: it ends when the node
//! says, signed, that it has let go, or when the node has observed a spec that drops what it does not
//! hold, or when a person declares the node lost. Never by time alone.
//!
//! - [`placement`]: the pure core. No SQL, no clock.
//! - [`inventory`]: what a stored inventory says in atoms and host resources.
//! - [`sql`]: the typed operations, each one transaction over the kernel's `Tx`.
//!
//! Not here: building and signing specs, verifying signatures, authorization and its audit.

pub mod inventory;
pub mod placement;
pub mod sql;

mod module;
mod state;

pub use module::Capacity;
pub use state::{FailureReason, ReservationState};

#[cfg(test)]
mod tests;
