//! The machine this process runs on.

use crate::api::{Host, HostError, LogsRequest, LogsSummary, RebootEffect};
use crate::gpu::holds::CDI_DIRECTORY;
use crate::gpu::{GpuHold, read_holds};
use crate::inventory;
use crate::logs::Sources;
use crate::nvidia_smi::NvidiaSmi;
use crate::privileged::Direct;
use crate::tree::{Tree, reason};
use model::{BootId, FailCode};
use proto::v1::{Inventory, NvmlDiag};
use std::io::Write;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A host with real files and real programs.
#[derive(Clone, Debug)]
pub struct RealHost {
    tree: Tree,
    smi: NvidiaSmi,
    direct: Direct,
    sources: Sources,
}

impl Default for RealHost {
    fn default() -> Self {
        Self::with(Tree::new("/"), NvidiaSmi::default(), "systemctl")
    }
}

impl RealHost {
    /// A host read below another root, with stand-ins for its programs. For tests.
    pub fn with(tree: Tree, smi: NvidiaSmi, systemctl: impl Into<std::ffi::OsString>) -> Self {
        let direct = Direct { tree: tree.clone(), smi: smi.clone(), systemctl: systemctl.into() };
        let sources = Sources::new(tree.clone(), smi.program().to_owned());
        Self { tree, smi, direct, sources }
    }
}

impl Host for RealHost {
    fn hostname(&self) -> String {
        inventory::hostname(&self.tree)
    }

    fn boot_id(&self) -> Result<BootId, HostError> {
        let text = self.tree.text(BOOT_ID).map_err(|error| {
            HostError::new(FailCode::UnsupportedHost, format!("cannot read {BOOT_ID}: {}", reason(&error)))
        })?;
        BootId::parse(text.trim()).map_err(|error| HostError::new(FailCode::Internal, format!("{BOOT_ID}: {error}")))
    }

    fn inventory(&self) -> Inventory {
        inventory::collect(&self.tree, &self.smi.query())
    }

    fn nvml_diag(&self) -> Result<NvmlDiag, HostError> {
        let report = self.smi.query().map_err(|error| {
            let code = if error.is_absent() { FailCode::UnsupportedHost } else { FailCode::Internal };
            HostError::new(code, stdx::error::chain(&error))
        })?;
        let problems = report.all_problems();
        Ok(NvmlDiag { driver: Some(report.driver), gpus: report.gpus, problems })
    }

    fn gpu_reset(&self, uuid: &str, _command_id: &str) -> Result<(), HostError> {
        self.direct.gpu_reset(uuid)
    }

    fn gpu_holds(&self) -> Result<Vec<GpuHold>, HostError> {
        read_holds(&self.tree, CDI_DIRECTORY).map_err(|error| HostError::internal(&error))
    }

    fn reboot(&self, _command_id: &str) -> Result<RebootEffect, HostError> {
        self.direct.reboot()
    }

    fn collect_logs(&self, request: &LogsRequest, into: &mut dyn Write) -> Result<LogsSummary, HostError> {
        self.sources.collect(request, into).map_err(|error| HostError::internal(&error))
    }
}
