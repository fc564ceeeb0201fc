//! Any history of specs, passes, lost reports and hands in the files ends where the spec says, and on the way no
//! atom ever has two holders.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Spec(Vec<(u8, Vec<u8>, bool)>),
    Pass,
    /// A pass whose last steps and reports are lost in a crash.
    CutPass(u8),
    Restart,
    Remove(u8),
    Damage(u8),
    Steal(u8, u8),
    LoseRun,
    JournalLost,
}

/// The atoms of three GPUs and their parts.
fn atom(number: u8) -> String {
    let gpu = gpu(u32::from(number % 3) + 1);
    match number / 3 % 3 {
        0 => gpu,
        1 => format!("{gpu}/s{}", number / 9),
        _ => format!("{gpu}/gi{}/ci0", 1 + number / 9),
    }
}

fn event() -> impl Strategy<Value = Event> {
    let spec = vec((0..5u8, vec(0..18u8, 1..3), any::<bool>()), 0..5);
    prop_oneof![
        4 => spec.prop_map(Event::Spec),
        3 => Just(Event::Pass),
        3 => (0..4u8).prop_map(Event::CutPass),
        1 => (0..5u8).prop_map(Event::Remove),
        1 => (0..5u8).prop_map(Event::Damage),
        2 => (0..5u8, 0..18u8).prop_map(|(who, what)| Event::Steal(who, what)),
        1 => Just(Event::LoseRun),
        1 => Just(Event::JournalLost),
        1 => Just(Event::Restart),
    ]
}

fn spec(entries: &[(u8, Vec<u8>, bool)]) -> Vec<DeviceAssignment> {
    let mut assignments: Vec<DeviceAssignment> = Vec::new();
    for (who, atoms, is_limited) in entries {
        let atoms: Vec<String> = atoms.iter().map(|number| atom(*number)).collect();
        let atoms: Vec<&str> = atoms.iter().map(String::as_str).collect();
        let mut assignment = assign(&format!("a{who}"), &atoms);
        assignment.limits = is_limited.then(|| HoldLimits { memory_bytes: 1 << 30, ..HoldLimits::default() });
        if !assignments.iter().any(|other| other.allocation == assignment.allocation) {
            assignments.push(assignment);
        }
    }
    assignments
}

fn tamper(host: &mut Observation, who: u8, change: impl Fn(&mut CdiFile)) {
    let name = id(&format!("a{who}"));
    let is_theirs = |file: &&mut CdiFile| matches!(file, CdiFile::Hold { hold, .. } if hold.allocation == name);
    if let Some(file) = host.cdi.iter_mut().find(is_theirs) {
        change(file);
    }
}

fn check(events: Vec<Event>) {
    let mut node = Node::new();
    let mut desired = Vec::new();
    let mut is_tampered = false;
    for event in events {
        match event {
            Event::Spec(entries) => {
                node.generation += 1;
                desired = spec(&entries);
                node.ledger.spec_applied(&desired);
            }
            Event::Pass => {
                let plan = node.plan(&desired);
                run(&plan, usize::MAX, &mut node, is_tampered);
                is_tampered = false;
            }
            Event::CutPass(steps) => {
                let plan = node.plan(&desired);
                run(&plan, usize::from(steps), &mut node, true);
            }
            Event::Restart => {}
            Event::Remove(who) => {
                let name = id(&format!("a{who}"));
                remove_cdi(&mut node.host, &name);
            }
            Event::Damage(who) => tamper(&mut node.host, who, |file| {
                let CdiFile::Hold { hold, .. } = file else { return };
                *file = CdiFile::Damaged { allocation: hold.allocation.clone(), why: String::new() };
            }),
            Event::Steal(who, what) => {
                is_tampered = true;
                tamper(&mut node.host, who, |file| {
                    let CdiFile::Hold { hold, is_exact } = file else { return };
                    hold.devices = vec![HeldDevice { atom: Atom::parse(&atom(what)).expect("atom"), minor: None }];
                    *is_exact = false;
                });
            }
            Event::LoseRun => {
                node.host.env.clear();
                node.host.slices = Some(Vec::new());
            }
            Event::JournalLost => {
                node.ledger = Ledger::default();
                node.ledger.spec_applied(&desired);
            }
        }
    }
    // The dust settles: one pass does it, and a second one has nothing to do.
    let plan = node.plan(&desired);
    run(&plan, usize::MAX, &mut node, true);
    let again = node.plan(&desired);
    assert!(again.is_empty(), "after\n{plan}again\n{again}");
    assert_no_atom_has_two_holders(&node.host);
    for file in &node.host.cdi {
        let CdiFile::Hold { hold, .. } = file else { continue };
        assert!(desired.iter().any(|assignment| assignment.allocation == hold.allocation), "nothing else is held");
    }
    for assignment in &desired {
        let held = holds(&node.host).into_iter().find(|hold| hold.allocation == assignment.allocation);
        let failed = again.failures.iter().any(|failure| failure.allocation == assignment.allocation);
        let mut wanted: Vec<String> = assignment.devices.iter().map(|device| device.id.clone()).collect();
        wanted.sort();
        let is_right = held.is_some_and(|hold| {
            let mut atoms: Vec<String> = hold.atoms().map(ToString::to_string).collect();
            atoms.sort();
            atoms == wanted
                && matches!(node.host.env.get(&hold.allocation), Some(EnvFile::Lines(env)) if *env == hold.env)
        });
        assert!(is_right || failed, "{} is neither right nor failed\n{plan}", assignment.allocation);
    }
    let owed = node.ledger.entries().filter(|(allocation, _)| !desired.iter().any(|a| a.allocation == **allocation));
    assert_eq!(owed.count(), 0, "every release is reported");
}

/// The first steps of a plan; reports only of a whole one.
fn run(plan: &DevicesPlan, steps: usize, node: &mut Node, may_start_wrong: bool) {
    if !may_start_wrong {
        assert_no_atom_has_two_holders(&node.host);
    }
    let mut ledger = node.ledger.clone();
    let part = DevicesPlan { steps: plan.steps.iter().take(steps).cloned().collect(), ..plan.clone() };
    apply_checked(&part, &mut node.host, &mut ledger);
    if steps >= plan.steps.len() {
        node.ledger = ledger;
    }
}

/// As `apply`, but what was wrong before may stay wrong until its own step.
fn apply_checked(plan: &DevicesPlan, host: &mut Observation, ledger: &mut Ledger) {
    for step in &plan.steps {
        if let Step::Write { hold, parts: Parts { cdi: true, .. }, .. } = step {
            let gained = |atom: &&Atom| {
                let others = holds(host).into_iter().filter(|other| other.allocation != hold.allocation);
                let before = holds(host).into_iter().find(|other| other.allocation == hold.allocation);
                let had = before.is_some_and(|before| before.atoms().any(|theirs| theirs == *atom));
                !had && others.flat_map(|other| other.atoms()).any(|theirs| theirs.conflicts(atom))
            };
            assert_eq!(hold.atoms().find(gained), None, "{} takes what another file holds\n{plan}", hold.allocation);
        }
        let one = DevicesPlan { steps: vec![step.clone()], failures: Vec::new(), ..plan.clone() };
        apply_unchecked(&one, host, ledger);
    }
    plan.failure_reports().iter().for_each(|report| ledger.reported(report));
}

fn apply_unchecked(plan: &DevicesPlan, host: &mut Observation, ledger: &mut Ledger) {
    let mut alone = Observation { cdi: Vec::new(), ..host.clone() };
    let others = std::mem::take(&mut host.cdi);
    let touched: Vec<&AllocationId> = plan.steps.iter().map(Step::allocation).collect();
    let is_touched = |file: &CdiFile| match file {
        CdiFile::Hold { hold, .. } => touched.contains(&&hold.allocation),
        CdiFile::Damaged { allocation, .. } => touched.contains(&allocation),
        CdiFile::Stray { .. } => false,
    };
    let (own, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(is_touched);
    alone.cdi = own;
    apply(plan, &mut alone, ledger);
    alone.cdi.extend(rest);
    *host = alone;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn every_history_ends_where_the_spec_says(events in vec(event(), 0..24)) {
        check(events);
    }
}
