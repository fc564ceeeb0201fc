//! The host's memory, as the admission of holds needs it. What domains were promised is not known here.

use crate::bounds::NUMA_NODES_MAX;
use crate::tree::Tree;
use node_core::converge::{HostMemory, HugePool};
use std::io;

const MEMINFO: &str = "/proc/meminfo";
const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages";
const NODES: &str = "/sys/devices/system/node";

/// What the kernel says now. An error when it cannot be read: then nothing may be concluded from it.
pub fn host_memory(tree: &Tree) -> io::Result<HostMemory> {
    let text = tree.text(MEMINFO)?;
    let missing = || io::Error::other(format!("{MEMINFO} has no MemTotal"));
    Ok(HostMemory {
        total_bytes: kilobytes(&text, "MemTotal:").ok_or_else(missing)?,
        // A kernel without huge pages has no such line.
        hugetlb_bytes: kilobytes(&text, "Hugetlb:").unwrap_or(0),
        pools: pools(tree)?,
        ..HostMemory::default()
    })
}

fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

fn pools(tree: &Tree) -> io::Result<Vec<HugePool>> {
    if !tree.exists(HUGE_PAGES) {
        return Ok(Vec::new());
    }
    let nodes: Vec<u32> = if tree.exists(NODES) {
        let names = tree.try_names(NODES)?;
        names.iter().filter_map(|name| name.strip_prefix("node")?.parse().ok()).take(NUMA_NODES_MAX).collect()
    } else {
        Vec::new()
    };
    let mut pools = Vec::new();
    for name in tree.try_names(HUGE_PAGES)? {
        let kilobytes = name.strip_prefix("hugepages-").and_then(|rest| rest.strip_suffix("kB")?.parse::<u64>().ok());
        let Some(page_bytes) = kilobytes.and_then(|kilobytes| kilobytes.checked_mul(1024)) else { continue };
        let free_on = |node: &u32| {
            let free = tree.number(&format!("{NODES}/node{node}/hugepages/{name}/free_hugepages"))?;
            Some((*node, free))
        };
        pools.push(HugePool {
            page_bytes,
            free: number(tree, &format!("{HUGE_PAGES}/{name}/free_hugepages"))?,
            reserved: number(tree, &format!("{HUGE_PAGES}/{name}/resv_hugepages"))?,
            nodes: nodes.iter().filter_map(free_on).collect(),
        });
    }
    Ok(pools)
}

fn number(tree: &Tree, path: &str) -> io::Result<u64> {
    let text = tree.text(path)?;
    text.trim().parse().map_err(|_| io::Error::other(format!("{path} is not a number")))
}
