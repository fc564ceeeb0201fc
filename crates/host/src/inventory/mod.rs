//! What the machine is made of, read from /proc, /sys, /dev, /etc and nvidia-smi.
//!
//! Collecting never fails: what cannot be read is a `Problem`. Readings that change by themselves
//! (temperatures, use, counters of correctable errors) are not here, so that equal machines have
//! equal digests.

mod cpu;
mod disk;
mod firmware;
mod gpus;
mod memory;
mod nic;
mod os;
mod pci;

#[cfg(test)]
mod tests;

use crate::bounds::INVENTORY_SCHEMA;
use crate::nvidia_smi::{Report, SmiError};
use crate::problems::Problems;
use crate::tree::Tree;
use proto::Message;
use proto::v1::Inventory;

pub use os::hostname;

/// Collects the inventory of the host below `tree`; `smi` is what nvidia-smi said.
pub fn collect(tree: &Tree, smi: &Result<Report, SmiError>) -> Inventory {
    let mut problems = Problems::default();
    let pci_devices = pci::collect(tree, &mut problems);
    let (gpu_driver, gpus) = gpus::collect(tree, smi, &pci_devices, &mut problems);
    let firmware = firmware::collect(tree, &mut problems);
    let (numa_nodes, huge_pages) = memory::numa_and_huge_pages(tree, &mut problems);
    Inventory {
        schema: INVENTORY_SCHEMA,
        hostname: os::hostname(tree),
        os: Some(os::operating_system(tree, &mut problems)),
        virtualization: Some(os::virtualization(tree, &firmware)),
        firmware: Some(firmware),
        cpus: Some(cpu::collect(tree, &mut problems)),
        memory_bytes: memory::total(tree, &mut problems),
        numa_nodes,
        huge_pages,
        disks: disk::collect(tree, &mut problems),
        nics: nic::collect(tree, &mut problems),
        pci_devices,
        gpu_driver,
        gpus,
        problems: problems.into_sorted(),
    }
}

/// Lower-case hex SHA-256 of the encoding, whose fields come in order and whose lists are sorted.
pub fn digest(inventory: &Inventory) -> String {
    stdx::hex::sha256_hex(&inventory.encode_to_vec())
}
