//! Holds over time: bound once, kept whatever happens to the host, put right, released.

use super::*;
use expect_test::expect;

fn limits() -> HoldLimits {
    HoldLimits {
        cpu_millis: 1501,
        memory_bytes: (10 << 30) + 5,
        hugepages_2mi: 3,
        hugepages_1gi: 0,
        cpus: "0-3,8".to_owned(),
        mems: "0".to_owned(),
    }
}

fn with_pages(mut node: Node) -> Node {
    let pool = HugePool { page_bytes: 2 << 20, free: 10, reserved: 0, nodes: [(0, 10)].into() };
    node.host.memory.as_mut().expect("memory").pools = vec![pool];
    node
}

#[test]
fn a_plan_reads_as_a_person_would_say_it() {
    let mut node = with_pages(Node::new());
    node.pass(&[assign("going", &[&gpu(1)]), assign("staying", &[&gpu(2)])]);
    node.generation += 1;
    node.host.env.remove(&id("staying"));
    let desired =
        [limited("coming", &[&gpu(0)], limits()), assign("missing", &[&gpu(9)]), assign("staying", &[&gpu(2)])];
    let (plan, reports) = node.pass(&desired);
    expect![[r#"
        devices at generation 8
          release going, then report
          write env file of staying (GPU-00000002-0000-1111-2222-333333333333)
          write bcd-alloc-coming.slice, env file, CDI spec of coming (GPU-00000000-0000-1111-2222-333333333333), then report
          fail missing: device-missing: this host has no gpu GPU-00000009-0000-1111-2222-333333333333
    "#]]
    .assert_eq(&plan.to_string());
    let kinds: Vec<&str> = reports.iter().map(AllocationReport::kind).collect();
    assert_eq!(kinds, ["allocationReleased", "allocationBound", "allocationFailed"]);
    let Some(AllocationReport::Bound { cdi_devices, reservation, .. }) = reports.get(1) else { panic!("{reports:?}") };
    assert_eq!(cdi_devices, &[format!("bcd.dev/gpu={}", gpu(0))]);
    assert_eq!(reservation.as_str(), "res-of-coming");
}

#[test]
fn a_slice_has_each_limit_in_its_unit() {
    let mut node = with_pages(Node::new());
    let (plan, _) = node.pass(&[limited("a", &[&gpu(0)], limits())]);
    let [Step::Write { slice: Some(slice), .. }] = plan.steps.as_slice() else { panic!("{plan}") };
    expect![[r#"
        SliceLimits {
            allocation: a,
            name: "bcd-alloc-a.slice",
            allowed_cpus: "0-3,8",
            allowed_memory_nodes: "0",
            cpu_quota_percent: Some(
                151,
            ),
            memory_max: Some(
                10737418245,
            ),
            memory_high: Some(
                9663676420,
            ),
            hugetlb_2mb: 6291456,
            hugetlb_1gb: 0,
        }
    "#]]
    .assert_debug_eq(slice);
    for (cpu_millis, percent) in [(0, None), (1, Some(1)), (10, Some(1)), (11, Some(2)), (64_000, Some(6400))] {
        assert_eq!(super::super::limits::quota_percent(cpu_millis), percent, "{cpu_millis}");
    }
    for bytes in [0, 1, 9, 10, 19, u64::MAX] {
        let high = super::super::limits::memory_high(bytes);
        assert_eq!(u128::from(high), u128::from(bytes) * 9 / 10, "{bytes}");
    }
}

#[test]
fn a_hold_is_bound_once_and_read_back_after_a_restart() {
    let mut node = Node::new();
    let desired = [assign("a", &[&gpu(0), &format!("{}/gi1/ci0", gpu(3))])];
    let (_, reports) = node.pass(&desired);
    assert_eq!(reports.len(), 1);
    assert!(node.pass(&desired).1.is_empty());
    // A new generation that says the same.
    node.generation += 1;
    assert!(node.pass(&desired).0.steps.is_empty());
}

#[test]
fn a_crash_between_binding_and_reporting_reports_at_the_next_pass() {
    let mut node = Node::new();
    let desired = [assign("a", &[&gpu(0)])];
    let plan = node.plan(&desired);
    // The files are there, and the journal never got the report.
    apply(&plan, &mut node.host, &mut Ledger::default());
    let (plan, reports) = node.pass(&desired);
    let [Step::Write { parts, slice: None, .. }] = plan.steps.as_slice() else { panic!("{plan}") };
    assert_eq!(*parts, Parts { env: false, cdi: false });
    assert!(matches!(reports.as_slice(), [AllocationReport::Bound { .. }]));
}

#[test]
fn a_crash_between_releasing_and_reporting_reports_at_the_next_pass() {
    let mut node = Node::new();
    node.pass(&[assign("a", &[&gpu(0)])]);
    let plan = node.plan(&[]);
    apply(&plan, &mut node.host, &mut Ledger::default());
    assert!(holds(&node.host).is_empty());
    let (_, reports) = node.pass(&[]);
    let [AllocationReport::Released { allocation, reservation, .. }] = reports.as_slice() else {
        panic!("{reports:?}")
    };
    assert_eq!((allocation.as_str(), reservation.as_ref().expect("known").as_str()), ("a", "res-of-a"));
    assert!(node.pass(&[]).1.is_empty(), "once");
}

#[test]
fn an_assignment_that_leaves_before_it_was_ever_bound_is_reported_released_too() {
    let mut node = Node::new();
    node.host.gpus = None;
    drop(node.plan(&[assign("a", &[&gpu(0)])]));
    let (_, reports) = node.pass(&[]);
    assert!(matches!(reports.as_slice(), [AllocationReport::Released { .. }]), "{reports:?}");
}

#[test]
fn a_lost_journal_releases_what_the_spec_does_not_want_and_names_its_reservation() {
    let mut node = Node::new();
    node.pass(&[assign("a", &[&gpu(0)]), assign("b", &[&gpu(1)])]);
    node.ledger = Ledger::default();
    let (_, reports) = node.pass(&[assign("b", &[&gpu(1)])]);
    let kinds: Vec<_> = reports.iter().map(|report| (report.allocation().as_str(), report.kind())).collect();
    assert_eq!(kinds, [("a", "allocationReleased"), ("b", "allocationBound")]);
    let AllocationReport::Released { reservation, .. } = &reports[0] else { panic!("{reports:?}") };
    assert_eq!(reservation.as_ref().expect("from the file").as_str(), "res-of-a");
}

#[test]
fn files_changed_removed_or_damaged_by_hand_are_put_right_without_a_second_report() {
    let desired = [limited("a", &[&gpu(0)], HoldLimits { cpu_millis: 10, ..HoldLimits::default() })];
    let damaged = || CdiFile::Damaged { allocation: id("a"), why: "not JSON".to_owned() };
    type Tamper<'a> = Box<dyn Fn(&mut Observation) + 'a>;
    let tampers: Vec<(&str, Tamper<'_>)> = vec![
        ("the CDI spec is gone", Box::new(|host| host.cdi.clear())),
        ("the CDI spec is damaged", Box::new(move |host| host.cdi = vec![damaged()])),
        ("the CDI spec has other bytes", Box::new(|host| edit(host, |_| {}))),
        ("the CDI spec has another device", Box::new(|host| edit(host, |hold| hold.devices[0].atom.gpu = gpu(2)))),
        ("the CDI spec has another environment", Box::new(|host| edit(host, |hold| hold.env.clear()))),
        ("the CDI spec has other limits", Box::new(|host| edit(host, |hold| hold.limits = None))),
        ("the env file is gone, as after a reboot", Box::new(|host| host.env.clear())),
        (
            "the env file has another line",
            Box::new(|host| {
                host.env.insert(id("a"), EnvFile::Lines(vec!["X=1".to_owned()]));
            }),
        ),
        (
            "the env file is damaged",
            Box::new(|host| {
                host.env.insert(id("a"), EnvFile::Damaged);
            }),
        ),
        ("the slice is gone, as after a reboot", Box::new(|host| host.slices = Some(Vec::new()))),
        (
            "all is gone",
            Box::new(|host| {
                host.cdi.clear();
                host.env.clear();
                host.slices = Some(Vec::new());
            }),
        ),
    ];
    for (what, tamper) in tampers {
        let mut node = Node::new();
        node.pass(&desired);
        let (hold, env, slices) = (node.hold().clone(), node.host.env.clone(), node.host.slices.clone());
        tamper(&mut node.host);
        let (plan, reports) = node.pass(&desired);
        assert_eq!((plan.steps.len(), reports.len()), (1, 0), "{what}: {plan}");
        assert_eq!((node.hold(), &node.host.env, &node.host.slices), (&hold, &env, &slices), "{what}");
    }
}

fn edit(host: &mut Observation, change: impl Fn(&mut Hold)) {
    for file in &mut host.cdi {
        if let CdiFile::Hold { hold, is_exact } = file {
            change(hold);
            *is_exact = false;
        }
    }
}

#[test]
fn a_claim_written_by_hand_takes_nothing_from_anybody() {
    let mut node = Node::new();
    let desired = [assign("a", &[&gpu(0)]), assign("b", &[&gpu(1)])];
    node.pass(&desired);
    // The file of `a` now claims what `b` holds and what `c` is about to get.
    for file in &mut node.host.cdi {
        let CdiFile::Hold { hold, is_exact } = file else { continue };
        if hold.allocation == id("a") {
            *is_exact = false;
            hold.devices = [1, 2].map(|n| HeldDevice { atom: Atom::parse(&gpu(n)).expect("atom"), minor: None }).into();
        }
    }
    let desired = [desired[0].clone(), desired[1].clone(), assign("c", &[&gpu(2)])];
    let (plan, _) = node.pass(&desired);
    assert!(plan.failures.is_empty(), "{plan}");
    let atoms: Vec<String> = holds(&node.host).iter().map(|hold| hold.devices[0].atom.to_string()).collect();
    assert_eq!(atoms, [gpu(0), gpu(1), gpu(2)]);
}

#[test]
fn a_hold_added_by_hand_is_released_and_a_strangers_file_is_left_alone() {
    let mut node = Node::new();
    let hold = Hold {
        allocation: id("made-up"),
        reservation: None,
        kubernetes: false,
        devices: vec![HeldDevice { atom: Atom::parse(&gpu(0)).expect("atom"), minor: None }],
        env: Vec::new(),
        limits: None,
        cgroup_parent: None,
    };
    let stray = CdiFile::Stray { file: "bcd-.json".to_owned(), atoms: vec![Atom::parse(&gpu(1)).expect("atom")] };
    node.host.cdi = vec![CdiFile::Hold { hold, is_exact: false }, stray.clone()];
    let desired = [assign("a", &[&gpu(0)]), assign("b", &[&gpu(1)])];
    let (plan, reports) = node.pass(&desired);
    let kinds: Vec<_> = reports.iter().map(|report| (report.allocation().as_str(), report.kind())).collect();
    assert_eq!(kinds, [("made-up", "allocationReleased"), ("a", "allocationBound"), ("b", "allocationFailed")]);
    assert!(node.host.cdi.contains(&stray));
    assert!(plan.notices.iter().any(|notice| notice.contains("bcd-.json")), "{plan}");
    // It is named, and what it claims is not given to anybody else; what is held already stays.
    assert_eq!(plan.failures[0].reason, "overlap");
}

#[test]
fn a_device_that_vanishes_while_held_stays_held() {
    for atom in [gpu(0), format!("{}/gi1/ci0", gpu(3)), format!("{}/s1", gpu(1))] {
        let mut node = Node::new();
        let desired = [assign("a", &[&atom])];
        node.pass(&desired);
        let hold = node.hold().clone();
        node.host.gpus = Some(GpuAtoms::default());
        let (plan, reports) = node.pass(&desired);
        assert!(plan.steps.is_empty() && reports.is_empty() && plan.failures.is_empty(), "{plan}");
        assert_eq!(plan.notices.len(), 1, "{plan}");
        // A new generation changes nothing about that, and a reboot only brings back the env file.
        node.generation += 1;
        node.host.env.clear();
        let (plan, reports) = node.pass(&desired);
        assert!(plan.failures.is_empty() && reports.is_empty(), "{plan}");
        assert_eq!(node.hold(), &hold);
        assert_eq!(node.host.env.get(&id("a")), Some(&EnvFile::Lines(hold.env.clone())));
        // Nobody else gets it when it comes back, and its release is a release.
        node.host.gpus = host().gpus;
        node.generation += 1;
        let (plan, _) = node.pass(&[desired[0].clone(), assign("b", &[&atom])]);
        assert_eq!(plan.failures[0].reason, "overlap");
        let (_, reports) = node.pass(&[]);
        assert_eq!(reports.iter().filter(|report| report.kind() == "allocationReleased").count(), 2);
    }
}

#[test]
fn a_vanished_mig_instance_whose_file_is_gone_waits_and_is_not_failed() {
    let mut node = Node::new();
    let desired = [assign("a", &[&format!("{}/gi1/ci0", gpu(3))])];
    node.pass(&desired);
    node.host.gpus.as_mut().expect("GPUs").gpus[3].mig = Some(Vec::new());
    node.host.cdi.clear();
    let plan = node.plan(&desired);
    assert_eq!((plan.failures.len(), plan.waiting.len()), (0, 1), "{plan}");
    node.host.gpus = host().gpus;
    let (_, reports) = node.pass(&desired);
    assert!(reports.is_empty());
    assert_eq!(node.hold().allocation, id("a"));
}

#[test]
fn an_assignment_that_changed_into_an_impossible_one_fails_and_keeps_what_it_has() {
    let mut node = Node::new();
    node.pass(&[assign("a", &[&gpu(0)])]);
    let hold = node.hold().clone();
    for changed in [
        DeviceAssignment { binding: Binding::Other(5), ..assign("a", &[&gpu(0)]) },
        DeviceAssignment { env: vec!["x".to_owned()], ..assign("a", &[&gpu(0)]) },
        assign("a", &[&gpu(0), &gpu(0)]),
    ] {
        node.generation += 1;
        let (plan, reports) = node.pass(&[changed]);
        assert_eq!((plan.failures.len(), reports.len()), (1, 1), "{plan}");
        assert_eq!(node.hold(), &hold);
        let desired = [assign("a", &[&gpu(0)]), assign("b", &[&gpu(0)])];
        let plan = plan_devices(node.generation, &desired, &node.host, &node.ledger);
        let reasons: Vec<&str> = plan.failures.iter().map(|failure| failure.message.as_str()).collect();
        assert!(reasons.len() == 2 && reasons[1].contains("held by a"), "{plan}");
    }
}

#[test]
fn changed_devices_are_rewritten_and_reported_again() {
    let mut node = Node::new();
    node.pass(&[assign("a", &[&gpu(0)]), assign("b", &[&gpu(1)])]);
    node.generation += 1;
    // Each takes what the one before it leaves: the order is that of the atoms, not that of the names.
    let (plan, reports) = node.pass(&[assign("a", &[&gpu(1)]), assign("b", &[&gpu(2)]), assign("c", &[&gpu(0)])]);
    let order: Vec<&str> = reports.iter().map(|report| report.allocation().as_str()).collect();
    assert_eq!(order, ["b", "a", "c"], "{plan}");
    assert_eq!(holds(&node.host)[0].devices[0].atom.to_string(), gpu(1));
}

#[test]
fn holds_that_would_change_places_fail_and_stay() {
    let mut node = Node::new();
    let limits = HoldLimits { cpu_millis: 1, ..HoldLimits::default() };
    node.pass(&[limited("a", &[&gpu(0)], limits), assign("b", &[&gpu(1)])]);
    let before: Vec<Hold> = holds(&node.host).into_iter().cloned().collect();
    node.generation += 1;
    let (plan, _) = node.pass(&[assign("a", &[&gpu(1)]), assign("b", &[&gpu(0)])]);
    assert_eq!(plan.failures.len(), 2, "{plan}");
    assert!(holds(&node.host).into_iter().eq(before.iter()));
    assert_eq!(node.host.slices.as_ref().map(Vec::len), Some(1), "and so does its slice");
}

#[test]
fn two_files_with_one_atom_leave_it_to_one_of_them() {
    let mut node = Node::new();
    node.pass(&[assign("b", &[&gpu(0)])]);
    // `a` was bound to GPU 1, and its file says GPU 0 now.
    node.pass(&[assign("a", &[&gpu(1)]), assign("b", &[&gpu(0)])]);
    let mut copy = holds(&node.host)[1].clone();
    copy.allocation = id("a");
    node.host.cdi.retain(|file| !matches!(file, CdiFile::Hold { hold, .. } if hold.allocation == id("a")));
    node.host.cdi.push(CdiFile::Hold { hold: copy, is_exact: true });
    node.generation += 1;
    // The spec is wrong as well: it gives GPU 0 to both.
    let (plan, reports) = node.pass(&[assign("a", &[&gpu(0)]), assign("b", &[&gpu(0)])]);
    assert_no_atom_has_two_holders(&node.host);
    assert_eq!(holds(&node.host).len(), 1, "{plan}");
    assert!(reports.iter().all(|report| report.kind() != "allocationReleased"), "{reports:?}");
}

#[test]
fn a_slice_in_use_is_kept_and_goes_once_it_is_empty() {
    let mut node = Node::new();
    let limits = HoldLimits { memory_bytes: 1 << 30, ..HoldLimits::default() };
    node.pass(&[limited("a", &[&gpu(0)], limits.clone())]);
    node.host.slices.as_mut().expect("slices")[0].is_populated = true;
    let (plan, reports) = node.pass(&[]);
    assert_eq!((plan.steps.len(), reports.len()), (1, 1), "released all the same");
    assert_eq!(node.host.slices.as_ref().map(Vec::len), Some(1));
    assert!(node.plan(&[]).is_empty(), "nothing to try while it is in use");
    node.host.slices.as_mut().expect("slices")[0].is_populated = false;
    let (plan, _) = node.pass(&[]);
    assert_eq!(plan.steps, [Step::StopSlice { allocation: id("a") }]);
    assert_eq!(node.host.slices, Some(Vec::new()));
}

#[test]
fn limits_that_leave_take_the_slice_along_and_changed_ones_are_applied() {
    let mut node = Node::new();
    let with = |cpu_millis| limited("a", &[&gpu(0)], HoldLimits { cpu_millis, ..HoldLimits::default() });
    node.pass(&[with(10)]);
    let (plan, reports) = node.pass(&[with(20)]);
    let [Step::Write { slice: Some(slice), .. }] = plan.steps.as_slice() else { panic!("{plan}") };
    assert_eq!((slice.cpu_quota_percent, reports.len()), (Some(2), 0));
    let (plan, _) = node.pass(&[assign("a", &[&gpu(0)])]);
    assert_eq!(plan.steps.last(), Some(&Step::StopSlice { allocation: id("a") }));
    assert_eq!((node.hold().limits.as_ref(), node.hold().cgroup_parent.as_ref()), (None, None));
}

#[test]
fn an_env_file_without_a_hold_goes() {
    let mut node = Node::new();
    node.host.env.insert(id("left"), EnvFile::Damaged);
    let (plan, reports) = node.pass(&[]);
    assert_eq!((plan.steps, reports.len()), (vec![Step::RemoveEnv { allocation: id("left") }], 0));
}

#[test]
fn a_daemon_that_is_disconnected_drops_nothing() {
    // Passes go on with the spec of the journal; the ledger only grows by what passes report.
    let mut node = Node::new();
    let desired = [assign("a", &[&gpu(0)])];
    node.pass(&desired);
    for _ in 0..3 {
        assert!(node.pass(&desired).0.steps.is_empty());
    }
    assert_eq!(node.hold().allocation, id("a"));
}
