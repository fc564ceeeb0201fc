//! The daemon's mind: one pure machine that turns at-least-once delivery into at-most-once effect.
//!
//! [`Engine::step`] takes one [`Input`] (a frame, a durable commit, a finished piece of work, a tick)
//! and returns [`Output`]s for its shell to carry out. It reads no clock, touches no disk and no
//! network, and sees neither protobuf nor keys: those come through [`Outside`].
//!
//! ```text
//! delivery ─▶ journal rules ─▶ acceptance checks ─▶ Commit(accepted) ─▶ lane queue ─▶ worker
//!             (rules::resolve)  (checks::check)       │ durable            │            │
//!                                                     ▼                    ▼            ▼
//!                                                   ACKED               RUNNING   Commit(done) ─▶ result
//! ```
//!
//! What is durable is in [`JournalState`], changed only by a [`Mutation`] that the shell has fsynced.
//! What this process is doing is in `Execution`s, which die with it.

mod checks;
mod commands;
pub mod converge;
mod engine;
mod events;
mod journal;
mod lanes;
mod link;
mod outside;
mod rules;
mod tickets;
mod time;

pub use checks::{CheckContext, Verdict, check};
pub use engine::{Busy, Decision, Engine, EngineConfig, Input, Output, Ticket, Work, WorkResult};
pub use journal::{Accepted, DoneEntry, Entry, EntryState, JournalLimits, JournalState, Meta, Mutation};
pub use outside::{BundleVerdict, Outside};
pub use rules::{Recovery, Resolution, recover, resolve, sweep};
pub use tickets::{JTI_BYTES_MAX, TicketVerdict};
pub use time::{ServerClock, TimeError};

#[cfg(test)]
mod tests;
