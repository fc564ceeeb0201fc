//! The daemon's shell: it reads `config.toml`, joins, keeps the identity, drives the session machine of
//! `node-core`, runs commands on the host, and says what it is doing.
//!
//! Not here: the rules of a session and of the journal (`node-core`, `journal`), what a host is
//! (`host`), and how bytes are signed (`pki`).

pub mod certify;
pub mod clock;
pub mod config;
pub mod identity;
pub mod join;
pub mod moved_aside;
pub mod signed;
pub mod token;
pub mod transport;

#[cfg(test)]
mod testing;

/// What this daemon calls its own version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
