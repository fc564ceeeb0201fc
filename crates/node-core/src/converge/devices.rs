//! Plans one pass over the `devices` section.
//!
//! What is held and still wanted is never given up: an assignment that changed into something this host cannot
//! honour fails and keeps what it has. Holds that are in place come first, then those to restore or change, then
//! new ones, so a file changed by hand never takes a device from a hold that is right.

use super::claims::{Claims, Order, order};
use super::target::{Found, Refusal, Target, target};
use super::{Budget, CdiFile, DevicesPlan, EnvFile, Failure, Hold, Ledger, Observation, Parts, SliceSeen, Step};
use model::AllocationId;
use model::spec::{Atom, DeviceAssignment, FailReason};
use std::collections::{BTreeMap, BTreeSet};

/// The plan that makes the host what `desired` says, from what was `observed`. `desired` names an allocation
/// once. `ledger` says what is reported; apply each report to it as it becomes durable.
pub fn plan_devices(
    generation: u64,
    desired: &[DeviceAssignment],
    observed: &Observation,
    ledger: &Ledger,
) -> DevicesPlan {
    let mut planner = Planner::new(generation, desired, observed, ledger);
    planner.release_what_left();
    planner.settle();
    planner.write();
    planner.clear_leftovers();
    planner.plan
}

/// How much an assignment's claim on its atoms weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Its file says so, or with another environment or other limits.
    InPlace,
    /// It keeps what its file says, because it cannot be what the spec says.
    Kept,
    /// It was bound, and its file is gone, damaged or of other devices.
    Restored,
    New,
}

struct Planner<'a> {
    observed: &'a Observation,
    ledger: &'a Ledger,
    desired: BTreeMap<&'a AllocationId, &'a DeviceAssignment>,
    found: BTreeMap<&'a AllocationId, Found<'a>>,
    /// Atoms that are somebody's once the plan was carried out.
    claims: Claims,
    /// Atoms that files hold once the releases were carried out.
    current: Claims,
    /// What each hold becomes, or stays.
    targets: BTreeMap<&'a AllocationId, Hold>,
    released: BTreeSet<&'a AllocationId>,
    plan: DevicesPlan,
}

impl<'a> Planner<'a> {
    fn new(generation: u64, desired: &'a [DeviceAssignment], observed: &'a Observation, ledger: &'a Ledger) -> Self {
        let mut found = BTreeMap::new();
        let mut current = Claims::default();
        let mut notices = Vec::new();
        for file in &observed.cdi {
            match file {
                CdiFile::Hold { hold, is_exact } => {
                    current.insert(&hold.allocation, hold.atoms().cloned().collect());
                    found.insert(&hold.allocation, Found::Hold { hold, is_exact: *is_exact });
                }
                CdiFile::Damaged { allocation, why } => {
                    notices.push(format!("the CDI spec of {allocation} is damaged: {why}"));
                    found.insert(allocation, Found::Damaged);
                }
                CdiFile::Stray { file, .. } => notices.push(format!("{file} is not named after an allocation")),
            }
        }
        let plan = DevicesPlan {
            generation,
            steps: Vec::new(),
            failures: Vec::new(),
            waiting: Vec::new(),
            notices,
            held: current.clone().into_map(),
            damaged: BTreeSet::new(),
        };
        Self {
            observed,
            ledger,
            desired: desired.iter().map(|assignment| (&assignment.allocation, assignment)).collect(),
            found,
            claims: Claims::default(),
            current,
            targets: BTreeMap::new(),
            released: BTreeSet::new(),
            plan,
        }
    }

    fn release_what_left(&mut self) {
        let there = self.found.keys().copied().chain(self.ledger.entries().map(|(allocation, _)| allocation));
        let left: BTreeSet<&AllocationId> = there.filter(|allocation| !self.desired.contains_key(allocation)).collect();
        for allocation in left {
            self.release(allocation, true);
        }
    }

    fn release(&mut self, allocation: &'a AllocationId, is_reported: bool) {
        let found = self.found.get(allocation).copied();
        let written = || found?.hold()?.reservation.clone();
        let reservation = self.ledger.get(allocation).map(|entry| entry.reservation.clone()).or_else(written);
        if matches!(found, Some(Found::Damaged)) {
            self.plan.damaged.insert(allocation.clone());
        }
        self.current.remove(allocation);
        self.released.insert(allocation);
        self.plan.steps.push(Step::Release { allocation: allocation.clone(), reservation, is_reported });
    }

    /// Decides what each assignment becomes, the weightiest first.
    fn settle(&mut self) {
        let mut claims: Vec<(Rank, &'a AllocationId, Target)> = Vec::new();
        for (allocation, assignment) in self.desired.clone() {
            if let Some((rank, target)) = self.judge(assignment) {
                claims.push((rank, allocation, target));
            }
        }
        claims.sort_by_key(|(rank, allocation, _)| (*rank, *allocation));
        let bound = claims.iter().position(|(rank, ..)| *rank == Rank::New).unwrap_or(claims.len());
        let new = claims.split_off(bound);
        for (rank, allocation, target) in claims {
            self.claim(rank, allocation, target);
        }
        let mut budget = self.budget();
        for (_, allocation, target) in new {
            self.bind(allocation, target, budget.as_mut());
        }
    }

    /// What an assignment asks for and how much that weighs; `None` when it gets nothing and keeps nothing.
    fn judge(&mut self, assignment: &'a DeviceAssignment) -> Option<(Rank, Target)> {
        let allocation = &assignment.allocation;
        let found = self.found.get(allocation).copied();
        let standing = self.ledger.get(allocation).and_then(|entry| entry.failed.as_ref());
        if let Some(failure) = standing.filter(|failure| failure.generation == self.plan.generation) {
            self.plan.failures.push(Failure {
                allocation: allocation.clone(),
                reservation: assignment.reservation.clone(),
                reason: failure.reason.clone(),
                message: failure.message.clone(),
                is_new: false,
            });
            return kept(found);
        }
        match target(assignment, found, self.observed, self.ledger) {
            Ok(target) => {
                let in_place = found.and_then(Found::hold).is_some_and(|hold| hold.atoms().eq(target.hold.atoms()));
                let is_live = found.is_some() || self.ledger.is_bound(allocation);
                let rank = match (in_place, is_live) {
                    (true, _) => Rank::InPlace,
                    (false, true) => Rank::Restored,
                    (false, false) => Rank::New,
                };
                Some((rank, target))
            }
            Err(Refusal::Fail(reason, message)) => {
                self.fail(allocation, reason, message);
                kept(found)
            }
            Err(Refusal::Wait(why)) => {
                self.plan.waiting.push(format!("{allocation}: {why}"));
                kept(found)
            }
        }
    }

    fn fail(&mut self, allocation: &'a AllocationId, reason: FailReason, message: impl Into<String>) {
        let Some(assignment) = self.desired.get(allocation) else { return };
        self.plan.failures.push(Failure::new(allocation, &assignment.reservation, reason, message));
    }

    /// A hold that is or was bound takes its atoms, or keeps what it has.
    fn claim(&mut self, rank: Rank, allocation: &'a AllocationId, target: Target) {
        let atoms: Vec<Atom> = target.hold.atoms().cloned().collect();
        let Some((holder, atom)) = self.claims.conflict(allocation, &atoms) else {
            for atom in &target.vanished {
                self.plan.notices.push(format!("{allocation}: {atom} is gone from this host and stays held"));
            }
            self.claims.insert(allocation, atoms);
            // A file that is not as it was written is not made good with what somebody else put into it.
            if rank != Rank::Kept || self.found.get(allocation).is_some_and(|found| found.exact().is_some()) {
                self.targets.insert(allocation, target.hold);
            }
            return;
        };
        let message = overlap(atom, holder);
        if rank != Rank::Kept {
            self.fail(allocation, FailReason::Overlap, message);
        }
        // Its own file claims what is another's, or what it cannot have: that claim was never true.
        let current = self.found.get(allocation).and_then(|found| found.hold());
        let Some(current) = current else { return };
        let atoms: Vec<Atom> = current.atoms().cloned().collect();
        if self.claims.conflict(allocation, &atoms).is_some() {
            self.release(allocation, false);
        } else {
            self.claims.insert(allocation, atoms);
            if let Some(hold) = self.found.get(allocation).and_then(|found| found.exact()) {
                self.targets.insert(allocation, hold.clone());
            }
        }
    }

    /// A new hold takes its atoms if nobody has them and the host has the memory.
    fn bind(&mut self, allocation: &'a AllocationId, target: Target, budget: Option<&mut Budget>) {
        let atoms: Vec<Atom> = target.hold.atoms().cloned().collect();
        if let Some((holder, atom)) = self.claims.conflict(allocation, &atoms) {
            let message = overlap(atom, holder);
            return self.fail(allocation, FailReason::Overlap, message);
        }
        if let Some((atom, instance)) =
            atoms.iter().find_map(|atom| Some((atom, self.observed.passed_through.get(&atom.gpu)?)))
        {
            let message = format!("{atom} is passed through to the instance {instance}");
            return self.fail(allocation, FailReason::Overlap, message);
        }
        if let Some((file, atom)) = self.stray_claim(&atoms) {
            let message = format!("{atom} is claimed by {file}, which is not named after an allocation");
            return self.fail(allocation, FailReason::Overlap, message);
        }
        let limits = target.hold.limits.as_ref().filter(|limits| limits.needs_admission());
        match (limits, budget) {
            (Some(limits), Some(budget)) => {
                if let Err(message) = budget.admit(limits) {
                    return self.fail(allocation, FailReason::ResourcesExhausted, message);
                }
            }
            (Some(_), None) => {
                let what = "the memory of this host cannot be read, so the hold is bound without admission";
                self.plan.notices.push(format!("{allocation}: {what}"));
            }
            (None, _) => {}
        }
        self.claims.insert(allocation, atoms);
        self.targets.insert(allocation, target.hold);
    }

    fn stray_claim(&self, atoms: &[Atom]) -> Option<(&'a str, Atom)> {
        self.observed.cdi.iter().find_map(|found| match found {
            CdiFile::Stray { file, atoms: claimed } => {
                let atom = atoms.iter().find(|atom| claimed.iter().any(|other| other.conflicts(atom)))?;
                Some((file.as_str(), atom.clone()))
            }
            _ => None,
        })
    }

    /// What is left of the host's memory besides the holds that stay, `None` when it cannot be read.
    fn budget(&self) -> Option<Budget> {
        let mut budget = Budget::new(self.observed.memory.as_ref()?);
        let slices = self.slices();
        let none = BTreeMap::new();
        for (allocation, hold) in &self.targets {
            if let Some(limits) = &hold.limits {
                budget.take(limits, slices.get(allocation).map_or(&none, |slice| &slice.huge_pages));
            }
        }
        // A workload that outlives its hold still has its memory.
        for (allocation, slice) in slices {
            if slice.is_populated && !self.targets.contains_key(allocation) {
                budget.take_memory(slice.memory_max.unwrap_or(0));
            }
        }
        Some(budget)
    }

    fn slices(&self) -> BTreeMap<&'a AllocationId, &'a SliceSeen> {
        self.observed.slices.iter().flatten().map(|slice| (&slice.allocation, slice)).collect()
    }

    fn write(&mut self) {
        let slices = self.slices();
        let mut changes = Vec::new();
        for (allocation, hold) in &self.targets {
            if let Some(step) = self.write_step(allocation, hold, slices.get(allocation).copied()) {
                changes.push(((*allocation).clone(), hold.atoms().cloned().collect(), step));
            }
        }
        // A damaged file is put right before anybody gains what it may have claimed.
        changes.sort_by_key(|(allocation, ..)| !matches!(self.found.get(allocation), Some(Found::Damaged)));
        let Order { ordered, circle } = order(self.current.clone(), changes);
        for (allocation, step) in ordered {
            if matches!(self.found.get(&allocation), Some(Found::Damaged)) {
                self.plan.damaged.insert(allocation);
            }
            self.plan.steps.push(step);
        }
        for (allocation, _) in circle {
            let Some((&allocation, _)) = self.desired.get_key_value(&allocation) else { continue };
            self.fail(allocation, FailReason::Overlap, "its devices and those of other holds change places");
            self.stay(allocation, slices.get(allocation).copied());
        }
        self.plan.failures.sort_by(|a, b| a.allocation.cmp(&b.allocation));
    }

    /// A hold whose change failed stays what its file says.
    fn stay(&mut self, allocation: &'a AllocationId, slice: Option<&SliceSeen>) {
        self.targets.remove(allocation);
        let Some(hold) = self.found.get(allocation).and_then(|found| found.exact()) else { return };
        self.plan.steps.extend(self.write_step(allocation, hold, slice));
        self.targets.insert(allocation, hold.clone());
    }

    fn write_step(&self, allocation: &'a AllocationId, hold: &Hold, slice: Option<&SliceSeen>) -> Option<Step> {
        let found = self.found.get(allocation).copied();
        let cdi = found.and_then(Found::exact) != Some(hold);
        let env = !matches!(self.observed.env.get(allocation), Some(EnvFile::Lines(lines)) if *lines == hold.env);
        let same_limits = found.and_then(Found::hold).is_some_and(|found| found.limits == hold.limits);
        let can_slice = self.observed.slices.is_some() && !(slice.is_some() && same_limits);
        let slice = hold.slice().filter(|_| can_slice).map(Box::new);
        let reported = self.ledger.get(allocation).and_then(|entry| entry.bound.as_ref());
        let is_reported = reported != Some(&hold.cdi_devices()) && hold.reservation.is_some();
        if !cdi && !env && slice.is_none() && !is_reported {
            return None;
        }
        Some(Step::Write { hold: Box::new(hold.clone()), parts: Parts { env, cdi }, slice, is_reported })
    }

    fn clear_leftovers(&mut self) {
        let is_left = |allocation: &AllocationId| {
            !(self.targets.contains_key(allocation)
                || self.released.contains(allocation)
                || self.found.contains_key(allocation))
        };
        for allocation in self.observed.env.keys().filter(|allocation| is_left(allocation)) {
            self.plan.steps.push(Step::RemoveEnv { allocation: allocation.clone() });
        }
        for (allocation, slice) in self.slices() {
            let wants_one = self.targets.get(allocation).map(|hold| hold.cgroup_parent.is_some());
            // A file that is neither kept nor released may still name its slice.
            let is_unclear = wants_one.is_none() && self.found.contains_key(allocation);
            let is_wanted = wants_one == Some(true) || is_unclear || self.released.contains(allocation);
            if !is_wanted && !slice.is_populated {
                self.plan.steps.push(Step::StopSlice { allocation: allocation.clone() });
            }
        }
    }
}

/// What an assignment that cannot be what the spec says stays.
fn kept(found: Option<Found<'_>>) -> Option<(Rank, Target)> {
    let hold = found?.hold()?.clone();
    Some((Rank::Kept, Target { hold, vanished: Vec::new() }))
}

fn overlap(atom: &Atom, holder: &AllocationId) -> String {
    format!("{atom} or part of it is held by {holder}")
}
