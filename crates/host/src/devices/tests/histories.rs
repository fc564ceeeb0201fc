//! Any history of specs, passes that die between any two file operations, full disks and hands in the files: no
//! atom is ever given to two, no file of another is touched, and what is held in the end is what the spec says.

use super::rig::{Fault, Rig};
use super::*;
use crate::devices::observe::exact;
use model::spec::HoldLimits;
use node_core::converge::{CdiFile, EnvFile, Hold, Ledger};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
enum Event {
    Spec(Vec<(u8, Vec<u8>, bool)>),
    Pass,
    Faulty(usize, Fault),
    Remove(u8),
    Overwrite(u8, &'static str),
    Steal(u8, u8),
    Reboot,
    Populate(u8),
    JournalLost,
}

fn atom(number: u8) -> String {
    let gpu = gpu(u32::from(number % 2) + 2);
    match number / 2 % 3 {
        0 => gpu,
        1 => format!("{gpu}/s{}", number / 6),
        _ => format!("{gpu}/gi{}/ci0", 1 + number / 6),
    }
}

fn event() -> impl Strategy<Value = Event> {
    let faults = select(vec![Fault::DiesBefore, Fault::DiesAfter, Fault::DiesAmid, Fault::Full]);
    prop_oneof![
        4 => vec((0..4u8, vec(0..12u8, 1..3), any::<bool>()), 0..4).prop_map(Event::Spec),
        2 => Just(Event::Pass),
        5 => (0..8usize, faults).prop_map(|(at, fault)| Event::Faulty(at, fault)),
        1 => (0..4u8).prop_map(Event::Remove),
        1 => (0..4u8, select(vec!["", "{", "{}", r#"{"kind":"bcd.dev/gpu","devices":[]}"#]))
            .prop_map(|(who, text)| Event::Overwrite(who, text)),
        1 => (0..4u8, 0..12u8).prop_map(|(who, what)| Event::Steal(who, what)),
        1 => Just(Event::Reboot),
        1 => (0..4u8).prop_map(Event::Populate),
        1 => Just(Event::JournalLost),
    ]
}

fn spec(entries: &[(u8, Vec<u8>, bool)]) -> Vec<DeviceAssignment> {
    let mut names = BTreeSet::new();
    let mut assignments = Vec::new();
    for (who, atoms, is_limited) in entries.iter().filter(|(who, ..)| names.insert(*who)) {
        let atoms: Vec<String> = atoms.iter().map(|number| atom(*number)).collect();
        let mut assignment = assign(&format!("a{who}"), &atoms.iter().map(String::as_str).collect::<Vec<_>>());
        assignment.limits = is_limited.then(|| HoldLimits { cpu_millis: 1, ..HoldLimits::default() });
        assignments.push(assignment);
    }
    assignments
}

fn perform(rig: &mut Rig, event: Event) {
    match event {
        Event::Spec(entries) => rig.spec(&spec(&entries)),
        Event::Pass => drop(rig.pass_with(None)),
        Event::Faulty(at, fault) => drop(rig.pass_with(Some((at, fault)))),
        Event::Remove(who) => drop(std::fs::remove_file(rig.cdi_path(&format!("a{who}")))),
        Event::Overwrite(who, text) => {
            let path = rig.cdi_path(&format!("a{who}"));
            if path.exists() {
                rig.overwrite(&path, text.as_bytes(), 0o644);
            }
        }
        Event::Steal(who, what) => {
            let path = rig.cdi_path(&format!("a{who}"));
            if let Ok(text) = std::fs::read_to_string(&path)
                && let Ok(mut spec) = serde_json::from_str::<serde_json::Value>(&text)
                && let Some(id) = spec.pointer_mut("/devices/0/annotations/bcd.dev~1device-id")
            {
                *id = atom(what).into();
                // In the very form in which it was written.
                rig.overwrite(&path, format!("{spec:#}\n").as_bytes(), 0o644);
            }
        }
        Event::Reboot => {
            drop(std::fs::remove_dir_all(rig.tree.path("/run")));
            rig.ops.slices.borrow_mut().clear();
        }
        Event::Populate(who) => {
            if let Some((_, is_populated)) = rig.ops.slices.borrow_mut().get_mut(&id(&format!("a{who}"))) {
                *is_populated = !*is_populated;
            }
        }
        Event::JournalLost => {
            rig.ledger = Ledger::default();
            let desired = rig.desired.clone();
            rig.ledger.spec_applied(&desired);
        }
    }
}

fn check(events: Vec<Event>) {
    let mut rig = Rig::new();
    let vendor = br#"{"kind": "nvidia.com/gpu"}"#;
    std::fs::create_dir_all(rig.tree.path("/etc/cdi")).expect("directory");
    rig.overwrite(&rig.cdi_path("vendor"), vendor, 0o644);
    for event in events {
        perform(&mut rig, event);
    }
    // The dust settles: one pass without faults, after which there is nothing to do.
    rig.pass();
    let plan = rig.plan();
    let found = rig.observe();
    let mut names = BTreeSet::new();
    for file in &found.cdi {
        let Some(hold) = exact(file) else {
            // Changed by hand, and its assignment cannot be honoured: it is neither made good nor given up.
            let (CdiFile::Hold { hold: Hold { allocation, .. }, .. } | CdiFile::Damaged { allocation, .. }) = file
            else {
                panic!("{file:?}")
            };
            assert!(plan.failures.iter().any(|failure| failure.allocation == *allocation), "{plan}");
            names.insert(allocation.clone());
            continue;
        };
        names.insert(hold.allocation.clone());
        assert_eq!(found.env.get(&hold.allocation), Some(&EnvFile::Lines(hold.env.clone())));
        assert_eq!(hold.cgroup_parent.is_some(), hold.limits.is_some());
        assert!(hold.slice().is_none() || rig.ops.slices.borrow().contains_key(&hold.allocation));
        let others = found.cdi.iter().filter_map(exact).filter(|other| other.allocation != hold.allocation);
        for other in others {
            assert!(!hold.atoms().any(|atom| other.atoms().any(|theirs| theirs.conflicts(atom))));
        }
        let assignment = rig.desired.iter().find(|assignment| assignment.allocation == hold.allocation);
        let mut wanted: Vec<Atom> = Vec::new();
        for device in &assignment.expect("nothing else is held").devices {
            wanted.push(Atom::parse(&device.id).expect("an atom"));
        }
        wanted.sort();
        let failed = plan.failures.iter().any(|failure| failure.allocation == hold.allocation);
        assert!(failed || hold.atoms().eq(&wanted), "{plan}");
    }
    for assignment in &rig.desired {
        let failed = plan.failures.iter().any(|failure| failure.allocation == assignment.allocation);
        assert!(failed || names.contains(&assignment.allocation), "{} is missing\n{plan}", assignment.allocation);
    }
    assert!(found.env.keys().all(|allocation| names.contains(allocation)), "no env file is left");
    for (allocation, (_, is_populated)) in rig.ops.slices.borrow().iter() {
        let wanted =
            found.cdi.iter().filter_map(exact).any(|hold| hold.allocation == *allocation && hold.slice().is_some());
        let is_unclear =
            found.cdi.iter().filter_map(exact).all(|hold| hold.allocation != *allocation) && names.contains(allocation);
        assert!(wanted || is_unclear || *is_populated, "the slice of {allocation} is left");
    }
    for (allocation, entry) in rig.ledger.entries() {
        assert!(rig.desired.iter().any(|assignment| assignment.allocation == *allocation), "a release is owed");
        let failed = plan.failures.iter().any(|failure| failure.allocation == *allocation);
        assert!(failed || !names.contains(allocation) || entry.bound.is_some(), "what is held is reported");
    }
    assert_eq!(std::fs::read(rig.cdi_path("vendor")).expect("there"), vendor);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn held_is_what_the_spec_says_whatever_happened_before(events in vec(event(), 0..16)) {
        check(events);
    }
}
