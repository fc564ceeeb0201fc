//! What only root may do to the host: reset a GPU, reboot. `Direct` does it in this process, for a
//! daemon that is root itself. Everything is checked here again, whatever the caller checked.

use crate::api::{HostError, RebootEffect};
use crate::bounds::REBOOT_TIMEOUT;
use crate::exec::{self, Keep, Run};
use crate::nvidia_smi::{NvidiaSmi, SmiError};
use crate::tree::Tree;
use model::FailCode;
use std::ffi::OsString;

const SYSTEMCTL_BYTES_MAX: usize = 64 << 10;
/// `systemctl` ended by SIGTERM: the shutdown that it asked for has reached it.
const ENDED_BY_SIGTERM: i32 = 128 + 15;

/// Privileged operations in process.
#[derive(Clone, Debug)]
pub struct Direct {
    pub tree: Tree,
    pub smi: NvidiaSmi,
    pub systemctl: OsString,
}

impl Direct {
    pub fn gpu_reset(&self, uuid: &str) -> Result<(), HostError> {
        self.smi.reset(uuid).map_err(|error| {
            let code = match &error {
                error if error.is_absent() => FailCode::UnsupportedHost,
                SmiError::Uuid { .. } => FailCode::InvalidPayload,
                _ => FailCode::Internal,
            };
            HostError::new(code, stdx::error::chain(&error))
        })
    }

    /// `systemctl reboot`, where systemd is what would carry it out.
    pub fn reboot(&self) -> Result<RebootEffect, HostError> {
        if !is_systemd_init(&self.tree) {
            let message = "systemd does not run as PID 1, so nothing here can reboot this host";
            return Err(HostError::new(FailCode::UnsupportedHost, message));
        }
        let run = Run::new(&self.systemctl, &["reboot"], REBOOT_TIMEOUT, Keep::AllOrFail(SYSTEMCTL_BYTES_MAX));
        let output = exec::run(&run).map_err(|error| HostError::internal(&error))?;
        if output.code == 0 || output.code == ENDED_BY_SIGTERM {
            return Ok(RebootEffect::HostGoesDown);
        }
        let message = format!("systemctl reboot ended with status {}: {}", output.code, output.stderr);
        Err(HostError::new(FailCode::Internal, message))
    }
}

/// Whether systemd is PID 1 and has taken the system over (sd_booted(3)).
pub fn is_systemd_init(tree: &Tree) -> bool {
    let named = tree.text("/proc/1/comm").is_ok_and(|name| name.trim() == "systemd");
    named && tree.is_directory("/run/systemd/system")
}
