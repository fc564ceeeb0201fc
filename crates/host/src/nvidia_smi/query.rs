//! From the XML of `nvidia-smi -q -x`, schemas v10 to v13, to what the wire says about GPUs.
//!
//! Schemas differ in names, not in meaning: every place where they do lists the names it knows. An
//! unknown element is passed over; a value that is there and cannot be read is a problem.

use super::values::{Reading, Values, reading};
use super::xml::{Document, Element};
use crate::bounds::{GPUS_MAX, MIG_INSTANCES_MAX};
use crate::gpu;
use crate::problems::Problems;
use crate::tree::pci_address;
use proto::v1::{Gpu, GpuDiag, GpuDriver, GpuFabric, GpuHealth, MigInstance, Problem};

/// One reading of all GPUs. `gpus` is in order of PCI address, then UUID.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub driver: GpuDriver,
    pub gpus: Vec<GpuDiag>,
    /// What could not be read of what stays the same.
    pub problems: Problems,
    /// What could not be read of what changes by the second. Kept apart, so that a flickering sensor
    /// changes no inventory.
    pub reading_problems: Problems,
}

impl Report {
    /// All that could not be read.
    pub fn all_problems(&self) -> Vec<Problem> {
        let mut all = self.problems.clone();
        all.extend(self.reading_problems.clone().into_sorted());
        all.into_sorted()
    }

    /// Reads a parsed document. `None` when it is not nvidia-smi's.
    pub fn read(document: &Document) -> Option<Report> {
        let root = &document.root;
        if root.name != "nvidia_smi_log" {
            return None;
        }
        let mut report = Report::default();
        let mut top = Values { element: root, label: "nvidia-smi".to_owned(), problems: &mut report.problems };
        report.driver = GpuDriver {
            driver_version: top.string_expected("driver_version"),
            cuda_version: top.string("cuda_version"),
            query_schema: schema(&document.doctype),
        };
        let attached: Option<usize> = top.number("attached_gpus");
        if !document.trailing.is_empty() {
            report.problems.note("nvidia-smi", format!("says {:?}", document.trailing));
        }
        let found = root.named("gpu").count();
        if attached.is_some_and(|attached| attached != found) {
            report
                .problems
                .note("nvidia-smi attached_gpus", format!("reads {}, {found} listed", attached.unwrap_or(0)));
        }
        if found > GPUS_MAX {
            report.problems.note_cut("nvidia-smi", found, GPUS_MAX);
        }
        for element in root.named("gpu").take(GPUS_MAX) {
            report.add(element);
        }
        report.gpus.sort_by(|a, b| key(a).cmp(&key(b)));
        Some(report)
    }

    fn add(&mut self, element: &Element) {
        let address = pci_address(&element.id).or_else(|| pci_address(&element.at("pci/pci_bus_id")?.text));
        let label = format!("nvidia-smi gpu {}", address.as_deref().unwrap_or(&element.id));
        let mut values = Values { element, label, problems: &mut self.problems };
        let uuid = values.string_expected("uuid");
        if !gpu::is_gpu_uuid(&uuid) {
            values.odd("uuid", &format!("{uuid:?} names no GPU, so it is left out"));
            return;
        }
        let twice = self.gpus.iter().any(|other| other.gpu.as_ref().is_some_and(|gpu| gpu.uuid == uuid));
        if twice {
            values.odd("uuid", &format!("{uuid} is listed twice, the first is taken"));
            return;
        }
        if address.is_none() {
            values.odd("id", "is not a PCI address");
        }
        let gpu = read_gpu(&mut values, uuid, address.unwrap_or_default());
        let label = std::mem::take(&mut values.label);
        let mut readings = Values { element, label, problems: &mut self.reading_problems };
        let diag = read_diag(&mut readings, gpu);
        self.gpus.push(diag);
    }
}

fn key(diag: &GpuDiag) -> (&str, &str) {
    diag.gpu.as_ref().map(|gpu| (gpu.pci_address.as_str(), gpu.uuid.as_str())).unwrap_or_default()
}

/// 12 of `nvsmi_device_v12.dtd`.
fn schema(doctype: &str) -> Option<u32> {
    doctype.strip_prefix("nvsmi_device_v")?.strip_suffix(".dtd")?.parse().ok()
}

fn read_gpu(values: &mut Values<'_>, uuid: String, pci_address: String) -> Gpu {
    let memory_bytes = values.bytes("fb_memory_usage/total");
    if memory_bytes.is_none() {
        values.odd("fb_memory_usage/total", "has no value");
    }
    Gpu {
        uuid,
        name: values.string_expected("product_name"),
        brand: values.string("product_brand"),
        architecture: values.string("product_architecture"),
        pci_address,
        minor_number: values.number("minor_number"),
        serial: values.string("serial"),
        board_part_number: values.string("board_part_number"),
        vbios_version: values.string("vbios_version"),
        memory_bytes,
        numa_node: None,
        mig_enabled: values.flag("mig_mode/current_mig"),
        mig_pending: values.flag("mig_mode/pending_mig"),
        mig_instances: read_mig(values),
        ecc_enabled: values.flag("ecc_mode/current_ecc"),
        ecc_pending: values.flag("ecc_mode/pending_ecc"),
        persistence_enabled: values.flag("persistence_mode"),
        virtualization_mode: values.string("gpu_virtualization_mode/virtualization_mode"),
        host_vgpu_mode: values.string("gpu_virtualization_mode/host_vgpu_mode"),
        addressing_mode: values.string("addressing_mode"),
        health: Some(read_health(values)),
    }
}

fn read_mig(values: &mut Values<'_>) -> Vec<MigInstance> {
    let Some(devices) = values.element.child("mig_devices") else { return Vec::new() };
    let count = devices.named("mig_device").count();
    if count > MIG_INSTANCES_MAX {
        values.odd("mig_devices", &format!("{count} entries, the first {MIG_INSTANCES_MAX} are listed"));
    }
    let mut instances = Vec::new();
    for element in devices.named("mig_device").take(MIG_INSTANCES_MAX) {
        let label = format!("{} mig_device", values.label);
        let mut device = Values { element, label, problems: values.problems };
        let (Some(gpu_instance_id), Some(compute_instance_id)) =
            (device.number("gpu_instance_id"), device.number("compute_instance_id"))
        else {
            device.odd("gpu_instance_id", "or compute_instance_id has no value, so the instance is left out");
            continue;
        };
        let ecc_volatile_uncorrectable = ecc(&mut device, "ecc_error_count/volatile_count", Errors::Uncorrectable);
        instances.push(MigInstance {
            index: device.number("index").unwrap_or_default(),
            gpu_instance_id,
            compute_instance_id,
            uuid: device.string("uuid"),
            profile: String::new(),
            memory_bytes: device.bytes("fb_memory_usage/total"),
            multiprocessors: device.number("device_attributes/shared/multiprocessor_count"),
            ecc_volatile_uncorrectable,
        });
    }
    instances.sort_by_key(|instance| (instance.gpu_instance_id, instance.compute_instance_id));
    instances
}

fn read_health(values: &mut Values<'_>) -> GpuHealth {
    let reset_required = values.flag("gpu_reset_status/reset_required").or_else(|| {
        // v13 tells the action instead.
        let action = values.element.child("gpu_recovery_action")?;
        match reading(&action.text) {
            Reading::Value(text) => Some(text.contains("Reset")),
            Reading::Absent | Reading::Odd(_) => None,
        }
    });
    GpuHealth {
        ecc_volatile_uncorrectable: ecc(values, "ecc_errors/volatile", Errors::Uncorrectable),
        ecc_aggregate_uncorrectable: ecc(values, "ecc_errors/aggregate", Errors::Uncorrectable),
        remapped_correctable: values.number("remapped_rows/remapped_row_corr"),
        remapped_uncorrectable: values.number("remapped_rows/remapped_row_unc"),
        remap_pending: values.flag("remapped_rows/remapped_row_pending"),
        remap_failed: values.flag("remapped_rows/remapped_row_failure"),
        reset_required,
    }
}

fn read_diag(values: &mut Values<'_>, gpu: Gpu) -> GpuDiag {
    const POWER: [&str; 3] = ["gpu_power_readings", "power_readings", "module_power_readings"];
    const DRAW: [&str; 3] = ["power_draw", "average_power_draw", "instant_power_draw"];
    const LIMIT: [&str; 3] = ["current_power_limit", "enforced_power_limit", "power_limit"];
    let link = "pci/pci_gpu_link_info";
    let reasons = gpu::unhealthy_reasons(&gpu);
    GpuDiag {
        healthy: reasons.is_empty(),
        reasons,
        temperature_c: values.number_with("temperature/gpu_temp", "C"),
        memory_temperature_c: values.number_with("temperature/memory_temp", "C"),
        power_draw_mw: first_power(values, &POWER, &DRAW),
        power_limit_mw: first_power(values, &POWER, &LIMIT),
        memory_used_bytes: values.bytes("fb_memory_usage/used"),
        gpu_utilization: values.number_with("utilization/gpu_util", "%"),
        memory_utilization: values.number_with("utilization/memory_util", "%"),
        performance_state: values.string("performance_state"),
        ecc_volatile_correctable: ecc(values, "ecc_errors/volatile", Errors::Correctable),
        ecc_aggregate_correctable: ecc(values, "ecc_errors/aggregate", Errors::Correctable),
        pcie_generation: values.number(&format!("{link}/pcie_gen/current_link_gen")),
        pcie_generation_max: values.number(&format!("{link}/pcie_gen/max_link_gen")),
        pcie_width: values.number_with(&format!("{link}/link_widths/current_link_width"), "x"),
        pcie_width_max: values.number_with(&format!("{link}/link_widths/max_link_width"), "x"),
        recovery_action: values.string("gpu_recovery_action"),
        fabric: read_fabric(values),
        gpu: Some(gpu),
    }
}

fn first_power(values: &mut Values<'_>, sections: &[&str], names: &[&str]) -> Option<u64> {
    sections.iter().find_map(|section| {
        let paths: Vec<String> = names.iter().map(|name| format!("{section}/{name}")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        values.first(&paths, Values::milliwatts)
    })
}

fn read_fabric(values: &mut Values<'_>) -> Option<GpuFabric> {
    let fabric = GpuFabric {
        state: values.string("fabric/state"),
        status: values.string("fabric/status"),
        clique_id: values.string("fabric/cliqueId"),
        cluster_uuid: values.string("fabric/clusterUuid"),
    };
    (!fabric.state.is_empty()).then_some(fabric)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Errors {
    Correctable,
    Uncorrectable,
}

/// The errors of one section together, `None` when it has no count of that sort.
///
/// v11 and v12: `sram_uncorrectable`, `dram_uncorrectable`. v13 splits the first into `_parity` and
/// `_secded`. v10, and older GPUs later: `double_bit` and `single_bit` with a `total`.
fn ecc(values: &mut Values<'_>, path: &str, errors: Errors) -> Option<u64> {
    let section = values.element.at(path)?;
    let legacy = match errors {
        Errors::Correctable => "single_bit",
        Errors::Uncorrectable => "double_bit",
    };
    let mut sum: Option<u64> = None;
    for child in &section.children {
        let wanted = match errors {
            Errors::Correctable => child.name.contains("correctable") && !child.name.contains("uncorrectable"),
            Errors::Uncorrectable => child.name.contains("uncorrectable"),
        };
        let count = if wanted {
            values.number(&format!("{path}/{}", child.name))
        } else if child.name == legacy {
            legacy_total(values, child, &format!("{path}/{legacy}"))
        } else {
            None
        };
        if let Some(count) = count {
            sum = Some(sum.unwrap_or(0).saturating_add(count));
        }
    }
    sum
}

fn legacy_total(values: &mut Values<'_>, section: &Element, path: &str) -> Option<u64> {
    if let Some(total) = values.number(&format!("{path}/total")) {
        return Some(total);
    }
    let parts: Vec<u64> = section
        .children
        .iter()
        .filter(|part| part.name != "total")
        .filter_map(|part| values.number(&format!("{path}/{}", part.name)))
        .collect();
    (!parts.is_empty()).then(|| parts.iter().fold(0u64, |sum, part| sum.saturating_add(*part)))
}
