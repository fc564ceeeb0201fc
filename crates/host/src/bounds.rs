//! Every bound of this crate, and the one function that makes a string from outside safe to show.

use std::time::Duration;

/// Version of the collection rules, carried by the inventory because its digest depends on them.
pub const INVENTORY_SCHEMA: u32 = 1;
/// Characters of one string in an inventory are bounded by this many bytes.
pub const STRING_BYTES_MAX: usize = 256;
/// One file of /proc or /sys, bytes. /proc/cpuinfo of 512 threads takes about 800 KiB.
pub const SYSTEM_FILE_BYTES_MAX: usize = 4 << 20;
/// Entries read from one directory of /proc, /sys or /dev.
pub const DIRECTORY_ENTRIES_MAX: usize = 8192;
pub const NUMA_NODES_MAX: usize = 128;
pub const HUGE_PAGE_SIZES_MAX: usize = 8;
pub const DISKS_MAX: usize = 512;
pub const DISK_LINKS_MAX: usize = 16;
pub const NICS_MAX: usize = 256;
pub const PCI_DEVICES_MAX: usize = 2048;
pub const GPUS_MAX: usize = 64;
/// Compute instances on one GPU: 7 on today's hardware.
pub const MIG_INSTANCES_MAX: usize = 16;
pub const PROBLEMS_MAX: usize = 256;

/// How long one nvidia-smi may take.
pub const NVIDIA_SMI_TIMEOUT: Duration = Duration::from_secs(10);
/// A reset of one GPU waits for its processes and its firmware.
pub const GPU_RESET_TIMEOUT: Duration = Duration::from_secs(60);
/// Output of one `nvidia-smi -q -x`, bytes.
pub const NVIDIA_SMI_BYTES_MAX: usize = 4 << 20;
/// Depth of the XML of nvidia-smi; the schemas reach 7.
pub const XML_DEPTH_MAX: usize = 32;
/// Elements kept of one report.
pub const XML_ELEMENTS_MAX: usize = 100_000;

/// GPUs of one `gpu.reset`.
pub const GPU_RESET_MAX: usize = 64;
/// CDI specs of this daemon.
pub const CDI_FILES_MAX: usize = 4096;
pub const CDI_FILE_BYTES_MAX: u64 = 1 << 20;
pub const REBOOT_TIMEOUT: Duration = Duration::from_secs(30);

/// One item of a log archive, bytes before compression.
pub const LOG_ITEM_BYTES_MAX: usize = 8 << 20;
/// All items together. What does not compress at all still stays below `BLOB_BYTES_MAX`.
pub const LOG_ARCHIVE_RAW_BYTES_MAX: usize = 60 << 20;
/// Log files of the daemon that are taken.
pub const LOG_FILES_MAX: usize = 64;
pub const LOG_COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// How far back logs go where the request does not say, and at most.
pub const LOG_SINCE_DEFAULT_S: u32 = 24 * 3600;
pub const LOG_SINCE_MAX_S: u32 = 30 * 24 * 3600;

/// `text` without control characters, trimmed, cut to `STRING_BYTES_MAX` bytes at a character.
pub fn clean(text: &str) -> String {
    clean_to(text, STRING_BYTES_MAX)
}

/// As [`clean`] with another bound.
pub fn clean_to(text: &str, bytes_max: usize) -> String {
    let mut out = String::new();
    for character in text.trim_matches(|c: char| c.is_whitespace() || c.is_control()).chars() {
        let character = if matches!(character, '\t' | '\n' | '\r') { ' ' } else { character };
        if character.is_control() {
            continue;
        }
        if out.len() + character.len_utf8() > bytes_max {
            break;
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_from_outside_loses_control_characters_and_keeps_whole_characters() {
        assert_eq!(clean(" \u{0}WD\u{7f}-\u{1b}[31mX\u{85}9\n"), "WD-[31mX9");
        assert_eq!(clean("a\tb"), "a b");
        let long = "é".repeat(200);
        assert_eq!(clean(&long).len(), 256);
        assert_eq!(clean_to("aé", 2), "a");
    }
}
