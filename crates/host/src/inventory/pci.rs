//! PCI functions as sysfs lists them (Linux, Documentation/ABI/testing/sysfs-bus-pci).

use crate::bounds::PCI_DEVICES_MAX;
use crate::problems::Problems;
use crate::tree::{Tree, pci_address};
use proto::v1::PciDevice;

const DEVICES: &str = "/sys/bus/pci/devices";

pub fn collect(tree: &Tree, problems: &mut Problems) -> Vec<PciDevice> {
    let mut names = tree.names(DEVICES, problems);
    names.retain(|name| pci_address(name).is_some());
    if names.len() > PCI_DEVICES_MAX {
        problems.note_cut(DEVICES, names.len(), PCI_DEVICES_MAX);
        names.truncate(PCI_DEVICES_MAX);
    }
    names.iter().filter_map(|name| device(tree, name, problems)).collect()
}

fn device(tree: &Tree, name: &str, problems: &mut Problems) -> Option<PciDevice> {
    let base = format!("{DEVICES}/{name}");
    let mut expected = |file: &str, digits: usize| hex(tree, &format!("{base}/{file}"), digits, true, problems);
    let (vendor_id, device_id, class) = (expected("vendor", 4), expected("device", 4), expected("class", 6));
    let mut optional = |file: &str| hex(tree, &format!("{base}/{file}"), 4, false, problems);
    Some(PciDevice {
        address: pci_address(name)?,
        vendor_id,
        device_id,
        class,
        // Bridges have none.
        subsystem_vendor_id: optional("subsystem_vendor"),
        subsystem_device_id: optional("subsystem_device"),
        numa_node: tree.number(&format!("{base}/numa_node")).and_then(|node| node.try_into().ok()),
        driver: tree.link_name(&format!("{base}/driver")).unwrap_or_default(),
        iommu_group: tree.link_name(&format!("{base}/iommu_group")).and_then(|group| group.parse().ok()),
        virtual_function: tree.exists(&format!("{base}/physfn")),
    })
}

/// `0x10de` as `10de`, exactly `digits` long; empty and noted when it is anything else.
fn hex(tree: &Tree, path: &str, digits: usize, expected: bool, problems: &mut Problems) -> String {
    let line = if expected { tree.line_expected(path, problems) } else { tree.line(path, problems) };
    let Some(line) = line else { return String::new() };
    let number = line.strip_prefix("0x").unwrap_or("").to_ascii_lowercase();
    if number.len() == digits && number.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return number;
    }
    problems.note(path, format!("{line:?} is not 0x and {digits} digits"));
    String::new()
}
