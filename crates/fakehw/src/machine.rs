//! The made-up machine: an HGX node with two sockets, eight GPUs, eight fabric NICs and two of its
//! own, all ids derived from the node's index, so that a node keeps them whatever happens to its root.

use crate::state::{GpuState, HostState};
use host::bounds::INVENTORY_SCHEMA;
use proto::v1::{
    Cpus, Disk, Firmware, Gpu, GpuDiag, GpuDriver, GpuHealth, HugePagePool, Inventory, MigInstance, Nic, NumaNode,
    NvmlDiag, OperatingSystem, PciDevice, Virtualization,
};

/// GPUs of a simulated node.
pub const GPUS: u32 = 8;
/// The GPU that is divided by MIG.
const MIG_GPU: u32 = 7;
/// GPU instance, compute instance, profile, MiB, multiprocessors: a full layout of an H100 80GB.
const MIG_LAYOUT: [(u32, u32, &str, u64, u32); 3] =
    [(1, 0, "3g.40gb", 40_448, 60), (2, 0, "3g.40gb", 40_448, 60), (13, 0, "1g.10gb", 9_984, 16)];
const GPU_MEMORY_BYTES: u64 = 81_559 << 20;
const SOCKETS: u32 = 2;
const CORES_PER_SOCKET: u32 = 56;
const NODE_MEMORY_BYTES: u64 = 1 << 40;
const DRIVER_VERSION: &str = "550.54.15";

/// Sixteen bytes that depend on the node and on what they name, as a UUID.
pub fn uuid(index: u32, what: &str) -> String {
    let hash = stdx::hex::sha256_hex(format!("simulated host {index} {what}").as_bytes());
    format!("{}-{}-{}-{}-{}", &hash[..8], &hash[8..12], &hash[12..16], &hash[16..20], &hash[20..32])
}

pub fn hostname(index: u32) -> String {
    format!("sim-{index}")
}

pub fn gpu_uuid(index: u32, number: u32) -> String {
    format!("GPU-{}", uuid(index, &format!("gpu {number}")))
}

/// The GPUs as they leave the factory.
pub fn new_gpus(index: u32) -> Vec<GpuState> {
    (0..GPUS)
        .map(|number| GpuState {
            uuid: gpu_uuid(index, number),
            temperature_c: 31 + number as i32,
            ..GpuState::default()
        })
        .collect()
}

pub fn inventory(index: u32, state: &HostState) -> Inventory {
    Inventory {
        schema: INVENTORY_SCHEMA,
        hostname: hostname(index),
        os: Some(OperatingSystem {
            kernel_release: "6.8.0-sim".to_owned(),
            architecture: "x86_64".to_owned(),
            id: "debian".to_owned(),
            version_id: "12".to_owned(),
            pretty_name: "Debian GNU/Linux 12 (simulated)".to_owned(),
        }),
        firmware: Some(firmware(index)),
        virtualization: Some(Virtualization { hypervisor: "none".to_owned(), container: "none".to_owned() }),
        cpus: Some(Cpus {
            vendor: "GenuineIntel".to_owned(),
            model: "Intel(R) Xeon(R) Platinum 8480C (simulated)".to_owned(),
            sockets: SOCKETS,
            cores: SOCKETS * CORES_PER_SOCKET,
            threads: SOCKETS * CORES_PER_SOCKET * 2,
            online: format!("0-{}", SOCKETS * CORES_PER_SOCKET * 2 - 1),
        }),
        memory_bytes: u64::from(SOCKETS) * NODE_MEMORY_BYTES,
        numa_nodes: (0..SOCKETS).map(numa_node).collect(),
        huge_pages: vec![
            HugePagePool { page_bytes: 2 << 20, pages: 0 },
            HugePagePool { page_bytes: 1 << 30, pages: 0 },
        ],
        disks: (0..4).map(|number| disk(index, number)).collect(),
        nics: nics(index),
        pci_devices: pci_devices(),
        gpu_driver: Some(driver()),
        gpus: gpus(state),
        problems: Vec::new(),
    }
}

pub fn diag(state: &HostState) -> NvmlDiag {
    let readings = gpus(state).into_iter().zip(&state.gpus).map(|(gpu, state)| {
        let reasons = host::gpu::unhealthy_reasons(&gpu);
        GpuDiag {
            healthy: reasons.is_empty(),
            reasons,
            temperature_c: Some(state.temperature_c),
            memory_temperature_c: Some(state.temperature_c.saturating_add(7)),
            power_draw_mw: Some(71_500),
            power_limit_mw: Some(700_000),
            memory_used_bytes: Some(0),
            gpu_utilization: Some(0),
            memory_utilization: Some(0),
            performance_state: "P0".to_owned(),
            ecc_volatile_correctable: Some(0),
            ecc_aggregate_correctable: Some(0),
            pcie_generation: Some(5),
            pcie_generation_max: Some(5),
            pcie_width: Some(16),
            pcie_width_max: Some(16),
            recovery_action: if state.remap_pending { "Reset" } else { "None" }.to_owned(),
            fabric: None,
            gpu: Some(gpu),
        }
    });
    NvmlDiag { driver: Some(driver()), gpus: readings.collect(), problems: Vec::new() }
}

fn driver() -> GpuDriver {
    GpuDriver { driver_version: DRIVER_VERSION.to_owned(), cuda_version: "12.4".to_owned(), query_schema: Some(12) }
}

fn firmware(index: u32) -> Firmware {
    Firmware {
        product_uuid: uuid(index, "machine"),
        product_uuid_trusted: true,
        product_serial: format!("SIM{index:06}"),
        product_serial_trusted: true,
        system_vendor: "Better Compute".to_owned(),
        product_name: "Simulated HGX H100".to_owned(),
        board_vendor: "Better Compute".to_owned(),
        board_name: "SIM-HGX".to_owned(),
        board_serial: format!("SIMB{index:06}"),
        chassis_serial: format!("SIMC{index:06}"),
        bios_vendor: "Better Compute".to_owned(),
        bios_version: "1.0".to_owned(),
        bios_date: "01/01/2026".to_owned(),
        uefi: true,
    }
}

fn numa_node(id: u32) -> NumaNode {
    let (first, hyper) = (id * CORES_PER_SOCKET, (SOCKETS + id) * CORES_PER_SOCKET);
    let last = CORES_PER_SOCKET - 1;
    NumaNode {
        id,
        cpus: format!("{first}-{},{hyper}-{}", first + last, hyper + last),
        memory_bytes: NODE_MEMORY_BYTES,
        huge_pages: vec![
            HugePagePool { page_bytes: 2 << 20, pages: 0 },
            HugePagePool { page_bytes: 1 << 30, pages: 0 },
        ],
        distances: (0..SOCKETS).map(|other| if other == id { 10 } else { 21 }).collect(),
    }
}

fn disk(index: u32, number: u32) -> Disk {
    let serial = uuid(index, &format!("disk {number}")).replace('-', "")[..14].to_ascii_uppercase();
    Disk {
        name: format!("nvme{number}n1"),
        model: "Simulated NVMe 3.84TB".to_owned(),
        by_id: vec![format!("nvme-Simulated_NVMe_3.84TB_{serial}")],
        wwid: format!("eui.{}", &uuid(index, &format!("wwid {number}")).replace('-', "")[..16]),
        serial,
        size_bytes: 3_840_755_982_336,
        transport: "nvme".to_owned(),
        logical_block_bytes: 512,
        ..Disk::default()
    }
}

/// PCI address of the n-th GPU; four behind each socket.
fn gpu_address(number: u32) -> String {
    format!("0000:{:02x}:00.0", 0x18 + number * 0x10)
}

fn nic_address(number: u32) -> String {
    format!("0000:{:02x}:00.0", 0x1c + number * 0x10)
}

fn socket_of(number: u32) -> u32 {
    number / (GPUS / SOCKETS)
}

fn nics(index: u32) -> Vec<Nic> {
    let mac = |name: &str| {
        let hash = uuid(index, name).replace('-', "");
        let octets: Vec<&str> = (0..5).map(|octet| &hash[octet * 2..octet * 2 + 2]).collect();
        format!("02:{}", octets.join(":"))
    };
    let nic = |name: String, speed_mbps, kind: &str, number| Nic {
        mac: mac(&name),
        speed_mbps: Some(speed_mbps),
        driver: "mlx5_core".to_owned(),
        pci_address: nic_address(number),
        oper_state: "up".to_owned(),
        mtu: 9000,
        kind: kind.to_owned(),
        numa_node: Some(socket_of(number)),
        name,
    };
    let mut nics = vec![nic("eth0".to_owned(), 100_000, "ethernet", 0), nic("eth1".to_owned(), 100_000, "ethernet", 4)];
    nics.extend((0..GPUS).map(|number| nic(format!("rdma{number}"), 400_000, "ethernet", number)));
    nics
}

fn pci_devices() -> Vec<PciDevice> {
    let device = |address, vendor: &str, device: &str, class: &str, driver: &str, number| PciDevice {
        address,
        vendor_id: vendor.to_owned(),
        device_id: device.to_owned(),
        subsystem_vendor_id: vendor.to_owned(),
        subsystem_device_id: "0001".to_owned(),
        class: class.to_owned(),
        numa_node: Some(socket_of(number)),
        driver: driver.to_owned(),
        iommu_group: Some(number),
        virtual_function: false,
    };
    let mut devices = Vec::new();
    for number in 0..GPUS {
        devices.push(device(gpu_address(number), "10de", "2330", "030200", "nvidia", number));
        devices.push(device(nic_address(number), "15b3", "1021", "020000", "mlx5_core", number));
    }
    devices.sort_by(|a, b| a.address.cmp(&b.address));
    devices
}

fn gpus(state: &HostState) -> Vec<Gpu> {
    (0..).zip(&state.gpus).map(|(number, gpu)| one_gpu(number, gpu)).collect()
}

fn one_gpu(number: u32, state: &GpuState) -> Gpu {
    let is_mig = number == MIG_GPU;
    Gpu {
        uuid: state.uuid.clone(),
        name: "NVIDIA H100 80GB HBM3".to_owned(),
        brand: "NVIDIA".to_owned(),
        architecture: "Hopper".to_owned(),
        pci_address: gpu_address(number),
        minor_number: Some(number),
        serial: format!("16{}", &stdx::hex::sha256_hex(state.uuid.as_bytes())[..11]),
        board_part_number: "692-2G520-0200-000".to_owned(),
        vbios_version: "96.00.74.00.01".to_owned(),
        memory_bytes: Some(GPU_MEMORY_BYTES),
        numa_node: Some(socket_of(number)),
        mig_enabled: Some(is_mig),
        mig_pending: Some(is_mig),
        mig_instances: if is_mig { mig_instances(&state.uuid) } else { Vec::new() },
        ecc_enabled: Some(true),
        ecc_pending: Some(true),
        persistence_enabled: Some(true),
        virtualization_mode: "None".to_owned(),
        host_vgpu_mode: String::new(),
        addressing_mode: "None".to_owned(),
        health: Some(GpuHealth {
            ecc_volatile_uncorrectable: Some(state.ecc_volatile_uncorrectable),
            ecc_aggregate_uncorrectable: Some(state.ecc_aggregate_uncorrectable),
            remapped_correctable: Some(state.remapped_correctable),
            remapped_uncorrectable: Some(state.remapped_uncorrectable),
            remap_pending: Some(state.remap_pending),
            remap_failed: Some(state.remap_failed),
            reset_required: Some(state.remap_pending),
        }),
    }
}

fn mig_instances(gpu_uuid: &str) -> Vec<MigInstance> {
    let instances =
        (0..).zip(MIG_LAYOUT).map(|(index, (gpu_instance_id, compute_instance_id, profile, mib, cores))| {
            let hash = stdx::hex::sha256_hex(format!("{gpu_uuid} {gpu_instance_id}").as_bytes());
            MigInstance {
                index,
                gpu_instance_id,
                compute_instance_id,
                uuid: format!(
                    "MIG-{}-{}-{}-{}-{}",
                    &hash[..8],
                    &hash[8..12],
                    &hash[12..16],
                    &hash[16..20],
                    &hash[20..32]
                ),
                profile: profile.to_owned(),
                memory_bytes: Some(mib << 20),
                multiprocessors: Some(cores),
                ecc_volatile_uncorrectable: Some(0),
            }
        });
    instances.collect()
}
