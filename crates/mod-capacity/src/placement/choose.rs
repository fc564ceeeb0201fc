//! Which atoms of the chosen node are taken. GPUs that share an NVLink group and a NUMA node go
//! together, from the smallest group that holds them all; parts come from GPUs that are in parts
//! already, so that whole ones stay whole.

use super::filter::Want;
use super::node::{Gpu, Guard, Node};
use super::request::{Device, DeviceClass};
use std::collections::BTreeMap;

/// The devices of a node that the filters let through, sorted by atom id.
pub(super) fn devices(want: &Want<'_>, node: &Node) -> Vec<Device> {
    let mut devices = Vec::new();
    let free: Vec<&Gpu> = node.gpus.iter().filter(|gpu| gpu.free_whole()).collect();
    let whole = together(&free, want.gpus as usize, &|gpu| gpu.link_group, &|gpus, count| {
        together(gpus, count, &|gpu| gpu.numa, &|gpus, count| gpus[..count].to_vec())
    });
    for gpu in &whole {
        devices.push(Device { id: gpu.uuid.clone(), class: DeviceClass::Gpu, gpu: gpu.uuid.clone() });
    }
    slots(want.slots, node, &whole, &mut devices);
    for (profile, count) in want.request.profiles() {
        instances(profile, count, node, &mut devices);
    }
    devices.sort();
    devices
}

type Take<'a, 'f> = &'f dyn Fn(&[&'a Gpu], usize) -> Vec<&'a Gpu>;

/// `count` of `gpus` from as few groups as possible: the smallest group that has enough, or the largest
/// one and what else is needed. `within` takes some of one group.
fn together<'a>(
    gpus: &[&'a Gpu],
    count: usize,
    group: &dyn Fn(&Gpu) -> Option<u32>,
    within: Take<'a, '_>,
) -> Vec<&'a Gpu> {
    let mut groups: BTreeMap<Option<u32>, Vec<&Gpu>> = BTreeMap::new();
    for gpu in gpus {
        groups.entry(group(gpu)).or_default().push(gpu);
    }
    let mut taken = Vec::new();
    while taken.len() < count && !groups.is_empty() {
        let left = count - taken.len();
        let enough = groups.iter().filter(|(_, gpus)| gpus.len() >= left).min_by_key(|(_, gpus)| gpus.len());
        let largest = || groups.iter().rev().max_by_key(|(_, gpus)| gpus.len());
        let Some(key) = enough.or_else(largest).map(|(key, _)| *key) else { break };
        let members = groups.remove(&key).unwrap_or_default();
        let some = left.min(members.len());
        taken.extend(within(&members, some));
    }
    taken
}

/// Slots of GPUs in parts first, the fullest of them first, then of free ones.
fn slots(count: u32, node: &Node, whole: &[&Gpu], devices: &mut Vec<Device>) {
    if count == 0 {
        return;
    }
    let mut gpus: Vec<(bool, u32, &Gpu)> = node
        .gpus
        .iter()
        .filter(|gpu| !whole.iter().any(|taken| taken.uuid == gpu.uuid))
        .map(|gpu| (gpu.guard == Guard::Free, gpu.free_slots(node.slots_per_gpu).count_ones(), gpu))
        .filter(|(_, free, _)| *free > 0)
        .collect();
    gpus.sort_by(|a, b| (a.0, a.1, &a.2.uuid).cmp(&(b.0, b.1, &b.2.uuid)));
    let free = gpus.iter().flat_map(|(_, _, gpu)| {
        let bits = gpu.free_slots(node.slots_per_gpu);
        (0..u64::BITS).filter(move |number| bits >> number & 1 == 1).map(|number| (*gpu, number))
    });
    for (gpu, number) in free.take(count as usize) {
        let id = format!("{}/s{number}", gpu.uuid);
        devices.push(Device { id, class: DeviceClass::Slot, gpu: gpu.uuid.clone() });
    }
}

/// Instances of a profile, of GPUs in parts first.
fn instances(profile: &str, count: u32, node: &Node, devices: &mut Vec<Device>) {
    let mut free: Vec<(bool, &str, &str)> = node
        .gpus
        .iter()
        .flat_map(|gpu| gpu.free_instances().map(move |instance| (gpu, instance)))
        .filter(|(_, instance)| instance.profile == profile)
        .map(|(gpu, instance)| (gpu.guard == Guard::Free, gpu.uuid.as_str(), instance.id.as_str()))
        .collect();
    free.sort_unstable();
    for (_, gpu, id) in free.into_iter().take(count as usize) {
        devices.push(Device { id: id.to_owned(), class: DeviceClass::Mig, gpu: gpu.to_owned() });
    }
}
