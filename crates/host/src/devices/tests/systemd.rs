//! Slices against a stand-in for `systemctl` that makes and removes the directories a cgroup tree would have.

use super::rig::Rig;
use super::*;
use crate::devices::*;
use model::spec::HoldLimits;
use node_core::converge::{Hold, SliceLimits, slice_name};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const PARENT: &str = "/sys/fs/cgroup/bcd.slice/bcd-alloc.slice";

struct Host {
    rig: Rig,
    slices: SystemdSlices,
}

impl Host {
    fn new() -> Self {
        let rig = Rig::new();
        let path = rig.root.path().join("systemctl");
        let script = format!(
            r#"#!/bin/sh
root="{}"
echo "$@" >> "$root/calls"
for last; do :; done
case "$1" in
  start)
    dir="$root{PARENT}/$last"
    mkdir -p "$dir"
    : > "$dir/hugetlb.2MB.max"; : > "$dir/hugetlb.1GB.max"
    echo "populated 0" > "$dir/cgroup.events"
    echo max > "$dir/memory.max"
    for up in "" /bcd.slice /bcd.slice/bcd-alloc.slice; do : > "$root/sys/fs/cgroup$up/cgroup.subtree_control"; done ;;
  stop) rm -r "$root{PARENT}/$last" ;;
  refuse) echo no >&2; exit 1 ;;
esac
"#,
            rig.root.path().display()
        );
        rig.overwrite(&path, script.as_bytes(), 0o755);
        let slices = SystemdSlices::new(rig.tree.clone(), path);
        Self { rig, slices }
    }

    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.rig.root.path().join("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn file(&self, slice: &str, name: &str) -> PathBuf {
        self.rig.tree.path(&format!("{PARENT}/{slice}/{name}"))
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.rig.tree.path(path)).expect("readable")
    }
}

fn limits(name: &str, limits: HoldLimits) -> SliceLimits {
    let hold = Hold {
        allocation: id(name),
        reservation: None,
        kubernetes: false,
        devices: Vec::new(),
        env: Vec::new(),
        limits: Some(limits),
        cgroup_parent: Some(slice_name(&id(name))),
    };
    hold.slice().expect("a slice")
}

#[test]
fn limits_are_runtime_properties_set_before_the_slice_starts() {
    let host = Host::new();
    let all = HoldLimits {
        cpu_millis: 2500,
        memory_bytes: 1000,
        hugepages_2mi: 3,
        hugepages_1gi: 2,
        cpus: "0-3".to_owned(),
        mems: "0".to_owned(),
    };
    host.slices.apply(&limits("a-1", all)).expect("applied");
    let slice = "bcd-alloc-a\\x2d1.slice";
    assert_eq!(
        host.calls(),
        [
            format!(
                "set-property --runtime -- {slice} AllowedCPUs=0-3 AllowedMemoryNodes=0 CPUQuota=250% MemoryMax=1000 MemoryHigh=900"
            ),
            format!("start -- {slice}"),
        ]
    );
    for parent in ["", "/bcd.slice", "/bcd.slice/bcd-alloc.slice"] {
        assert_eq!(host.read(&format!("/sys/fs/cgroup{parent}/cgroup.subtree_control")), "+hugetlb");
    }
    assert_eq!(host.read(&format!("{PARENT}/{slice}/hugetlb.2MB.max")), (3u64 << 21).to_string());
    assert_eq!(host.read(&format!("{PARENT}/{slice}/hugetlb.1GB.max")), (2u64 << 30).to_string());
    assert!(!host.file(slice, "cgroup.procs").exists(), "no process is moved");
}

#[test]
fn limits_that_left_are_lifted() {
    let host = Host::new();
    host.slices.apply(&limits("a", HoldLimits { cpu_millis: 10, ..HoldLimits::default() })).expect("applied");
    assert_eq!(
        host.calls()[0],
        "set-property --runtime -- bcd-alloc-a.slice AllowedCPUs= AllowedMemoryNodes= CPUQuota=1% MemoryMax=infinity MemoryHigh=infinity"
    );
    assert_eq!(host.read(&format!("{PARENT}/bcd-alloc-a.slice/hugetlb.1GB.max")), "max");
    assert_eq!(host.read("/sys/fs/cgroup/cgroup.subtree_control"), "", "no controller without need");
}

#[test]
fn hold_slices_are_listed_with_what_is_in_them() {
    let host = Host::new();
    assert_eq!(host.slices.list().expect("none yet"), []);
    for name in ["a", "b-2"] {
        host.slices.apply(&limits(name, HoldLimits { cpu_millis: 10, ..HoldLimits::default() })).expect("applied");
    }
    for (file, text) in [
        ("cgroup.events", "populated 1\nfrozen 0\n"),
        ("memory.max", "4096\n"),
        ("hugetlb.1GB.current", "2147483648\n"),
    ] {
        host.rig.overwrite(&host.file("bcd-alloc-a.slice", file), text.as_bytes(), 0o644);
    }
    std::fs::create_dir_all(host.rig.tree.path(&format!("{PARENT}/other.slice"))).expect("another's");
    let seen = host.slices.list().expect("listed");
    let facts: Vec<_> =
        seen.iter().map(|slice| (slice.allocation.as_str(), slice.is_populated, slice.memory_max)).collect();
    assert_eq!(facts, [("a", true, Some(4096)), ("b-2", false, None)]);
    assert_eq!(seen[0].huge_pages, BTreeMap::from([(1 << 30, 2)]));
}

#[test]
fn only_an_empty_slice_is_stopped() {
    let host = Host::new();
    host.slices.apply(&limits("a", HoldLimits { cpu_millis: 10, ..HoldLimits::default() })).expect("applied");
    let calls = host.calls().len();
    let events = host.file("bcd-alloc-a.slice", "cgroup.events");
    host.rig.overwrite(&events, b"populated 1\n", 0o644);
    assert_eq!(host.slices.stop_if_empty(&id("a")).expect("looked"), Stopped::InUse);
    for unclear in ["", "frozen 0\n", "populated 2\n"] {
        host.rig.overwrite(&events, unclear.as_bytes(), 0o644);
        assert!(host.slices.stop_if_empty(&id("a")).is_err(), "{unclear:?} does not say empty");
    }
    assert_eq!(host.calls().len(), calls, "nothing was asked of systemd");
    host.rig.overwrite(&events, b"populated 0\n", 0o644);
    assert_eq!(host.slices.stop_if_empty(&id("a")).expect("stopped"), Stopped::Gone);
    assert_eq!(host.calls()[calls..], ["stop -- bcd-alloc-a.slice", "revert -- bcd-alloc-a.slice"]);
    assert_eq!(host.slices.stop_if_empty(&id("a")).expect("gone"), Stopped::Gone);
    assert_eq!(host.calls().len(), calls + 2);
}

#[test]
fn a_refusal_of_systemd_is_an_error_with_its_words() {
    let host = Host::new();
    let path = host.rig.root.path().join("systemctl");
    host.rig.overwrite(&path, b"#!/bin/sh\necho 'Access denied' >&2\nexit 4\n", 0o755);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("mode");
    let error = host.slices.apply(&limits("a", HoldLimits { cpu_millis: 10, ..HoldLimits::default() }));
    let text = error.expect_err("refused").to_string();
    assert_eq!(text, "systemctl set-property bcd-alloc-a.slice ended with status 4: Access denied");
}

#[test]
fn without_systemd_as_pid_1_there_are_no_slices() {
    let host = Host::new();
    assert!(!host.slices.is_available());
    std::fs::create_dir_all(host.rig.tree.path("/proc/1")).expect("proc");
    std::fs::create_dir_all(host.rig.tree.path("/run/systemd/system")).expect("run");
    host.rig.overwrite(&host.rig.tree.path("/proc/1/comm"), b"systemd\n", 0o644);
    assert!(host.slices.is_available());
    host.rig.overwrite(&host.rig.tree.path("/proc/1/comm"), b"bash\n", 0o644);
    assert!(!host.slices.is_available());
    assert!(!NoSlices.is_available());
}
