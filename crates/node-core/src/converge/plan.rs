//! The plan of one pass over the `devices` section: steps in the order they are carried out, what fails, what
//! waits, and what a person should hear of. A plan prints as a person would say it.

use super::{Hold, SliceLimits};
use model::spec::{AllocationReport, Atom, FailReason, Section, SectionState, SectionStatus};
use model::{AllocationId, ReservationId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicesPlan {
    pub generation: u64,
    /// Releases first. Each is tried whatever became of the others, unless it wants what another still has.
    pub steps: Vec<Step>,
    /// Assignments that cannot be honoured in this generation, by allocation.
    pub failures: Vec<Failure>,
    /// What the next pass tries again, `<allocation>: <why>`.
    pub waiting: Vec<String>,
    /// What is odd and changes nothing: a device that vanished under its hold, a file of a stranger.
    pub notices: Vec<String>,
    /// Who has which atoms before the first step.
    pub held: BTreeMap<AllocationId, Vec<Atom>>,
    /// Whose file is damaged and written or removed by a step: if that fails, nobody gains an atom after it.
    pub damaged: BTreeSet<AllocationId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// CDI spec, env file and, once empty, slice go.
    Release {
        allocation: AllocationId,
        reservation: Option<ReservationId>,
        /// Not for a claim that was never true.
        is_reported: bool,
    },
    /// Files of a hold are written, the CDI spec last.
    Write {
        hold: Box<Hold>,
        parts: Parts,
        /// The slice to make or change first.
        slice: Option<Box<SliceLimits>>,
        is_reported: bool,
    },
    /// A slice that no hold wants and that was empty when it was looked at.
    StopSlice { allocation: AllocationId },
    /// An env file that no hold wants.
    RemoveEnv { allocation: AllocationId },
}

/// Which files of a hold a step writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    pub env: bool,
    pub cdi: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub allocation: AllocationId,
    pub reservation: ReservationId,
    pub reason: String,
    pub message: String,
    /// Not reported in this generation yet.
    pub is_new: bool,
}

impl Failure {
    pub(crate) fn new(
        allocation: &AllocationId,
        reservation: &ReservationId,
        reason: FailReason,
        message: impl Into<String>,
    ) -> Self {
        let (allocation, reservation) = (allocation.clone(), reservation.clone());
        Self { allocation, reservation, reason: reason.name().to_owned(), message: message.into(), is_new: true }
    }
}

impl DevicesPlan {
    /// Nothing to do and nothing to report.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && !self.failures.iter().any(|failure| failure.is_new)
    }

    /// The reports that need no step. Those of steps follow from what was carried out.
    pub fn failure_reports(&self) -> Vec<AllocationReport> {
        let new = self.failures.iter().filter(|failure| failure.is_new);
        new.map(|failure| AllocationReport::Failed {
            allocation: failure.allocation.clone(),
            reservation: failure.reservation.clone(),
            reason: failure.reason.clone(),
            message: failure.message.clone(),
            generation: self.generation,
        })
        .collect()
    }

    /// The section's standing after the plan was carried out with these errors. Something to try again outranks
    /// a failure (D-Q25).
    pub fn status(&self, errors: &[String]) -> SectionStatus {
        let open: Vec<&str> = errors.iter().chain(&self.waiting).map(String::as_str).collect();
        let (state, reason, message) = if !open.is_empty() {
            (SectionState::Progressing, "Retrying".to_owned(), open.join("; "))
        } else if let Some(first) = self.failures.first() {
            let each = |failure: &Failure| format!("{}: {}: {}", failure.allocation, failure.reason, failure.message);
            let message: Vec<String> = self.failures.iter().map(each).collect();
            (SectionState::Failed, first.reason.clone(), message.join("; "))
        } else {
            (SectionState::Converged, String::new(), String::new())
        };
        let message = cut(message, model::limits::TEXT_BYTES_MAX);
        SectionStatus { section: Section::Devices.number(), state, generation: self.generation, reason, message }
    }
}

impl Step {
    pub fn allocation(&self) -> &AllocationId {
        match self {
            Self::Write { hold, .. } => &hold.allocation,
            Self::Release { allocation, .. } | Self::StopSlice { allocation } | Self::RemoveEnv { allocation } => {
                allocation
            }
        }
    }

    /// The report that is due once the step was carried out.
    pub fn report(&self, generation: u64) -> Option<AllocationReport> {
        match self {
            Self::Release { allocation, reservation, is_reported: true } => {
                let (allocation, reservation) = (allocation.clone(), reservation.clone());
                Some(AllocationReport::Released { allocation, reservation, generation })
            }
            Self::Write { hold, is_reported: true, .. } => Some(AllocationReport::Bound {
                allocation: hold.allocation.clone(),
                reservation: hold.reservation.clone()?,
                cdi_devices: hold.cdi_devices(),
                generation,
            }),
            _ => None,
        }
    }
}

impl fmt::Display for DevicesPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "devices at generation {}", self.generation)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step}"))?;
        for failure in &self.failures {
            let again = if failure.is_new { "" } else { " (reported)" };
            writeln!(f, "  fail {}{again}: {}: {}", failure.allocation, failure.reason, failure.message)?;
        }
        self.waiting.iter().try_for_each(|why| writeln!(f, "  wait {why}"))?;
        self.notices.iter().try_for_each(|what| writeln!(f, "  note {what}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = |is_reported: &bool| if *is_reported { ", then report" } else { "" };
        match self {
            Self::Release { allocation, is_reported, .. } => write!(f, "release {allocation}{}", report(is_reported)),
            Self::Write { hold, parts, slice, is_reported } => {
                let mut written = Vec::new();
                written.extend(slice.as_ref().map(|slice| slice.name.as_str()));
                written.extend(parts.env.then_some("env file"));
                written.extend(parts.cdi.then_some("CDI spec"));
                let written = if written.is_empty() { "nothing".to_owned() } else { written.join(", ") };
                let atoms: Vec<String> = hold.atoms().map(ToString::to_string).collect();
                let (allocation, report) = (&hold.allocation, report(is_reported));
                write!(f, "write {written} of {allocation} ({}){report}", atoms.join(", "))
            }
            Self::StopSlice { allocation } => write!(f, "stop the slice of {allocation}"),
            Self::RemoveEnv { allocation } => write!(f, "remove the env file of {allocation}"),
        }
    }
}

fn cut(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}
