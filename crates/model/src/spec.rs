//! What a node should be, as plain values: the sections of a `NodeSpec`, the devices held for allocations,
//! the standing of each section, and what a node reports about its allocations (`delivery.md`, Desired state).
//!
//! Not here: how a spec is encoded (`proto`), how it comes true (`node-core`), who decides it (the control plane).

mod atom;
#[cfg(test)]
mod tests;

pub use atom::{Atom, AtomPart, DeviceClass};

use crate::command::named;
use crate::{AllocationId, ReservationId};
use std::fmt;

/// Assignments of one node: 64 GPUs in 16 parts each.
pub const ASSIGNMENTS_MAX: usize = 1024;
/// Devices of one assignment.
pub const ASSIGNMENT_DEVICES_MAX: usize = 256;
/// Extra environment lines of one assignment.
pub const ASSIGNMENT_ENV_MAX: usize = 64;
/// One environment line, bytes.
pub const ENV_LINE_BYTES_MAX: usize = 4 << 10;
/// A list of CPUs or memory nodes, bytes.
pub const CPU_LIST_BYTES_MAX: usize = 4 << 10;
/// Device class or device id, bytes.
pub const DEVICE_TEXT_BYTES_MAX: usize = 128;
/// Resource attributes of the `telemetry` section.
pub const RESOURCE_ATTRIBUTES_MAX: usize = 64;
/// Seconds between telemetry exports: least, most, and when the spec says 0.
pub const TELEMETRY_INTERVAL_S: (u32, u32) = (10, 3600);
pub const TELEMETRY_INTERVAL_DEFAULT_S: u32 = 60;
/// Sections of one spec, known or not.
pub const SECTIONS_MAX: usize = 64;

/// A section this build has a name for. Its number is its field in `NodeSpec` and its place in the order
/// of convergence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    Host = 1,
    Devices = 2,
    Instances = 3,
    Access = 4,
    Telemetry = 5,
    Daemon = 6,
    Site = 7,
}

impl Section {
    /// In the order of convergence.
    pub const ALL: [Section; 7] =
        [Self::Host, Self::Devices, Self::Instances, Self::Access, Self::Telemetry, Self::Daemon, Self::Site];

    pub const fn number(self) -> u32 {
        self as u32
    }

    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|section| section.number() == number)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Devices => "devices",
            Self::Instances => "instances",
            Self::Access => "access",
            Self::Telemetry => "telemetry",
            Self::Daemon => "daemon",
            Self::Site => "site",
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

named! {
    /// How far a section is. All but `Progressing` are terminal for its generation.
    SectionState {
        /// The host is as the section says.
        Converged = "CONVERGED",
        /// Something is left that the next pass tries again.
        Progressing = "PROGRESSING",
        /// Part of it cannot be done in this generation.
        Failed = "FAILED",
        /// This daemon has no converger for it.
        Unsupported = "UNSUPPORTED",
    }
}

impl SectionState {
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Progressing)
    }
}

/// The standing of one section, as a `StatusReport` carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionStatus {
    /// The field number, known or not.
    pub section: u32,
    pub state: SectionState,
    /// The generation it is the standing of.
    pub generation: u64,
    /// A word for machines; empty when converged.
    pub reason: String,
    /// For people; empty when converged.
    pub message: String,
}

/// Who uses an assignment's devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Workloads of the host.
    Hold,
    /// Pods: the kubelet hands the devices out and limits the workload.
    Kubernetes,
    /// One this build does not know.
    Other(i32),
}

/// A device as an assignment names it; nothing is checked yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// `gpu`, `gpu.mig` or `gpu.slot`.
    pub device_class: String,
    /// The atom id.
    pub id: String,
}

/// What of the host's resources a hold may use. Zero and empty mean no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HoldLimits {
    /// Thousandths of one CPU.
    pub cpu_millis: u64,
    pub memory_bytes: u64,
    /// Pages.
    pub hugepages_2mi: u64,
    pub hugepages_1gi: u64,
    /// In the kernel's list form, as `0-15,32-47`.
    pub cpus: String,
    pub mems: String,
}

impl HoldLimits {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the host must have memory for it before it is bound.
    pub fn needs_admission(&self) -> bool {
        self.memory_bytes > 0 || self.hugepages_2mi > 0 || self.hugepages_1gi > 0
    }
}

/// Devices held for one allocation until the assignment leaves the spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceAssignment {
    pub allocation: AllocationId,
    pub reservation: ReservationId,
    pub binding: Binding,
    pub devices: Vec<Device>,
    /// Extra `KEY=VALUE` lines.
    pub env: Vec<String>,
    /// `None` or without any limit: no slice and no admission.
    pub limits: Option<HoldLimits>,
}

/// Where the daemon sends its own metrics and traces. All empty: nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Telemetry {
    /// `https://host:port` of an OTLP gRPC collector.
    pub endpoint: String,
    pub interval_s: u32,
    /// Sorted by name.
    pub resource_attributes: Vec<(String, String)>,
    /// Where the headers are; never their values.
    pub headers_secret_ref: String,
}

named! {
    /// Why a node cannot honour an assignment.
    FailReason {
        /// The spec gives it no device, or one the host does not have.
        DeviceMissing = "device-missing",
        /// Another allocation or a VM has the device or part of it.
        Overlap = "overlap",
        UnsupportedBinding = "unsupported-binding",
        UnsupportedDevice = "unsupported-device",
        /// The host has no slices, or the limits are not in their form.
        UnsupportedLimits = "unsupported-limits",
        InvalidEnv = "invalid-env",
        /// The host has promised its memory to others.
        ResourcesExhausted = "resources-exhausted",
    }
}

/// An attested report about one allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllocationReport {
    /// Its devices are ready.
    Bound {
        allocation: AllocationId,
        reservation: ReservationId,
        /// As `bcd.dev/gpu=GPU-...`, sorted.
        cdi_devices: Vec<String>,
        generation: u64,
    },
    /// Nothing of it is left in use by the daemon.
    Released {
        allocation: AllocationId,
        /// `None` when what was released did not say.
        reservation: Option<ReservationId>,
        generation: u64,
    },
    Failed {
        allocation: AllocationId,
        reservation: ReservationId,
        /// A [`FailReason`]'s name; from a newer daemon perhaps another.
        reason: String,
        message: String,
        generation: u64,
    },
}

impl AllocationReport {
    pub fn allocation(&self) -> &AllocationId {
        match self {
            Self::Bound { allocation, .. } | Self::Released { allocation, .. } | Self::Failed { allocation, .. } => {
                allocation
            }
        }
    }

    /// `Report.kind` of the event that carries it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Bound { .. } => "allocationBound",
            Self::Released { .. } => "allocationReleased",
            Self::Failed { .. } => "allocationFailed",
        }
    }
}
