//! Disks: block devices with hardware behind them.
//!
//! The rule: a disk has a `device` in sysfs. Loop, ram, zram, device mapper, md and nbd devices have
//! none. Optical drives (`sr`), floppies (`fd`) and the hidden paths of NVMe multipath are left out
//! too, for nothing is ever provisioned on them.

use crate::bounds::{DISK_LINKS_MAX, DISKS_MAX, clean};
use crate::problems::Problems;
use crate::tree::Tree;
use proto::v1::Disk;

const BLOCK: &str = "/sys/block";
const BY_ID: &str = "/dev/disk/by-id";
/// Unit of /sys/block/*/size, whatever the disk's own sectors are (Linux, Documentation/ABI/stable/sysfs-block).
const SECTOR_BYTES: u64 = 512;
/// Vital product data page 80h: header, then the serial number (SPC-4, 7.8.15).
const VPD_SERIAL_HEADER_BYTES: usize = 4;
const VPD_BYTES_MAX: usize = 4096;

pub fn collect(tree: &Tree, problems: &mut Problems) -> Vec<Disk> {
    let mut names = tree.names(BLOCK, problems);
    names.retain(|name| is_disk(tree, name));
    if names.len() > DISKS_MAX {
        problems.note_cut(BLOCK, names.len(), DISKS_MAX);
        names.truncate(DISKS_MAX);
    }
    let links = by_id_links(tree);
    names.into_iter().map(|name| disk(tree, name, &links, problems)).collect()
}

fn is_disk(tree: &Tree, name: &str) -> bool {
    let numbered = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    let hidden = tree.number(&format!("{BLOCK}/{name}/hidden")) == Some(1);
    tree.exists(&format!("{BLOCK}/{name}/device")) && !hidden && !numbered("sr") && !numbered("fd")
}

fn disk(tree: &Tree, name: String, links: &[(String, String)], problems: &mut Problems) -> Disk {
    let base = format!("{BLOCK}/{name}");
    let flag = |file: &str| tree.number(&format!("{base}/{file}")) == Some(1);
    let mut by_id: Vec<String> =
        links.iter().filter(|(_, target)| *target == name).map(|(link, _)| link.clone()).collect();
    by_id.truncate(DISK_LINKS_MAX);
    let sectors = tree.number_expected(&format!("{base}/size"), problems).unwrap_or(0);
    let mut line = |file: &str| tree.line(&format!("{base}/{file}"), problems).filter(|text| !text.is_empty());
    Disk {
        vendor: line("device/vendor").unwrap_or_default(),
        model: line("device/model").unwrap_or_default(),
        // NVMe and virtio have a serial of their own; SCSI keeps it in a page of product data.
        serial: line("device/serial")
            .or_else(|| line("serial"))
            .or_else(|| vpd_serial(tree, &base))
            .unwrap_or_default(),
        wwid: line("wwid").or_else(|| line("device/wwid")).unwrap_or_default(),
        size_bytes: sectors.saturating_mul(SECTOR_BYTES),
        rotational: flag("queue/rotational"),
        removable: flag("removable"),
        read_only: flag("ro"),
        by_id,
        transport: transport(&tree.resolved(&base), &name).to_owned(),
        logical_block_bytes: tree.number(&format!("{base}/queue/logical_block_size")).unwrap_or(0) as u32,
        name,
    }
}

fn vpd_serial(tree: &Tree, base: &str) -> Option<String> {
    let page = tree.bytes(&format!("{base}/device/vpd_pg80"), VPD_BYTES_MAX).ok()?;
    let serial = clean(&String::from_utf8_lossy(page.get(VPD_SERIAL_HEADER_BYTES..)?));
    (!serial.is_empty()).then_some(serial)
}

/// Links of /dev/disk/by-id and the disk each points at. A machine without udev has none.
fn by_id_links(tree: &Tree) -> Vec<(String, String)> {
    let names = tree.try_names(BY_ID).unwrap_or_default();
    let pairs = names.into_iter().filter_map(|name| {
        let target = tree.link_name(&format!("{BY_ID}/{name}"))?;
        Some((clean(&name), target))
    });
    pairs.collect()
}

/// How the disk is attached, from the way sysfs leads to it.
fn transport(path: &str, name: &str) -> &'static str {
    let has = |part: &str| path.split('/').any(|component| component.starts_with(part));
    if name.starts_with("nvme") {
        "nvme"
    } else if name.starts_with("mmcblk") {
        "mmc"
    } else if has("usb") {
        "usb"
    } else if has("virtio") {
        "virtio"
    } else if has("ata") {
        "sata"
    } else if has("end_device-") || has("sas_") {
        "sas"
    } else if has("target") {
        "scsi"
    } else {
        ""
    }
}
