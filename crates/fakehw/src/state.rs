//! The state of a simulated host: `host.json` under its root. It is read again at each call, so that
//! a test changes the machine by editing the file.

use serde::{Deserialize, Serialize};
use std::path::Path;
use stdx::durable::{DurableError, read_bounded, write_file};

/// The file's name under the root.
pub const FILE: &str = "host.json";
const FILE_BYTES_MAX: u64 = 1 << 20;
const FILE_MODE: u32 = 0o600;

/// All that changes on a simulated host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostState {
    /// Changes with each reboot.
    pub boot_id: String,
    /// Boots so far, this one included.
    pub boots: u64,
    /// Lines this host has put into the effects log, as far as it lived to count them.
    pub effects: u64,
    pub gpus: Vec<GpuState>,
}

/// The health of one simulated GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GpuState {
    pub uuid: String,
    /// A reset clears it.
    pub ecc_volatile_uncorrectable: u64,
    pub ecc_aggregate_uncorrectable: u64,
    pub remapped_correctable: u32,
    pub remapped_uncorrectable: u32,
    /// A reset clears it.
    pub remap_pending: bool,
    /// Nothing clears it.
    pub remap_failed: bool,
    pub temperature_c: i32,
    pub resets: u64,
    /// What the driver says instead of resetting the GPU.
    pub reset_fails: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("cannot keep the state of the simulated host")]
    File(#[source] DurableError),
    #[error("{path} is not the state of a simulated host")]
    Form {
        path: String,
        #[source]
        source: serde_json::Error,
    },
}

/// Reads the state, `None` before the first boot.
pub fn load(root: &Path) -> Result<Option<HostState>, StateError> {
    let path = root.join(FILE);
    let Some(bytes) = read_bounded(&path, FILE_BYTES_MAX).map_err(StateError::File)? else { return Ok(None) };
    let state = serde_json::from_slice(&bytes);
    state.map(Some).map_err(|source| StateError::Form { path: path.display().to_string(), source })
}

/// Writes the state. Returns after fsync.
pub fn save(root: &Path, state: &HostState) -> Result<(), StateError> {
    let path = root.join(FILE);
    let bytes = serde_json::to_vec_pretty(state)
        .map_err(|source| StateError::Form { path: path.display().to_string(), source })?;
    write_file(&path, &bytes, FILE_MODE).map_err(StateError::File)
}
