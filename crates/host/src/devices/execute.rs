//! Carries out a plan, step by step. A step that fails is said with its file and tried again by the next pass;
//! the steps after it go on, except that nobody gets an atom that a file still gives to another.

use super::files::{FileKind, HoldFiles, HoldFilesError};
use super::slices::{SliceError, Slices};
use super::{render_cdi, render_env};
use model::AllocationId;
use model::spec::{AllocationReport, Atom};
use node_core::converge::{DevicesPlan, Hold, Parts, SliceLimits, Step};
use std::collections::{BTreeMap, BTreeSet};

/// What became of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// To be journaled, in this order.
    pub reports: Vec<AllocationReport>,
    /// What failed; the section is `PROGRESSING` while there is any.
    pub errors: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error("{allocation}: the {kind}")]
    File {
        allocation: AllocationId,
        kind: FileKind,
        #[source]
        source: HoldFilesError,
    },
    #[error("{allocation}: the slice")]
    Slice {
        allocation: AllocationId,
        #[source]
        source: SliceError,
    },
    #[error("{allocation}: {atom} waits until the files of {holder} have let go of it")]
    Taken { allocation: AllocationId, atom: Atom, holder: AllocationId },
    #[error("{allocation}: its devices wait until the damaged file of {holder} is put right")]
    Unclear { allocation: AllocationId, holder: AllocationId },
}

/// Carries out `plan`. Returns after every write is durable; the reports are true then.
pub fn execute(plan: &DevicesPlan, files: &dyn HoldFiles, slices: &dyn Slices) -> Executed {
    let mut run = Run { files, slices, held: plan.held.clone(), unclear: BTreeSet::new(), errors: Vec::new() };
    let mut reports = Vec::new();
    for step in &plan.steps {
        match run.step(step) {
            Ok(()) => reports.extend(step.report(plan.generation)),
            Err(error) => {
                run.errors.push(stdx::error::chain(&error));
                run.unclear.extend(plan.damaged.get(step.allocation()).cloned());
            }
        }
    }
    reports.extend(plan.failure_reports());
    Executed { reports, errors: run.errors }
}

struct Run<'a> {
    files: &'a dyn HoldFiles,
    slices: &'a dyn Slices,
    /// What the files give to whom now.
    held: BTreeMap<AllocationId, Vec<Atom>>,
    /// Whose damaged file could not be put right: what it gives to whom is not known.
    unclear: BTreeSet<AllocationId>,
    errors: Vec<String>,
}

impl Run<'_> {
    fn step(&mut self, step: &Step) -> Result<(), StepError> {
        match step {
            Step::Release { allocation, .. } => self.release(allocation),
            Step::Write { hold, parts, slice, .. } => self.write(hold, *parts, slice.as_deref()),
            Step::StopSlice { allocation } => self.stop(allocation),
            Step::RemoveEnv { allocation } => self.remove(FileKind::AllocationEnv, allocation),
        }
    }

    /// The CDI spec first: without it nothing is held, whatever else is left.
    fn release(&mut self, allocation: &AllocationId) -> Result<(), StepError> {
        self.remove(FileKind::Cdi, allocation)?;
        self.held.remove(allocation);
        self.remove(FileKind::AllocationEnv, allocation)?;
        // The hold is released, whatever becomes of its slice, which later passes find by listing.
        if let Err(error) = self.stop(allocation) {
            self.errors.push(stdx::error::chain(&error));
        }
        Ok(())
    }

    /// The CDI spec last: once it is there, the slice it names and the env file are too.
    fn write(&mut self, hold: &Hold, parts: Parts, slice: Option<&SliceLimits>) -> Result<(), StepError> {
        let allocation = &hold.allocation;
        if parts.cdi {
            self.check_free(hold)?;
        }
        if let Some(limits) = slice {
            let failed = |source| StepError::Slice { allocation: allocation.clone(), source };
            self.slices.apply(limits).map_err(failed)?;
        }
        if parts.env {
            self.write_file(FileKind::AllocationEnv, allocation, &render_env(hold))?;
        }
        if parts.cdi {
            self.write_file(FileKind::Cdi, allocation, &render_cdi(hold))?;
            self.held.insert(allocation.clone(), hold.atoms().cloned().collect());
        }
        Ok(())
    }

    /// The plan has the steps in an order in which this holds, unless one of them has failed.
    fn check_free(&self, hold: &Hold) -> Result<(), StepError> {
        let allocation = &hold.allocation;
        let own = self.held.get(allocation);
        let gained: Vec<&Atom> = hold.atoms().filter(|atom| !own.is_some_and(|own| own.contains(atom))).collect();
        let holder = |atom: &Atom| {
            let mut others = self.held.iter().filter(|(holder, _)| *holder != allocation);
            others.find(|(_, held)| held.iter().any(|other| other.conflicts(atom)))
        };
        let taken = gained.iter().find_map(|atom| Some((*atom, holder(atom)?.0)));
        if let Some((atom, holder)) = taken {
            let (allocation, atom, holder) = (allocation.clone(), atom.clone(), holder.clone());
            return Err(StepError::Taken { allocation, atom, holder });
        }
        match self.unclear.first() {
            Some(holder) if !gained.is_empty() => {
                Err(StepError::Unclear { allocation: allocation.clone(), holder: holder.clone() })
            }
            _ => Ok(()),
        }
    }

    fn stop(&self, allocation: &AllocationId) -> Result<(), StepError> {
        let failed = |source| StepError::Slice { allocation: allocation.clone(), source };
        // One in use stays; a later pass finds it again.
        self.slices.stop_if_empty(allocation).map(|_| ()).map_err(failed)
    }

    fn write_file(&self, kind: FileKind, allocation: &AllocationId, bytes: &[u8]) -> Result<(), StepError> {
        let failed = |source| StepError::File { allocation: allocation.clone(), kind, source };
        self.files.write(kind, allocation, bytes).map_err(failed)
    }

    fn remove(&self, kind: FileKind, allocation: &AllocationId) -> Result<(), StepError> {
        let failed = |source| StepError::File { allocation: allocation.clone(), kind, source };
        self.files.remove(kind, allocation).map_err(failed)
    }
}
