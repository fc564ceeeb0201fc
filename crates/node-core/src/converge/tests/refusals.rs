//! Every reason for which an assignment fails, and that nothing else is touched by it.

use super::*;
use std::collections::BTreeMap;

/// Plans `assignment` beside `held`, which is bound already; `None` when it binds.
#[track_caller]
fn refusal(held: &[DeviceAssignment], assignment: DeviceAssignment) -> Option<String> {
    let mut node = Node::new();
    node.pass(held);
    node.generation += 1;
    let before: Vec<Hold> = holds(&node.host).into_iter().cloned().collect();
    let (name, mut desired) = (assignment.allocation.clone(), held.to_vec());
    desired.push(assignment);
    let (plan, reports) = node.pass(&desired);
    let held_now: Vec<&Hold> = holds(&node.host);
    assert!(before.iter().all(|hold| held_now.contains(&hold)), "nobody else's hold changes");
    let Some(failure) = plan.failures.first() else {
        assert_eq!(plan.status(&[]).state, SectionState::Converged);
        assert!(held_now.iter().any(|hold| hold.allocation == name));
        return None;
    };
    assert_eq!(failure.allocation, name);
    let status = plan.status(&[]);
    assert_eq!((status.state, status.reason.as_str()), (SectionState::Failed, failure.reason.as_str()));
    let [AllocationReport::Failed { allocation, reason, generation, .. }] = reports.as_slice() else {
        panic!("{reports:?}")
    };
    assert_eq!((allocation, reason, *generation), (&name, &failure.reason, node.generation));
    assert!(!held_now.iter().any(|hold| hold.allocation == name));
    Some(failure.reason.clone())
}

#[track_caller]
fn refused(held: &[DeviceAssignment], assignment: DeviceAssignment) -> String {
    refusal(held, assignment).expect("refused")
}

#[test]
fn a_device_that_is_not_there_fails_device_missing() {
    for atom in [gpu(9), format!("{}/gi7/ci0", gpu(3)), format!("{}/gi1/ci0", gpu(0)), format!("{}/s0", gpu(9))] {
        assert_eq!(refused(&[], assign("a", &[&atom])), "device-missing", "{atom}");
    }
    let no_device = assign("a", &[]);
    assert_eq!(refused(&[], no_device), "device-missing");
    let mut class_of_another = assign("a", &[&gpu(0)]);
    class_of_another.devices[0].device_class = "gpu.mig".to_owned();
    assert_eq!(refused(&[], class_of_another), "device-missing");
    let mut no_atom = assign("a", &[&gpu(0)]);
    no_atom.devices[0].id = "0".to_owned();
    assert_eq!(refused(&[], no_atom), "device-missing");
}

#[test]
fn a_mig_instance_fails_until_it_is_made_and_binds_in_a_later_generation() {
    let atom = format!("{}/gi5/ci0", gpu(3));
    let mut node = Node::new();
    let (plan, _) = node.pass(&[assign("a", &[&atom])]);
    assert_eq!(plan.failures[0].reason, "device-missing");
    let made = MigFacts { gpu_instance: 5, compute_instance: 0, uuid: mig_uuid(3, 5) };
    let gpus = node.host.gpus.as_mut().expect("GPUs");
    gpus.gpus[3].mig.as_mut().expect("MIG").push(made);
    let (plan, reports) = node.pass(&[assign("a", &[&atom])]);
    assert!(reports.is_empty() && plan.failures.len() == 1, "not again in this generation");
    node.generation += 1;
    node.pass(&[assign("a", &[&atom])]);
    assert_eq!(node.hold().allocation, id("a"));
}

#[test]
fn what_is_held_in_whole_or_in_part_fails_overlap() {
    let (whole, other) = (gpu(3), gpu(1));
    let (mig, mig_2) = (format!("{whole}/gi1/ci0"), format!("{whole}/gi2/ci0"));
    let (slot, slot_2) = (format!("{whole}/s0"), format!("{whole}/s1"));
    for (held, wanted, fits) in [
        (&whole, &whole, false),
        (&whole, &mig, false),
        (&whole, &slot, false),
        (&mig, &whole, false),
        (&mig, &mig, false),
        (&slot, &whole, false),
        (&slot, &slot, false),
        (&mig, &mig_2, true),
        (&slot, &slot_2, true),
        (&whole, &other, true),
    ] {
        let result = refusal(&[assign("held", &[held])], assign("new", &[wanted]));
        let expected = if fits { None } else { Some("overlap".to_owned()) };
        assert_eq!(result, expected, "{wanted} beside {held}");
    }
}

#[test]
fn two_new_assignments_of_one_atom_bind_once() {
    let mut node = Node::new();
    let (plan, _) = node.pass(&[assign("a", &[&gpu(0)]), assign("b", &[&gpu(0)])]);
    assert_eq!(node.hold().allocation, id("a"));
    assert_eq!((plan.failures[0].allocation.as_str(), plan.failures[0].reason.as_str()), ("b", "overlap"));
}

#[test]
fn an_assignment_that_names_an_atom_twice_or_a_gpu_and_its_part_fails_overlap() {
    assert_eq!(refused(&[], assign("a", &[&gpu(0), &gpu(0)])), "overlap");
    assert_eq!(refused(&[], assign("a", &[&gpu(3), &format!("{}/s1", gpu(3))])), "overlap");
}

#[test]
fn a_gpu_passed_through_to_a_vm_fails_overlap_and_one_that_is_held_stays_held() {
    let mut node = Node::new();
    let desired = [assign("a", &[&gpu(0)])];
    node.pass(&desired);
    node.host.passed_through = BTreeMap::from([(gpu(0), "vm".to_owned()), (gpu(1), "vm".to_owned())]);
    let desired = [desired[0].clone(), assign("b", &[&format!("{}/s0", gpu(1))])];
    let (plan, _) = node.pass(&desired);
    assert_eq!(plan.failures.len(), 1);
    assert_eq!((plan.failures[0].allocation.as_str(), plan.failures[0].reason.as_str()), ("b", "overlap"));
    assert!(plan.failures[0].message.contains("passed through to the instance vm"));
    assert_eq!(node.hold().allocation, id("a"));
    assert_eq!(holder_of_gpu(&node.host.cdi, &gpu(0)), Some(&id("a")));
    assert_eq!(holder_of_gpu(&node.host.cdi, &gpu(1)), None);
}

#[test]
fn a_vm_is_told_who_holds_a_gpu_whole_or_in_part() {
    for (atom, number) in [(gpu(0), 0), (format!("{}/gi1/ci0", gpu(3)), 3), (format!("{}/s4", gpu(2)), 2)] {
        let mut node = Node::new();
        node.pass(&[assign("a", &[&atom])]);
        for other in 0..4 {
            let holder = holder_of_gpu(&node.host.cdi, &gpu(other));
            assert_eq!(holder.is_some(), other == number, "{atom} and GPU {other}");
        }
    }
}

#[test]
fn a_binding_or_a_class_this_daemon_does_not_know_fails() {
    for number in [0, 3, -1] {
        let binding = Binding::Other(number);
        assert_eq!(refused(&[], DeviceAssignment { binding, ..assign("a", &[&gpu(0)]) }), "unsupported-binding");
    }
    for class in ["", "gpu.vgpu", "GPU", "nic"] {
        let mut assignment = assign("a", &[&gpu(0)]);
        assignment.devices[0].device_class = class.to_owned();
        assert_eq!(refused(&[], assignment), "unsupported-device", "{class}");
    }
}

#[test]
fn a_bad_environment_line_fails_the_hold() {
    for line in ["", "A", "=x", "1A=x", "A B=x", "A=x\nLD_PRELOAD=y", "A=\0", "A=\u{85}", "NVIDIA_VISIBLE_DEVICES=all"]
    {
        let env = vec!["FINE=yes".to_owned(), line.to_owned()];
        assert_eq!(refused(&[], DeviceAssignment { env, ..assign("a", &[&gpu(0)]) }), "invalid-env", "{line:?}");
    }
}

#[test]
fn limits_without_slices_or_in_another_form_fail_unsupported_limits() {
    let limits = HoldLimits { cpu_millis: 1, ..HoldLimits::default() };
    let mut node = Node::new();
    node.host.slices = None;
    let (plan, _) = node.pass(&[limited("a", &[&gpu(0)], limits.clone())]);
    assert_eq!(plan.failures[0].reason, "unsupported-limits");
    // Pods have no slice, so theirs are booked all the same; and no limits need none.
    let kubernetes = DeviceAssignment { binding: Binding::Kubernetes, ..limited("b", &[&gpu(1)], limits.clone()) };
    let none = limited("c", &[&gpu(2)], HoldLimits::default());
    let (plan, _) = node.pass(&[kubernetes, none]);
    assert!(plan.failures.is_empty(), "{plan}");
    for list in ["all", "3-1", "0,,1", "0-9999", " 1", "1;rm", "+1", "1-", "0,0"] {
        let cpus = HoldLimits { cpus: list.to_owned(), ..HoldLimits::default() };
        assert_eq!(refused(&[], limited("a", &[&gpu(0)], cpus)), "unsupported-limits", "{list}");
        let mems = HoldLimits { mems: list.to_owned(), ..HoldLimits::default() };
        assert_eq!(refused(&[], limited("a", &[&gpu(0)], mems)), "unsupported-limits", "{list}");
    }
}

#[test]
fn a_failure_is_reported_once_a_generation_and_does_not_stop_the_others() {
    let mut node = Node::new();
    let desired = [assign("bad", &[&gpu(9)]), assign("good", &[&gpu(0)])];
    let (plan, reports) = node.pass(&desired);
    assert_eq!(reports.len(), 2);
    assert_eq!(plan.status(&[]).state, SectionState::Failed);
    let (plan, reports) = node.pass(&desired);
    assert!(reports.is_empty());
    assert_eq!(plan.status(&[]).state, SectionState::Failed, "it stays failed");
    // Not tried again, even where it would work now.
    node.host.gpus.as_mut().expect("GPUs").gpus.push(GpuFacts { uuid: gpu(9), minor: None, mig: Some(Vec::new()) });
    assert!(node.pass(&desired).1.is_empty());
    node.generation += 1;
    let (_, reports) = node.pass(&desired);
    assert!(matches!(reports.as_slice(), [AllocationReport::Bound { .. }]), "{reports:?}");
}

#[test]
fn progress_outranks_failure_and_a_retry_names_what_is_left() {
    let mut node = Node::new();
    let plan = node.plan(&[assign("bad", &[&gpu(9)])]);
    let status = plan.status(&["write the CDI spec of a: disk full".to_owned()]);
    assert_eq!((status.state, status.generation, status.section), (SectionState::Progressing, GENERATION, 2));
    assert_eq!(status.message, "write the CDI spec of a: disk full");
}

#[test]
fn gpus_that_cannot_be_read_make_new_holds_wait_and_old_ones_stay() {
    let mut node = Node::new();
    let old = assign("old", &[&gpu(0)]);
    node.pass(std::slice::from_ref(&old));
    let gpus = node.host.gpus.take();
    let desired = [old, assign("new", &[&gpu(1)])];
    let plan = node.plan(&desired);
    assert_eq!((plan.steps.len(), plan.failures.len(), plan.waiting.len()), (0, 0, 1), "{plan}");
    assert_eq!(plan.status(&[]).state, SectionState::Progressing);
    node.host.gpus = gpus;
    node.pass(&desired);
    assert_eq!(holds(&node.host).len(), 2);
    // Of a GPU whose MIG instances cannot be listed, parts wait and slots do not.
    node.host.gpus.as_mut().expect("GPUs").gpus[3].mig = None;
    let mig = assign("mig", &[&format!("{}/gi1/ci0", gpu(3))]);
    let slot = assign("slot", &[&format!("{}/s1", gpu(3))]);
    let plan = node.plan(&[mig, slot]);
    assert_eq!(plan.waiting, ["mig: the GPUs of this host cannot be read now"]);
    assert!(plan.to_string().contains("of slot"), "{plan}");
}
