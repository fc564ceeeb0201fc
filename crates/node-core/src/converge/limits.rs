//! The form of limits, and their numbers as systemd takes them.

use model::spec::HoldLimits;

/// Highest CPU or memory node that a list may name.
const CPU_MAX: u32 = 8191;
const HUGE_2MI_BYTES: u64 = 2 << 20;
const HUGE_1GI_BYTES: u64 = 1 << 30;

/// A list in the kernel's form (`0-3,8`), without blanks, as rising numbers; empty for an empty text.
pub fn parse_cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    if text.is_empty() {
        return Some(numbers);
    }
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let number = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse::<u32>().ok())?.filter(|number| *number <= CPU_MAX)
        };
        let (low, high) = (number(low)?, number(high)?);
        let is_rising = low <= high && numbers.last().is_none_or(|last| *last < low);
        if !is_rising {
            return None;
        }
        numbers.extend(low..=high);
    }
    Some(numbers)
}

/// What keeps limits from being applied, whatever the host.
pub(crate) fn check(limits: &HoldLimits) -> Result<(), String> {
    for (what, list) in [("cpus", &limits.cpus), ("mems", &limits.mems)] {
        if parse_cpu_list(list).is_none() {
            return Err(format!("limits.{what} is not a list such as 0-15,32-47"));
        }
    }
    Ok(())
}

/// `CPUQuota` in whole percents of one CPU, rounded up, so at least 1 (D-Q29).
pub(crate) fn quota_percent(cpu_millis: u64) -> Option<u64> {
    (cpu_millis > 0).then(|| cpu_millis.div_ceil(10))
}

/// `MemoryHigh` for a `MemoryMax`: 90% of it.
pub(crate) fn memory_high(memory_max: u64) -> u64 {
    memory_max / 10 * 9 + memory_max % 10 * 9 / 10
}

/// Bytes of huge pages as `hugetlb.<size>.max` takes them.
pub(crate) fn huge_bytes(limits: &HoldLimits) -> (u64, u64) {
    let bytes = |pages: u64, size: u64| pages.saturating_mul(size);
    (bytes(limits.hugepages_2mi, HUGE_2MI_BYTES), bytes(limits.hugepages_1gi, HUGE_1GI_BYTES))
}

/// The pages booked, by page size.
pub(crate) fn huge_pages(limits: &HoldLimits) -> [(u64, u64); 2] {
    [(HUGE_2MI_BYTES, limits.hugepages_2mi), (HUGE_1GI_BYTES, limits.hugepages_1gi)]
}
