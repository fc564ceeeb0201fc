//! What every crate needs and no crate owns: one way to write a file durably, one way to
//! wait between attempts, one clock, one way to print an error, one canonical JSON.
//!
//! Nothing here knows what a node or a command is. It has no async runtime.

pub mod backoff;
pub mod canonical;
pub mod clock;
pub mod durable;
pub mod error;
pub mod hex;
pub mod id;
