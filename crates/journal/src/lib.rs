//! The node's durable memory. The lower half is here: [`log`] keeps opaque records in one file
//! so that an acknowledged one survives a power cut and a damaged one is never read as sound;
//! [`storage`] is what it needs from a disk, [`file`] the real one and [`sim`] a disk that loses,
//! tears and misdirects what was not synced.
//!
//! The lower half knows nothing of commands, events or specs.

pub mod file;
pub mod log;
pub mod sim;
pub mod storage;
