//! The node's durable memory.
//!
//! - [`Journal`] keeps `node_core`'s [`Mutation`](node_core::Mutation)s: what it returns from `commit` is
//!   on disk, and what it was opened with is exactly what was committed.
//! - Below it [`log`] keeps opaque records in one file so that an acknowledged one survives a power cut
//!   and a damaged one is never read as sound; [`storage`] is what it needs from a disk, [`file`] the
//!   real one and [`sim`] a disk that loses, tears and misdirects what was not synced.
//!
//! The rules of what a record means are `node_core`'s.

pub mod file;
pub mod log;
mod records;
pub mod sim;
pub mod storage;
mod store;

pub use records::{RecordError, decode, encode};
pub use store::{Birth, Journal, JournalError, MovedAside, OpenedFile, open_directory};
