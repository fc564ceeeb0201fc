//! CPUs: what sysfs says about the topology, what /proc/cpuinfo says about the model.

use crate::bounds::clean;
use crate::problems::Problems;
use crate::tree::{Tree, parse_list, reason};
use proto::v1::Cpus;
use std::collections::BTreeSet;

const CPUINFO: &str = "/proc/cpuinfo";
const ONLINE: &str = "/sys/devices/system/cpu/online";

pub fn collect(tree: &Tree, problems: &mut Problems) -> Cpus {
    let info = match tree.text(CPUINFO) {
        Ok(text) => text,
        Err(error) => {
            problems.note(CPUINFO, reason(&error));
            String::new()
        }
    };
    let online = tree.line_expected(ONLINE, problems).unwrap_or_default();
    let threads = match parse_list(&online) {
        Some(list) if !list.is_empty() => list,
        _ => processors(&info),
    };
    let (sockets, cores) = topology(tree, &threads, problems);
    Cpus {
        vendor: vendor(&info),
        model: value(&info, "model name").or_else(|| value(&info, "Model")).unwrap_or_default(),
        sockets,
        cores,
        threads: threads.len() as u32,
        online,
    }
}

/// Distinct packages and distinct cores of the CPUs that are online.
fn topology(tree: &Tree, threads: &[u32], problems: &mut Problems) -> (u32, u32) {
    let mut packages = BTreeSet::new();
    let mut cores = BTreeSet::new();
    let mut silent = 0;
    for cpu in threads {
        let directory = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
        let read =
            |name: &str| tree.text(&format!("{directory}/{name}")).ok().and_then(|text| text.trim().parse().ok());
        let (package, core): (Option<i64>, Option<i64>) = (read("physical_package_id"), read("core_id"));
        let (Some(package), Some(core)) = (package, core) else {
            silent += 1;
            continue;
        };
        // Core ids repeat on each die of a package; machines without dies have no such file.
        let die: i64 = read("die_id").unwrap_or(0);
        packages.insert(package);
        cores.insert((package, die, core));
    }
    if silent > 0 {
        problems.note("/sys/devices/system/cpu", format!("{silent} CPUs show no topology"));
    }
    (packages.len() as u32, cores.len() as u32)
}

fn processors(info: &str) -> Vec<u32> {
    let numbers = info.lines().filter_map(|line| line.split_once(':').filter(|(key, _)| key.trim() == "processor"));
    numbers.filter_map(|(_, number)| number.trim().parse().ok()).collect()
}

/// x86 names the vendor; ARM numbers the designer of its cores (MIDR_EL1, "Arm Architecture
/// Reference Manual", implementer codes).
fn vendor(info: &str) -> String {
    if let Some(vendor) = value(info, "vendor_id") {
        return vendor;
    }
    match value(info, "CPU implementer").as_deref() {
        Some("0x41") => "ARM".to_owned(),
        Some("0x4e") => "NVIDIA".to_owned(),
        Some("0xc0") => "Ampere".to_owned(),
        Some("0x51") => "Qualcomm".to_owned(),
        Some("0x48") => "HiSilicon".to_owned(),
        Some(other) => format!("implementer {other}"),
        None => String::new(),
    }
}

fn value(info: &str, key: &str) -> Option<String> {
    let mut lines = info.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(name, _)| name.trim() == key)?;
    Some(clean(value)).filter(|value| !value.is_empty())
}
