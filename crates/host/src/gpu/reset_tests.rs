use super::*;
use crate::api::{LogsRequest, LogsSummary, RebootEffect};
use model::BootId;
use proto::v1::{Gpu, GpuHealth, NvmlDiag};
use std::io::Write;
use std::sync::Mutex;

/// A host whose resets are recorded and whose inventory changes once something was reset.
#[derive(Default)]
struct Recording {
    calls: Mutex<Vec<String>>,
    failing: Vec<String>,
    after: Inventory,
}

impl Host for Recording {
    fn hostname(&self) -> String {
        "recording".to_owned()
    }
    fn boot_id(&self) -> Result<BootId, HostError> {
        Ok(BootId::new("boot"))
    }
    fn inventory(&self) -> Inventory {
        self.calls.lock().expect("lock").push("inventory".to_owned());
        self.after.clone()
    }
    fn nvml_diag(&self) -> Result<NvmlDiag, HostError> {
        Err(HostError::new(FailCode::UnsupportedHost, "none"))
    }
    fn gpu_reset(&self, uuid: &str, command_id: &str) -> Result<(), HostError> {
        self.calls.lock().expect("lock").push(format!("reset {uuid} for {command_id}"));
        if self.failing.iter().any(|failing| failing == uuid) {
            return Err(HostError::new(FailCode::Internal, "in use by process 7"));
        }
        Ok(())
    }
    fn gpu_holds(&self) -> Result<Vec<GpuHold>, HostError> {
        Ok(Vec::new())
    }
    fn reboot(&self, _command_id: &str) -> Result<RebootEffect, HostError> {
        Ok(RebootEffect::HostGoesDown)
    }
    fn collect_logs(&self, _request: &LogsRequest, _into: &mut dyn Write) -> Result<LogsSummary, HostError> {
        Ok(LogsSummary::default())
    }
}

fn uuid(number: u32) -> String {
    format!("GPU-{number:08x}-0000-1111-2222-333333333333")
}

fn inventory(health: &[(u32, GpuHealth)]) -> Inventory {
    let gpus = health.iter().map(|(n, health)| Gpu { uuid: uuid(*n), health: Some(*health), ..Gpu::default() });
    Inventory { gpus: gpus.collect(), ..Inventory::default() }
}

fn clean() -> GpuHealth {
    GpuHealth { ecc_volatile_uncorrectable: Some(0), remap_pending: Some(false), ..GpuHealth::default() }
}

fn hold(id: &str) -> GpuHold {
    GpuHold::parse("alloc_9", id).expect("a device id")
}

#[test]
fn an_empty_list_is_an_invalid_payload() {
    let error = plan(&[], &inventory(&[]), &[]).expect_err("refused");
    assert_eq!(error.code, "invalid-payload");
    let many: Vec<String> = (0..65).map(uuid).collect();
    assert_eq!(plan(&many, &inventory(&[]), &[]).expect_err("refused").code, "invalid-payload");
}

#[test]
fn a_gpu_held_whole_fails_the_whole_command_and_the_hold_is_named() {
    let there = inventory(&[(1, clean()), (2, clean())]);
    let error = plan(&[uuid(1), uuid(2)], &there, &[hold(&uuid(2))]).expect_err("busy");
    assert_eq!(error.code, "gpu-busy");
    assert_eq!(error.message, format!("allocation alloc_9 holds {}", uuid(2)));
}

#[test]
fn a_gpu_with_a_held_instance_or_slot_fails_the_whole_command() {
    let there = inventory(&[(1, clean()), (2, clean())]);
    for id in [format!("{}/gi1/ci0", uuid(2)), format!("{}/s4", uuid(2))] {
        let error = plan(&[uuid(1), uuid(2)], &there, &[hold(&id)]).expect_err("busy");
        assert_eq!((error.code, error.message), ("gpu-busy", format!("allocation alloc_9 holds {id}")));
    }
    assert!(plan(&[uuid(1)], &there, &[hold(&uuid(2))]).is_ok(), "another GPU's hold does not matter");
}

#[test]
fn an_unknown_gpu_is_said_to_be_unknown_and_the_others_are_still_reset() {
    let host = Recording { after: inventory(&[(1, clean()), (2, clean())]), ..Recording::default() };
    let plan = plan(&[uuid(9), uuid(1), uuid(1), "--all".to_owned(), uuid(2)], &host.after, &[]).expect("plan");
    let (outcomes, _) = execute(&host, &plan, "C1", &|| false);
    let lines: Vec<(bool, bool, &str)> = outcomes.iter().map(|o| (o.reset, o.healthy, o.message.as_str())).collect();
    let unknown = (false, false, "unknown GPU");
    assert_eq!(lines, [unknown, (true, true, ""), unknown, (true, true, "")]);
    let calls = host.calls.lock().expect("lock");
    assert_eq!(
        *calls,
        [format!("reset {} for C1", uuid(1)), format!("reset {} for C1", uuid(2)), "inventory".to_owned()]
    );
}

#[test]
fn a_failed_reset_is_that_gpus_message_and_a_reset_gpu_is_judged_by_the_fresh_inventory() {
    let before = inventory(&[(1, clean()), (2, clean()), (3, clean()), (4, clean())]);
    let after = inventory(&[
        (1, clean()),
        (2, GpuHealth { remap_failed: Some(true), ..clean() }),
        (3, GpuHealth { ecc_volatile_uncorrectable: Some(2), ..clean() }),
    ]);
    let host = Recording { after, failing: vec![uuid(1)], ..Recording::default() };
    let plan = plan(&[uuid(1), uuid(2), uuid(3), uuid(4)], &before, &[]).expect("plan");
    let (outcomes, fresh) = execute(&host, &plan, "C1", &|| false);
    let lines: Vec<(bool, bool, &str)> = outcomes.iter().map(|o| (o.reset, o.healthy, o.message.as_str())).collect();
    assert_eq!(
        lines,
        [
            (false, false, "in use by process 7"),
            (true, false, "a row remap failed"),
            (true, false, "2 uncorrectable volatile ECC errors"),
            (true, false, "the GPU is not there after its reset"),
        ]
    );
    assert_eq!(fresh, host.after);
}

#[test]
fn without_health_values_every_gpu_that_reset_reads_healthy() {
    let there = Inventory { gpus: vec![Gpu { uuid: uuid(1), ..Gpu::default() }], ..Inventory::default() };
    let host = Recording { after: there.clone(), ..Recording::default() };
    let (outcomes, _) = execute(&host, &plan(&[uuid(1)], &there, &[]).expect("plan"), "C1", &|| false);
    assert!(outcomes[0].reset && outcomes[0].healthy);
}

#[test]
fn a_stop_between_two_resets_hides_no_reset_that_happened() {
    let host = Recording { after: inventory(&[(1, clean()), (2, clean())]), ..Recording::default() };
    let plan = plan(&[uuid(1), uuid(2)], &host.after, &[]).expect("plan");
    let stop = || !host.calls.lock().expect("lock").is_empty();
    let (outcomes, _) = execute(&host, &plan, "C1", &stop);
    assert!(outcomes[0].reset && outcomes[0].healthy);
    assert_eq!((outcomes[1].reset, outcomes[1].message.as_str()), (false, "cancelled before it was reset"));
}
