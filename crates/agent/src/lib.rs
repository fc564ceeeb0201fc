//! The daemon's shell: it reads `config.toml`, joins, keeps the identity, drives the session machine of
//! `node-core`, runs commands on the host, and says what it is doing.
//!
//! Not here: the rules of a session and of the journal (`node-core`, `journal`), what a host is
//! (`host`), and how bytes are signed (`pki`).

pub mod certify;
pub mod clock;
pub mod conditions;
pub mod config;
mod decisions;
pub mod driver;
pub mod identity;
pub mod inventory;
pub mod join;
mod journal_thread;
pub mod keeper;
pub mod kinds;
mod link;
pub mod logging;
mod moved_aside;
pub mod node;
pub mod outside;
mod process;
pub mod renew;
mod signed;
pub mod status;
pub mod token;
pub mod transport;

#[cfg(test)]
mod testing;

/// What this daemon calls its own version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
