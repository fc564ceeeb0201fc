//! `RealHost` over made-up roots with stand-ins for its programs, and on this very machine.

use host::nvidia_smi::NvidiaSmi;
use host::tree::Tree;
use host::{Host, LogsRequest, RealHost, RebootEffect};
use std::path::{Path, PathBuf};

const GPU: &str = "GPU-12000000-aaaa-bbbb-cccc-000000000001";

fn put(directory: &Path, path: &str, text: &str, mode: u32) -> PathBuf {
    let path = directory.join(path);
    stdx::durable::create_directory(path.parent().expect("parent"), 0o755).expect("directory");
    stdx::durable::write_file(&path, text.as_bytes(), mode).expect("write");
    path
}

/// A root with an `nvidia-smi` and a `systemctl` that note their arguments in `calls`.
fn made_up() -> (tempfile::TempDir, RealHost) {
    let directory = tempfile::tempdir().expect("tempdir");
    let here = directory.path();
    put(here, "q.xml", include_str!("../tests-data/v12-mig.xml"), 0o600);
    put(here, "list.txt", include_str!("../tests-data/v12-mig-list.txt"), 0o600);
    let smi = format!(
        "#!/bin/sh\ncd {}\necho nvidia-smi \"$@\" >> calls\ncase \"$*\" in '-q -x') cat q.xml;; -L) cat list.txt;; esac\n",
        here.display()
    );
    let smi = put(here, "bin/nvidia-smi", &smi, 0o700);
    let systemctl = format!("#!/bin/sh\ncd {}\necho systemctl \"$@\" >> calls\nexit $(cat status)\n", here.display());
    let systemctl = put(here, "bin/systemctl", &systemctl, 0o700);
    put(here, "status", "0", 0o600);
    let host = RealHost::with(Tree::new(here), NvidiaSmi::at(smi), systemctl);
    (directory, host)
}

fn calls(directory: &Path) -> String {
    std::fs::read_to_string(directory.join("calls")).unwrap_or_default()
}

#[test]
fn without_nvidia_smi_a_diagnosis_fails_with_unsupported_host() {
    let directory = tempfile::tempdir().expect("tempdir");
    let host = RealHost::with(Tree::new(directory.path()), NvidiaSmi::at("no-such-nvidia-smi"), "systemctl");
    assert_eq!(host.nvml_diag().expect_err("none").code, "unsupported-host");
    assert_eq!(host.gpu_reset(GPU, "C1").expect_err("none").code, "unsupported-host");
}

#[test]
fn a_diagnosis_reads_every_gpu() {
    let (_keep, host) = made_up();
    let diag = host.nvml_diag().expect("answers");
    let result = host::diag::nvml_result(&diag);
    let gpu = &result.gpus[0];
    assert_eq!((gpu.uuid.as_str(), gpu.healthy, gpu.temperature_c, gpu.power_mw), (GPU, false, Some(41), Some(82_500)));
    assert_eq!((gpu.remap_pending, gpu.remap_failed, gpu.ecc_uncorrectable_volatile), (Some(0), Some(0), Some(0)));
    assert_eq!(gpu.problems, ["2 uncorrectable volatile ECC errors in gi9/ci0"]);
}

#[test]
fn a_reset_runs_nvidia_smi_with_the_uuid_and_nothing_else() {
    let (directory, host) = made_up();
    host.gpu_reset(GPU, "C1").expect("reset");
    assert_eq!(host.gpu_reset("-pm 1", "C1").expect_err("refused").code, "invalid-payload");
    assert_eq!(calls(directory.path()), format!("nvidia-smi --gpu-reset -i {GPU}\n"));
}

#[test]
fn without_systemd_as_pid_1_a_reboot_is_an_unsupported_host_and_runs_nothing() {
    let (directory, host) = made_up();
    put(directory.path(), "proc/1/comm", "init\n", 0o644);
    assert_eq!(host.reboot("C1").expect_err("refused").code, "unsupported-host");
    // systemd as PID 1 of a container that does not manage the system, or systemd beside another init.
    put(directory.path(), "proc/1/comm", "systemd\n", 0o644);
    assert_eq!(host.reboot("C1").expect_err("refused").code, "unsupported-host");
    assert_eq!(calls(directory.path()), "");
}

#[test]
fn with_systemd_as_pid_1_a_reboot_asks_systemctl() {
    let (directory, host) = made_up();
    put(directory.path(), "proc/1/comm", "systemd\n", 0o644);
    put(directory.path(), "run/systemd/system/.keep", "", 0o644);
    assert_eq!(host.reboot("C1"), Ok(RebootEffect::HostGoesDown));
    assert_eq!(calls(directory.path()), "systemctl reboot\n");
    put(directory.path(), "status", "1", 0o600);
    assert_eq!(host.reboot("C1").expect_err("refused").code, "internal");
}

#[test]
fn holds_are_read_from_the_hosts_cdi_directory() {
    let (directory, host) = made_up();
    assert_eq!(host.gpu_holds(), Ok(Vec::new()));
    let spec = format!(r#"{{"kind":"bcd.dev/gpu","devices":[{{"annotations":{{"bcd.dev/device-id":"{GPU}/s1"}}}}]}}"#);
    put(directory.path(), "etc/cdi/bcd-alloc_1.json", &spec, 0o644);
    let holds = host.gpu_holds().expect("read");
    assert_eq!(holds[0].to_string(), format!("allocation alloc_1 holds {GPU}/s1"));
    let error = host::gpu::plan(&[GPU.to_owned()], &host.inventory(), &holds).expect_err("busy");
    assert_eq!((error.code, error.message), ("gpu-busy", format!("allocation alloc_1 holds {GPU}/s1")));
    put(directory.path(), "etc/cdi/bcd-alloc_2.json", "{", 0o644);
    assert!(host.gpu_holds().expect_err("unreadable").message.contains("/etc/cdi/bcd-alloc_2.json"));
}

#[test]
fn the_boot_id_of_this_machine_is_its_kernels() {
    let host = RealHost::default();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a Linux machine");
    assert_eq!(host.boot_id().expect("boot id").as_str(), kernel.trim());
    assert_eq!(host.boot_id(), RealHost::default().boot_id());
}

#[test]
fn logs_of_this_machine_are_collected() {
    let mut archive = Vec::new();
    let summary = RealHost::default().collect_logs(&LogsRequest::default(), &mut archive).expect("collected");
    assert_eq!(summary.bytes, archive.len() as u64);
    let mut tar = tar::Archive::new(zstd::Decoder::new(archive.as_slice()).expect("zstd"));
    let names: Vec<String> = tar
        .entries()
        .expect("entries")
        .map(|e| e.expect("entry").path().expect("path").display().to_string())
        .collect();
    for name in ["proc/meminfo", "proc/mounts", "proc/cmdline", "MANIFEST"] {
        assert!(names.iter().any(|other| other == name), "{name} is not in {names:?}");
    }
    eprintln!("{summary:?}");
}
