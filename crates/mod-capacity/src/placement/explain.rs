//! Why a request is where it is, in words: for each node every filter that refuses it, and whether any
//! node could ever take it. Made only when somebody asks.

use super::filter::{Avoided, Filter, Want, matches};
use super::fleet::Fleet;
use super::node::{Amount, Connection, Guard, Node};
use super::request::{DeviceClass, Request};
use model::{Lifecycle, NodeId};
use std::fmt;

/// One filter's refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub filter: Filter,
    /// For people.
    pub message: String,
}

/// What placement makes of one node. No refusals: it can take the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVerdict {
    pub node: NodeId,
    pub refusals: Vec<Refusal>,
}

/// What may become of a request on this fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prospect {
    /// A node can take it now.
    Now,
    /// No node can now; one could once what is booked or out of service comes back.
    Later,
    /// No node could, even empty and ready. In words, why.
    Never(String),
}

/// The whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub prospect: Prospect,
    /// Where it would go.
    pub chosen: Option<NodeId>,
    /// Every node of the pool, by id.
    pub nodes: Vec<NodeVerdict>,
}

/// Looks at every node.
pub fn explain(request: &Request, avoid: &[Avoided], fleet: &Fleet) -> Explanation {
    let want = Want::of(request, avoid);
    let verdict =
        |index: usize| NodeVerdict { node: fleet.node(index).id.clone(), refusals: refusals(&want, fleet, index) };
    Explanation {
        prospect: could_ever_fit(request, avoid, fleet),
        chosen: super::decide(request, avoid, fleet).map(|placement| placement.node),
        nodes: (0..fleet.len()).map(verdict).collect(),
    }
}

/// Whether a node of the fleet can take the request now, could later, or never could (F-Q16).
pub fn could_ever_fit(request: &Request, avoid: &[Avoided], fleet: &Fleet) -> Prospect {
    let want = Want::of(request, avoid);
    if (0..fleet.len()).any(|index| want.refused_by(fleet, index).is_none()) {
        return Prospect::Now;
    }
    if fleet.nodes().iter().any(|node| permanent(&want, node).is_none()) {
        return Prospect::Later;
    }
    Prospect::Never(never(&want, fleet))
}

/// The first reason that neither time nor a release takes away.
fn permanent(want: &Want<'_>, node: &Node) -> Option<String> {
    if node.revoked || node.lifecycle == Lifecycle::Retired {
        return Some("the node is gone for good".to_owned());
    }
    if !node.inventory {
        return Some("its inventory is not known".to_owned());
    }
    if let Some((key, value, _)) = want.selectors.iter().find(|(key, value, _)| !matches(node, key, value)) {
        return Some(missing(node, key, value));
    }
    if !node.gpu_driver {
        return Some(NO_DRIVER.to_owned());
    }
    atoms_short(want, node, true).or_else(|| host_short(want, node, true))
}

const NO_DRIVER: &str = "no GPU driver answered there";

/// The most common reason, said of the node that comes closest.
fn never(want: &Want<'_>, fleet: &Fleet) -> String {
    let closest = fleet.nodes().iter().max_by_key(|node| {
        let known = node.inventory && !node.revoked && node.lifecycle != Lifecycle::Retired;
        (known, offered(node, DeviceClass::Gpu), std::cmp::Reverse(&node.id))
    });
    match closest {
        None => "the pool has no nodes".to_owned(),
        Some(node) => {
            let reason = permanent(want, node).unwrap_or_default();
            format!("no node of the pool could ever take it; of {}: {reason}", node.id)
        }
    }
}

fn refusals(want: &Want<'_>, fleet: &Fleet, index: usize) -> Vec<Refusal> {
    let node = fleet.node(index);
    let mut found = standing(node);
    let mut add = |filter: Filter, message: String| found.push(Refusal { filter, message });
    if !node.inventory {
        // Nothing else is known of it.
        return found;
    }
    for (key, value, filter) in &want.selectors {
        if *filter == Filter::Capabilities && !matches(node, key, value) {
            add(*filter, missing(node, key, value));
        }
    }
    if !node.gpu_driver {
        add(Filter::Drivers, NO_DRIVER.to_owned());
    }
    for (key, value, filter) in &want.selectors {
        if *filter != Filter::Capabilities && !matches(node, key, value) {
            add(*filter, missing(node, key, value));
        }
    }
    if let Some(avoided) = want.avoided(node) {
        add(Filter::RecentFailure, format!("the allocation failed here lately: {}", avoided.reason));
    }
    if !want.atoms_fit(fleet, index) {
        add(Filter::Atoms, atoms_short(want, node, false).unwrap_or_default());
    }
    if !want.host_fits(fleet, index) {
        add(Filter::HostResources, host_short(want, node, false).unwrap_or_default());
    }
    found
}

fn standing(node: &Node) -> Vec<Refusal> {
    let mut found = Vec::new();
    let mut add = |filter: Filter, message: String| found.push(Refusal { filter, message });
    if node.revoked {
        add(Filter::Lifecycle, "the node was revoked".to_owned());
    } else if node.lifecycle != Lifecycle::Ready {
        add(Filter::Lifecycle, format!("the node is {}; only ready nodes take reservations", node.lifecycle));
    }
    match node.connection {
        Connection::Connected => {}
        Connection::Lost => add(Filter::Connection, "the node is not connected".to_owned()),
        Connection::UpgradeOnly => {
            add(Filter::Connection, "its daemon is too old for this control plane: upgrade it".to_owned());
        }
    }
    for cordon in &node.cordons {
        add(Filter::Cordons, format!("cordoned by {}: {}", cordon.owner, cordon.reason));
    }
    if !node.inventory {
        add(Filter::Inventory, "no inventory of the node has been read yet".to_owned());
    }
    found
}

fn missing(node: &Node, key: &str, value: &str) -> String {
    let wanted = if value == super::filter::ANY_VALUE { "any value" } else { value };
    if let Some(capability) = key.strip_prefix(super::filter::CAPABILITY_PREFIX) {
        return format!("its daemon does not advertise {capability}, which the request needs");
    }
    match node.label(key) {
        Some(found) => format!("label {key} is {found}, wanted {wanted}"),
        None => format!("label {key} is missing, wanted {wanted}"),
    }
}

/// What is short of atoms: now, or (`empty`) even if nothing were booked.
fn atoms_short(want: &Want<'_>, node: &Node, empty: bool) -> Option<String> {
    let mut short = Vec::new();
    let gpus = if empty { offered(node, DeviceClass::Gpu) } else { free_gpus(node) };
    if want.gpus as usize > gpus {
        short.push(format!("{} wanted, {}", plural(want.gpus, "whole GPU"), whole_gpus(node, empty)));
    } else if want.slots > 0 {
        let left = gpus - want.gpus as usize;
        let parts = if empty { 0 } else { slots_of_parts(node) };
        let slots = parts + left * usize::from(node.slots_per_gpu);
        if want.slots as usize > slots {
            let beside = if want.gpus > 0 { " beside the whole GPUs" } else { "" };
            let each = match node.slots_per_gpu {
                0 => "the pool does not divide GPUs into slots".to_owned(),
                each => format!("{slots} {} ({each} a GPU)", if empty { "in all" } else { "free" }),
            };
            short.push(format!("{}{beside} wanted, {each}", plural(want.slots, "slot")));
        }
    }
    for (profile, count) in want.request.profiles() {
        let all = node.gpus.iter().filter(|gpu| gpu.offered() && gpu.mig).flat_map(|gpu| &gpu.instances);
        let all = all.filter(|instance| instance.present && instance.profile == profile).count();
        let free = super::filter::free_instances(node, profile);
        if count as usize > if empty { all } else { free } {
            let instances = plural(count, &format!("MIG instance {profile}"));
            let there = if empty { format!("{all} in all") } else { format!("{free} free of {all}") };
            short.push(format!("{instances} wanted, {there}"));
        }
    }
    (!short.is_empty()).then(|| short.join("; "))
}

fn plural(count: u32, what: &str) -> String {
    match (count, what.split_once(' ')) {
        (1, _) => format!("1 {what}"),
        (_, Some(("MIG", rest))) => format!("{count} MIG {}", rest.replacen("instance", "instances", 1)),
        _ => format!("{count} {what}s"),
    }
}

/// `3 free of 8 (4 booked whole, 1 in MIG mode)`.
fn whole_gpus(node: &Node, empty: bool) -> String {
    let count = |what: &str, number: usize| (number > 0).then(|| format!("{number} {what}"));
    let of = |test: &dyn Fn(&super::Gpu) -> bool| node.gpus.iter().filter(|gpu| test(gpu)).count();
    let taken = |guard: Guard| move |gpu: &super::Gpu| gpu.offered() && !gpu.mig && gpu.guard == guard;
    let mut why: Vec<String> = Vec::new();
    if !empty {
        why.extend(count("booked whole", of(&taken(Guard::Whole))));
        why.extend(count("booked in parts", of(&taken(Guard::Parts))));
    }
    why.extend(count("in MIG mode", of(&|gpu| gpu.offered() && gpu.mig)));
    why.extend(count("booked on another node", of(&|gpu| gpu.present && gpu.elsewhere.is_some())));
    why.extend(count("missing", of(&|gpu| !gpu.present)));
    let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join(", ")) };
    match empty {
        true => format!("{} in all{why}", offered(node, DeviceClass::Gpu)),
        false => format!("{} free of {}{why}", free_gpus(node), node.gpus.len()),
    }
}

fn free_gpus(node: &Node) -> usize {
    node.gpus.iter().filter(|gpu| gpu.free_whole()).count()
}

fn slots_of_parts(node: &Node) -> usize {
    let parts = node.gpus.iter().filter(|gpu| gpu.guard == Guard::Parts);
    parts.map(|gpu| gpu.free_slots(node.slots_per_gpu).count_ones() as usize).sum()
}

/// What an empty node would offer.
fn offered(node: &Node, class: DeviceClass) -> usize {
    let whole = node.gpus.iter().filter(|gpu| gpu.offered() && !gpu.mig).count();
    match class {
        DeviceClass::Gpu => whole,
        DeviceClass::Slot => whole * usize::from(node.slots_per_gpu),
        DeviceClass::Mig => {
            node.gpus.iter().filter(|gpu| gpu.offered() && gpu.mig).map(|gpu| gpu.instances.len()).sum()
        }
    }
}

/// What is short of host resources: now, or even if nothing were booked.
fn host_short(want: &Want<'_>, node: &Node, empty: bool) -> Option<String> {
    let host = want.host();
    let one = |wanted: u64, amount: Amount, shift: u32, what: &str| {
        let there = if empty { amount.total } else { amount.free() };
        let (free, total) = (amount.free() >> shift, amount.total >> shift);
        let there_is = if empty { format!("{total} in all") } else { format!("{free} free of {total}") };
        (wanted > there).then(|| format!("{} {what} wanted, {there_is}", wanted >> shift))
    };
    let short: Vec<String> = [
        one(u64::from(host.vcpu), node.host.vcpu, 0, "vCPU"),
        one(want.memory_bytes, node.host.memory_bytes, 30, "GiB of memory"),
        one(u64::from(host.hugepages_1gi), node.host.hugepages_1gi, 0, "pages of 1 GiB"),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!short.is_empty()).then(|| short.join("; "))
}

impl Prospect {
    /// One sentence.
    pub fn sentence(&self) -> String {
        match self {
            Self::Now => "a node can take it now".to_owned(),
            Self::Later => "no node can take it now; it waits".to_owned(),
            Self::Never(why) => why.clone(),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.chosen {
            Some(node) => writeln!(f, "{node} would take it")?,
            None => writeln!(f, "{}", self.prospect.sentence())?,
        }
        for verdict in &self.nodes {
            match verdict.refusals.is_empty() {
                true => writeln!(f, "  {}: can take it", verdict.node)?,
                false => writeln!(f, "  {}:", verdict.node)?,
            }
            for refusal in &verdict.refusals {
                writeln!(f, "    {}: {}", refusal.filter.name(), refusal.message)?;
            }
        }
        Ok(())
    }
}
