//! Small random fleets against a search that tries every choice of whole GPUs.

use super::*;
use crate::placement;
use model::Lifecycle;
use proptest::prelude::*;
use proptest::strategy::Strategy as Generates;

const PROFILES: [&str; 2] = ["1g.10gb", "2g.20gb"];
const LABEL: &str = "zone";

fn gpu() -> impl Generates<Value = Gpu> {
    let guard = prop_oneof![4 => Just(Guard::Free), 1 => Just(Guard::Whole), 2 => Just(Guard::Parts)];
    let flags = (prop::bool::weighted(0.9), prop::bool::weighted(0.05), prop::bool::weighted(0.3));
    let places = (prop::option::of(0u32..3), prop::option::of(0u32..2));
    let instances = prop::collection::vec((0usize..2, any::<bool>(), prop::bool::weighted(0.9)), 0..4);
    (guard, flags, places, 0u64..8, instances).prop_map(|(guard, flags, places, slots, instances)| {
        let (present, elsewhere, mig) = flags;
        let instance = |(number, (profile, booked, present)): (usize, (usize, bool, bool))| MigInstance {
            id: format!("gi{number}/ci0"),
            profile: PROFILES[profile].to_owned(),
            booked: booked && guard == Guard::Parts,
            present,
        };
        Gpu {
            uuid: String::new(),
            present,
            elsewhere: elsewhere.then(|| id("other")),
            numa: places.0,
            link_group: places.1,
            mig,
            guard,
            slots_booked: if guard == Guard::Parts { slots } else { 0 },
            instances: if mig { instances.into_iter().enumerate().map(instance).collect() } else { vec![] },
        }
    })
}

fn one_node() -> impl Generates<Value = Node> {
    let standing = (
        prop_oneof![5 => Just(Lifecycle::Ready), 1 => Just(Lifecycle::Draining), 1 => Just(Lifecycle::Retired)],
        prop_oneof![6 => Just(Connection::Connected), 1 => Just(Connection::Lost), 1 => Just(Connection::UpgradeOnly)],
        (prop::bool::weighted(0.1), prop::bool::weighted(0.1), prop::bool::weighted(0.9), prop::bool::weighted(0.9)),
    );
    let labels = (any::<bool>(), any::<bool>(), prop::option::of(0u8..2));
    let vcpu = (0u64..6, 0u64..6);
    (standing, labels, vcpu, 0u8..4, prop::collection::vec(gpu(), 0..5)).prop_map(
        |(standing, labels, vcpu, slots_per_gpu, gpus)| {
            let (lifecycle, connection, (revoked, cordoned, inventory, gpu_driver)) = standing;
            let mut node = Node { lifecycle, connection, revoked, inventory, gpu_driver, ..node("x", 0) };
            if cordoned {
                node.cordons.push(Cordon { owner: "health".into(), reason: "xid".into() });
            }
            if labels.0 {
                node = with_capability(node, CAPABILITY_LIMITS);
            }
            if labels.1 {
                node = with_capability(node, CAPABILITY_KUBERNETES);
            }
            node.labels.extend(labels.2.map(|zone| (LABEL.to_owned(), zone.to_string())));
            (node.host.vcpu, node.slots_per_gpu) = (Amount { total: vcpu.0, booked: vcpu.1 }, slots_per_gpu);
            node.gpus = gpus;
            node
        },
    )
}

fn fleet() -> impl Generates<Value = Vec<Node>> {
    prop::collection::vec(one_node(), 0..5).prop_map(|mut nodes| {
        for (number, node) in nodes.iter_mut().enumerate() {
            node.id = id(&format!("n{number}"));
            for (index, gpu) in node.gpus.iter_mut().enumerate() {
                gpu.uuid = format!("GPU-{number}{index}");
                gpu.instances.iter_mut().for_each(|mig| mig.id = format!("{}/{}", gpu.uuid, mig.id));
            }
        }
        nodes
    })
}

fn request() -> impl Generates<Value = Request> {
    let counts = (0u32..4, 0u32..5, 0u32..3, 0u32..2);
    let host = prop_oneof![2 => Just(0u32), 1 => 1u32..5];
    let zone = prop::option::weighted(0.3, prop_oneof![Just("0"), Just("1"), Just("*")]);
    (counts, host, zone, prop::bool::weighted(0.2), any::<bool>()).prop_filter_map(
        "no devices",
        |(counts, vcpu, zone, kubernetes, spread)| {
            let mut devices = Vec::new();
            let mut add = |class, profile: Option<&str>, count| {
                if count > 0 {
                    devices.push(DeviceRequest { class, profile: profile.map(str::to_owned), count });
                }
            };
            add(DeviceClass::Gpu, None, counts.0);
            add(DeviceClass::Slot, None, counts.1);
            add(DeviceClass::Mig, Some(PROFILES[0]), counts.2);
            add(DeviceClass::Mig, Some(PROFILES[1]), counts.3);
            let request = Request {
                devices,
                host: HostRequest { vcpu, ..HostRequest::default() },
                labels: zone.map(|zone| LabelSelector { key: LABEL.into(), value: zone.into() }).into_iter().collect(),
                binding: if kubernetes { Binding::Kubernetes } else { Binding::Hold },
                strategy: if spread { placement::Strategy::Spread } else { placement::Strategy::Pack },
            };
            request.check().is_ok().then_some(request)
        },
    )
}

/// Whether this node can take the request, by the words of the specification.
fn can_take(request: &Request, node: &Node) -> bool {
    let has = |key: &str, value: &str| {
        node.labels.iter().any(|(name, found)| name == key && (value == "*" || found == value))
    };
    let standing = node.lifecycle == Lifecycle::Ready
        && !node.revoked
        && node.connection == Connection::Connected
        && node.cordons.is_empty()
        && node.inventory
        && node.gpu_driver;
    let limits = request.host.is_empty() || has("bc.dev/cap.devices.limits", "1");
    let binding = request.binding == Binding::Hold || has("bc.dev/cap.binding.kubernetes", "1");
    let labels = request.labels.iter().all(|label| has(&label.key, &label.value));
    let vcpu = u64::from(request.host.vcpu);
    let host = vcpu == 0 || node.host.vcpu.booked + vcpu <= node.host.vcpu.total;
    standing && limits && binding && labels && host && atoms(request, node)
}

/// Tries every set of GPUs to be given whole.
fn atoms(request: &Request, node: &Node) -> bool {
    let usable = |gpu: &Gpu| gpu.present && gpu.elsewhere.is_none();
    let wanted = |class: DeviceClass| request.count(class);
    let migs = request.profiles().all(|(profile, count)| {
        let gpus = node.gpus.iter().filter(|gpu| usable(gpu) && gpu.mig && gpu.guard != Guard::Whole);
        let free = gpus.flat_map(|gpu| &gpu.instances);
        free.filter(|mig| mig.present && !mig.booked && mig.profile == profile).count() >= count as usize
    });
    migs && (0u32..1 << node.gpus.len()).any(|set| {
        let whole = |number: usize| set >> number & 1 == 1;
        let gpus = || node.gpus.iter().enumerate();
        let right = set.count_ones() == wanted(DeviceClass::Gpu)
            && gpus().all(|(number, gpu)| !whole(number) || (usable(gpu) && !gpu.mig && gpu.guard == Guard::Free));
        let divisible = |gpu: &Gpu| usable(gpu) && !gpu.mig && gpu.guard != Guard::Whole;
        let rest = gpus().filter(|(number, gpu)| !whole(*number) && divisible(gpu));
        let slots: u32 = rest
            .map(|(_, gpu)| {
                (0..u32::from(node.slots_per_gpu)).filter(|slot| gpu.slots_booked >> slot & 1 == 0).count() as u32
            })
            .sum();
        right && slots >= wanted(DeviceClass::Slot)
    })
}

/// The placement gives what was asked for, of what is free, once each.
fn is_right(request: &Request, node: &Node, placement: &Placement) -> bool {
    let mut after = Fleet::new(vec![node.clone()]);
    after.apply(placement);
    let mut names = ids(placement);
    names.dedup();
    let once = names.len() == placement.devices.len();
    let each = placement.devices.iter().all(|device| {
        let Some(gpu) = node.gpus.iter().find(|gpu| gpu.uuid == device.gpu) else { return false };
        let mig = |instance: &&MigInstance| instance.id == device.id;
        match device.class {
            DeviceClass::Gpu => gpu.guard == Guard::Free && device.id == gpu.uuid && !gpu.mig,
            DeviceClass::Mig => gpu.instances.iter().find(mig).is_some_and(|mig| mig.present && !mig.booked),
            DeviceClass::Slot => {
                let number: u32 = device.id.rsplit_once("/s").expect("a slot").1.parse().expect("a number");
                gpu.slots_booked >> number & 1 == 0 && number < u32::from(node.slots_per_gpu)
            }
        }
    });
    let counts = DeviceClass::ALL.iter().all(|class| {
        placement.devices.iter().filter(|device| device.class == *class).count() == request.count(*class) as usize
    });
    let profiles = request.profiles().all(|(profile, count)| {
        let of = |device: &&Device| {
            node.gpus.iter().flat_map(|gpu| &gpu.instances).any(|mig| mig.id == device.id && mig.profile == profile)
        };
        placement.devices.iter().filter(of).count() == count as usize
    });
    once && each && counts && profiles
}

/// The node with nothing booked, in service.
fn emptied(mut node: Node) -> Node {
    (node.connection, node.cordons) = (Connection::Connected, vec![]);
    node.host.vcpu.booked = 0;
    if node.lifecycle != Lifecycle::Retired {
        node.lifecycle = Lifecycle::Ready;
    }
    for gpu in &mut node.gpus {
        (gpu.guard, gpu.slots_booked) = (Guard::Free, 0);
        gpu.instances.iter_mut().for_each(|mig| mig.booked = false);
    }
    node
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_can_be_satisfied_is_placed_and_nothing_else(nodes in fleet(), request in request()) {
        let fleet = Fleet::new(nodes.clone());
        let able: Vec<bool> = nodes.iter().map(|node| can_take(&request, node)).collect();
        let placement = decide(&request, &[], &fleet);
        prop_assert_eq!(placement.is_some(), able.contains(&true));
        if let Some(placement) = &placement {
            let index = nodes.iter().position(|node| node.id == placement.node).expect("a node of the fleet");
            prop_assert!(able[index]);
            prop_assert!(is_right(&request, &nodes[index], placement), "{:?}", placement);
            prop_assert_eq!(placement.limits.is_some(), !request.host.is_empty());
        }
        // The words say the same, node by node, and every refusal has some.
        let explanation = explain(&request, &[], &fleet);
        prop_assert_eq!(explanation.chosen.as_ref(), placement.as_ref().map(|placement| &placement.node));
        for (verdict, able) in explanation.nodes.iter().zip(&able) {
            prop_assert_eq!(verdict.refusals.is_empty(), *able, "{:?}", verdict);
            prop_assert!(verdict.refusals.iter().all(|refusal| !refusal.message.is_empty()));
        }
        let ever = nodes.iter().cloned().map(emptied).any(|node| can_take(&request, &node));
        match explanation.prospect {
            Prospect::Now => prop_assert!(placement.is_some()),
            Prospect::Later => prop_assert!(placement.is_none() && ever),
            Prospect::Never(why) => prop_assert!(!ever && !why.is_empty()),
        }
    }

    #[test]
    fn the_order_of_nodes_decides_nothing(nodes in fleet(), request in request()) {
        let mut turned = nodes.clone();
        turned.reverse();
        prop_assert_eq!(decide(&request, &[], &Fleet::new(nodes)), decide(&request, &[], &Fleet::new(turned)));
    }
}
