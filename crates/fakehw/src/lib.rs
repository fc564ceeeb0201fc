//! A simulated host: an HGX node with eight GPUs, one of them divided by MIG, whose whole state is a
//! file under a root of its own. A daemon over it is the real daemon; only the machine is made up.
//!
//! What the machine does to the world outside (a GPU reset, a reboot) is one line each in an effects
//! log outside the root, so that a test can count how often a command really acted:
//!
//! ```text
//! <boot id> <number> <GPU uuid> <command id>
//! <boot id> <number> reboot <command id>
//! ```
//!
//! Nothing here reads or writes a file of the real host.

mod effects;
mod fake;
mod machine;
mod state;

#[cfg(test)]
mod tests;

pub use fake::{FakeError, FakeHost};
pub use state::{GpuState, HostState};
