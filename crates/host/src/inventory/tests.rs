use super::*;
use crate::exec::RunError;
use crate::nvidia_smi::NvidiaSmi;
use std::os::unix::fs::symlink;
use std::path::Path;

fn absent() -> Result<Report, SmiError> {
    Err(SmiError::Run(RunError::NotInstalled { program: "nvidia-smi".to_owned() }))
}

/// Builds a made-up root: `path` to content, and `path` to link target.
fn root(files: &[(&str, &str)], links: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
    let directory = tempfile::tempdir().expect("tempdir");
    let place = |path: &str| {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("directories");
        path
    };
    for (path, text) in files {
        // Not durable on purpose: hundreds of small files of a test.
        std::io::Write::write_all(&mut std::fs::File::create(place(path)).expect("create"), text.as_bytes())
            .expect("write");
    }
    for (path, target) in links {
        symlink(target, place(path)).expect("link");
    }
    let tree = Tree::new(directory.path());
    (directory, tree)
}

const SERVER_FILES: &[(&str, &str)] = &[
    ("proc/sys/kernel/hostname", "gpu-07\n"),
    ("proc/sys/kernel/osrelease", "6.8.0-48-generic\n"),
    ("proc/sys/kernel/arch", "x86_64\n"),
    ("etc/os-release", "ID=ubuntu\nVERSION_ID=\"24.04\"\nPRETTY_NAME=\"Ubuntu 24.04.1 LTS\"\n"),
    (
        "proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9554 64-Core Processor\nflags\t\t: fpu sse2\n",
    ),
    ("sys/devices/system/cpu/online", "0-7\n"),
    ("proc/meminfo", "MemTotal:       1056431104 kB\nMemFree: 1 kB\n"),
    ("sys/devices/system/node/node0/cpulist", "0-1,4-5\n"),
    ("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       528215552 kB\nNode 0 MemFree: 2 kB\n"),
    ("sys/devices/system/node/node0/distance", "10 32\n"),
    ("sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages", "16\n"),
    ("sys/devices/system/node/node1/cpulist", "2-3,6-7\n"),
    ("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:       528215552 kB\n"),
    ("sys/devices/system/node/node1/distance", "32 10\n"),
    ("sys/devices/system/node/has_cpu", "0-1\n"),
    ("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "16\n"),
    ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n"),
    ("sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1/size", "7501476528\n"),
    ("sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1/wwid", "eui.00000000000000018ce38e050021\n"),
    ("sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1/queue/rotational", "0\n"),
    ("sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1/queue/logical_block_size", "4096\n"),
    ("sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1/removable", "0\n"),
    ("sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/model", "KIOXIA KCD8XRUG3T84                     \n"),
    ("sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/serial", "3D30A0AAAAAA        \n"),
    ("sys/devices/pci0000:00/0000:02:00.0/ata3/host2/target2:0:0/2:0:0:0/block/sda/size", "1953525168\n"),
    ("sys/devices/pci0000:00/0000:02:00.0/ata3/host2/target2:0:0/2:0:0:0/block/sda/queue/rotational", "1\n"),
    ("sys/devices/pci0000:00/0000:02:00.0/ata3/host2/target2:0:0/2:0:0:0/vendor", "ATA     \n"),
    ("sys/devices/pci0000:00/0000:02:00.0/ata3/host2/target2:0:0/2:0:0:0/model", "ST1000NX0313    \n"),
    ("sys/devices/pci0000:00/0000:02:00.0/ata3/host2/target2:0:0/2:0:0:0/vpd_pg80", "\0\u{7f}\0\u{8}W4712345"),
    ("sys/devices/virtual/block/loop0/size", "8\n"),
    ("sys/devices/virtual/block/dm-0/size", "8\n"),
    ("sys/devices/pci0000:00/0000:03:00.0/block/sr0/size", "2097151\n"),
    ("sys/devices/pci0000:00/0000:03:00.0/block/nvme1c0n1/hidden", "1\n"),
    ("sys/devices/pci0000:20/0000:21:00.0/vendor", "0x15b3\n"),
    ("sys/devices/pci0000:20/0000:21:00.0/device", "0x1021\n"),
    ("sys/devices/pci0000:20/0000:21:00.0/class", "0x020000\n"),
    ("sys/devices/pci0000:20/0000:21:00.0/subsystem_vendor", "0x15b3\n"),
    ("sys/devices/pci0000:20/0000:21:00.0/subsystem_device", "0x0023\n"),
    ("sys/devices/pci0000:20/0000:21:00.0/numa_node", "1\n"),
    ("sys/devices/pci0000:20/0000:21:00.0/net/ens1np0/address", "94:6D:AE:00:00:01\n"),
    ("sys/devices/pci0000:20/0000:21:00.0/net/ens1np0/bonding_slave/perm_hwaddr", "94:6d:ae:00:00:02\n"),
    ("sys/devices/pci0000:20/0000:21:00.0/net/ens1np0/speed", "400000\n"),
    ("sys/devices/pci0000:20/0000:21:00.0/net/ens1np0/operstate", "up\n"),
    ("sys/devices/pci0000:20/0000:21:00.0/net/ens1np0/mtu", "9000\n"),
    ("sys/devices/pci0000:20/0000:21:00.0/net/ens1np0/type", "1\n"),
    ("sys/devices/pci0000:20/0000:21:01.0/virtio1/net/eth9/address", "02:00:00:00:00:09\n"),
    ("sys/devices/pci0000:20/0000:21:01.0/virtio1/net/eth9/speed", "-1\n"),
    ("sys/devices/pci0000:20/0000:21:01.0/numa_node", "-1\n"),
    ("sys/devices/virtual/net/lo/address", "00:00:00:00:00:00\n"),
    ("sys/devices/pci0000:c0/0000:c1:00.0/vendor", "0x10de\n"),
    ("sys/devices/pci0000:c0/0000:c1:00.0/device", "0x2331\n"),
    ("sys/devices/pci0000:c0/0000:c1:00.0/class", "0x030200\n"),
    ("sys/devices/pci0000:c0/0000:c1:00.0/numa_node", "1\n"),
    ("sys/class/dmi/id/product_uuid", "4C4C4544-0042-3510-8052-B4C04F4D3232\n"),
    ("sys/class/dmi/id/product_serial", "5B52M22\n"),
    ("sys/class/dmi/id/sys_vendor", "Supermicro\n"),
    ("sys/class/dmi/id/product_name", "SYS-821GE-TNHR\n"),
    ("sys/class/dmi/id/board_vendor", "Supermicro\n"),
    ("sys/firmware/efi/fw_platform_size", "64\n"),
];

const SERVER_LINKS: &[(&str, &str)] = &[
    ("sys/block/nvme0n1", "../devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1"),
    ("sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1/device", "../../nvme0"),
    ("sys/block/sda", "../devices/pci0000:00/0000:02:00.0/ata3/host2/target2:0:0/2:0:0:0/block/sda"),
    ("sys/devices/pci0000:00/0000:02:00.0/ata3/host2/target2:0:0/2:0:0:0/block/sda/device", "../../../2:0:0:0"),
    ("sys/block/loop0", "../devices/virtual/block/loop0"),
    ("sys/block/dm-0", "../devices/virtual/block/dm-0"),
    ("sys/block/sr0", "../devices/pci0000:00/0000:03:00.0/block/sr0"),
    ("sys/devices/pci0000:00/0000:03:00.0/block/sr0/device", "../../"),
    ("sys/block/nvme1c0n1", "../devices/pci0000:00/0000:03:00.0/block/nvme1c0n1"),
    ("sys/devices/pci0000:00/0000:03:00.0/block/nvme1c0n1/device", "../../"),
    ("dev/disk/by-id/wwn-0x5000c500aaaaaaaa", "../../sda"),
    ("dev/disk/by-id/ata-ST1000NX0313_W4712345", "../../sda"),
    ("dev/disk/by-id/ata-ST1000NX0313_W4712345-part1", "../../sda1"),
    ("sys/class/net/ens1np0", "../../devices/pci0000:20/0000:21:00.0/net/ens1np0"),
    ("sys/devices/pci0000:20/0000:21:00.0/net/ens1np0/device", "../../../0000:21:00.0"),
    ("sys/devices/pci0000:20/0000:21:00.0/driver", "../../../bus/pci/drivers/mlx5_core"),
    ("sys/devices/pci0000:20/0000:21:00.0/iommu_group", "../../../kernel/iommu_groups/42"),
    ("sys/class/net/eth9", "../../devices/pci0000:20/0000:21:01.0/virtio1/net/eth9"),
    ("sys/devices/pci0000:20/0000:21:01.0/virtio1/net/eth9/device", "../../../virtio1"),
    ("sys/devices/pci0000:20/0000:21:01.0/virtio1/driver", "../../../../bus/virtio/drivers/virtio_net"),
    ("sys/class/net/lo", "../../devices/virtual/net/lo"),
    ("sys/bus/pci/devices/0000:21:00.0", "../../../devices/pci0000:20/0000:21:00.0"),
    ("sys/bus/pci/devices/0000:c1:00.0", "../../../devices/pci0000:c0/0000:c1:00.0"),
];

fn server(extra: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
    let mut files: Vec<(&str, &str)> = SERVER_FILES.to_vec();
    let mut topology = Vec::new();
    // Two packages of two cores of two threads: 0..4 and their siblings 4..8.
    for cpu in 0..8u32 {
        let directory = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        topology.push((format!("{directory}/physical_package_id"), format!("{}\n", (cpu % 4) / 2)));
        // Core ids repeat between packages and have gaps.
        topology.push((format!("{directory}/core_id"), format!("{}\n", [0, 8, 0, 9][cpu as usize % 4])));
    }
    files.extend(topology.iter().map(|(path, text)| (path.as_str(), text.as_str())));
    files.retain(|(path, _)| !extra.iter().any(|(other, _)| other == path));
    files.extend(extra);
    root(&files, SERVER_LINKS)
}

#[test]
fn a_made_up_server_is_read_whole() {
    let (_keep, tree) = server(&[]);
    let inventory = collect(&tree, &absent());
    let cpus = inventory.cpus.clone().expect("cpus");
    assert_eq!((cpus.sockets, cpus.cores, cpus.threads, cpus.online.as_str()), (2, 4, 8, "0-7"));
    assert_eq!((cpus.vendor.as_str(), cpus.model.as_str()), ("AuthenticAMD", "AMD EPYC 9554 64-Core Processor"));
    assert_eq!(inventory.memory_bytes, 1_056_431_104 * 1024);
    let nodes: Vec<(u32, &str, u64, &[u32], usize)> = inventory
        .numa_nodes
        .iter()
        .map(|n| (n.id, n.cpus.as_str(), n.memory_bytes, n.distances.as_slice(), n.huge_pages.len()))
        .collect();
    let half = 528_215_552 * 1024;
    assert_eq!(nodes, [(0, "0-1,4-5", half, &[10, 32][..], 1), (1, "2-3,6-7", half, &[32, 10][..], 0)]);
    let pools: Vec<(u64, u64)> = inventory.huge_pages.iter().map(|pool| (pool.page_bytes, pool.pages)).collect();
    assert_eq!(pools, [(2 << 20, 0), (1 << 30, 16)]);
    let os = inventory.os.clone().expect("os");
    assert_eq!(
        (os.kernel_release.as_str(), os.id.as_str(), os.version_id.as_str()),
        ("6.8.0-48-generic", "ubuntu", "24.04")
    );
    let firmware = inventory.firmware.clone().expect("firmware");
    assert_eq!(firmware.product_uuid, "4c4c4544-0042-3510-8052-b4c04f4d3232");
    assert!(firmware.product_uuid_trusted && firmware.product_serial_trusted && firmware.uefi);
    assert_eq!(inventory.virtualization.clone().expect("virtualization").hypervisor, "none");
    assert_eq!(inventory.hostname, "gpu-07");
}

#[test]
fn disks_are_devices_with_hardware_behind_them() {
    let (_keep, tree) = server(&[]);
    let disks = collect(&tree, &absent()).disks;
    let rows: Vec<String> = disks
        .iter()
        .map(|d| {
            format!(
                "{} {:?} {:?} {:?} {} {} {} {:?} {:?} {}",
                d.name,
                d.vendor,
                d.model,
                d.serial,
                d.size_bytes,
                d.rotational,
                d.transport,
                d.wwid,
                d.by_id,
                d.logical_block_bytes
            )
        })
        .collect();
    expect_test::expect![[r#"
        nvme0n1 "" "KIOXIA KCD8XRUG3T84" "3D30A0AAAAAA" 3840755982336 false nvme "eui.00000000000000018ce38e050021" [] 4096
        sda "ATA" "ST1000NX0313" "W4712345" 1000204886016 true sata "" ["ata-ST1000NX0313_W4712345", "wwn-0x5000c500aaaaaaaa"] 0
    "#]]
    .assert_eq(&(rows.join("\n") + "\n"));
}

#[test]
fn nics_are_devices_with_hardware_behind_them_and_keep_their_own_address_in_a_bond() {
    let (_keep, tree) = server(&[]);
    let nics = collect(&tree, &absent()).nics;
    let rows: Vec<String> = nics
        .iter()
        .map(|n| {
            format!(
                "{} {} {:?} {} {} {:?} {} {} {:?}",
                n.name, n.mac, n.speed_mbps, n.driver, n.pci_address, n.oper_state, n.mtu, n.kind, n.numa_node
            )
        })
        .collect();
    expect_test::expect![[r#"
        ens1np0 94:6d:ae:00:00:02 Some(400000) mlx5_core 0000:21:00.0 "up" 9000 ethernet Some(1)
        eth9 02:00:00:00:00:09 None virtio_net 0000:21:01.0 "" 0  None
    "#]]
    .assert_eq(&(rows.join("\n") + "\n"));
}

#[test]
fn pci_functions_carry_ids_driver_group_and_numa_node() {
    let (_keep, tree) = server(&[]);
    let inventory = collect(&tree, &absent());
    let nic = &inventory.pci_devices[0];
    assert_eq!(
        (nic.address.as_str(), nic.vendor_id.as_str(), nic.device_id.as_str()),
        ("0000:21:00.0", "15b3", "1021")
    );
    assert_eq!((nic.class.as_str(), nic.driver.as_str()), ("020000", "mlx5_core"));
    assert_eq!((nic.numa_node, nic.iommu_group, nic.subsystem_device_id.as_str()), (Some(1), Some(42), "0023"));
    let subjects: Vec<&str> = inventory.problems.iter().map(|problem| problem.subject.as_str()).collect();
    assert_eq!(subjects, ["GPU at 0000:c1:00.0"], "a GPU without a driver is the only trouble");
}

#[test]
fn gpus_come_from_nvidia_smi_with_the_numa_node_of_their_slot() {
    let (directory, tree) = server(&[("q.xml", include_str!("../../tests-data/v12-mig.xml"))]);
    let path = directory.path().join("nvidia-smi");
    let script = format!("#!/bin/sh\n[ \"$1\" = -q ] && cat {}/q.xml || exit 3\n", directory.path().display());
    stdx::durable::write_file(&path, script.as_bytes(), 0o700).expect("script");
    let inventory = collect(&tree, &NvidiaSmi::at(path).query());
    assert_eq!(inventory.gpus.len(), 1);
    let gpu = &inventory.gpus[0];
    assert_eq!((gpu.pci_address.as_str(), gpu.numa_node, gpu.mig_instances.len()), ("0000:c1:00.0", Some(1), 2));
    assert_eq!(inventory.gpu_driver.clone().expect("driver").driver_version, "550.54.15");
    assert!(
        inventory.problems.iter().any(|p| p.subject == "nvidia-smi -L"),
        "the list failed: {:?}",
        inventory.problems
    );
    assert!(!inventory.problems.iter().any(|p| p.subject.starts_with("GPU at")));
}

#[test]
fn without_nvidia_smi_the_driver_names_the_gpus_and_neither_ecc_nor_remaps_are_known() {
    let (_keep, tree) = server(&[
        (
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6\nGCC version: 12\n",
        ),
        (
            "proc/driver/nvidia/gpus/0000:c1:00.0/information",
            "Model: \t\t NVIDIA H100 PCIe\nIRQ:   \t\t 247\nGPU UUID: \t GPU-12000000-aaaa-bbbb-cccc-000000000001\n\
             Video BIOS: \t 96.00.74.00.0D\nBus Location: \t 0000:c1:00.0\nDevice Minor: \t 4\n",
        ),
        ("proc/driver/nvidia/gpus/0000:c2:00.0/information", "Model: Unknown\nGPU UUID: GPU-????????\n"),
    ]);
    let inventory = collect(&tree, &absent());
    let gpu = &inventory.gpus[0];
    assert_eq!((inventory.gpus.len(), gpu.minor_number, gpu.numa_node, gpu.health), (1, Some(4), Some(1), None));
    assert!(crate::gpu::unhealthy_reasons(gpu).is_empty());
    assert_eq!(inventory.gpu_driver.expect("driver").driver_version, "535.54.03");
    let subjects: Vec<&str> = inventory.problems.iter().map(|problem| problem.subject.as_str()).collect();
    assert_eq!(subjects, ["/proc/driver/nvidia/gpus/0000:c2:00.0/information", "nvidia-smi"]);
}

#[test]
fn a_placeholder_uuid_is_reported_as_untrusted() {
    let uuid = "03000200-0400-0500-0006-000700080009";
    let (_keep, tree) = server(&[
        ("sys/class/dmi/id/product_uuid", "03000200-0400-0500-0006-000700080009\n"),
        ("sys/class/dmi/id/product_serial", "To be filled by O.E.M.\n"),
    ]);
    let inventory = collect(&tree, &absent());
    let firmware = inventory.firmware.expect("firmware");
    assert_eq!((firmware.product_uuid.as_str(), firmware.product_uuid_trusted), (uuid, false));
    assert!(!firmware.product_serial_trusted);
    let said: Vec<&str> = inventory.problems.iter().map(|problem| problem.subject.as_str()).collect();
    assert!(said.contains(&"/sys/class/dmi/id/product_uuid") && said.contains(&"/sys/class/dmi/id/product_serial"));
}

#[test]
fn an_empty_root_gives_an_inventory_of_problems_and_no_failure() {
    let (_keep, tree) = root(&[], &[]);
    let inventory = collect(&tree, &absent());
    assert_eq!((inventory.memory_bytes, inventory.disks.len(), inventory.gpus.len()), (0, 0, 0));
    for path in
        ["/proc/cpuinfo", "/proc/meminfo", "/sys/block", "/sys/class/net", "/sys/bus/pci/devices", "/sys/class/dmi/id"]
    {
        assert!(inventory.problems.iter().any(|p| p.subject == path), "{path} is not in {:?}", inventory.problems);
    }
}

#[test]
fn nonsense_where_numbers_belong_is_said() {
    let (_keep, tree) = server(&[
        ("proc/meminfo", "MemFree: 1 kB\n"),
        ("sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1/size", "many\n"),
        ("sys/devices/pci0000:20/0000:21:00.0/vendor", "15b3\n"),
        ("sys/devices/system/cpu/online", "0-99999999\n"),
    ]);
    let inventory = collect(&tree, &absent());
    let said: Vec<String> = inventory.problems.iter().map(|p| format!("{}: {}", p.subject, p.reason)).collect();
    for line in [
        "/proc/meminfo: it has no MemTotal",
        "/sys/block/nvme0n1/size: \"many\" is not a number",
        "/sys/bus/pci/devices/0000:21:00.0/vendor: \"15b3\" is not 0x and 4 digits",
    ] {
        assert!(said.iter().any(|problem| problem == line), "{line} is not in {said:?}");
    }
    assert_eq!(inventory.cpus.expect("cpus").threads, 1, "the lines of cpuinfo, since the list is absurd");
}

#[test]
fn equal_machines_have_equal_digests_and_a_change_shows() {
    let (_one, first) = server(&[]);
    let (_two, second) = server(&[]);
    let (_three, third) = server(&[("sys/class/dmi/id/product_serial", "5B52M23\n")]);
    let digests = [&first, &second, &third].map(|tree| digest(&collect(tree, &absent())));
    assert_eq!(digests[0], digests[1]);
    assert_ne!(digests[0], digests[2]);
    assert_eq!(digests[0].len(), 64);
}

#[test]
fn readings_that_change_by_themselves_do_not_change_the_digest() {
    let xml = include_str!("../../tests-data/v13-nvswitch.xml");
    let warmer =
        xml.replace("66 C", "80 C").replace("812.25 W", "90.00 W").replace(">5<", ">6<").replace("97 %", "1 %");
    let failing = xml.replace("<dram_uncorrectable>4<", "<dram_uncorrectable>5<");
    let (_keep, tree) = server(&[]);
    let digests = [xml, &warmer, &failing].map(|text| {
        let stdout = text.as_bytes().to_vec();
        let output = crate::exec::Output { code: 0, stdout, cut: false, stderr: String::new() };
        digest(&collect(&tree, &crate::nvidia_smi::parse(&output)))
    });
    assert_eq!(digests[0], digests[1]);
    assert_ne!(digests[0], digests[2], "an uncorrectable error is news");
}

#[test]
fn lists_are_bounded_and_what_is_left_out_is_said() {
    let names: Vec<String> =
        (0..crate::bounds::DISKS_MAX + 10).map(|n| format!("sys/block/sd{n}/device/model")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "X")).collect();
    let (_keep, tree) = root(&files, &[]);
    let inventory = collect(&tree, &absent());
    assert_eq!(inventory.disks.len(), crate::bounds::DISKS_MAX);
    let cut = inventory.problems.iter().any(|p| p.reason == "522 entries, the first 512 are listed");
    let full = inventory.problems.iter().any(|p| p.subject == "problems");
    assert!(cut && full && inventory.problems.len() <= crate::bounds::PROBLEMS_MAX, "{}", inventory.problems.len());
}

/// This very machine, checked against what its kernel says elsewhere.
#[test]
fn this_machine_is_read_and_agrees_with_its_own_proc() {
    let tree = Tree::new("/");
    let inventory = collect(&tree, &NvidiaSmi::default().query());
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = inventory.cpus.clone().expect("cpus");
    let processors = read("/proc/cpuinfo").lines().filter(|line| line.starts_with("processor")).count();
    assert_eq!(cpus.threads as usize, processors);
    assert!(cpus.sockets >= 1 && cpus.cores >= cpus.sockets && cpus.threads >= cpus.cores, "{cpus:?}");
    let total = read("/proc/meminfo")
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_ascii_whitespace().next()?.parse::<u64>().ok());
    assert_eq!(Some(inventory.memory_bytes / 1024), total);
    if !inventory.numa_nodes.is_empty() {
        let of_nodes: u64 = inventory.numa_nodes.iter().map(|node| node.memory_bytes).sum();
        assert!(of_nodes > 0 && of_nodes / 1024 <= inventory.memory_bytes / 512, "{of_nodes}");
    }
    assert_eq!(inventory.hostname, read("/proc/sys/kernel/hostname").trim());
    assert_eq!(inventory.os.clone().expect("os").kernel_release, read("/proc/sys/kernel/osrelease").trim());
    for disk in &inventory.disks {
        let bytes: u64 = read("/proc/partitions")
            .lines()
            .filter_map(|line| line.split_ascii_whitespace().collect::<Vec<_>>().try_into().ok())
            .find_map(|[_, _, blocks, name]: [&str; 4]| {
                (name == disk.name).then(|| blocks.parse::<u64>().ok()).flatten()
            })
            .unwrap_or(0);
        assert_eq!(disk.size_bytes / 1024, bytes, "{}", disk.name);
        assert!(!["loop", "ram", "zram", "dm-"].iter().any(|prefix| disk.name.starts_with(prefix)), "{}", disk.name);
    }
    let listed = read("/proc/net/dev");
    for nic in &inventory.nics {
        assert!(listed.contains(&format!("{}:", nic.name)) && nic.name != "lo", "{}", nic.name);
    }
    let functions = std::fs::read_dir("/sys/bus/pci/devices").map(Iterator::count).unwrap_or(0);
    assert_eq!(inventory.pci_devices.len(), functions);
    for problem in &inventory.problems {
        eprintln!("{}: {}", problem.subject, problem.reason);
    }
    assert!(Path::new("/proc").exists());
}
