//! A host as values, and the plan that is made for it.

mod admission;
mod envs;
mod histories;
mod holds;
mod ledgers;
mod refusals;
mod sections;

use super::*;
use model::spec::*;
use model::{AllocationId, ReservationId};

pub(super) const GENERATION: u64 = 7;

pub(super) fn gpu(number: u32) -> String {
    format!("GPU-{number:08x}-0000-1111-2222-333333333333")
}

pub(super) fn mig_uuid(number: u32, instance: u32) -> String {
    format!("MIG-{number:08x}-0000-1111-2222-{instance:012x}")
}

pub(super) fn id(name: &str) -> AllocationId {
    AllocationId::parse(name).expect("an id")
}

pub(super) fn assign(name: &str, atoms: &[&str]) -> DeviceAssignment {
    let devices = atoms.iter().map(|atom| Device {
        device_class: Atom::parse(atom).map_or("gpu", |atom| atom.class().name()).to_owned(),
        id: (*atom).to_owned(),
    });
    DeviceAssignment {
        allocation: id(name),
        reservation: ReservationId::new(format!("res-of-{name}")),
        binding: Binding::Hold,
        devices: devices.collect(),
        env: Vec::new(),
        limits: None,
    }
}

pub(super) fn limited(name: &str, atoms: &[&str], limits: HoldLimits) -> DeviceAssignment {
    DeviceAssignment { limits: Some(limits), ..assign(name, atoms) }
}

/// Four GPUs, the last one with two MIG instances; systemd; 64 GiB.
pub(super) fn host() -> Observation {
    let facts = |number: u32| GpuFacts {
        uuid: gpu(number),
        minor: Some(number),
        mig: Some(if number == 3 {
            [1, 2]
                .map(|instance| MigFacts {
                    gpu_instance: instance,
                    compute_instance: 0,
                    uuid: mig_uuid(number, instance),
                })
                .into()
        } else {
            Vec::new()
        }),
    };
    let memory = HostMemory { total_bytes: 64 << 30, ..HostMemory::default() };
    Observation {
        gpus: Some(GpuAtoms { gpus: (0..4).map(facts).collect() }),
        slices: Some(Vec::new()),
        memory: Some(memory),
        ..Observation::default()
    }
}

/// Carries a plan out on values, as the host would, and applies its reports.
pub(super) fn apply(plan: &DevicesPlan, host: &mut Observation, ledger: &mut Ledger) -> Vec<AllocationReport> {
    let mut reports = Vec::new();
    for step in &plan.steps {
        match step {
            Step::Release { allocation, .. } => {
                remove_cdi(host, allocation);
                host.env.remove(allocation);
                stop(host, allocation);
            }
            Step::Write { hold, parts, slice, .. } => {
                if let (Some(slice), Some(slices)) = (slice, &mut host.slices)
                    && !slices.iter().any(|seen| seen.allocation == slice.allocation)
                {
                    slices.push(SliceSeen {
                        allocation: slice.allocation.clone(),
                        is_populated: false,
                        memory_max: slice.memory_max,
                        huge_pages: Default::default(),
                    });
                }
                if parts.env {
                    host.env.insert(hold.allocation.clone(), EnvFile::Lines(hold.env.clone()));
                }
                if parts.cdi {
                    remove_cdi(host, &hold.allocation);
                    host.cdi.push(CdiFile::Hold { hold: Hold::clone(hold), is_exact: true });
                }
                assert_no_atom_has_two_holders(host);
            }
            Step::StopSlice { allocation } => stop(host, allocation),
            Step::RemoveEnv { allocation } => {
                host.env.remove(allocation);
            }
        }
        reports.extend(step.report(plan.generation));
    }
    reports.extend(plan.failure_reports());
    reports.iter().for_each(|report| ledger.reported(report));
    reports
}

fn remove_cdi(host: &mut Observation, allocation: &AllocationId) {
    host.cdi.retain(|file| match file {
        CdiFile::Hold { hold, .. } => hold.allocation != *allocation,
        CdiFile::Damaged { allocation: damaged, .. } => damaged != allocation,
        CdiFile::Stray { .. } => true,
    });
}

fn stop(host: &mut Observation, allocation: &AllocationId) {
    if let Some(slices) = &mut host.slices {
        slices.retain(|slice| slice.allocation != *allocation || slice.is_populated);
    }
}

pub(super) fn holds(host: &Observation) -> Vec<&Hold> {
    let holds = host.cdi.iter().filter_map(|file| match file {
        CdiFile::Hold { hold, .. } => Some(hold),
        _ => None,
    });
    let mut holds: Vec<&Hold> = holds.collect();
    holds.sort_by(|a, b| a.allocation.cmp(&b.allocation));
    holds
}

pub(super) fn assert_no_atom_has_two_holders(host: &Observation) {
    let holds = holds(host);
    for (number, one) in holds.iter().enumerate() {
        for other in &holds[number + 1..] {
            let shared = one.atoms().find(|atom| other.atoms().any(|theirs| theirs.conflicts(atom)));
            assert_eq!(shared, None, "{} and {}", one.allocation, other.allocation);
        }
    }
}

/// A host, a ledger and passes over a spec.
pub(super) struct Node {
    pub host: Observation,
    pub ledger: Ledger,
    pub generation: u64,
}

impl Node {
    pub fn new() -> Self {
        Self { host: host(), ledger: Ledger::default(), generation: GENERATION }
    }

    pub fn plan(&mut self, desired: &[DeviceAssignment]) -> DevicesPlan {
        self.ledger.spec_applied(desired);
        plan_devices(self.generation, desired, &self.host, &self.ledger)
    }

    /// One pass, after which another one has nothing to do.
    #[track_caller]
    pub fn pass(&mut self, desired: &[DeviceAssignment]) -> (DevicesPlan, Vec<AllocationReport>) {
        let plan = self.plan(desired);
        let reports = apply(&plan, &mut self.host, &mut self.ledger);
        let again = self.plan(desired);
        assert!(again.is_empty(), "after\n{plan}again\n{again}");
        (plan, reports)
    }

    /// The only hold.
    #[track_caller]
    pub fn hold(&self) -> &Hold {
        let holds = holds(&self.host);
        assert_eq!(holds.len(), 1);
        holds[0]
    }
}
