//! Memory, NUMA nodes and huge page pools.

use crate::bounds::{HUGE_PAGE_SIZES_MAX, NUMA_NODES_MAX};
use crate::problems::Problems;
use crate::tree::{Tree, reason};
use proto::v1::{HugePagePool, NumaNode};

const MEMINFO: &str = "/proc/meminfo";
const NODES: &str = "/sys/devices/system/node";
const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages";

/// MemTotal in bytes, 0 when unknown.
pub fn total(tree: &Tree, problems: &mut Problems) -> u64 {
    match tree.text(MEMINFO) {
        Ok(text) => match kilobytes(&text, "MemTotal:") {
            Some(bytes) => bytes,
            None => {
                problems.note(MEMINFO, "it has no MemTotal");
                0
            }
        },
        Err(error) => {
            problems.note(MEMINFO, reason(&error));
            0
        }
    }
}

/// NUMA nodes by id with their pools, and the pools of the whole host.
pub fn numa_and_huge_pages(tree: &Tree, problems: &mut Problems) -> (Vec<NumaNode>, Vec<HugePagePool>) {
    let mut ids: Vec<u32> =
        tree.names(NODES, problems).iter().filter_map(|name| name.strip_prefix("node")?.parse().ok()).collect();
    ids.sort_unstable();
    if ids.len() > NUMA_NODES_MAX {
        problems.note_cut(NODES, ids.len(), NUMA_NODES_MAX);
        ids.truncate(NUMA_NODES_MAX);
    }
    let nodes = ids.into_iter().map(|id| numa_node(tree, id, problems)).collect();
    (nodes, pools(tree, HUGE_PAGES, problems))
}

fn numa_node(tree: &Tree, id: u32, problems: &mut Problems) -> NumaNode {
    let directory = format!("{NODES}/node{id}");
    let meminfo = format!("{directory}/meminfo");
    let memory_bytes = match tree.text(&meminfo) {
        // `Node 0 MemTotal:       131072 kB`
        Ok(text) => kilobytes(&text, "MemTotal:").unwrap_or(0),
        Err(error) => {
            problems.note(&meminfo, reason(&error));
            0
        }
    };
    let distances = tree.line(&format!("{directory}/distance"), problems).unwrap_or_default();
    NumaNode {
        id,
        cpus: tree.line_expected(&format!("{directory}/cpulist"), problems).unwrap_or_default(),
        memory_bytes,
        huge_pages: pools(tree, &format!("{directory}/hugepages"), problems),
        distances: distances.split_ascii_whitespace().take(NUMA_NODES_MAX).filter_map(|d| d.parse().ok()).collect(),
    }
}

/// Pools below one directory, `hugepages-2048kB/nr_hugepages`. A kernel without huge pages has no directory.
fn pools(tree: &Tree, directory: &str, problems: &mut Problems) -> Vec<HugePagePool> {
    if !tree.exists(directory) {
        return Vec::new();
    }
    let mut pools = Vec::new();
    for name in tree.names(directory, problems) {
        let size = name.strip_prefix("hugepages-").and_then(|rest| rest.strip_suffix("kB")?.parse::<u64>().ok());
        let Some(page_bytes) = size.and_then(|kilobytes| kilobytes.checked_mul(1024)) else { continue };
        if let Some(pages) = tree.number_expected(&format!("{directory}/{name}/nr_hugepages"), problems) {
            pools.push(HugePagePool { page_bytes, pages });
        }
    }
    pools.sort_by_key(|pool| pool.page_bytes);
    pools.truncate(HUGE_PAGE_SIZES_MAX);
    pools
}

/// `key  123 kB` anywhere in the text, as bytes.
fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split_ascii_whitespace().any(|word| word == key))?;
    let (_, rest) = line.split_once(key)?;
    rest.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}
