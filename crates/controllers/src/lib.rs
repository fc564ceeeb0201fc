//! The controllers role: everything the control plane does by itself. Each controller is level-triggered:
//! a step looks at the store, does what is due and carries nothing to the next one. It is woken by
//! hints, which may be lost, and by its own timer.
//!
//! | controller | does | every |
//! |---|---|---|
//! | `join` | opens joins and renewals, certifies nodes, signs the answers | 1 s |
//! | `verifier` | checks attested results and settles their commands | 1 s |
//! | `sweeper` | expires and times out commands | 5 s |
//! | `sequencer` | numbers committed outbox rows | 1 s |
//! | `server-time` | signs the time | 30 s |
//! | `resigner` | signs pending commands again for a node with a new journal | 5 s |
//! | `retention` | deletes what is no longer kept | 10 min |
//!
//! Of each, one runs in a fleet: it holds a lease, and every transaction it makes checks the lease's
//! fence first, so that one that was replaced while it slept writes nothing.
//!
//! Not here: SQL, sessions, and any key of another role.

mod join;
mod lease;
mod metrics;
mod resigner;
mod retention;
mod runner;
mod sequencer;
mod server_time;
mod start;
mod sweeper;
mod verifier;

pub use start::{Controllers, ControllersOptions, StartError};

#[cfg(test)]
mod tests;
