use super::*;
use host::gpu::{execute, plan};
use host::{Host, LogsRequest, RebootEffect};
use std::path::Path;

struct Sim {
    directory: tempfile::TempDir,
    host: FakeHost,
}

impl Sim {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("tempdir");
        let host = open(directory.path(), 3);
        Self { directory, host }
    }

    fn effects(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.directory.path().join("effects")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn gpu(&self, number: usize) -> String {
        self.host.state().expect("state").gpus[number].uuid.clone()
    }
}

fn open(directory: &Path, index: u32) -> FakeHost {
    FakeHost::open(directory.join(format!("node-{index}")), index, directory.join("effects")).expect("opens")
}

#[test]
fn the_simulated_node_is_an_hgx_with_eight_gpus_one_of_them_divided() {
    let sim = Sim::new();
    let inventory = sim.host.inventory();
    assert_eq!(inventory.gpus.len(), 8);
    let divided: Vec<usize> =
        inventory.gpus.iter().map(|gpu| gpu.mig_instances.len()).filter(|count| *count > 0).collect();
    assert_eq!(divided, [3]);
    for gpu in &inventory.gpus {
        assert!(host::gpu::is_gpu_uuid(&gpu.uuid), "{}", gpu.uuid);
        assert!(
            inventory.pci_devices.iter().any(|device| device.address == gpu.pci_address && device.driver == "nvidia")
        );
    }
    let mut addresses: Vec<&str> = inventory.gpus.iter().map(|gpu| gpu.pci_address.as_str()).collect();
    addresses.dedup();
    assert!(addresses.len() == 8 && addresses.is_sorted());
    assert!(inventory.disks.is_sorted_by_key(|disk| &disk.name) && inventory.nics.is_sorted_by_key(|nic| &nic.name));
}

#[test]
fn ids_depend_on_the_index_alone_and_boot_ids_on_the_boot() {
    let (one, two) = (Sim::new(), Sim::new());
    assert_eq!(one.host.inventory(), two.host.inventory());
    assert_eq!(host::digest(&one.host.inventory()), host::digest(&two.host.inventory()));
    assert_ne!(one.host.boot_id(), two.host.boot_id());
    let other = open(one.directory.path(), 4);
    assert_ne!(other.inventory().gpus[0].uuid, one.gpu(0));
    assert_ne!(other.inventory().firmware, one.host.inventory().firmware);
}

#[test]
fn a_reset_is_one_line_outside_the_root_with_boot_gpu_and_command() {
    let sim = Sim::new();
    let boot = sim.host.boot_id().expect("boot id");
    let (first, second) = (sim.gpu(0), sim.gpu(1));
    sim.host.gpu_reset(&first, "CMD1").expect("reset");
    sim.host.gpu_reset(&second, "CMD2").expect("reset");
    assert_eq!(sim.effects(), [format!("{boot} 0 {first} CMD1"), format!("{boot} 1 {second} CMD2")]);
    assert_eq!(sim.host.state().expect("state").gpus[0].resets, 1);
}

#[test]
fn a_reset_that_fails_or_names_no_gpu_of_this_node_leaves_no_line() {
    let sim = Sim::new();
    sim.host.edit(|state| state.gpus[0].reset_fails = Some("GPU is in use".to_owned())).expect("edit");
    assert_eq!(sim.host.gpu_reset(&sim.gpu(0), "CMD1").expect_err("fails").message, "GPU is in use");
    assert!(sim.host.gpu_reset("GPU-00000000-0000-0000-0000-000000000000", "CMD1").is_err());
    assert_eq!(sim.effects(), Vec::<String>::new());
}

#[test]
fn ecc_and_remap_state_is_carried_and_a_reset_clears_what_a_reset_clears() {
    let sim = Sim::new();
    // By the file itself, as a test of another process would.
    let path = sim.host.root().join("host.json");
    let text = std::fs::read_to_string(&path).expect("host.json");
    let edited = text.replacen("\"ecc_volatile_uncorrectable\": 0", "\"ecc_volatile_uncorrectable\": 5", 1).replacen(
        "\"remap_failed\": false",
        "\"remap_failed\": true",
        2,
    );
    let edited = edited.replacen("\"remap_failed\": true", "\"remap_failed\": false", 1);
    stdx::durable::write_file(&path, edited.as_bytes(), 0o600).expect("edited");
    let verdicts = |sim: &Sim| -> Vec<bool> {
        sim.host.nvml_diag().expect("diag").gpus.iter().take(3).map(|gpu| gpu.healthy).collect()
    };
    assert_eq!(verdicts(&sim), [false, false, true]);
    let uuids = [sim.gpu(0), sim.gpu(1), "GPU-unknown".to_owned()];
    let plan = plan(&uuids, &sim.host.inventory(), &sim.host.gpu_holds().expect("holds")).expect("plan");
    let (outcomes, fresh) = execute(&sim.host, &plan, "CMD1", &|| false);
    let lines: Vec<(bool, bool, &str)> = outcomes.iter().map(|o| (o.reset, o.healthy, o.message.as_str())).collect();
    assert_eq!(lines, [(true, true, ""), (true, false, "a row remap failed"), (false, false, "unknown GPU")]);
    assert_eq!(fresh.gpus[1].health.and_then(|health| health.remap_failed), Some(true));
    assert_eq!(verdicts(&sim), [true, false, true]);
    assert_eq!(sim.effects().len(), 2);
    sim.host.edit(|state| state.gpus[2].remap_pending = true).expect("edit");
    assert_eq!(verdicts(&sim), [true, false, false]);
    sim.host.gpu_reset(&sim.gpu(2), "CMD2").expect("reset");
    assert_eq!(verdicts(&sim), [true, false, true]);
}

#[test]
fn a_hold_under_the_own_root_keeps_a_gpu_from_being_reset() {
    let sim = Sim::new();
    let spec = format!(
        r#"{{"kind":"bcd.dev/gpu","devices":[{{"annotations":{{"bcd.dev/device-id":"{}/gi1/ci0"}}}}]}}"#,
        sim.gpu(7)
    );
    let path = sim.host.root().join("etc/cdi/bcd-alloc_1.json");
    stdx::durable::write_file(&path, spec.as_bytes(), 0o644).expect("hold");
    let holds = sim.host.gpu_holds().expect("holds");
    let error = plan(&[sim.gpu(0), sim.gpu(7)], &sim.host.inventory(), &holds).expect_err("busy");
    assert_eq!((error.code, error.message), ("gpu-busy", format!("allocation alloc_1 holds {}/gi1/ci0", sim.gpu(7))));
}

#[test]
fn a_reboot_is_logged_and_the_next_start_has_another_boot_id() {
    let sim = Sim::new();
    let before = sim.host.boot_id().expect("boot id");
    sim.host.edit(|state| state.gpus[2].remap_pending = true).expect("edit");
    assert_eq!(sim.host.reboot("CMD9"), Ok(RebootEffect::RestartSimulated));
    assert_eq!(sim.effects(), [format!("{before} 0 reboot CMD9")]);
    let again = open(sim.directory.path(), 3);
    assert_ne!(again.boot_id().expect("boot id"), before);
    assert_eq!(again.state().expect("state").boots, 2);
    assert!(!again.state().expect("state").gpus[2].remap_pending);
}

#[test]
fn a_start_without_a_reboot_keeps_boot_id_and_state() {
    let sim = Sim::new();
    sim.host.edit(|state| state.gpus[0].ecc_aggregate_uncorrectable = 4).expect("edit");
    let again = open(sim.directory.path(), 3);
    assert_eq!(again.state().expect("state"), sim.host.state().expect("state"));
    assert_eq!(again.boot_id(), sim.host.boot_id());
}

#[test]
fn a_broken_state_is_said_and_never_replaced() {
    let sim = Sim::new();
    let path = sim.host.root().join("host.json");
    stdx::durable::write_file(&path, b"{\"boot_id\": 1}", 0o600).expect("broken");
    assert!(sim.host.boot_id().is_err());
    assert!(sim.host.gpu_reset(&machine::gpu_uuid(3, 0), "CMD1").is_err());
    assert!(sim.host.inventory().problems[0].reason.contains("host.json"));
    assert!(FakeHost::open(sim.host.root(), 3, sim.directory.path().join("effects")).is_err());
    assert_eq!(std::fs::read(&path).expect("kept"), b"{\"boot_id\": 1}");
    assert_eq!(sim.effects(), Vec::<String>::new());
}

#[test]
fn the_effects_log_cannot_be_inside_the_root() {
    let directory = tempfile::tempdir().expect("tempdir");
    let root = directory.path().join("node");
    assert!(matches!(FakeHost::open(&root, 0, root.join("effects")), Err(FakeError::EffectsInside { .. })));
    assert!(!root.exists());
}

#[test]
fn logs_of_a_simulated_host_come_from_its_root_alone() {
    let sim = Sim::new();
    let mut archive = Vec::new();
    let summary = sim.host.collect_logs(&LogsRequest::default(), &mut archive).expect("collected");
    assert_eq!((summary.problems.as_slice(), summary.items), (&[][..], 7));
    assert_eq!(summary.bytes, archive.len() as u64);
}
