//! What was found on the host at the start of a pass.

use super::{Hold, HostMemory};
use model::AllocationId;
use model::spec::{Atom, AtomPart};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// Every `bcd-*.json` of our kind in the CDI directory.
    pub cdi: Vec<CdiFile>,
    pub env: BTreeMap<AllocationId, EnvFile>,
    /// `None` when the GPUs cannot be read: then nothing is bound, and nothing fails for it.
    pub gpus: Option<GpuAtoms>,
    /// GPUs passed through to VMs, domains still running after the last pass included: UUID to instance.
    pub passed_through: BTreeMap<String, String>,
    /// `None` on a host without slices (F-Q17).
    pub slices: Option<Vec<SliceSeen>>,
    /// Whether `MPS_PIPE_DIRECTORY` exists.
    pub has_mps: bool,
    /// `None` when it cannot be read: then holds are bound without admission.
    pub memory: Option<HostMemory>,
}

/// One CDI spec under a name of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CdiFile {
    /// A hold. `is_exact`: rendering it again gives these bytes, and mode and type are right too.
    Hold { hold: Hold, is_exact: bool },
    /// Named after an allocation, but not a hold.
    Damaged { allocation: AllocationId, why: String },
    /// Not named after an allocation. Never touched; what it claims is not bound anew.
    Stray { file: String, atoms: Vec<Atom> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvFile {
    Lines(Vec<String>),
    /// Not readable as an env file, or with another mode.
    Damaged,
}

/// The GPUs of the inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuAtoms {
    pub gpus: Vec<GpuFacts>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuFacts {
    pub uuid: String,
    pub minor: Option<u32>,
    /// `None` when the host cannot say now.
    pub mig: Option<Vec<MigFacts>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigFacts {
    pub gpu_instance: u32,
    pub compute_instance: u32,
    /// `MIG-…`; empty when the driver did not give it.
    pub uuid: String,
}

impl GpuAtoms {
    pub fn gpu(&self, uuid: &str) -> Option<&GpuFacts> {
        self.gpus.iter().find(|gpu| gpu.uuid == uuid)
    }

    /// Whether the host can say now if it has this atom.
    pub fn can_say(&self, atom: &Atom) -> bool {
        let is_mig = matches!(atom.part, AtomPart::Mig { .. });
        !is_mig || self.gpu(&atom.gpu).is_none_or(|gpu| gpu.mig.is_some())
    }

    /// What the driver calls an atom: the MIG instance's UUID, else the GPU's. `None` when the host lacks it.
    pub fn driver_id(&self, atom: &Atom) -> Option<String> {
        let gpu = self.gpu(&atom.gpu)?;
        match atom.part {
            AtomPart::Whole | AtomPart::Slot(_) => Some(gpu.uuid.clone()),
            AtomPart::Mig { gpu_instance, compute_instance } => {
                let is_it =
                    |mig: &&MigFacts| (mig.gpu_instance, mig.compute_instance) == (gpu_instance, compute_instance);
                gpu.mig.iter().flatten().find(is_it).map(|mig| mig.uuid.clone()).filter(|uuid| !uuid.is_empty())
            }
        }
    }
}

/// A hold slice of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceSeen {
    pub allocation: AllocationId,
    /// Whether a process is in it or below.
    pub is_populated: bool,
    /// `memory.max`, `None` for no limit.
    pub memory_max: Option<u64>,
    /// Huge pages faulted in, by page size in bytes.
    pub huge_pages: BTreeMap<u64, u64>,
}

/// The allocation that holds a GPU, whole or in part: a VM that wants it must not start.
pub fn holder_of_gpu<'a>(files: &'a [CdiFile], gpu_uuid: &str) -> Option<&'a AllocationId> {
    files.iter().find_map(|file| match file {
        CdiFile::Hold { hold, .. } if hold.atoms().any(|atom| atom.gpu == gpu_uuid) => Some(&hold.allocation),
        _ => None,
    })
}
