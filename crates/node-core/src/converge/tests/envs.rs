//! The environment of a hold, line by line.

use super::*;
use proptest::prelude::*;

fn env_of(assignment: DeviceAssignment, has_mps: bool) -> Vec<String> {
    let mut node = Node::new();
    node.host.has_mps = has_mps;
    let (plan, _) = node.pass(&[assignment]);
    assert!(plan.failures.is_empty(), "{plan}");
    node.hold().env.clone()
}

#[test]
fn the_driver_sees_a_gpu_once_and_a_mig_instance_by_its_own_uuid() {
    let whole = env_of(assign("a", &[&gpu(1), &gpu(0)]), true);
    assert_eq!(whole, ["BCD_ALLOCATION_ID=a".to_owned(), format!("NVIDIA_VISIBLE_DEVICES={},{}", gpu(0), gpu(1))]);
    let slots = env_of(assign("a", &[&format!("{}/s0", gpu(1)), &format!("{}/s1", gpu(1))]), false);
    assert_eq!(slots[1], format!("NVIDIA_VISIBLE_DEVICES={}", gpu(1)));
    let mig = env_of(assign("a", &[&format!("{}/gi2/ci0", gpu(3)), &format!("{}/gi1/ci0", gpu(3))]), true);
    assert_eq!(mig[1], format!("NVIDIA_VISIBLE_DEVICES={},{}", mig_uuid(3, 1), mig_uuid(3, 2)));
    assert_eq!(mig.len(), 2, "no MPS for a MIG instance");
}

#[test]
fn a_slot_gets_the_mps_pipes_only_where_they_are() {
    let slot = || assign("a", &[&format!("{}/s0", gpu(1))]);
    let pipes = "CUDA_MPS_PIPE_DIRECTORY=/run/nvidia-mps".to_owned();
    assert!(env_of(slot(), true).contains(&pipes));
    assert!(!env_of(slot(), false).contains(&pipes));
    assert!(!env_of(assign("a", &[&gpu(0)]), true).contains(&pipes));
}

#[test]
fn mps_that_comes_or_goes_rewrites_a_slot_hold_without_a_second_report() {
    let mut node = Node::new();
    let desired = [assign("a", &[&format!("{}/s0", gpu(1))])];
    node.pass(&desired);
    for has_mps in [true, false] {
        node.host.has_mps = has_mps;
        let (plan, reports) = node.pass(&desired);
        assert_eq!((plan.steps.len(), reports.len()), (1, 0));
    }
}

#[test]
fn pods_get_no_visible_devices_and_no_cgroup_parent() {
    let limits = HoldLimits { memory_bytes: 1 << 30, cpu_millis: 1000, ..HoldLimits::default() };
    let assignment = DeviceAssignment {
        binding: Binding::Kubernetes,
        env: vec!["EXTRA=1".to_owned()],
        ..limited("a", &[&gpu(0)], limits)
    };
    let mut node = Node::new();
    let (plan, reports) = node.pass(&[assignment]);
    assert_eq!(node.hold().env, ["BCD_ALLOCATION_ID=a", "EXTRA=1"]);
    assert!(node.hold().kubernetes && node.hold().cgroup_parent.is_none());
    assert_eq!(node.host.slices, Some(vec![]), "{plan}");
    assert!(matches!(reports.as_slice(), [AllocationReport::Bound { .. }]), "it binds the same way");
}

#[test]
fn limits_bring_a_slice_and_its_name() {
    let limits = HoldLimits { cpu_millis: 1, ..HoldLimits::default() };
    let env = env_of(DeviceAssignment { env: vec!["Z=1".into()], ..limited("a-b", &[&gpu(0)], limits) }, false);
    assert_eq!(env[2..], ["BCD_CGROUP_PARENT=bcd-alloc-a\\x2db.slice".to_owned(), "Z=1".to_owned()]);
    let none = env_of(limited("a", &[&gpu(0)], HoldLimits::default()), false);
    assert_eq!(none.len(), 2, "no limit, no slice");
}

#[test]
fn an_error_about_a_line_never_shows_its_value() {
    let secret = "hunter2";
    for line in [format!("A B={secret}"), format!("A={secret}\n"), format!("BCD_ALLOCATION_ID={secret}")] {
        let error = check_env(&[line]).expect_err("refused");
        assert!(error.contains("line 1") && !error.contains(secret), "{error}");
    }
    let twice = ["A=1".to_owned(), "A=2".to_owned()];
    assert_eq!(check_env(&twice), Err("environment line 2 sets A a second time".to_owned()));
    for name in RESERVED_ENV {
        assert!(check_env(&[format!("{name}=x")]).is_err(), "{name}");
        assert!(check_env(&[format!("{name}_2=x")]).is_ok(), "only the name itself");
    }
}

proptest! {
    #[test]
    fn what_passes_stays_one_line_each(lines in proptest::collection::vec("[A-Z_a-z0-9=\\n\\r\\x00\\u{85} ]{0,12}|A=\\PC{0,9}", 0..4)) {
        if check_env(&lines).is_ok() {
            let file: String = lines.iter().map(|line| format!("{line}\n")).collect();
            prop_assert_eq!(file.lines().collect::<Vec<_>>(), lines.iter().map(String::as_str).collect::<Vec<_>>());
            prop_assert!(lines.iter().all(|line| line.contains('=')));
        }
    }

    #[test]
    fn slice_names_and_allocations_are_one_to_one(name in "[A-Za-z0-9][A-Za-z0-9_-]{0,20}") {
        let allocation = id(&name);
        let slice = slice_name(&allocation);
        let inner = slice.strip_prefix("bcd-alloc-").and_then(|rest| rest.strip_suffix(".slice")).expect("affixes");
        prop_assert!(!inner.contains('-'), "a dash would make another parent");
        prop_assert_eq!(slice_allocation(&slice), Some(allocation));
    }
}

#[test]
fn other_names_of_slices_are_nobodys() {
    for name in
        ["bcd-alloc.slice", "bcd-alloc-.slice", "bcd-alloc-a-b.slice", "bcd-alloc-a.service", "bcd-alloc-a/b.slice"]
    {
        assert_eq!(slice_allocation(name), None, "{name}");
    }
}
