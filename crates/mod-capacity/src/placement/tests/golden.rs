//! What people read.

use super::*;
use expect_test::{Expect, expect};
use model::{Lifecycle, ServerTimeMs};

#[track_caller]
fn check(request: &Request, nodes: Vec<Node>, expected: Expect) {
    expected.assert_eq(&explain(request, &[], &Fleet::new(nodes)).to_string());
}

#[test]
fn a_request_larger_than_any_node_says_so() {
    let mut other = node("b", 8);
    other.gpus[0].guard = Guard::Whole;
    divide(&mut other.gpus[7], &["1g.10gb"]);
    let nodes = vec![node("a", 8), other, node("c", 4)];
    check(
        &Request::gpus(25),
        nodes,
        expect![[r#"
            no node of the pool could ever take it; of a: 25 whole GPUs wanted, 8 in all
              a:
                atoms: 25 whole GPUs wanted, 8 free of 8
              b:
                atoms: 25 whole GPUs wanted, 6 free of 8 (1 booked whole, 1 in MIG mode)
              c:
                atoms: 25 whole GPUs wanted, 4 free of 4
        "#]],
    );
}

#[test]
fn every_filter_names_itself_and_says_why() {
    let named = |name: &str| node(name, 2);
    let mut draining = named("a");
    draining.lifecycle = Lifecycle::Draining;
    let mut lost = named("b");
    lost.connection = Connection::Lost;
    let mut old = named("c");
    old.connection = Connection::UpgradeOnly;
    let mut cordoned = named("d");
    cordoned.cordons.push(Cordon { owner: "operator".into(), reason: "new cables".into() });
    let unread = Node { inventory: false, gpus: vec![], ..named("e") };
    let plain = named("f");
    let mut driverless = with_capability(named("g"), CAPABILITY_LIMITS);
    driverless.gpu_driver = false;
    let mut elsewhere = with_capability(named("h"), CAPABILITY_LIMITS);
    elsewhere.labels.push(("zone".into(), "east".into()));
    let mut full = with_capability(named("i"), CAPABILITY_LIMITS);
    full.labels.push(("zone".into(), "west".into()));
    full.gpus[0].present = false;
    full.gpus[1].guard = Guard::Parts;
    full.host.vcpu.booked = 30;
    let mut gone = named("j");
    gone.revoked = true;
    let mut good = full.clone();
    (good.id, good.gpus, good.host.vcpu.booked) = (id("k"), named("k").gpus, 0);
    let request = Request {
        host: HostRequest { vcpu: 8, memory_gib: 4, hugepages_1gi: 0 },
        labels: vec![LabelSelector { key: "zone".into(), value: "west".into() }],
        ..Request::gpus(2)
    };
    check(
        &request,
        vec![draining, lost, old, cordoned, unread, plain, driverless, elsewhere, full, gone, good],
        expect![[r#"
            k would take it
              a:
                lifecycle: the node is draining; only ready nodes take reservations
                capabilities: its daemon does not advertise devices.limits, which the request needs
                labels: label zone is missing, wanted west
              b:
                connection: the node is not connected
                capabilities: its daemon does not advertise devices.limits, which the request needs
                labels: label zone is missing, wanted west
              c:
                connection: its daemon is too old for this control plane: upgrade it
                capabilities: its daemon does not advertise devices.limits, which the request needs
                labels: label zone is missing, wanted west
              d:
                cordons: cordoned by operator: new cables
                capabilities: its daemon does not advertise devices.limits, which the request needs
                labels: label zone is missing, wanted west
              e:
                inventory: no inventory of the node has been read yet
              f:
                capabilities: its daemon does not advertise devices.limits, which the request needs
                labels: label zone is missing, wanted west
              g:
                drivers: no GPU driver answered there
                labels: label zone is missing, wanted west
              h:
                labels: label zone is east, wanted west
              i:
                atoms: 2 whole GPUs wanted, 0 free of 2 (1 booked in parts, 1 missing)
                host-resources: 8 vCPU wanted, 2 free of 32
              j:
                lifecycle: the node was revoked
                capabilities: its daemon does not advertise devices.limits, which the request needs
                labels: label zone is missing, wanted west
              k: can take it
        "#]],
    );
}

#[test]
fn a_node_where_it_failed_is_left_alone_for_a_while() {
    let fleet = Fleet::new(vec![node("a", 2), node("b", 2)]);
    let avoid = [Avoided { node: id("a"), until: ServerTimeMs(1), reason: "overlap".into() }];
    let explanation = explain(&Request::gpus(1), &avoid, &fleet);
    expect![[r#"
        b would take it
          a:
            recent-failure: the allocation failed here lately: overlap
          b: can take it
    "#]]
    .assert_eq(&explanation.to_string());
    let alone = Fleet::new(vec![node("a", 2)]);
    assert_eq!(could_ever_fit(&Request::gpus(1), &avoid, &alone), Prospect::Later);
}

#[test]
fn parts_and_profiles_are_counted_out() {
    let mut one = node("a", 2);
    divide(&mut one.gpus[0], &["1g.10gb", "2g.20gb"]);
    one.gpus[0].instances[0].booked = true;
    one.gpus[0].guard = Guard::Parts;
    check(
        &mig("1g.10gb", 1),
        vec![one.clone()],
        expect![[r#"
            no node can take it now; it waits
              a:
                atoms: 1 MIG instance 1g.10gb wanted, 0 free of 1
        "#]],
    );
    check(
        &mig("7g.80gb", 2),
        vec![one.clone()],
        expect![[r#"
            no node of the pool could ever take it; of a: 2 MIG instances 7g.80gb wanted, 0 in all
              a:
                atoms: 2 MIG instances 7g.80gb wanted, 0 free of 0
        "#]],
    );
    check(
        &slots(3),
        vec![one.clone()],
        expect![[r#"
            no node of the pool could ever take it; of a: 3 slots wanted, the pool does not divide GPUs into slots
              a:
                atoms: 3 slots wanted, the pool does not divide GPUs into slots
        "#]],
    );
    one.slots_per_gpu = 4;
    one.gpus[1].guard = Guard::Parts;
    one.gpus[1].slots_booked = 0b1011;
    check(
        &slots(3),
        vec![one],
        expect![[r#"
            no node can take it now; it waits
              a:
                atoms: 3 slots wanted, 1 free (4 a GPU)
        "#]],
    );
    check(
        &Request::gpus(1),
        vec![],
        expect![[r#"
            the pool has no nodes
        "#]],
    );
}

#[test]
fn selectors_speak_for_labels_drivers_and_capabilities() {
    let mut labelled = with_capability(node("a", 1), "instance.volumes");
    labelled.labels.push(("bc.dev/driver.libvirt-kvm".into(), "1".into()));
    labelled.labels.push(("zone".into(), "b".into()));
    let fleet = Fleet::new(vec![labelled]);
    let refused = |key: &str, value: &str| {
        let labels = vec![LabelSelector { key: key.into(), value: value.into() }];
        let request = Request { labels, ..Request::gpus(1) };
        explain(&request, &[], &fleet).nodes[0].refusals.first().map(|refusal| refusal.filter)
    };
    assert_eq!(refused("zone", "b"), None);
    assert_eq!(refused("zone", "*"), None);
    assert_eq!(refused("zone", "c"), Some(Filter::Labels));
    assert_eq!(refused("rack", "*"), Some(Filter::Labels));
    assert_eq!(refused("bc.dev/cap.instance.volumes", "*"), None);
    assert_eq!(refused("bc.dev/cap.instance.placement", "1"), Some(Filter::Capabilities));
    assert_eq!(refused("bc.dev/driver.libvirt-kvm", "*"), None);
    assert_eq!(refused("bc.dev/driver.cloud-hypervisor", "*"), Some(Filter::Drivers));
}
