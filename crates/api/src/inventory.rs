//! A node's stored inventory, decoded from the bytes it sent, cut down to what people look at.

use api_types::{
    CpuSummary, DiskSummary, FirmwareSummary, GpuSummary, InventorySummary, MigSummary, NicSummary, OsSummary,
};
use proto::Message;
use proto::v1;

/// `None` when the bytes are no inventory: a node's answer must never break the list of nodes.
pub(crate) fn summary(digest: &str, bytes: &[u8]) -> Option<InventorySummary> {
    let inventory = v1::Inventory::decode(bytes).ok()?;
    let os = inventory.os.unwrap_or_default();
    let firmware = inventory.firmware.unwrap_or_default();
    let cpus = inventory.cpus.unwrap_or_default();
    let driver = inventory.gpu_driver;
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Some(InventorySummary {
        digest: digest.to_owned(),
        hostname: inventory.hostname,
        os: OsSummary {
            name: if os.pretty_name.is_empty() { os.id } else { os.pretty_name },
            kernel: os.kernel_release,
            architecture: os.architecture,
        },
        firmware: FirmwareSummary {
            vendor: firmware.system_vendor,
            product: firmware.product_name,
            product_uuid: firmware.product_uuid,
            product_serial: firmware.product_serial,
        },
        cpus: CpuSummary {
            model: cpus.model,
            sockets: cpus.sockets,
            cores: cpus.cores,
            threads: cpus.threads,
            numa_nodes: inventory.numa_nodes.len() as u32,
        },
        memory_bytes: inventory.memory_bytes,
        driver_version: driver.as_ref().and_then(|driver| text(&driver.driver_version)),
        cuda_version: driver.as_ref().and_then(|driver| text(&driver.cuda_version)),
        gpus: inventory.gpus.into_iter().map(gpu).collect(),
        nics: inventory.nics.into_iter().map(nic).collect(),
        disks: inventory.disks.into_iter().map(disk).collect(),
        problems: inventory
            .problems
            .into_iter()
            .map(|problem| format!("{}: {}", problem.subject, problem.reason))
            .collect(),
    })
}

fn gpu(gpu: v1::Gpu) -> GpuSummary {
    let mig = |mig: v1::MigInstance| MigSummary {
        uuid: mig.uuid,
        profile: mig.profile,
        gpu_instance_id: mig.gpu_instance_id,
        compute_instance_id: mig.compute_instance_id,
    };
    GpuSummary {
        uuid: gpu.uuid,
        name: gpu.name,
        pci_address: gpu.pci_address,
        memory_bytes: gpu.memory_bytes,
        mig_enabled: gpu.mig_enabled,
        mig_instances: gpu.mig_instances.into_iter().map(mig).collect(),
    }
}

fn nic(nic: v1::Nic) -> NicSummary {
    NicSummary { name: nic.name, mac: nic.mac, state: nic.oper_state, speed_mbps: nic.speed_mbps }
}

fn disk(disk: v1::Disk) -> DiskSummary {
    DiskSummary {
        name: disk.name,
        model: disk.model,
        serial: disk.serial,
        size_bytes: disk.size_bytes,
        transport: disk.transport,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inventory_is_cut_down_and_rubbish_is_none() {
        let inventory = v1::Inventory {
            hostname: "gpu-a".into(),
            memory_bytes: 7,
            gpus: vec![v1::Gpu { uuid: "GPU-1".into(), mig_enabled: Some(true), ..Default::default() }],
            problems: vec![v1::Problem { subject: "/sys/x".into(), reason: "absent".into() }],
            ..Default::default()
        };
        let shown = summary("aa", &inventory.encode_to_vec()).expect("decodes");
        assert_eq!((shown.hostname.as_str(), shown.memory_bytes, shown.gpus.len()), ("gpu-a", 7, 1));
        assert_eq!(shown.problems, ["/sys/x: absent"]);
        assert_eq!(shown.driver_version, None);
        assert_eq!(summary("aa", &[0xff, 0xff]), None);
    }
}
