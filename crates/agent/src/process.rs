//! What this process takes.

/// Resident memory in bytes, 0 where the kernel does not say.
pub fn resident_bytes() -> u64 {
    std::fs::read_to_string("/proc/self/status").ok().as_deref().and_then(resident_of).unwrap_or(0)
}

/// `VmRSS:     9312 kB` of proc_pid_status(5).
fn resident_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(super::resident_of("Name:\tbcd\nVmRSS:\t    9312 kB\nVmData: 1 kB\n"), Some(9312 * 1024));
        assert_eq!(super::resident_of("Name:\tbcd\n"), None);
        assert!(super::resident_bytes() > 1 << 20);
    }
}
