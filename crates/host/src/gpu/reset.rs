//! `gpu.reset` in three steps: the whole list is checked before any GPU is touched, each GPU that
//! may be reset is reset, and a fresh inventory says which are healthy (`delivery.md`, "gpu.reset
//! and live holds"). Journaling and signing are the caller's.

use super::{GpuHold, unhealthy_reasons};
use crate::api::{Host, HostError};
use crate::bounds::GPU_RESET_MAX;
use model::FailCode;
use proto::v1::{GpuResetOutcome, Inventory};

/// What is done with one GPU of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetStep {
    Reset,
    /// The inventory lacks it.
    Unknown,
}

/// A checked list, in the order asked, each GPU once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetPlan {
    pub steps: Vec<(String, ResetStep)>,
}

/// The first hold on one of `gpu_uuids`, whole or in part. `diag.dcgm` asks the same from level 2.
pub fn busy<'a>(gpu_uuids: &[String], holds: &'a [GpuHold]) -> Option<&'a GpuHold> {
    holds.iter().find(|hold| gpu_uuids.contains(&hold.gpu_uuid))
}

/// Checks the whole list. Touches nothing.
pub fn plan(gpu_uuids: &[String], inventory: &Inventory, holds: &[GpuHold]) -> Result<ResetPlan, HostError> {
    let invalid = |message: String| HostError::new(FailCode::InvalidPayload, message);
    if gpu_uuids.is_empty() {
        return Err(invalid("gpu_uuids is empty: name the GPUs to reset".to_owned()));
    }
    if gpu_uuids.len() > GPU_RESET_MAX {
        return Err(invalid(format!("gpu_uuids has {} entries, at most {GPU_RESET_MAX} are allowed", gpu_uuids.len())));
    }
    if let Some(hold) = busy(gpu_uuids, holds) {
        return Err(HostError::new(FailCode::GpuBusy, hold.to_string()));
    }
    let mut steps: Vec<(String, ResetStep)> = Vec::new();
    for uuid in gpu_uuids {
        if steps.iter().any(|(other, _)| other == uuid) {
            continue;
        }
        let known = inventory.gpus.iter().any(|gpu| gpu.uuid == *uuid);
        steps.push((uuid.clone(), if known { ResetStep::Reset } else { ResetStep::Unknown }));
    }
    Ok(ResetPlan { steps })
}

/// Resets what the plan says, one GPU after the other, then collects a fresh inventory and judges by
/// it. `stop` is asked before each reset: once it is true, the rest is left as it is and said so.
pub fn execute(
    host: &dyn Host,
    plan: &ResetPlan,
    command_id: &str,
    stop: &dyn Fn() -> bool,
) -> (Vec<GpuResetOutcome>, Inventory) {
    let mut outcomes: Vec<GpuResetOutcome> = Vec::with_capacity(plan.steps.len());
    for (uuid, step) in &plan.steps {
        let done = match step {
            ResetStep::Unknown => Err("unknown GPU".to_owned()),
            ResetStep::Reset if stop() => Err("cancelled before it was reset".to_owned()),
            ResetStep::Reset => host.gpu_reset(uuid, command_id).map_err(|error| error.message),
        };
        outcomes.push(GpuResetOutcome {
            uuid: uuid.clone(),
            reset: done.is_ok(),
            healthy: false,
            message: done.err().unwrap_or_default(),
        });
    }
    let fresh = host.inventory();
    for outcome in outcomes.iter_mut().filter(|outcome| outcome.reset) {
        let reasons = match fresh.gpus.iter().find(|gpu| gpu.uuid == outcome.uuid) {
            Some(gpu) => unhealthy_reasons(gpu),
            None => vec!["the GPU is not there after its reset".to_owned()],
        };
        outcome.healthy = reasons.is_empty();
        outcome.message = reasons.join("; ");
    }
    (outcomes, fresh)
}

#[cfg(test)]
#[path = "reset_tests.rs"]
mod tests;
