//! Desired state coming true: what each section's standing means for the whole, and the plan of the `devices`
//! section (`delivery.md`, "Convergence and status" and "Device assignments").
//!
//! ```text
//! spec ─┐
//! host ─┼─▶ plan_devices ─▶ DevicesPlan ─▶ (host facility executes) ─▶ reports, errors ─▶ section status
//! ledger┘                                                               │ journaled
//!   ▲────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Everything here is a function of values. Nothing reads a file, a clock or the wire, and a plan leaves its
//! execution no choices: planning again after it was carried out gives a plan without steps.

mod admission;
mod claims;
mod devices;
mod env;
mod hold;
mod ledger;
mod limits;
mod observed;
mod plan;
mod sections;
mod target;

#[cfg(test)]
mod tests;

pub use admission::{Budget, HEADROOM_BYTES, HostMemory, HugePool, HugeTaker};
pub use devices::plan_devices;
pub use env::{RESERVED_ENV, check_env};
pub use hold::{CDI_KIND, HeldDevice, Hold, MPS_PIPE_DIRECTORY, SliceLimits, slice_allocation, slice_name};
pub use ledger::{Ledger, LedgerEntry, LedgerFailure};
pub use limits::parse_cpu_list;
pub use observed::{CdiFile, EnvFile, GpuAtoms, GpuFacts, MigFacts, Observation, SliceSeen, holder_of_gpu};
pub use plan::{DevicesPlan, Failure, Parts, Step};
pub use sections::{
    HOST_MANAGED_EXTERNALLY, SECTION_UNSUPPORTED, changed_sections, conditions, convergence_order, observed_generation,
    without_converger,
};
