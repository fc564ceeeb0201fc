//! Filters: why a node cannot take a request now. Each has a name, and they are asked in this order.

use super::fleet::Fleet;
use super::node::Node;
use super::request::{Binding, DeviceClass, HostRequest, Request};
use model::{Lifecycle, NodeId, ServerTimeMs};

/// Selectors under this prefix ask for a capability.
pub(super) const CAPABILITY_PREFIX: &str = "bc.dev/cap.";
/// Selectors under this prefix ask for a driver.
pub(super) const DRIVER_PREFIX: &str = "bc.dev/driver.";
/// A selector's value that matches any.
pub(super) const ANY_VALUE: &str = "*";

/// What refuses a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Filter {
    /// Not `ready`, or revoked.
    Lifecycle,
    /// Not connected, or takes only an upgrade.
    Connection,
    Cordons,
    /// No inventory has been read.
    Inventory,
    /// A capability that the request needs is not advertised.
    Capabilities,
    /// No GPU driver, or a driver that the request names is missing.
    Drivers,
    Labels,
    /// The same reservation failed there lately.
    RecentFailure,
    /// Too few free atoms.
    Atoms,
    HostResources,
}

impl Filter {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lifecycle => "lifecycle",
            Self::Connection => "connection",
            Self::Cordons => "cordons",
            Self::Inventory => "inventory",
            Self::Capabilities => "capabilities",
            Self::Drivers => "drivers",
            Self::Labels => "labels",
            Self::RecentFailure => "recent-failure",
            Self::Atoms => "atoms",
            Self::HostResources => "host-resources",
        }
    }
}

/// A node where an allocation of the reservation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Avoided {
    pub node: NodeId,
    pub until: ServerTimeMs,
    /// As the node reported it.
    pub reason: String,
}

/// The filter that refuses every request on this node, if one does.
pub(super) fn standing(node: &Node) -> Option<Filter> {
    if node.lifecycle != Lifecycle::Ready || node.revoked {
        return Some(Filter::Lifecycle);
    }
    if !node.connection.takes_specs() {
        return Some(Filter::Connection);
    }
    if !node.cordons.is_empty() {
        return Some(Filter::Cordons);
    }
    if !node.inventory {
        return Some(Filter::Inventory);
    }
    None
}

/// A request, ready to be compared with many nodes.
pub(super) struct Want<'r> {
    pub request: &'r Request,
    pub avoid: &'r [Avoided],
    /// Key, value, and the filter that speaks for it: what the request names and what it implies.
    pub selectors: Vec<(&'r str, &'r str, Filter)>,
    pub gpus: u32,
    pub slots: u32,
    pub migs: u32,
    pub memory_bytes: u64,
}

impl<'r> Want<'r> {
    pub fn of(request: &'r Request, avoid: &'r [Avoided]) -> Self {
        let mut selectors = Vec::new();
        // A daemon without the capability would drop the field and run the hold without it.
        if !request.host.is_empty() {
            selectors.push((LIMITS_LABEL, "1", Filter::Capabilities));
        }
        if request.binding == Binding::Kubernetes {
            selectors.push((KUBERNETES_LABEL, "1", Filter::Capabilities));
        }
        for selector in &request.labels {
            let filter = match selector.key.as_str() {
                key if key.starts_with(CAPABILITY_PREFIX) => Filter::Capabilities,
                key if key.starts_with(DRIVER_PREFIX) => Filter::Drivers,
                _ => Filter::Labels,
            };
            selectors.push((&selector.key, &selector.value, filter));
        }
        selectors.sort_by_key(|(_, _, filter)| *filter);
        Self {
            request,
            avoid,
            selectors,
            gpus: request.count(DeviceClass::Gpu),
            slots: request.count(DeviceClass::Slot),
            migs: request.count(DeviceClass::Mig),
            memory_bytes: request.host.memory_bytes(),
        }
    }

    pub fn host(&self) -> &HostRequest {
        &self.request.host
    }

    /// The first filter that refuses the node.
    pub fn refused_by(&self, fleet: &Fleet, index: usize) -> Option<Filter> {
        let row = fleet.row(index);
        if row.standing.is_some() {
            return row.standing;
        }
        let node = fleet.node(index);
        // Every device of today is a GPU or a part of one.
        let selectors = || self.selectors.iter().filter(|(key, value, _)| !matches(node, key, value));
        if let Some((_, _, filter)) = selectors().next().filter(|(_, _, filter)| *filter == Filter::Capabilities) {
            return Some(*filter);
        }
        if !node.gpu_driver {
            return Some(Filter::Drivers);
        }
        if let Some((_, _, filter)) = selectors().next() {
            return Some(*filter);
        }
        if self.avoided(node).is_some() {
            return Some(Filter::RecentFailure);
        }
        if !self.atoms_fit(fleet, index) {
            return Some(Filter::Atoms);
        }
        if !self.host_fits(fleet, index) {
            return Some(Filter::HostResources);
        }
        None
    }

    pub fn avoided(&self, node: &Node) -> Option<&'r Avoided> {
        self.avoid.iter().find(|avoided| avoided.node == node.id)
    }

    /// Whole GPUs come from the free ones; slots from GPUs in parts first, then from what is left free.
    pub fn atoms_fit(&self, fleet: &Fleet, index: usize) -> bool {
        let row = fleet.row(index);
        let Some(free_left) = row.gpus.checked_sub(self.gpus) else { return false };
        let slots = self.slots.saturating_sub(row.slots_of_parts);
        if slots > free_left.saturating_mul(row.slots_per_gpu) {
            return false;
        }
        self.migs == 0 || self.migs_fit(fleet.node(index))
    }

    fn migs_fit(&self, node: &Node) -> bool {
        self.request.profiles().all(|(profile, count)| free_instances(node, profile) >= count as usize)
    }

    pub fn host_fits(&self, fleet: &Fleet, index: usize) -> bool {
        let row = fleet.row(index);
        u64::from(self.host().vcpu) <= row.vcpu
            && self.memory_bytes <= row.memory_bytes
            && u64::from(self.host().hugepages_1gi) <= row.hugepages_1gi
    }
}

const LIMITS_LABEL: &str = "bc.dev/cap.devices.limits";
const KUBERNETES_LABEL: &str = "bc.dev/cap.binding.kubernetes";

/// Whether the node carries the label with that value, or with any for `*`.
pub(super) fn matches(node: &Node, key: &str, value: &str) -> bool {
    node.label(key).is_some_and(|found| value == ANY_VALUE || found == value)
}

pub(super) fn free_instances(node: &Node, profile: &str) -> usize {
    node.gpus.iter().flat_map(|gpu| gpu.free_instances()).filter(|instance| instance.profile == profile).count()
}

#[cfg(test)]
mod tests {
    use super::super::request::{CAPABILITY_KUBERNETES, CAPABILITY_LIMITS};
    use super::*;

    #[test]
    fn implied_capabilities_are_the_labels_of_their_names() {
        assert_eq!(LIMITS_LABEL, format!("{CAPABILITY_PREFIX}{CAPABILITY_LIMITS}"));
        assert_eq!(KUBERNETES_LABEL, format!("{CAPABILITY_PREFIX}{CAPABILITY_KUBERNETES}"));
    }
}
