//! The host's side of the `devices` section: what is held is read back from its files, and a plan of
//! `node_core::converge` is carried out on them (`delivery.md`, "Device assignments").
//!
//! | file | mode | content |
//! |---|---|---|
//! | `/etc/cdi/bcd-<allocation>.json` | 0644 | the hold itself: while it is there, the devices are taken |
//! | `/run/bcd/allocations/<allocation>.env` | 0600 | the workload's environment, one `KEY=VALUE` a line |
//!
//! A hold is bound in the order slice, env file, CDI spec, and released in the order CDI spec, env file, slice,
//! each write durable before the next: whatever a crash leaves, the CDI specs alone say what is held.
//!
//! Not here: which assignment may have what, and what is reported when.

mod capabilities;
mod cdi;
mod env_file;
mod execute;
mod files;
mod memory;
mod observe;
mod slices;
mod systemd;

#[cfg(test)]
mod tests;

pub use capabilities::capabilities;
pub use cdi::{parse_cdi, render_cdi};
pub use env_file::render_env;
pub use execute::{Executed, execute};
pub use files::{ALLOCATIONS_DIRECTORY, DirectFiles, FileKind, HoldFiles, HoldFilesError};
pub use memory::host_memory;
pub use observe::{ObserveError, gpu_atoms, observe};
pub use slices::{NoSlices, SliceError, Slices, Stopped};
pub use systemd::SystemdSlices;
