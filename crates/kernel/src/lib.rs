//! The control plane's kernel: the store, every SQL statement, and the operations over it. Roles
//! (gateway, api, controllers) meet only here: one operation is one transaction, its hints go out
//! after its commit, and hints may be lost.
//!
//! ```text
//! role ──▶ Store::write(|tx| sessions::dispatch(tx, ..)) ──▶ writer thread ──▶ COMMIT ──▶ reply, hints
//! simulation ──▶ MemoryStore::run(|tx| sessions::dispatch(tx, ..))              (the same operation)
//! ```
//!
//! Not here: keys and signatures (signing comes in as a closure, verifying is the verifier's), the
//! wire, and any clock but the injected one.

pub mod access;
pub mod blobs;
pub mod commands;
pub mod db;
pub mod events;
pub mod join;
pub mod leases;
pub mod module;
pub mod nodes;
pub mod outbox;
pub mod places;
pub mod retention;
pub mod sessions;
pub mod settings;
pub mod signed;
pub mod standing;
pub mod status;
pub mod updates;
pub mod verifier;

#[cfg(test)]
mod tests;
