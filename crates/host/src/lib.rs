//! The machine under a daemon: what it is made of, its GPUs, its logs, its reboot. Synchronous, and
//! nothing here knows of sessions, commands or journals.
//!
//! [`Host`] is what a daemon asks; [`RealHost`] answers from /proc, /sys and the programs of the
//! host. Whatever comes from outside (a file, a program's output) is bounded and cannot panic; what
//! cannot be read is said, and is no failure.

pub mod api;
pub mod bounds;
pub mod devices;
pub mod diag;
pub mod exec;
pub mod gpu;
pub mod inventory;
pub mod logs;
pub mod nvidia_smi;
pub mod privileged;
pub mod problems;
pub mod real;
pub mod tree;

pub use api::{Host, HostError, LogsRequest, LogsSummary, RebootEffect};
pub use gpu::{GpuHold, GpuPart};
pub use inventory::digest;
pub use real::RealHost;
