//! The cgroup slices of holds: where a workload is placed so that the hold's limits bind it. A hold never moves
//! a process, and a slice in use is never stopped.

use model::AllocationId;
use node_core::converge::{SliceLimits, SliceSeen};

/// Why a slice could not be made, read or stopped.
#[derive(Debug, thiserror::Error)]
pub enum SliceError {
    #[error("cannot run systemctl {verb} for {slice}")]
    Systemctl {
        verb: &'static str,
        slice: String,
        #[source]
        source: crate::exec::RunError,
    },
    #[error("systemctl {verb} {slice} ended with status {code}: {stderr}")]
    Refused { verb: &'static str, slice: String, code: i32, stderr: String },
    #[error("cannot {step} {path}")]
    Cgroup {
        step: &'static str,
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("this host has no slices")]
    Unavailable,
}

/// What became of a slice that was to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It is gone, or was never there.
    Gone,
    /// A process is in it. A later pass tries again.
    InUse,
}

/// What manages slices: systemd, in this process or through a helper.
pub trait Slices {
    /// Whether this host has slices at all (F-Q17).
    fn is_available(&self) -> bool;

    /// The hold slices of the host.
    fn list(&self) -> Result<Vec<SliceSeen>, SliceError>;

    /// Makes the slice, or gives the one that is there these limits. Returns once they hold.
    fn apply(&self, limits: &SliceLimits) -> Result<(), SliceError>;

    /// Stops the slice if no process is in it.
    fn stop_if_empty(&self, allocation: &AllocationId) -> Result<Stopped, SliceError>;
}

/// A host without slices.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSlices;

impl Slices for NoSlices {
    fn is_available(&self) -> bool {
        false
    }

    fn list(&self) -> Result<Vec<SliceSeen>, SliceError> {
        Ok(Vec::new())
    }

    fn apply(&self, _limits: &SliceLimits) -> Result<(), SliceError> {
        Err(SliceError::Unavailable)
    }

    fn stop_if_empty(&self, _allocation: &AllocationId) -> Result<Stopped, SliceError> {
        Ok(Stopped::Gone)
    }
}
