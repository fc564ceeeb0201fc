//! `nvidia-smi`: what it says about every GPU, and the reset of one.
//!
//! The program is the whole interface to the driver: no library of NVIDIA's is loaded. It may be
//! missing, hang, fail half-way or print warnings around its XML; each of these has a name here.

mod list;
mod query;
mod values;
mod xml;

#[cfg(test)]
mod tests;

pub use query::Report;
pub use xml::XmlError;

use crate::bounds::{GPU_RESET_TIMEOUT, NVIDIA_SMI_BYTES_MAX, NVIDIA_SMI_TIMEOUT, clean};
use crate::exec::{self, Keep, Output, Run, RunError};
use crate::gpu::is_gpu_uuid;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum SmiError {
    #[error("cannot run nvidia-smi")]
    Run(#[source] RunError),
    #[error("nvidia-smi ended with status {code} and said {said:?}")]
    Xml {
        code: i32,
        said: String,
        #[source]
        source: XmlError,
    },
    #[error("nvidia-smi printed XML that is not its own")]
    Foreign,
    #[error("{uuid:?} is not the UUID of a GPU")]
    Uuid { uuid: String },
    #[error("nvidia-smi did not reset {uuid} (status {code}): {said}")]
    Reset { uuid: String, code: i32, said: String },
}

impl SmiError {
    /// Whether this host has no nvidia-smi at all.
    pub fn is_absent(&self) -> bool {
        matches!(self, SmiError::Run(RunError::NotInstalled { .. }))
    }
}

/// The program, found on PATH unless a path was given.
#[derive(Clone, Debug)]
pub struct NvidiaSmi {
    program: OsString,
    timeout: Duration,
}

impl Default for NvidiaSmi {
    fn default() -> Self {
        Self::at("nvidia-smi")
    }
}

impl NvidiaSmi {
    pub fn at(program: impl Into<OsString>) -> Self {
        Self { program: program.into(), timeout: NVIDIA_SMI_TIMEOUT }
    }

    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub fn program(&self) -> &OsStr {
        &self.program
    }

    /// One reading of every GPU, MIG instances with their names. Blocks for at most twice the timeout.
    pub fn query(&self) -> Result<Report, SmiError> {
        let output = self.run(&["-q", "-x"], self.timeout)?;
        let mut report = parse(&output)?;
        if report.gpus.iter().any(|diag| diag.gpu.as_ref().is_some_and(|gpu| !gpu.mig_instances.is_empty())) {
            self.name_mig_instances(&mut report);
        }
        Ok(report)
    }

    fn name_mig_instances(&self, report: &mut Report) {
        let devices = match self.run(&["-L"], self.timeout) {
            Ok(output) => list::parse(&String::from_utf8_lossy(&output.stdout)),
            Err(error) => {
                report.problems.note("nvidia-smi -L", stdx::error::chain(&error));
                return;
            }
        };
        let unnamed = list::name_instances(report.gpus.iter_mut().filter_map(|diag| diag.gpu.as_mut()), &devices);
        if unnamed > 0 {
            report.problems.note("nvidia-smi -L", format!("{unnamed} MIG instances of `-q -x` are not listed"));
        }
    }

    /// Resets one GPU: `nvidia-smi --gpu-reset -i <uuid>`. The driver refuses a GPU in use.
    pub fn reset(&self, uuid: &str) -> Result<(), SmiError> {
        if !is_gpu_uuid(uuid) {
            return Err(SmiError::Uuid { uuid: clean(uuid) });
        }
        let output = self.run(&["--gpu-reset", "-i", uuid], GPU_RESET_TIMEOUT)?;
        if output.code == 0 {
            return Ok(());
        }
        Err(SmiError::Reset { uuid: uuid.to_owned(), code: output.code, said: said(&output) })
    }

    fn run(&self, arguments: &[&str], timeout: Duration) -> Result<Output, SmiError> {
        let keep = Keep::AllOrFail(NVIDIA_SMI_BYTES_MAX);
        exec::run(&Run::new(&self.program, arguments, timeout, keep)).map_err(SmiError::Run)
    }
}

/// Reads the output of `nvidia-smi -q -x`. A status other than 0 beside good XML is only a problem:
/// nvidia-smi ends with 14 for a corrupted infoROM and still tells everything.
pub fn parse(output: &Output) -> Result<Report, SmiError> {
    let document =
        xml::parse(&output.stdout).map_err(|source| SmiError::Xml { code: output.code, said: said(output), source })?;
    let mut report = Report::read(&document).ok_or(SmiError::Foreign)?;
    if output.code != 0 {
        report.problems.note("nvidia-smi -q -x", format!("ended with status {}", output.code));
    }
    if !output.stderr.is_empty() {
        report.problems.note("nvidia-smi -q -x", format!("says {:?}", output.stderr));
    }
    Ok(report)
}

/// What the program told a person: standard error, else the beginning of its output.
fn said(output: &Output) -> String {
    if output.stderr.is_empty() {
        let beginning = &output.stdout[..output.stdout.len().min(1024)];
        clean(&String::from_utf8_lossy(beginning))
    } else {
        output.stderr.clone()
    }
}
