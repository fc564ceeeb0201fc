use super::*;
use crate::exec::Output;
use proptest::prelude::*;
use proto::v1::{Gpu, GpuDiag, GpuHealth};
use std::path::Path;
use std::time::Instant;

const V10: &[u8] = include_bytes!("../../tests-data/v10-legacy-ecc.xml");
const V11: &[u8] = include_bytes!("../../tests-data/v11-two-gpus.xml");
const V12_MIG: &[u8] = include_bytes!("../../tests-data/v12-mig.xml");
const V13: &[u8] = include_bytes!("../../tests-data/v13-nvswitch.xml");
/// Recordings there were when this was written; more are read too.
const RECORDINGS: usize = 4;
const ODD: &[u8] = include_bytes!("../../tests-data/odd-values.xml");

fn output(stdout: &[u8]) -> Output {
    Output { code: 0, stdout: stdout.to_vec(), cut: false, stderr: String::new() }
}

fn report(xml: &[u8]) -> Report {
    parse(&output(xml)).expect("parses")
}

fn gpu(diag: &GpuDiag) -> &Gpu {
    diag.gpu.as_ref().expect("every reading has its GPU")
}

fn problems(report: &Report) -> Vec<String> {
    report.all_problems().into_iter().map(|p| format!("{}: {}", p.subject, p.reason)).collect()
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    text.split_once(before).and_then(|(_, rest)| rest.split_once(after)).map(|(found, _)| found).expect("both marks")
}

/// A directory with an `nvidia-smi` that runs `body`.
fn stand_in(body: &str) -> (tempfile::TempDir, NvidiaSmi) {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join("nvidia-smi");
    let script = format!("#!/bin/sh\ncd {}\n{body}\n", directory.path().display());
    stdx::durable::write_file(&path, script.as_bytes(), 0o700).expect("script");
    let smi = NvidiaSmi::at(path);
    (directory, smi)
}

#[test]
fn schema_10_with_single_and_double_bit_counters_is_read() {
    let report = report(V10);
    assert_eq!(problems(&report), Vec::<String>::new());
    assert_eq!((report.driver.query_schema, report.driver.cuda_version.as_str()), (Some(10), "10.1"));
    let diag = &report.gpus[0];
    let gpu = gpu(diag);
    assert_eq!((gpu.pci_address.as_str(), gpu.architecture.as_str()), ("0000:d8:00.0", ""));
    assert_eq!((gpu.mig_enabled, gpu.memory_bytes, gpu.ecc_enabled), (None, Some(16130 << 20), Some(true)));
    let health = gpu.health.expect("health");
    assert_eq!(health.ecc_volatile_uncorrectable, Some(3), "the parts, since the total is absent");
    assert_eq!(health.ecc_aggregate_uncorrectable, Some(5), "the total");
    assert_eq!((diag.ecc_volatile_correctable, diag.ecc_aggregate_correctable), (Some(2), Some(7)));
    assert_eq!((health.remap_pending, health.remapped_uncorrectable), (None, None));
    assert_eq!((diag.pcie_width, diag.pcie_width_max), (Some(8), Some(16)));
    assert_eq!((diag.power_draw_mw, diag.power_limit_mw), (Some(25_310), Some(250_000)));
    assert!(!diag.healthy);
}

#[test]
fn schema_11_is_read_in_order_of_address() {
    let report = report(V11);
    assert_eq!(problems(&report), Vec::<String>::new());
    let addresses: Vec<&str> = report.gpus.iter().map(|diag| gpu(diag).pci_address.as_str()).collect();
    assert_eq!(addresses, ["0000:3b:00.0", "0000:86:00.0"]);
    let (t4, a40) = (&report.gpus[0], &report.gpus[1]);
    assert_eq!((gpu(t4).serial.as_str(), t4.healthy), ("", true));
    assert_eq!(gpu(t4).health.expect("health").remap_pending, None, "`N/A` for the whole of it");
    assert_eq!((gpu(a40).virtualization_mode.as_str(), gpu(a40).host_vgpu_mode.as_str()), ("Host VGPU", "SR-IOV"));
    assert_eq!((gpu(a40).ecc_enabled, gpu(a40).ecc_pending), (Some(true), Some(false)));
    let expected = GpuHealth {
        ecc_volatile_uncorrectable: Some(0),
        ecc_aggregate_uncorrectable: Some(3),
        remapped_correctable: Some(0),
        remapped_uncorrectable: Some(1),
        remap_pending: Some(true),
        remap_failed: Some(false),
        reset_required: None,
    };
    assert_eq!(gpu(a40).health, Some(expected));
    assert_eq!(a40.reasons, ["a row remap waits for a reset"]);
    assert_eq!((a40.ecc_volatile_correctable, a40.power_limit_mw), (Some(3), Some(280_000)));
}

#[test]
fn schema_12_with_mig_instances_is_read_and_the_list_names_them() {
    let (directory, smi) = stand_in("case \"$*\" in '-q -x') cat q.xml;; -L) cat list.txt;; *) exit 2;; esac");
    let put = |name: &str, bytes: &[u8]| stdx::durable::write_file(&directory.path().join(name), bytes, 0o600);
    put("q.xml", V12_MIG).expect("q.xml");
    put("list.txt", include_bytes!("../../tests-data/v12-mig-list.txt")).expect("list.txt");
    let report = smi.query().expect("answers");
    let diag = &report.gpus[0];
    assert_eq!((gpu(diag).mig_enabled, gpu(diag).mig_pending), (Some(true), Some(false)));
    let rows: Vec<String> = gpu(diag)
        .mig_instances
        .iter()
        .map(|i| {
            let place = format!("gi{} ci{} #{}", i.gpu_instance_id, i.compute_instance_id, i.index);
            let mib = i.memory_bytes.unwrap_or(0) >> 20;
            format!("{place} {} {} {mib} MiB {:?}", i.profile, i.uuid, i.multiprocessors)
        })
        .collect();
    assert_eq!(
        rows,
        [
            "gi2 ci1 #0 3g.40gb MIG-12000000-dddd-bbbb-cccc-000000000021 40192 MiB Some(60)",
            "gi9 ci0 #1 1g.10gb MIG-12000000-dddd-bbbb-cccc-000000000090 9856 MiB Some(16)",
        ]
    );
    assert_eq!(diag.reasons, ["2 uncorrectable volatile ECC errors in gi9/ci0"]);
    assert_eq!((gpu(diag).addressing_mode.as_str(), &diag.fabric), ("HMM", &None));
    assert_eq!(
        problems(&report),
        [
            "nvidia-smi gpu 0000:c1:00.0 mig_device gpu_instance_id: or compute_instance_id has no value, so the instance is left out",
            "nvidia-smi gpu 0000:c1:00.0 mig_device gpu_instance_id: reads \"Unknown Error\"",
        ]
    );
}

#[test]
fn schema_13_with_split_sram_counters_and_a_fabric_is_read() {
    let report = report(V13);
    assert_eq!(problems(&report), Vec::<String>::new());
    let diag = &report.gpus[0];
    assert_eq!(gpu(diag).pci_address, "0002:1b:00.0");
    let health = gpu(diag).health.expect("health");
    assert_eq!((health.ecc_volatile_uncorrectable, health.ecc_aggregate_uncorrectable), (Some(7), Some(70)));
    assert_eq!((health.remap_failed, health.reset_required), (Some(true), Some(true)));
    assert_eq!((diag.ecc_volatile_correctable, diag.ecc_aggregate_correctable), (Some(5), Some(50)));
    assert_eq!(diag.reasons, ["7 uncorrectable volatile ECC errors", "a row remap failed"]);
    assert_eq!((diag.power_draw_mw, diag.power_limit_mw), (Some(812_250), Some(1_000_000)));
    assert_eq!(diag.recovery_action, "Drain and Reset");
    let fabric = diag.fabric.as_ref().expect("fabric");
    assert_eq!((fabric.state.as_str(), fabric.clique_id.as_str()), ("Completed", "7"));
    assert_eq!((diag.temperature_c, diag.memory_temperature_c, diag.gpu_utilization), (Some(66), Some(71), Some(97)));
}

#[test]
fn odd_values_are_unset_and_said_and_never_a_failure() {
    let report = report(ODD);
    let uuids: Vec<&str> = report.gpus.iter().map(|diag| &gpu(diag).uuid[31..]).collect();
    assert_eq!(uuids, ["000000004", "000000002"], "an empty address sorts first");
    let diag = &report.gpus[1];
    let odd = gpu(diag);
    assert_eq!((odd.name.as_str(), odd.minor_number, odd.memory_bytes, odd.mig_enabled), ("", None, None, None));
    let health = odd.health.expect("health");
    assert_eq!((health.ecc_volatile_uncorrectable, health.ecc_aggregate_uncorrectable), (Some(3), Some(u64::MAX)));
    assert_eq!((health.remapped_correctable, health.remap_pending), (None, None));
    assert_eq!((diag.temperature_c, diag.memory_temperature_c, diag.power_draw_mw), (None, Some(-5), Some(7_000)));
    expect_test::expect![[r#"
        nvidia-smi: says "WARNING: infoROM is corrupted at gpu 0000:02:00.0"
        nvidia-smi attached_gpus: reads 5, 4 listed
        nvidia-smi gpu 0000:01:00.0 uuid: "" names no GPU, so it is left out
        nvidia-smi gpu 0000:01:00.0 uuid: reads "Unknown Error"
        nvidia-smi gpu 0000:02:00.0 ecc_errors/volatile/sram_uncorrectable: reads "Unknown Error"
        nvidia-smi gpu 0000:02:00.0 fb_memory_usage/total: has no value
        nvidia-smi gpu 0000:02:00.0 fb_memory_usage/total: reads "GPU is lost"
        nvidia-smi gpu 0000:02:00.0 fb_memory_usage/used: reads "lots", which is not a size
        nvidia-smi gpu 0000:02:00.0 gpu_power_readings/power_draw: reads "Insufficient Permissions"
        nvidia-smi gpu 0000:02:00.0 minor_number: reads "[Unknown Error]"
        nvidia-smi gpu 0000:02:00.0 persistence_mode: reads "Perhaps", which is not a yes or no
        nvidia-smi gpu 0000:02:00.0 product_name: reads "Unknown Error"
        nvidia-smi gpu 0000:02:00.0 remapped_rows/remapped_row_corr: reads "-1", which is not a number
        nvidia-smi gpu 0000:02:00.0 remapped_rows/remapped_row_pending: reads "Unknown Error"
        nvidia-smi gpu 0000:02:00.0 temperature/gpu_temp: reads "ERR!"
        nvidia-smi gpu 0000:03:00.0 uuid: GPU-0dd00000-aaaa-bbbb-cccc-000000000002 is listed twice, the first is taken
        nvidia-smi gpu not an address id: is not a PCI address
    "#]]
    .assert_eq(&(problems(&report).join("\n") + "\n"));
}

#[test]
fn good_xml_with_a_bad_status_is_taken_and_no_xml_is_an_error_that_quotes_the_program() {
    let mut corrupt_inforom = output(V11);
    corrupt_inforom.code = 14;
    assert_eq!(problems(&parse(&corrupt_inforom).expect("taken")), ["nvidia-smi -q -x: ended with status 14"]);
    let mut no_driver = output(b"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n");
    no_driver.code = 9;
    let error = parse(&no_driver).expect_err("no XML");
    assert!(error.to_string().contains("status 9 and said \"NVIDIA-SMI has failed"), "{error}");
    assert!(matches!(parse(&output(b"<html></html>")), Err(SmiError::Foreign)));
}

#[test]
fn a_hanging_nvidia_smi_is_given_up_after_its_time() {
    let (_keep, smi) = stand_in("sleep 1000");
    let started = Instant::now();
    let error = smi.with_timeout(Duration::from_millis(300)).query().expect_err("given up");
    assert!(matches!(error, SmiError::Run(RunError::Timeout { .. })), "{error}");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn an_endless_answer_is_refused() {
    let (_keep, smi) = stand_in("yes '<gpu>'");
    let error = smi.query().expect_err("refused");
    assert!(matches!(error, SmiError::Run(RunError::TooLong { bytes_max: NVIDIA_SMI_BYTES_MAX, .. })), "{error}");
}

#[test]
fn a_reset_passes_exactly_the_uuid_and_reports_what_the_driver_said() {
    let (directory, smi) = stand_in("echo \"$@\" >> calls; echo 'GPU 0 is in use' >&2; exit $(cat status)");
    let status = directory.path().join("status");
    let uuid = "GPU-513536b6-7d19-9063-b049-1e69664bb298";
    stdx::durable::write_file(&status, b"0", 0o600).expect("status");
    smi.reset(uuid).expect("reset");
    stdx::durable::write_file(&status, b"19", 0o600).expect("status");
    let error = smi.reset(uuid).expect_err("in use");
    assert_eq!(error.to_string(), format!("nvidia-smi did not reset {uuid} (status 19): GPU 0 is in use"));
    for bad in ["-pm", "--gpu-reset", "0", "", "GPU-1; reboot"] {
        assert!(matches!(smi.reset(bad), Err(SmiError::Uuid { .. })), "{bad}");
    }
    let calls = std::fs::read_to_string(directory.path().join("calls")).expect("calls");
    assert_eq!(calls, format!("--gpu-reset -i {uuid}\n").repeat(2));
}

#[test]
fn recordings_of_real_machines_are_read_without_odd_values() {
    let Some(directory) = std::env::var_os("BC_FIXTURES") else {
        eprintln!("SKIP: BC_FIXTURES is not set: {RECORDINGS} recordings of real machines not read");
        return;
    };
    let mut read = 0;
    for entry in std::fs::read_dir(Path::new(&directory).join("nvidia-smi")).expect("BC_FIXTURES/nvidia-smi") {
        let path = entry.expect("entry").path();
        let text = std::fs::read_to_string(&path).expect("a recording");
        let report = report(text.as_bytes());
        let name = path.display();
        let listed = text.matches("<gpu id=").count();
        let attached: usize = between(&text, "<attached_gpus>", "<").parse().expect("a number");
        // A recording may keep one GPU of several, and the reader has to notice.
        let cut = (attached != listed).then(|| format!("nvidia-smi attached_gpus: reads {attached}, {listed} listed"));
        assert_eq!(problems(&report), cut.into_iter().collect::<Vec<String>>(), "{name}");
        assert_eq!(report.gpus.len(), listed, "{name}");
        assert_eq!(
            report.gpus.iter().map(|diag| gpu(diag).mig_instances.len()).sum::<usize>(),
            text.matches("<mig_device>").count()
        );
        let schema = report.driver.query_schema.expect("a schema");
        assert!(text.contains(&format!("nvsmi_device_v{schema}.dtd")), "{name}");
        assert!(text.contains(&format!("<driver_version>{}<", report.driver.driver_version)), "{name}");
        for diag in &report.gpus {
            let gpu = gpu(diag);
            assert!(
                text.contains(&format!("<uuid>{}<", gpu.uuid))
                    && text.contains(&format!("<product_name>{}<", gpu.name))
            );
            assert!(text.to_lowercase().contains(&format!("<pci_bus_id>0000{}<", gpu.pci_address)), "{name}");
            assert!(text.contains(&format!("<total>{} MiB<", gpu.memory_bytes.expect("memory") >> 20)), "{name}");
            assert!(text.contains(&format!("<gpu_temp>{} C<", diag.temperature_c.expect("a temperature"))), "{name}");
            assert!(diag.power_draw_mw.is_some() && diag.power_limit_mw.is_some() && diag.healthy, "{name}");
            let uncorrectable = gpu.health.and_then(|health| health.ecc_volatile_uncorrectable);
            assert_eq!(uncorrectable.is_some(), gpu.ecc_enabled == Some(true), "{name}");
            let pending = gpu.health.and_then(|health| health.remap_pending);
            assert_eq!(pending.is_some(), text.contains("<remapped_row_pending>"), "{name}");
        }
        read += 1;
    }
    assert!(read >= RECORDINGS, "{read} recordings below BC_FIXTURES");
}

proptest! {
    #[test]
    fn no_mutated_report_panics(
        which in 0usize..5,
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0usize..40), 0..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut xml = [V10, V11, V12_MIG, V13, ODD][which].to_vec();
        for (at, byte, removed) in edits {
            let at = at.index(xml.len());
            let end = (at + removed).min(xml.len());
            xml.splice(at..end, [byte]);
        }
        if cut.index(4) == 0 {
            xml.truncate(cut.index(xml.len()));
        }
        if let Ok(report) = parse(&output(&xml)) {
            for diag in &report.gpus {
                let gpu = gpu(diag);
                prop_assert!(crate::gpu::is_gpu_uuid(&gpu.uuid));
                prop_assert!(!gpu.name.chars().any(char::is_control));
            }
        }
    }

    #[test]
    fn no_words_between_good_tags_panic(
        values in proptest::collection::vec(prop_oneof![
            Just("N/A".to_owned()), Just("[N/A]".to_owned()), Just("Unknown Error".to_owned()), "[0-9]{1,25}( MiB| W| C|x| %)?",
            "-[0-9]{1,3} C", "[0-9]{0,3}\\.[0-9]{0,12} W", "\\PC{0,30}",
        ], 8)
    ) {
        let escaped: Vec<String> = values.iter().map(|v| v.replace('&', "&amp;").replace('<', "&lt;")).collect();
        let [a, b, c, d, e, f, g, h] = &escaped[..] else { unreachable!("eight values") };
        let xml = format!(
            "<nvidia_smi_log><attached_gpus>{a}</attached_gpus><gpu id=\"0000:01:00.0\">\
             <uuid>GPU-12000000-aaaa-bbbb-cccc-000000000001</uuid><minor_number>{b}</minor_number>\
             <fb_memory_usage><total>{c}</total></fb_memory_usage><temperature><gpu_temp>{d}</gpu_temp></temperature>\
             <power_readings><power_draw>{e}</power_draw></power_readings>\
             <ecc_errors><volatile><dram_uncorrectable>{f}</dram_uncorrectable><x_uncorrectable>{g}</x_uncorrectable></volatile>\
             </ecc_errors><remapped_rows><remapped_row_pending>{h}</remapped_row_pending></remapped_rows></gpu></nvidia_smi_log>"
        );
        prop_assert_eq!(report(xml.as_bytes()).gpus.len(), 1);
    }
}
