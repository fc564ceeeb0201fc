//! From a whole reading of the GPUs to what `diag.nvml` answers with.

use proto::v1::{DiagNvmlResult, GpuDiag, GpuDiagnosis, NvmlDiag};

/// The answer to a `diag.nvml`, in the reading's order.
pub fn nvml_result(diag: &NvmlDiag) -> DiagNvmlResult {
    let driver = diag.driver.clone().unwrap_or_default();
    DiagNvmlResult {
        driver_version: driver.driver_version,
        cuda_version: driver.cuda_version,
        gpus: diag.gpus.iter().map(diagnosis).collect(),
    }
}

fn diagnosis(diag: &GpuDiag) -> GpuDiagnosis {
    let gpu = diag.gpu.clone().unwrap_or_default();
    let health = gpu.health.unwrap_or_default();
    GpuDiagnosis {
        uuid: gpu.uuid,
        name: gpu.name,
        healthy: diag.healthy,
        problems: diag.reasons.clone(),
        temperature_c: diag.temperature_c,
        ecc_uncorrectable_volatile: health.ecc_volatile_uncorrectable,
        remap_pending: health.remap_pending.map(u32::from),
        remap_failed: health.remap_failed.map(u32::from),
        power_mw: diag.power_draw_mw.and_then(|power| power.try_into().ok()),
    }
}
