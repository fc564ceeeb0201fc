//! The core on small fleets: golden explanations, a brute force beside it, limits, and its cost.

mod brute;
mod golden;
mod locality;
mod speed;

use super::*;

pub(super) fn id(name: &str) -> NodeId {
    NodeId::new(name)
}

/// A ready node with `count` GPUs, the first half of them on NUMA node 0.
pub(super) fn node(name: &str, count: usize) -> Node {
    let gpu = |number: usize| Gpu {
        uuid: format!("GPU-{name}{number}"),
        present: true,
        numa: Some(u32::from(number >= count / 2)),
        ..Gpu::default()
    };
    let numa = |id: u32, cpus: &str| NumaNode { id, cpus: cpus.into(), memory_bytes: 64 << 30, hugepages_1gi: 8 };
    Node {
        gpus: (0..count).map(gpu).collect(),
        host: Host {
            vcpu: Amount { total: 32, booked: 0 },
            memory_bytes: Amount { total: 120 << 30, booked: 0 },
            hugepages_1gi: Amount { total: 16, booked: 0 },
        },
        numa: vec![numa(0, "0-7,16-23"), numa(1, "8-15,24-31")],
        ..Node::ready(id(name))
    }
}

pub(super) fn with_capability(mut node: Node, capability: &str) -> Node {
    node.labels.push((format!("bc.dev/cap.{capability}"), "1".into()));
    node.labels.sort();
    node
}

pub(super) fn slots(count: u32) -> Request {
    Request { devices: vec![DeviceRequest { class: DeviceClass::Slot, profile: None, count }], ..Request::default() }
}

pub(super) fn mig(profile: &str, count: u32) -> Request {
    let device = DeviceRequest { class: DeviceClass::Mig, profile: Some(profile.into()), count };
    Request { devices: vec![device], ..Request::default() }
}

/// A GPU in MIG mode with these profiles.
pub(super) fn divide(gpu: &mut Gpu, profiles: &[&str]) {
    gpu.mig = true;
    let instance = |(number, profile): (usize, &&str)| MigInstance {
        id: format!("{}/gi{number}/ci0", gpu.uuid),
        profile: (*profile).to_owned(),
        present: true,
        booked: false,
    };
    gpu.instances = profiles.iter().enumerate().map(instance).collect();
}

pub(super) fn ids(placement: &Placement) -> Vec<&str> {
    placement.devices.iter().map(|device| device.id.as_str()).collect()
}

fn host(vcpu: u32, memory_gib: u32, hugepages_1gi: u32) -> HostRequest {
    HostRequest { vcpu, memory_gib, hugepages_1gi }
}

/// Limits of one GPU on NUMA node 0 (16 CPUs, 64 GiB, 8 pages) of a node with this host request.
fn limits_of(host: HostRequest) -> Limits {
    let fleet = Fleet::new(vec![with_capability(node("a", 2), CAPABILITY_LIMITS)]);
    let request = Request { host, ..Request::gpus(1) };
    decide(&request, &[], &fleet).expect("it fits").limits.expect("limits")
}

#[test]
fn booked_host_resources_become_limits() {
    let limits = limits_of(host(4, 10, 2));
    assert_eq!((limits.cpu_millis, limits.memory_bytes, limits.hugepages_1gi), (4000, 10 << 30, 2));
    let fleet = Fleet::new(vec![node("a", 2)]);
    assert_eq!(decide(&Request::gpus(1), &[], &fleet).expect("it fits").limits, None);
}

#[test]
fn a_cpuset_covers_the_numa_nodes_of_the_devices() {
    let fleet = Fleet::new(vec![with_capability(node("a", 4), CAPABILITY_LIMITS)]);
    let limits = |gpus: u32| {
        let request = Request { host: host(1, 1, 0), ..Request::gpus(gpus) };
        let limits = decide(&request, &[], &fleet).expect("it fits").limits.expect("limits");
        (limits.cpus, limits.mems)
    };
    assert_eq!(limits(2), ("0-7,16-23".to_owned(), "0".to_owned()));
    assert_eq!(limits(3), ("0-31".to_owned(), "0-1".to_owned()));
}

#[test]
fn cpus_are_set_only_where_the_numa_nodes_have_enough() {
    assert_eq!(limits_of(host(16, 1, 0)).cpus, "0-7,16-23");
    assert_eq!(limits_of(host(17, 1, 0)).cpus, "");
    assert_eq!(limits_of(host(17, 1, 0)).mems, "0");
    assert_eq!(limits_of(host(0, 1, 0)).cpus, "");
}

#[test]
fn mems_are_set_only_where_the_numa_nodes_hold_the_memory() {
    assert_eq!(limits_of(host(1, 64, 0)).mems, "0");
    assert_eq!(limits_of(host(1, 65, 0)).mems, "");
    assert_eq!(limits_of(host(1, 65, 0)).cpus, "0-7,16-23");
    assert_eq!(limits_of(host(1, 0, 8)).mems, "0");
    assert_eq!(limits_of(host(1, 0, 9)).mems, "");
    assert_eq!(limits_of(host(1, 0, 0)).mems, "");
}

#[test]
fn a_device_of_unknown_locality_leaves_the_hold_anywhere() {
    let mut somewhere = with_capability(node("a", 2), CAPABILITY_LIMITS);
    somewhere.gpus[1].numa = None;
    let request = Request { host: host(1, 1, 0), ..Request::gpus(2) };
    let placement = decide(&request, &[], &Fleet::new(vec![somewhere])).expect("it fits");
    let limits = placement.limits.expect("limits");
    assert_eq!((limits.cpus.as_str(), limits.mems.as_str()), ("", ""));
}

#[test]
fn booked_host_resources_need_a_daemon_that_limits() {
    let request = Request { host: host(1, 0, 0), ..Request::gpus(1) };
    let old = Fleet::new(vec![node("a", 2)]);
    assert_eq!(decide(&request, &[], &old), None);
    assert_eq!(explain(&request, &[], &old).nodes[0].refusals[0].filter, Filter::Capabilities);
    let new = Fleet::new(vec![node("a", 2), with_capability(node("b", 2), CAPABILITY_LIMITS)]);
    assert_eq!(decide(&request, &[], &new).expect("it fits").node, id("b"));
}

#[test]
fn a_kubernetes_binding_needs_a_daemon_that_knows_it() {
    let request = Request { binding: Binding::Kubernetes, ..Request::gpus(1) };
    let old = Fleet::new(vec![node("a", 2), with_capability(node("b", 2), CAPABILITY_LIMITS)]);
    assert_eq!(decide(&request, &[], &old), None);
    let new = Fleet::new(vec![node("a", 2), with_capability(node("b", 2), CAPABILITY_KUBERNETES)]);
    assert_eq!(decide(&request, &[], &new).expect("it fits").node, id("b"));
}

#[test]
fn a_plain_hold_goes_to_a_daemon_without_capabilities() {
    let placement = decide(&Request::gpus(1), &[], &Fleet::new(vec![node("a", 2)])).expect("it fits");
    assert_eq!(placement.node, id("a"));
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let device =
        |class, profile: Option<&str>, count| DeviceRequest { class, profile: profile.map(str::to_owned), count };
    let of = |devices: Vec<DeviceRequest>| Request { devices, ..Request::default() };
    let label = |key: &str| LabelSelector { key: key.into(), value: "x".into() };
    assert_eq!(of(vec![]).check(), Err(RequestError::DeviceCount(0)));
    assert_eq!(Request::gpus(257).check(), Err(RequestError::DeviceCount(257)));
    assert_eq!(Request::gpus(256).check(), Ok(()));
    let one = device(DeviceClass::Gpu, None, 1);
    assert_eq!(of(vec![one.clone(), device(DeviceClass::Slot, None, 0)]).check(), Err(RequestError::DeviceCount(1)));
    assert_eq!(of(vec![one.clone(), one.clone()]).check(), Err(RequestError::Twice("gpu".into())));
    assert_eq!(of(vec![device(DeviceClass::Mig, None, 1)]).check(), Err(RequestError::NoProfile));
    assert_eq!(of(vec![device(DeviceClass::Gpu, Some("1g"), 1)]).check(), Err(RequestError::Profile));
    let two = Request { labels: vec![label("a"), label("a")], ..Request::gpus(1) };
    assert_eq!(two.check(), Err(RequestError::Label("a".into())));
    let huge = Request { host: host(u32::MAX, 0, 0), ..Request::gpus(1) };
    assert_eq!(huge.check(), Err(RequestError::HostAmount));
}
