//! One command on the host, synchronously. The payload is read first: one that is not the kind's request
//! fails before anything is touched.

use super::{failed, succeeded};
use host::{Host, HostError, RebootEffect};
use model::{FailCode, Kind};
use node_core::{Work, WorkResult};
use proto::v1;
use proto::{Message, WireError};

/// How a piece of work ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    Finished(WorkResult),
    /// Done once the inventory of [`Executed`] was observed, which makes the answer.
    Refreshed,
    /// Nothing to report: the next boot completes the command.
    HostGoesDown,
    /// A simulated host was rebooted: the daemon ends and starts again in the next boot.
    RestartSimulated,
}

/// What a command did.
#[derive(Clone, Debug, PartialEq)]
pub struct Executed {
    pub ending: Ending,
    /// A fresh inventory, where one was collected.
    pub inventory: Option<v1::Inventory>,
    /// GPUs that were reset and read healthy.
    pub recovered_gpus: Vec<String>,
}

impl Executed {
    fn only(ending: Ending) -> Self {
        Self { ending, inventory: None, recovered_gpus: Vec::new() }
    }
}

/// Runs one command. `stop` is asked between actions.
pub fn execute(host: &dyn Host, work: &Work, stop: &dyn Fn() -> bool) -> Executed {
    match run(host, work, stop) {
        Ok(executed) => executed,
        Err(Failure::Payload(error)) => {
            Executed::only(Ending::Finished(failed(FailCode::InvalidPayload, stdx::error::chain(&error))))
        }
        Err(Failure::Host(HostError { code, message })) => {
            Executed::only(Ending::Finished(WorkResult::Failed { code: code.to_owned(), message, value: None }))
        }
    }
}

enum Failure {
    Payload(WireError),
    Host(HostError),
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        Self::Payload(error)
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

fn run(host: &dyn Host, work: &Work, stop: &dyn Fn() -> bool) -> Result<Executed, Failure> {
    match work.kind {
        Kind::InventoryRefresh => {
            proto::unpack::<v1::InventoryRefreshRequest>(&work.payload)?;
            let inventory = Some(host.inventory());
            Ok(Executed { ending: Ending::Refreshed, inventory, recovered_gpus: Vec::new() })
        }
        Kind::DiagNvml => {
            proto::unpack::<v1::DiagNvmlRequest>(&work.payload)?;
            let answer = host::diag::nvml_result(&host.nvml_diag()?);
            Ok(Executed::only(Ending::Finished(succeeded(proto::pack(&answer)))))
        }
        Kind::GpuReset => {
            let request: v1::GpuResetRequest = proto::unpack(&work.payload)?;
            reset(host, &request, work.id.as_str(), stop)
        }
        Kind::NodeReboot => {
            proto::unpack::<v1::NodeRebootRequest>(&work.payload)?;
            Ok(Executed::only(match host.reboot(work.id.as_str())? {
                RebootEffect::HostGoesDown => Ending::HostGoesDown,
                RebootEffect::RestartSimulated => Ending::RestartSimulated,
            }))
        }
        other => {
            let message = format!("{other} has no implementation in this build");
            Err(HostError::new(FailCode::Internal, message).into())
        }
    }
}

/// The whole list is checked before any GPU is touched; each GPU has an outcome of its own.
fn reset(
    host: &dyn Host,
    request: &v1::GpuResetRequest,
    command_id: &str,
    stop: &dyn Fn() -> bool,
) -> Result<Executed, Failure> {
    let holds = host.gpu_holds()?;
    let plan = host::gpu::plan(&request.gpu_uuids, &host.inventory(), &holds)?;
    let (gpus, fresh) = host::gpu::execute(host, &plan, command_id, stop);
    let healthy = gpus.iter().filter(|outcome| outcome.reset && outcome.healthy);
    let recovered_gpus = healthy.map(|outcome| outcome.uuid.clone()).collect();
    let answer = v1::GpuResetResult { gpus };
    debug_assert!(answer.encoded_len() < model::limits::RESULT_BYTES_MAX);
    Ok(Executed { ending: Ending::Finished(succeeded(proto::pack(&answer))), inventory: Some(fresh), recovered_gpus })
}
