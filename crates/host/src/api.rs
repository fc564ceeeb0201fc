//! What a daemon asks of its host: one trait for the real machine and the simulated one. All calls
//! block; none of them writes the daemon's journal.

use crate::gpu::GpuHold;
use model::{BootId, FailCode};
use proto::v1::{Inventory, NvmlDiag};
use std::io::Write;

/// Why the host could not do something: the code a command fails with, and what to tell a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct HostError {
    pub code: &'static str,
    pub message: String,
}

impl HostError {
    pub fn new(code: FailCode, message: impl Into<String>) -> Self {
        Self { code: code.name(), message: message.into() }
    }

    /// An error of the host that no other code names, with its causes.
    pub fn internal(error: &dyn std::error::Error) -> Self {
        Self::new(FailCode::Internal, stdx::error::chain(error))
    }
}

/// What follows a reboot that was set off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebootEffect {
    /// The service manager ends this process within seconds.
    HostGoesDown,
    /// The host is simulated: end the node and start it again, as if the machine had booted.
    RestartSimulated,
}

/// What to collect. Values beyond their bounds are brought within them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogsRequest {
    /// How far back, seconds; 0 for 24 hours, at most 30 days.
    pub since_s: u32,
    /// Files of the daemon's own to add, as far as they exist.
    pub files: Vec<std::path::PathBuf>,
}

/// What an archive holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogsSummary {
    /// Bytes written, compressed.
    pub bytes: u64,
    pub items: usize,
    /// What could not be collected or was cut, `<item>: <reason>`.
    pub problems: Vec<String>,
}

/// A host. Implementations may be called from several threads at once.
pub trait Host: Send + Sync {
    /// For people; never an identity.
    fn hostname(&self) -> String;

    /// The running boot. Constant while the process lives.
    fn boot_id(&self) -> Result<BootId, HostError>;

    /// Everything the machine is made of. What cannot be read is in its `problems`.
    fn inventory(&self) -> Inventory;

    /// One reading of every GPU; `unsupported-host` where there is no nvidia-smi.
    fn nvml_diag(&self) -> Result<NvmlDiag, HostError>;

    /// Resets one GPU, which nobody may be using. Returns once it is back. `command_id` is for the
    /// record of a simulated host.
    fn gpu_reset(&self, uuid: &str, command_id: &str) -> Result<(), HostError>;

    /// The live holds on GPUs. An error when they cannot be known.
    fn gpu_holds(&self) -> Result<Vec<GpuHold>, HostError>;

    /// Sets a reboot off. Returns before the host is gone; `unsupported-host` where nothing here can
    /// reboot it.
    fn reboot(&self, command_id: &str) -> Result<RebootEffect, HostError>;

    /// Writes a tar under zstd, at most `BLOB_BYTES_MAX` long.
    fn collect_logs(&self, request: &LogsRequest, into: &mut dyn Write) -> Result<LogsSummary, HostError>;
}
