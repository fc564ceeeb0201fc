//! SMBIOS strings, and whether they can name one machine. Boards leave the factory with placeholders
//! in them: two machines with the same one must never be taken for each other.

use crate::bounds::clean;
use crate::gpu::is_uuid;
use crate::problems::Problems;
use crate::tree::{Tree, reason};
use proto::v1::Firmware;
use std::io;

const DMI: &str = "/sys/class/dmi/id";
const DEVICE_TREE: &str = "/proc/device-tree";

/// UUIDs that whole series of boards share. The second is the first with the byte order of the first
/// three fields swapped (SMBIOS 2.6, 7.2.1).
const PLACEHOLDER_UUIDS: [&str; 3] = [
    "03000200-0400-0500-0006-000700080009",
    "00020003-0004-0005-0006-000700080009",
    "12345678-1234-5678-90ab-cddeefaabbcc",
];

/// Serial numbers that name nothing, lower case.
const PLACEHOLDER_SERIALS: [&str; 14] = [
    "to be filled by o.e.m.",
    "to be filled by o.e.m",
    "default string",
    "system serial number",
    "base board serial number",
    "chassis serial number",
    "serial number",
    "not specified",
    "not applicable",
    "not available",
    "none",
    "n/a",
    "invalid",
    "unknown",
];

pub fn collect(tree: &Tree, problems: &mut Problems) -> Firmware {
    let mut firmware = if tree.is_directory(DMI) { smbios(tree, problems) } else { device_tree(tree, problems) };
    firmware.uefi = tree.is_directory("/sys/firmware/efi");
    if !firmware.product_uuid.is_empty() {
        match distrust_uuid(&firmware.product_uuid) {
            None => firmware.product_uuid_trusted = true,
            Some(why) => problems.note(format!("{DMI}/product_uuid"), format!("{:?} {why}", firmware.product_uuid)),
        }
    }
    if !firmware.product_serial.is_empty() {
        firmware.product_serial_trusted = is_serial_trusted(&firmware.product_serial);
        if !firmware.product_serial_trusted {
            let what = format!("{:?} is a placeholder", firmware.product_serial);
            problems.note(format!("{DMI}/product_serial"), what);
        }
    }
    firmware
}

fn smbios(tree: &Tree, problems: &mut Problems) -> Firmware {
    let mut line = |name: &str| tree.line(&format!("{DMI}/{name}"), problems).unwrap_or_default();
    Firmware {
        product_uuid: line("product_uuid").to_ascii_lowercase(),
        product_uuid_trusted: false,
        product_serial: line("product_serial"),
        product_serial_trusted: false,
        system_vendor: line("sys_vendor"),
        product_name: line("product_name"),
        board_vendor: line("board_vendor"),
        board_name: line("board_name"),
        board_serial: line("board_serial"),
        chassis_serial: line("chassis_serial"),
        bios_vendor: line("bios_vendor"),
        bios_version: line("bios_version"),
        bios_date: line("bios_date"),
        uefi: false,
    }
}

/// Machines without SMBIOS may have a device tree instead; its strings end with a NUL.
fn device_tree(tree: &Tree, problems: &mut Problems) -> Firmware {
    let read = |name: &str| tree.text(&format!("{DEVICE_TREE}/{name}"));
    match read("model") {
        Ok(model) => Firmware {
            product_name: clean(&model),
            product_serial: read("serial-number").map(|serial| clean(&serial)).unwrap_or_default(),
            ..Firmware::default()
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            problems.note(DMI, "not there: the firmware shows no SMBIOS");
            Firmware::default()
        }
        Err(error) => {
            problems.note(format!("{DEVICE_TREE}/model"), reason(&error));
            Firmware::default()
        }
    }
}

/// Why a product UUID cannot name one machine, `None` when it can.
pub fn distrust_uuid(uuid: &str) -> Option<&'static str> {
    let lower = uuid.to_ascii_lowercase();
    if !is_uuid(&lower) {
        return Some("is not a UUID");
    }
    let mut digits = lower.bytes().filter(|byte| *byte != b'-');
    let first = digits.next();
    if digits.all(|digit| Some(digit) == first) {
        return Some("is one digit repeated, a placeholder");
    }
    PLACEHOLDER_UUIDS.contains(&lower.as_str()).then_some("is a placeholder that whole series of boards share")
}

fn is_serial_trusted(serial: &str) -> bool {
    let lower = serial.to_ascii_lowercase();
    let mut characters = lower.chars().filter(|c| !matches!(c, ' ' | '.' | '-' | '_'));
    let Some(first) = characters.next() else { return false };
    let one_repeated = characters.all(|character| character == first);
    let counting = "0123456789".starts_with(&lower) || "1234567890".starts_with(&lower);
    !(one_repeated || counting || PLACEHOLDER_SERIALS.contains(&lower.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholder_uuids_are_not_trusted_in_any_case() {
        for uuid in [
            "00000000-0000-0000-0000-000000000000",
            "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
            "11111111-1111-1111-1111-111111111111",
            "03000200-0400-0500-0006-000700080009",
            "00020003-0004-0005-0006-000700080009",
            "12345678-1234-5678-90AB-CDDEEFAABBCC",
            "Not Settable",
            "4c4c4544-0042-3510-8052",
        ] {
            assert!(distrust_uuid(uuid).is_some(), "{uuid}");
        }
        assert_eq!(distrust_uuid("4c4c4544-0042-3510-8052-b4c04f4d3232"), None);
    }

    #[test]
    fn placeholder_serials_are_not_trusted() {
        for serial in ["To Be Filled By O.E.M.", "Default string", "0", "........", "0123456789", "123456789", "N/A"] {
            assert!(!is_serial_trusted(serial), "{serial}");
        }
        for serial in ["5B52M22", "S4571234X0", "VMware-56 4d 0c 8e"] {
            assert!(is_serial_trusted(serial), "{serial}");
        }
    }
}
