//! GPUs: from nvidia-smi, or, on a host without it, from the driver's own /proc files. These name
//! each GPU but carry neither ECC counters nor row remapping.

use crate::bounds::{GPUS_MAX, clean};
use crate::gpu::is_gpu_uuid;
use crate::nvidia_smi::{Report, SmiError};
use crate::problems::Problems;
use crate::tree::{Tree, pci_address};
use proto::v1::{Gpu, GpuDriver, PciDevice};

const DRIVER_GPUS: &str = "/proc/driver/nvidia/gpus";
const DRIVER_VERSION: &str = "/proc/driver/nvidia/version";
const NVIDIA: &str = "10de";

pub fn collect(
    tree: &Tree,
    smi: &Result<Report, SmiError>,
    pci_devices: &[PciDevice],
    problems: &mut Problems,
) -> (Option<GpuDriver>, Vec<Gpu>) {
    let (driver, mut gpus) = match smi {
        Ok(report) => {
            problems.extend(report.problems.clone().into_sorted());
            let gpus = report.gpus.iter().filter_map(|diag| diag.gpu.clone()).collect();
            (Some(report.driver.clone()), gpus)
        }
        Err(error) => {
            let (driver, gpus) = from_driver(tree, problems);
            // A host without GPUs needs no nvidia-smi.
            if !error.is_absent() || driver.is_some() {
                problems.note("nvidia-smi", stdx::error::chain(error));
            }
            (driver, gpus)
        }
    };
    for gpu in &mut gpus {
        let function = pci_devices.iter().find(|device| device.address == gpu.pci_address);
        gpu.numa_node = function.and_then(|device| device.numa_node);
    }
    note_unseen(pci_devices, &gpus, problems);
    gpus.sort_by(|a, b| (&a.pci_address, &a.uuid).cmp(&(&b.pci_address, &b.uuid)));
    (driver, gpus)
}

/// Display controllers of NVIDIA that belong to the driver, or to nobody, and that it does not list.
/// Those bound to another driver (vfio-pci) are meant to be away.
fn note_unseen(pci_devices: &[PciDevice], gpus: &[Gpu], problems: &mut Problems) {
    for device in pci_devices {
        let display = device.vendor_id == NVIDIA && device.class.starts_with("03") && !device.virtual_function;
        let ours = device.driver.is_empty() || device.driver == "nvidia";
        if display && ours && !gpus.iter().any(|gpu| gpu.pci_address == device.address) {
            let driver = if device.driver.is_empty() { "no driver is bound" } else { "the driver does not list it" };
            problems.note(format!("GPU at {}", device.address), driver);
        }
    }
}

/// `/proc/driver/nvidia` as the kernel module shows it.
fn from_driver(tree: &Tree, problems: &mut Problems) -> (Option<GpuDriver>, Vec<Gpu>) {
    if !tree.exists(DRIVER_VERSION) {
        return (None, Vec::new());
    }
    let version = tree.line(DRIVER_VERSION, problems).unwrap_or_default();
    let driver = GpuDriver { driver_version: module_version(&version), ..GpuDriver::default() };
    let mut gpus = Vec::new();
    for address in tree.names(DRIVER_GPUS, problems).into_iter().take(GPUS_MAX) {
        let path = format!("{DRIVER_GPUS}/{address}/information");
        match tree.text(&path) {
            Ok(text) => match information(&text, &address) {
                Some(gpu) => gpus.push(gpu),
                None => problems.note(&path, "it names no GPU UUID, so the GPU is left out"),
            },
            Err(error) => problems.note(&path, crate::tree::reason(&error)),
        }
    }
    (Some(driver), gpus)
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun ...`: the first word of digits and dots.
fn module_version(line: &str) -> String {
    let is_version = |word: &&str| word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    line.split_ascii_whitespace().find(is_version).unwrap_or_default().to_owned()
}

fn information(text: &str, address: &str) -> Option<Gpu> {
    let value = |key: &str| {
        let (_, value) = text.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() == key)?;
        Some(clean(value)).filter(|value| !value.is_empty() && value != "N/A")
    };
    Some(Gpu {
        uuid: value("GPU UUID").filter(|uuid| is_gpu_uuid(uuid))?,
        name: value("Model").unwrap_or_default(),
        vbios_version: value("Video BIOS").unwrap_or_default(),
        minor_number: value("Device Minor").and_then(|minor| minor.parse().ok()),
        pci_address: pci_address(&value("Bus Location").unwrap_or_default()).or_else(|| pci_address(address))?,
        ..Gpu::default()
    })
}
