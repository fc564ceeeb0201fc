//! The files as text, and what is read back from any bytes in their place.

use super::rig::Rig;
use super::*;
use crate::devices::observe::exact;
use crate::devices::*;
use crate::gpu::{GpuHold, read_holds};
use expect_test::expect;
use model::ReservationId;
use model::spec::HoldLimits;
use node_core::converge::{CdiFile, EnvFile, HeldDevice, Hold, slice_name};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("UTF-8")
}

fn read(path: &std::path::Path) -> String {
    std::fs::read_to_string(path).expect("readable")
}

#[test]
fn a_hold_is_a_cdi_spec_and_an_env_file() {
    let mut rig = Rig::new();
    let slot = format!("{}/s1", gpu(1));
    let mig = format!("{}/gi1/ci0", gpu(3));
    let mut assignment = assign("alloc_1", &[&gpu(0), &slot, &mig]);
    assignment.env = vec!["RANK=\"0\" of 2".to_owned()];
    assignment.limits = Some(HoldLimits { cpu_millis: 2000, cpus: "0-3".to_owned(), ..HoldLimits::default() });
    std::fs::create_dir_all(rig.tree.path("/run/nvidia-mps")).expect("MPS runs");
    rig.spec(&[assignment]);
    rig.pass();
    expect![[r#"
        {
          "cdiVersion": "0.6.0",
          "kind": "bcd.dev/gpu",
          "annotations": {
            "bcd.dev/cgroup-parent": "bcd-alloc-alloc_1.slice",
            "bcd.dev/limits": "2000;0;0;0;0-3;",
            "bcd.dev/reservation-id": "res-of-alloc_1",
            "bcd.dev/digest": "736a73fb431d860745dce77851237ab9d608a355fd315caf8081eb9bc7812c8b"
          },
          "devices": [
            {
              "name": "GPU-00000000-0000-1111-2222-333333333333",
              "annotations": {
                "bcd.dev/device-id": "GPU-00000000-0000-1111-2222-333333333333"
              },
              "containerEdits": {
                "deviceNodes": [
                  {
                    "path": "/dev/nvidia0"
                  }
                ]
              }
            },
            {
              "name": "GPU-00000001-0000-1111-2222-333333333333_s1",
              "annotations": {
                "bcd.dev/device-id": "GPU-00000001-0000-1111-2222-333333333333/s1"
              },
              "containerEdits": {
                "deviceNodes": [
                  {
                    "path": "/dev/nvidia1"
                  }
                ]
              }
            },
            {
              "name": "GPU-00000003-0000-1111-2222-333333333333_gi1_ci0",
              "annotations": {
                "bcd.dev/device-id": "GPU-00000003-0000-1111-2222-333333333333/gi1/ci0"
              },
              "containerEdits": {
                "deviceNodes": [
                  {
                    "path": "/dev/nvidia3"
                  }
                ]
              }
            }
          ],
          "containerEdits": {
            "env": [
              "BCD_ALLOCATION_ID=alloc_1",
              "NVIDIA_VISIBLE_DEVICES=GPU-00000000-0000-1111-2222-333333333333,GPU-00000001-0000-1111-2222-333333333333,MIG-00000003-0000-1111-2222-000000000001",
              "CUDA_MPS_PIPE_DIRECTORY=/run/nvidia-mps",
              "BCD_CGROUP_PARENT=bcd-alloc-alloc_1.slice",
              "RANK=\"0\" of 2"
            ]
          }
        }
    "#]]
    .assert_eq(&read(&rig.cdi_path("alloc_1")));
    expect![[r#"
        BCD_ALLOCATION_ID=alloc_1
        NVIDIA_VISIBLE_DEVICES=GPU-00000000-0000-1111-2222-333333333333,GPU-00000001-0000-1111-2222-333333333333,MIG-00000003-0000-1111-2222-000000000001
        CUDA_MPS_PIPE_DIRECTORY=/run/nvidia-mps
        BCD_CGROUP_PARENT=bcd-alloc-alloc_1.slice
        RANK="0" of 2
    "#]]
    .assert_eq(&read(&rig.env_path("alloc_1")));
    let mode = |path: std::path::PathBuf| std::fs::metadata(path).expect("there").mode() & 0o7777;
    assert_eq!((mode(rig.cdi_path("alloc_1")), mode(rig.env_path("alloc_1"))), (0o644, 0o600));
}

#[test]
fn a_hold_of_pods_says_so_and_names_neither_devices_nor_a_slice() {
    let mut rig = Rig::new();
    let mut assignment = assign("pods", &[&gpu(0)]);
    assignment.binding = model::spec::Binding::Kubernetes;
    assignment.limits = Some(HoldLimits { cpu_millis: 1, ..HoldLimits::default() });
    rig.spec(&[assignment]);
    rig.pass();
    let spec: serde_json::Value = serde_json::from_str(&read(&rig.cdi_path("pods"))).expect("JSON");
    assert_eq!(spec["annotations"]["bcd.dev/binding"], "kubernetes");
    assert_eq!(spec["annotations"].get("bcd.dev/cgroup-parent"), None);
    assert_eq!(read(&rig.env_path("pods")), "BCD_ALLOCATION_ID=pods\n");
    assert_eq!(spec["containerEdits"]["env"], serde_json::json!(["BCD_ALLOCATION_ID=pods"]));
}

#[test]
fn a_hold_without_limits_has_no_annotation_of_them() {
    let mut rig = Rig::new();
    rig.spec(&[assign("plain", &[&gpu(0)])]);
    rig.pass();
    let file = read(&rig.cdi_path("plain"));
    assert!(!file.contains("limits") && !file.contains("cgroup") && !file.contains("CGROUP"), "{file}");
}

/// The file of `a` after `change`, as it is read back.
fn found(change: impl FnOnce(&Rig)) -> Vec<CdiFile> {
    let mut rig = Rig::new();
    rig.spec(&[assign("a", &[&gpu(0)])]);
    rig.pass();
    change(&rig);
    rig.observe().cdi
}

#[test]
fn a_file_is_exact_only_as_it_was_written() {
    assert!(exact(&found(|_| {})[0]).is_some());
    let edited = |edit: fn(String) -> String, mode: u32| {
        found(|rig| rig.overwrite(&rig.cdi_path("a"), edit(read(&rig.cdi_path("a"))).as_bytes(), mode))
    };
    let changes: [(&str, Vec<CdiFile>); 8] = [
        ("a mode", edited(|text| text, 0o600)),
        ("a blank", edited(|text| text + " ", 0o644)),
        ("a hook", edited(|text| text.replace("\"env\"", "\"hooks\": [], \"env\""), 0o644)),
        ("a line", edited(|text| text.replace("BCD_ALLOCATION_ID=a", "LD_PRELOAD=x"), 0o644)),
        ("a name", edited(|text| text.replace("\"name\": \"GPU", "\"name\": \"X"), 0o644)),
        ("a reservation", edited(|text| text.replace("res-of-a", "res-of-b"), 0o644)),
        ("a device", edited(|text| text.replace("GPU-00000000", "GPU-00000001"), 0o644)),
        (
            "a link",
            found(|rig| {
                let (path, elsewhere) = (rig.cdi_path("a"), rig.root.path().join("elsewhere"));
                std::fs::rename(&path, &elsewhere).expect("moved");
                symlink(&elsewhere, &path).expect("linked");
            }),
        ),
    ];
    for (what, files) in changes {
        let [CdiFile::Hold { is_exact: false, .. }] = files.as_slice() else { panic!("{what}: {files:?}") };
    }
}

#[test]
fn what_is_no_hold_is_damaged_foreign_or_a_stray() {
    for bytes in ["", "{", "{}", "[]", r#"{"kind": "bcd.dev/gpu"}"#, r#"{"kind": "bcd.dev/gpu", "devices": [{}]}"#] {
        let files = found(|rig| rig.overwrite(&rig.cdi_path("a"), bytes.as_bytes(), 0o644));
        assert!(matches!(files.as_slice(), [CdiFile::Damaged { .. }]), "{bytes}: {files:?}");
    }
    let files = found(|rig| {
        std::fs::remove_file(rig.cdi_path("a")).expect("removed");
        std::fs::create_dir(rig.cdi_path("a")).expect("a directory");
    });
    assert!(matches!(files.as_slice(), [CdiFile::Damaged { .. }]), "{files:?}");
    let files = found(|rig| {
        let vendor = br#"{"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": []}"#;
        rig.overwrite(&rig.cdi_path("vendor"), vendor, 0o644);
        let spec = std::fs::read(rig.cdi_path("a")).expect("read");
        rig.overwrite(&rig.tree.path("/etc/cdi/bcd-.json"), &spec, 0o644);
        rig.overwrite(&rig.tree.path("/etc/cdi/nvidia.json"), &spec, 0o644);
        rig.overwrite(&rig.tree.path("/etc/cdi/bcd-a.yaml"), &spec, 0o644);
    });
    let stray = CdiFile::Stray { file: "bcd-.json".to_owned(), atoms: vec![Atom::parse(&gpu(0)).expect("atom")] };
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(files.contains(&stray) && files.iter().any(|file| exact(file).is_some()), "{files:?}");
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_and_never_no_hold() {
    let rig = Rig::new();
    std::fs::create_dir_all(rig.tree.path("/etc")).expect("etc");
    symlink(rig.root.path().join("etc/cdi"), rig.tree.path("/etc/cdi")).expect("a link to itself");
    let error = observe(&rig.tree, &NoSlices, &inventory()).expect_err("unreadable");
    assert!(error.to_string().starts_with("cannot list /etc/cdi: "), "{error}");
}

#[test]
fn env_files_are_read_back_line_by_line_with_their_mode() {
    let rig = Rig::new();
    rig.ops.write(FileKind::AllocationEnv, &id("a"), b"A=1\nB=2\n").expect("written");
    let env = || rig.observe().env.remove(&id("a"));
    assert_eq!(env(), Some(EnvFile::Lines(vec!["A=1".to_owned(), "B=2".to_owned()])));
    for bytes in [&b"A=1"[..], b"\xff\n"] {
        rig.overwrite(&rig.env_path("a"), bytes, 0o600);
        assert_eq!(env(), Some(EnvFile::Damaged));
    }
    rig.overwrite(&rig.env_path("a"), b"A=1\n", 0o644);
    assert_eq!(env(), Some(EnvFile::Damaged), "others could read it");
    std::fs::set_permissions(rig.env_path("a"), std::fs::Permissions::from_mode(0o600)).expect("mode");
    assert_eq!(env(), Some(EnvFile::Lines(vec!["A=1".to_owned()])));
    rig.overwrite(&rig.tree.path("/run/bcd/allocations/-.env"), b"", 0o600);
    rig.overwrite(&rig.tree.path("/run/bcd/allocations/other"), b"", 0o600);
    assert_eq!(rig.observe().env.len(), 1, "only names of allocations");
}

#[test]
fn an_allocation_id_is_checked_before_it_becomes_a_file_name() {
    let rig = Rig::new();
    let files = DirectFiles::new(rig.tree.clone());
    for bad in ["../x", "", ".", "a/b", "a\0b"] {
        let allocation = AllocationId::new(bad);
        for kind in [FileKind::Cdi, FileKind::AllocationEnv] {
            assert!(matches!(files.write(kind, &allocation, b"x"), Err(HoldFilesError::Name)), "{bad:?}");
            assert!(matches!(files.remove(kind, &allocation), Err(HoldFilesError::Name)), "{bad:?}");
        }
    }
}

#[test]
fn a_host_says_what_it_can_do() {
    assert_eq!(capabilities(false, true), [""; 0]);
    assert_eq!(capabilities(true, false), ["binding.kubernetes"]);
    assert_eq!(capabilities(true, true), ["binding.kubernetes", "devices.limits"]);
}

#[test]
fn gpus_are_unknown_while_no_driver_answers_for_those_that_are_there() {
    let full = inventory();
    let atoms = gpu_atoms(&full).expect("known");
    assert_eq!(atoms.gpus.len(), 4);
    assert_eq!(atoms.driver_id(&Atom::parse(&gpu(2)).expect("atom")), Some(gpu(2)));
    let device = proto::v1::PciDevice {
        vendor_id: "10de".to_owned(),
        class: "030200".to_owned(),
        ..proto::v1::PciDevice::default()
    };
    let silent = Inventory { gpu_driver: None, gpus: vec![], pci_devices: vec![device.clone()], ..full.clone() };
    assert_eq!(gpu_atoms(&silent), None);
    let away = proto::v1::PciDevice { driver: "vfio-pci".to_owned(), ..device };
    let passed = Inventory { pci_devices: vec![away], ..silent.clone() };
    assert_eq!(gpu_atoms(&passed).map(|atoms| atoms.gpus.len()), Some(0));
    assert_eq!(gpu_atoms(&Inventory { pci_devices: vec![], ..silent }).map(|atoms| atoms.gpus.len()), Some(0));
    assert_eq!(gpu_atoms(&Inventory::default()), None, "the inventory itself failed");
    let no_smi = Inventory { gpu_driver: Some(GpuDriver::default()), ..full };
    assert!(gpu_atoms(&no_smi).expect("known").gpus.iter().all(|gpu| gpu.mig.is_none()));
}

#[test]
fn memory_is_read_from_the_kernels_files() {
    let rig = Rig::new();
    let write = |path: &str, text: &str| {
        let path = rig.tree.path(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        rig.overwrite(&path, text.as_bytes(), 0o644);
    };
    assert!(host_memory(&rig.tree).is_err());
    write("/proc/meminfo", "MemTotal:       65536 kB\nMemFree:  1 kB\nHugetlb:   4096 kB\n");
    let memory = host_memory(&rig.tree).expect("read");
    assert_eq!((memory.total_bytes, memory.hugetlb_bytes, memory.pools.len()), (65536 << 10, 4096 << 10, 0));
    write("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "5\n");
    write("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "2\n");
    write("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", "3\n");
    write("/sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages", "2\n");
    let pool = host_memory(&rig.tree).expect("read").pools.remove(0);
    assert_eq!((pool.page_bytes, pool.free, pool.reserved), (2 << 20, 5, 2));
    assert_eq!(pool.nodes, [(0, 3), (1, 2)].into());
    write("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "many\n");
    assert!(host_memory(&rig.tree).is_err(), "half of it is nothing to conclude from");
    write("/proc/meminfo", "MemFree: 1 kB\n");
    assert!(host_memory(&rig.tree).is_err());
}

fn hold() -> impl Strategy<Value = Hold> {
    let limits = (any::<u32>(), 0..9u64, "[0-9,-]{0,5}").prop_map(|(memory, hugepages_1gi, mems)| HoldLimits {
        memory_bytes: memory.into(),
        hugepages_1gi,
        mems,
        ..HoldLimits::default()
    });
    let part = prop_oneof![Just(String::new()), (0..9u32).prop_map(|n| format!("/s{n}")), Just("/gi1/ci0".to_owned())];
    let devices = vec((0..9u32, part, option::of(0..9u32)), 1..4);
    (devices, vec("[A-Z]{1,4}=\\PC{0,12}", 0..4), option::of(limits), any::<bool>(), any::<bool>()).prop_map(
        |(devices, env, limits, kubernetes, has_slice)| Hold {
            allocation: id("a"),
            reservation: Some(ReservationId::new("res_1")),
            kubernetes,
            devices: devices
                .into_iter()
                .map(|(number, part, minor)| HeldDevice {
                    atom: Atom::parse(&format!("{}{part}", gpu(number))).expect("atom"),
                    minor,
                })
                .collect(),
            env,
            cgroup_parent: has_slice.then(|| slice_name(&id("a"))),
            limits,
        },
    )
}

proptest! {
    #[test]
    fn a_hold_is_read_back_whole_and_the_other_reader_sees_the_same_devices(hold in hold()) {
        let bytes = render_cdi(&hold);
        prop_assert_eq!(parse_cdi(&hold.allocation, &bytes), Ok(Some(hold.clone())));
        let rig = Rig::new();
        rig.overwrite(&rig.tree.path("/x"), b"", 0o600);
        std::fs::create_dir_all(rig.tree.path("/etc/cdi")).expect("directory");
        rig.overwrite(&rig.cdi_path("a"), &bytes, 0o644);
        let ids = |holds: Vec<GpuHold>| holds.iter().map(GpuHold::device_id).collect::<Vec<_>>();
        let expected: Vec<String> = hold.atoms().map(ToString::to_string).collect();
        prop_assert_eq!(ids(read_holds(&rig.tree, "/etc/cdi").expect("read")), expected);
        prop_assert_eq!(text(render_env(&hold)).lines().map(str::to_owned).collect::<Vec<_>>(), hold.env);
    }

    #[test]
    fn no_bytes_in_a_files_place_panic(bytes in vec(any::<u8>(), 0..200), text in "\\PC{0,200}") {
        drop(parse_cdi(&id("a"), &bytes));
        drop(parse_cdi(&id("a"), text.as_bytes()));
    }
}
