//! Passes over real files: their order, what a failing disk leaves, and hands in the files.

use super::rig::{Fault, Rig, kinds};
use super::*;
use model::spec::{HoldLimits, SectionState};

fn limited(name: &str, atoms: &[&str]) -> DeviceAssignment {
    let limits = HoldLimits { cpu_millis: 1000, ..HoldLimits::default() };
    DeviceAssignment { limits: Some(limits), ..assign(name, atoms) }
}

#[test]
fn a_hold_is_bound_slice_env_cdi_and_released_in_the_other_order() {
    let mut rig = Rig::new();
    rig.spec(&[limited("a", &[&gpu(0)])]);
    let reports = rig.pass_with(None).reports;
    assert_eq!(*rig.ops.log.borrow(), ["apply slice a", "write env file a", "write CDI spec a"]);
    assert_eq!(kinds(&reports), [("a", "allocationBound")]);
    rig.spec(&[]);
    let reports = rig.pass_with(None).reports;
    assert_eq!(*rig.ops.log.borrow(), ["remove CDI spec a", "remove env file a", "stop slice a"]);
    assert_eq!(kinds(&reports), [("a", "allocationReleased")]);
    assert!(!rig.cdi_path("a").exists() && !rig.env_path("a").exists());
}

#[test]
fn a_report_follows_only_what_is_in_place() {
    // Whatever of the three operations fails, nothing is reported; the next pass does the rest.
    for operation in 0..3 {
        let mut rig = Rig::new();
        rig.spec(&[limited("a", &[&gpu(0)])]);
        let executed = rig.pass_with(Some((operation, Fault::Full)));
        assert!(executed.reports.is_empty(), "{operation}");
        assert_eq!(executed.errors.len(), 1, "{operation}");
        assert_eq!(kinds(&rig.pass()), [("a", "allocationBound")]);
    }
}

#[test]
fn a_full_disk_is_said_with_the_file_and_is_tried_again() {
    let mut rig = Rig::new();
    rig.spec(&[assign("a", &[&gpu(0)]), assign("b", &[&gpu(1)])]);
    let plan = rig.plan();
    let executed = rig.pass_with(Some((1, Fault::Full)));
    assert_eq!(kinds(&executed.reports), [("b", "allocationBound")], "the other is bound");
    let path = rig.tree.path("/etc/cdi/.bcd-a.json.new");
    let expected = format!("a: the CDI spec: cannot write {}: no storage space", path.display());
    assert_eq!(executed.errors, std::slice::from_ref(&expected));
    let status = plan.status(&executed.errors);
    assert_eq!((status.state, status.message), (SectionState::Progressing, expected));
    assert!(!rig.cdi_path("a").exists());
    assert_eq!(kinds(&rig.pass()), [("a", "allocationBound")]);
}

#[test]
fn a_file_that_cannot_be_written_for_real_leaves_the_hold_to_the_next_pass() {
    let mut rig = Rig::new();
    rig.spec(&[assign("a", &[&gpu(0)])]);
    // A file where the directory belongs.
    std::fs::create_dir_all(rig.tree.path("/run/bcd")).expect("directory");
    rig.overwrite(&rig.tree.path("/run/bcd/allocations"), b"", 0o600);
    let error = rig.observe_error();
    assert!(error.starts_with("cannot list /run/bcd/allocations"), "{error}");
    std::fs::remove_file(rig.tree.path("/run/bcd/allocations")).expect("removed");
    assert_eq!(kinds(&rig.pass()), [("a", "allocationBound")]);
}

impl Rig {
    fn observe_error(&self) -> String {
        crate::devices::observe(&self.tree, &self.ops, &self.inventory).expect_err("unreadable").to_string()
    }
}

#[test]
fn an_atom_goes_on_only_once_its_release_is_durable() {
    let mut rig = Rig::new();
    rig.spec(&[assign("old", &[&gpu(0)])]);
    rig.pass();
    rig.spec(&[assign("new", &[&gpu(0)])]);
    let executed = rig.pass_with(Some((0, Fault::Full)));
    assert!(executed.reports.is_empty());
    assert_eq!(executed.errors.len(), 2);
    assert!(executed.errors[1].contains("waits until the files of old have let go of it"), "{:?}", executed.errors);
    assert!(rig.cdi_path("old").exists() && !rig.cdi_path("new").exists());
    assert_eq!(kinds(&rig.pass()), [("old", "allocationReleased"), ("new", "allocationBound")]);
}

#[test]
fn nobody_gains_a_device_before_a_damaged_file_is_put_right() {
    let mut rig = Rig::new();
    rig.spec(&[assign("a", &[&gpu(0)])]);
    rig.pass();
    rig.overwrite(&rig.cdi_path("a"), b"{", 0o644);
    rig.spec(&[assign("a", &[&gpu(0)]), assign("b", &[&gpu(1)])]);
    let executed = rig.pass_with(Some((0, Fault::Full)));
    assert_eq!(executed.errors.len(), 2);
    assert!(executed.errors[1].contains("damaged file of a"), "{:?}", executed.errors);
    assert!(!rig.cdi_path("b").exists());
    assert_eq!(kinds(&rig.pass()), [("b", "allocationBound")]);
    assert!(rig.cdi_path("b").exists());
}

#[test]
fn files_changed_by_hand_are_put_right_and_not_reported() {
    let mut rig = Rig::new();
    let mut secret = limited("a", &[&gpu(0)]);
    secret.env = vec!["TOKEN=1".to_owned()];
    rig.spec(&[secret, assign("b", &[&gpu(1)])]);
    rig.pass();
    let read = |rig: &Rig| {
        let read = |path| std::fs::read(path).expect("readable");
        (read(rig.cdi_path("a")), read(rig.env_path("a")), read(rig.cdi_path("b")))
    };
    let before = read(&rig);
    let steal = String::from_utf8(before.0.clone()).expect("UTF-8").replace("GPU-00000000", "GPU-00000001");
    for bytes in [None, Some(b"".to_vec()), Some(b"{}".to_vec()), Some(steal.into_bytes())] {
        match bytes {
            Some(bytes) => rig.overwrite(&rig.cdi_path("a"), &bytes, 0o644),
            None => std::fs::remove_file(rig.cdi_path("a")).expect("removed"),
        }
        assert_eq!(rig.pass(), []);
        assert_eq!(read(&rig), before);
    }
    // A reboot empties /run and drops the slice.
    std::fs::remove_dir_all(rig.tree.path("/run")).expect("emptied");
    rig.ops.slices.borrow_mut().clear();
    assert_eq!(rig.pass(), []);
    assert_eq!(read(&rig), before);
    assert!(rig.ops.slices.borrow().contains_key(&id("a")));
}

#[test]
fn a_spec_added_by_hand_is_released_and_other_files_are_not_touched() {
    let mut rig = Rig::new();
    rig.spec(&[assign("a", &[&gpu(0)])]);
    rig.pass();
    let copy = String::from_utf8(std::fs::read(rig.cdi_path("a")).expect("read")).expect("UTF-8");
    rig.overwrite(&rig.cdi_path("made-up"), copy.replace("GPU-00000000", "GPU-00000002").as_bytes(), 0o644);
    let vendor = br#"{"kind": "nvidia.com/gpu"}"#;
    rig.overwrite(&rig.cdi_path("vendor"), vendor, 0o644);
    rig.overwrite(&rig.tree.path("/etc/cdi/nvidia.yaml"), b"kind: x\n", 0o644);
    assert_eq!(kinds(&rig.pass()), [("made-up", "allocationReleased")]);
    assert!(!rig.cdi_path("made-up").exists());
    assert_eq!(std::fs::read(rig.cdi_path("vendor")).expect("there"), vendor);
    assert_eq!(std::fs::read(rig.tree.path("/etc/cdi/nvidia.yaml")).expect("there"), b"kind: x\n");
}

#[test]
fn a_release_never_stops_a_slice_in_use() {
    let mut rig = Rig::new();
    rig.spec(&[limited("a", &[&gpu(0)])]);
    rig.pass();
    rig.ops.slices.borrow_mut().get_mut(&id("a")).expect("a slice").1 = true;
    rig.spec(&[]);
    assert_eq!(kinds(&rig.pass()), [("a", "allocationReleased")]);
    assert!(rig.ops.slices.borrow().contains_key(&id("a")));
    rig.ops.slices.borrow_mut().get_mut(&id("a")).expect("a slice").1 = false;
    assert_eq!(rig.pass(), []);
    assert!(rig.ops.slices.borrow().is_empty());
}

#[test]
fn a_line_of_two_never_reaches_a_file() {
    let mut rig = Rig::new();
    let mut bad = assign("a", &[&gpu(0)]);
    bad.env = vec!["A=1\nLD_PRELOAD=/tmp/x.so".to_owned()];
    rig.spec(&[bad]);
    assert_eq!(kinds(&rig.pass()), [("a", "allocationFailed")]);
    assert!(!rig.cdi_path("a").exists() && !rig.env_path("a").exists());
}

#[test]
fn a_vanished_gpu_stays_held_and_its_files_stay_as_they_are() {
    let mut rig = Rig::new();
    rig.spec(&[assign("a", &[&gpu(0)])]);
    rig.pass();
    let before = std::fs::read(rig.cdi_path("a")).expect("read");
    rig.inventory.gpus.remove(0);
    assert_eq!(rig.pass(), []);
    std::fs::remove_file(rig.env_path("a")).expect("removed");
    assert_eq!(rig.pass(), []);
    assert!(rig.env_path("a").exists());
    assert_eq!(std::fs::read(rig.cdi_path("a")).expect("read"), before);
}

#[test]
fn a_write_that_a_crash_cut_short_leaves_nothing_after_the_release() {
    let mut rig = Rig::new();
    rig.spec(&[assign("a", &[&gpu(0)])]);
    rig.pass();
    rig.overwrite(&rig.tree.path("/etc/cdi/.bcd-a.json.new"), b"half", 0o644);
    rig.spec(&[]);
    rig.pass();
    assert_eq!(std::fs::read_dir(rig.tree.path("/etc/cdi")).expect("there").count(), 0);
}
