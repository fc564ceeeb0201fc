//! What one assignment asks of this host: the hold it should become, or why it cannot.

use super::hold::{cdi_device, environment};
use super::{HeldDevice, Hold, Ledger, Observation, check_env, limits, slice_name};
use model::AllocationId;
use model::spec::{Atom, AtomPart, Binding, DeviceAssignment, DeviceClass, FailReason, HoldLimits};

/// The file of an allocation, as a pass found it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found<'a> {
    Hold { hold: &'a Hold, is_exact: bool },
    Damaged,
}

impl<'a> Found<'a> {
    pub fn hold(self) -> Option<&'a Hold> {
        match self {
            Self::Hold { hold, .. } => Some(hold),
            Self::Damaged => None,
        }
    }

    /// The hold, when its file is as it was written.
    pub fn exact(self) -> Option<&'a Hold> {
        match self {
            Self::Hold { hold, is_exact: true } => Some(hold),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Fail(FailReason, String),
    /// Nothing is wrong with the assignment; the host cannot say or do it now.
    Wait(String),
}

/// A hold to be, and what is odd about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub hold: Hold,
    /// Devices the host no longer has, of a hold that is bound.
    pub vanished: Vec<Atom>,
}

fn fail<T>(reason: FailReason, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Fail(reason, message.into()))
}

/// Judges an assignment by itself: neither other holds nor the host's memory count here.
pub(crate) fn target(
    assignment: &DeviceAssignment,
    found: Option<Found<'_>>,
    observed: &Observation,
    ledger: &Ledger,
) -> Result<Target, Refusal> {
    let is_live = found.is_some() || ledger.is_bound(&assignment.allocation);
    let is_kubernetes = match assignment.binding {
        Binding::Hold => false,
        Binding::Kubernetes => true,
        Binding::Other(number) => {
            return fail(FailReason::UnsupportedBinding, format!("this daemon does not know binding {number}"));
        }
    };
    let atoms = atoms(assignment)?;
    check_env(&assignment.env).or_else(|what| fail(FailReason::InvalidEnv, what))?;
    let limits = assignment.limits.as_ref().filter(|limits| !limits.is_none());
    let cgroup_parent = cgroup_parent(&assignment.allocation, limits, is_kubernetes, is_live, observed)?;

    let known = observed.gpus.as_ref().filter(|gpus| atoms.iter().all(|atom| gpus.can_say(atom)));
    let Some(gpus) = known else {
        return match kept(found, &atoms, is_kubernetes) {
            Some(hold) => Ok(Target { hold: hold.clone(), vanished: Vec::new() }),
            None => Err(Refusal::Wait("the GPUs of this host cannot be read now".to_owned())),
        };
    };
    let vanished: Vec<Atom> = atoms.iter().filter(|atom| gpus.driver_id(atom).is_none()).cloned().collect();
    let was_bound = |atom: &Atom| {
        let bound = ledger.get(&assignment.allocation).and_then(|entry| entry.bound.as_ref());
        let is_reported = bound.is_some_and(|names| names.contains(&cdi_device(atom)));
        is_reported || found.and_then(Found::exact).is_some_and(|hold| hold.atoms().any(|held| held == atom))
    };
    if let Some(atom) = vanished.iter().find(|atom| !was_bound(atom)) {
        return fail(FailReason::DeviceMissing, format!("this host has no {} {atom}", atom.class()));
    }
    if !vanished.is_empty() {
        if let Some(hold) = kept(found, &atoms, is_kubernetes) {
            return Ok(Target { hold: hold.clone(), vanished });
        }
        if let Some(atom) = vanished.iter().find(|atom| matches!(atom.part, AtomPart::Mig { .. })) {
            let why = format!("{atom} is gone from this host, so the files of its hold cannot be restored");
            return Err(Refusal::Wait(why));
        }
    }
    // The driver's name of a GPU is its UUID, also while the GPU is gone.
    let mut visible: Vec<String> = Vec::new();
    for atom in &atoms {
        let id = gpus.driver_id(atom).unwrap_or_else(|| atom.gpu.clone());
        if !visible.contains(&id) {
            visible.push(id);
        }
    }
    let minor = |atom: &Atom| gpus.gpu(&atom.gpu).and_then(|gpu| gpu.minor);
    let devices: Vec<HeldDevice> = atoms.into_iter().map(|atom| HeldDevice { minor: minor(&atom), atom }).collect();
    let env = environment(
        &assignment.allocation,
        Some(visible.as_slice()).filter(|_| !is_kubernetes),
        &devices,
        observed.has_mps,
        cgroup_parent.as_deref(),
        &assignment.env,
    );
    let hold = Hold {
        allocation: assignment.allocation.clone(),
        reservation: Some(assignment.reservation.clone()),
        kubernetes: is_kubernetes,
        devices,
        env,
        limits: limits.cloned(),
        cgroup_parent,
    };
    Ok(Target { hold, vanished })
}

/// The hold as it is, where it has these devices: what stays while the host cannot say more about them.
fn kept<'a>(found: Option<Found<'a>>, atoms: &[Atom], is_kubernetes: bool) -> Option<&'a Hold> {
    found?.exact().filter(|hold| hold.kubernetes == is_kubernetes && hold.atoms().eq(atoms))
}

/// The assignment's atoms, sorted; no two of them exclude each other.
fn atoms(assignment: &DeviceAssignment) -> Result<Vec<Atom>, Refusal> {
    if assignment.devices.is_empty() {
        return fail(FailReason::DeviceMissing, "the assignment names no device");
    }
    let mut atoms: Vec<Atom> = Vec::new();
    for device in &assignment.devices {
        let Some(class) = DeviceClass::parse(&device.device_class) else {
            let message = format!("this daemon does not hold devices of class {:?}", device.device_class);
            return fail(FailReason::UnsupportedDevice, message);
        };
        let Some(atom) = Atom::parse(&device.id).filter(|atom| atom.class() == class) else {
            return fail(FailReason::DeviceMissing, format!("{:?} names no {class}", device.id));
        };
        if let Some(other) = atoms.iter().find(|other| other.conflicts(&atom)) {
            return fail(FailReason::Overlap, format!("the assignment names both {other} and {atom}"));
        }
        atoms.push(atom);
    }
    atoms.sort();
    Ok(atoms)
}

fn cgroup_parent(
    allocation: &AllocationId,
    limits: Option<&HoldLimits>,
    is_kubernetes: bool,
    is_live: bool,
    observed: &Observation,
) -> Result<Option<String>, Refusal> {
    let Some(limits) = limits else { return Ok(None) };
    limits::check(limits).or_else(|what| fail(FailReason::UnsupportedLimits, what))?;
    if is_kubernetes {
        return Ok(None);
    }
    if observed.slices.is_none() && !is_live {
        let message = "systemd does not run this host, so it has no slice to limit a hold with";
        return fail(FailReason::UnsupportedLimits, message);
    }
    Ok(Some(slice_name(allocation)))
}
