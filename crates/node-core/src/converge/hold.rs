//! A hold as its files say it: the whole content of a CDI spec and of the env file beside it, as values. What
//! a hold should be and what was read back are the same type, so comparing them finds every change by hand.

use super::limits;
use model::spec::{Atom, AtomPart, HoldLimits};
use model::{AllocationId, ReservationId};

/// The kind of our CDI specs; a device's full name is `bcd.dev/gpu=<name>`.
pub const CDI_KIND: &str = "bcd.dev/gpu";
/// Where the MPS control daemon of the `gpu-sharing` unit has its pipes.
pub const MPS_PIPE_DIRECTORY: &str = "/run/nvidia-mps";

/// Devices bound for one allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub allocation: AllocationId,
    /// `None` only for what was read back and did not say.
    pub reservation: Option<ReservationId>,
    /// Whether pods use it, through the kubelet.
    pub kubernetes: bool,
    /// Sorted by atom.
    pub devices: Vec<HeldDevice>,
    /// Every line of the workload's environment, as `KEY=VALUE`.
    pub env: Vec<String>,
    pub limits: Option<HoldLimits>,
    /// The slice that a workload belongs in.
    pub cgroup_parent: Option<String>,
}

/// One device of a hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldDevice {
    pub atom: Atom,
    /// The number in `/dev/nvidia<n>` of its GPU, where the host gave it.
    pub minor: Option<u32>,
}

impl Hold {
    pub fn atoms(&self) -> impl Iterator<Item = &Atom> {
        self.devices.iter().map(|device| &device.atom)
    }

    /// Full CDI names, sorted.
    pub fn cdi_devices(&self) -> Vec<String> {
        let mut names: Vec<String> = self.atoms().map(cdi_device).collect();
        names.sort();
        names
    }

    /// The slice with its limits, where the hold has one.
    pub fn slice(&self) -> Option<SliceLimits> {
        self.cgroup_parent.as_ref()?;
        Some(SliceLimits::of(&self.allocation, self.limits.as_ref()?))
    }
}

/// An atom's full CDI name.
pub(crate) fn cdi_device(atom: &Atom) -> String {
    format!("{CDI_KIND}={}", atom.cdi_name())
}

/// The lines that a hold sets itself, and the extra ones after them. `visible` is what the driver calls the
/// devices; `None` for pods, which get their own from the kubelet.
pub(crate) fn environment(
    allocation: &AllocationId,
    visible: Option<&[String]>,
    devices: &[HeldDevice],
    has_mps: bool,
    cgroup_parent: Option<&str>,
    extra: &[String],
) -> Vec<String> {
    let mut env = vec![format!("BCD_ALLOCATION_ID={allocation}")];
    if let Some(visible) = visible {
        env.push(format!("NVIDIA_VISIBLE_DEVICES={}", visible.join(",")));
    }
    let has_slot = devices.iter().any(|device| matches!(device.atom.part, AtomPart::Slot(_)));
    if has_slot && has_mps {
        env.push(format!("CUDA_MPS_PIPE_DIRECTORY={MPS_PIPE_DIRECTORY}"));
    }
    if let Some(slice) = cgroup_parent {
        env.push(format!("BCD_CGROUP_PARENT={slice}"));
    }
    env.extend(extra.iter().cloned());
    env
}

/// A hold's slice, `bcd.slice/bcd-alloc.slice/bcd-alloc-<allocation>.slice`, with its limits. `None` and 0 lift one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceLimits {
    pub allocation: AllocationId,
    /// The unit's name.
    pub name: String,
    /// `AllowedCPUs`, in the kernel's list form; empty for all.
    pub allowed_cpus: String,
    /// `AllowedMemoryNodes`, likewise.
    pub allowed_memory_nodes: String,
    /// `CPUQuota`, percents of one CPU.
    pub cpu_quota_percent: Option<u64>,
    pub memory_max: Option<u64>,
    pub memory_high: Option<u64>,
    /// `hugetlb.2MB.max` and `hugetlb.1GB.max`, bytes.
    pub hugetlb_2mb: u64,
    pub hugetlb_1gb: u64,
}

impl SliceLimits {
    fn of(allocation: &AllocationId, limits: &HoldLimits) -> Self {
        let memory_max = Some(limits.memory_bytes).filter(|bytes| *bytes > 0);
        let (hugetlb_2mb, hugetlb_1gb) = limits::huge_bytes(limits);
        Self {
            allocation: allocation.clone(),
            name: slice_name(allocation),
            allowed_cpus: limits.cpus.clone(),
            allowed_memory_nodes: limits.mems.clone(),
            cpu_quota_percent: limits::quota_percent(limits.cpu_millis),
            memory_max,
            memory_high: memory_max.map(limits::memory_high),
            hugetlb_2mb,
            hugetlb_1gb,
        }
    }
}

const SLICE_PREFIX: &str = "bcd-alloc-";
const SLICE_SUFFIX: &str = ".slice";
/// How systemd escapes a `-`, which in a slice's name separates parents (systemd.unit(5)). An allocation id has
/// no other character that needs it.
const ESCAPED_DASH: &str = "\\x2d";

/// The unit name of an allocation's slice.
pub fn slice_name(allocation: &AllocationId) -> String {
    format!("{SLICE_PREFIX}{}{SLICE_SUFFIX}", allocation.as_str().replace('-', ESCAPED_DASH))
}

/// The allocation of a slice's unit name; `None` for any name that [`slice_name`] does not make.
pub fn slice_allocation(name: &str) -> Option<AllocationId> {
    let escaped = name.strip_prefix(SLICE_PREFIX)?.strip_suffix(SLICE_SUFFIX)?;
    let allocation = AllocationId::parse(&escaped.replace(ESCAPED_DASH, "-")).ok()?;
    (slice_name(&allocation) == name).then_some(allocation)
}
