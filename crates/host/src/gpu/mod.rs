//! GPUs as commands see them: what names one, when one is healthy, who holds one, and the reset.

pub mod holds;
pub mod reset;

pub use holds::{GpuHold, GpuPart, HoldsError, read_holds};
pub use reset::{ResetPlan, ResetStep, busy, execute, plan};

use proto::v1::Gpu;

/// Whether `text` is `GPU-` and a UUID, and so safe as an argument and as a key.
pub fn is_gpu_uuid(text: &str) -> bool {
    text.strip_prefix("GPU-").is_some_and(is_uuid)
}

/// Whether `text` has the form 8-4-4-4-12 of hexadecimal digits.
pub fn is_uuid(text: &str) -> bool {
    let mut groups = text.split('-');
    let lengths_hold = [8, 4, 4, 4, 12].into_iter().all(|length| {
        groups.next().is_some_and(|group| group.len() == length && group.bytes().all(|byte| byte.is_ascii_hexdigit()))
    });
    lengths_hold && groups.next().is_none()
}

/// Why a GPU is not healthy, empty when it is: uncorrectable volatile ECC errors, a pending or a
/// failed row remap (`delivery.md`, "gpu.reset and live holds"). Values that the host does not give
/// are no reason.
pub fn unhealthy_reasons(gpu: &Gpu) -> Vec<String> {
    let mut reasons = Vec::new();
    let health = gpu.health.unwrap_or_default();
    if let Some(errors) = health.ecc_volatile_uncorrectable.filter(|errors| *errors > 0) {
        reasons.push(format!("{errors} uncorrectable volatile ECC errors"));
    }
    for instance in &gpu.mig_instances {
        if let Some(errors) = instance.ecc_volatile_uncorrectable.filter(|errors| *errors > 0) {
            let (gi, ci) = (instance.gpu_instance_id, instance.compute_instance_id);
            reasons.push(format!("{errors} uncorrectable volatile ECC errors in gi{gi}/ci{ci}"));
        }
    }
    if health.remap_pending == Some(true) {
        reasons.push("a row remap waits for a reset".to_owned());
    }
    if health.remap_failed == Some(true) {
        reasons.push("a row remap failed".to_owned());
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::v1::{GpuHealth, MigInstance};

    #[test]
    fn only_a_whole_gpu_uuid_names_a_gpu() {
        assert!(is_gpu_uuid("GPU-513536b6-7d19-9063-b049-1e69664bb298"));
        for bad in [
            "",
            "-i",
            "GPU-",
            "0",
            "MIG-513536b6-7d19-9063-b049-1e69664bb298",
            "GPU-513536b6-7d19-9063-b049-1e69664bb298 ",
            "GPU-513536b6-7d19-9063-b049-1e69664bb298-0",
            "GPU-513536b6-7d19-9063-b049-1e69664bb29g",
            "--GPU-513536b6-7d19-9063-b049-1e69664bb298",
        ] {
            assert!(!is_gpu_uuid(bad), "{bad}");
        }
    }

    #[test]
    fn a_gpu_is_healthy_unless_ecc_or_a_remap_says_otherwise() {
        let with = |health| Gpu { health: Some(health), ..Gpu::default() };
        let healthy = |gpu: &Gpu| unhealthy_reasons(gpu).is_empty();
        assert!(healthy(&Gpu::default()), "no nvidia-smi, no reason");
        assert!(healthy(&with(GpuHealth {
            ecc_volatile_uncorrectable: Some(0),
            ecc_aggregate_uncorrectable: Some(9),
            remapped_correctable: Some(3),
            remapped_uncorrectable: Some(2),
            remap_pending: Some(false),
            remap_failed: Some(false),
            reset_required: Some(true),
        })));
        assert!(!healthy(&with(GpuHealth { ecc_volatile_uncorrectable: Some(1), ..GpuHealth::default() })));
        assert!(!healthy(&with(GpuHealth { remap_pending: Some(true), ..GpuHealth::default() })));
        assert!(!healthy(&with(GpuHealth { remap_failed: Some(true), ..GpuHealth::default() })));
        let instance = MigInstance { ecc_volatile_uncorrectable: Some(2), ..MigInstance::default() };
        assert!(!healthy(&Gpu { mig_instances: vec![instance], ..Gpu::default() }));
    }
}
