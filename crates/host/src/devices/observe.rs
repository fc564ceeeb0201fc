//! What a pass finds on the host. Holds are read back from the CDI directory alone; nothing else is needed after
//! a restart.

use super::files::{ALLOCATIONS_DIRECTORY, FileKind};
use super::slices::{SliceError, Slices};
use super::{cdi, env_file, memory, render_cdi};
use crate::bounds::{CDI_FILE_BYTES_MAX, CDI_FILES_MAX, DIRECTORY_ENTRIES_MAX, clean};
use crate::gpu::holds::CDI_DIRECTORY;
use crate::tree::{Tree, reason};
use model::spec::Atom;
use node_core::converge::{CDI_KIND, CdiFile, EnvFile, GpuAtoms, GpuFacts, MPS_PIPE_DIRECTORY, MigFacts, Observation};
use proto::v1::{Gpu, Inventory, MigInstance};
use serde_json::Value;
use std::io;
use std::os::unix::fs::MetadataExt;

const NVIDIA: &str = "10de";

#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    #[error("cannot list {path}: {}", reason(source))]
    List { path: &'static str, source: io::Error },
    #[error("{path} has more than {CDI_FILES_MAX} files of this daemon")]
    TooMany { path: &'static str },
    #[error("cannot read {path}: {}", reason(source))]
    Read { path: String, source: io::Error },
    #[error("cannot list the slices of holds")]
    Slices(#[source] SliceError),
}

/// Looks at the host below `tree`. Which GPUs are passed through to VMs is for the caller to add, as is what
/// domains were promised of its memory.
pub fn observe(tree: &Tree, slices: &dyn Slices, inventory: &Inventory) -> Result<Observation, ObserveError> {
    let slices = slices.is_available().then(|| slices.list()).transpose().map_err(ObserveError::Slices)?;
    Ok(Observation {
        cdi: cdi_files(tree)?,
        env: env_files(tree)?.into_iter().collect(),
        gpus: gpu_atoms(inventory),
        passed_through: Default::default(),
        slices,
        has_mps: tree.is_directory(MPS_PIPE_DIRECTORY),
        memory: memory::host_memory(tree).ok(),
    })
}

/// The GPUs of an inventory; `None` when it cannot say which there are: an NVIDIA device is there and no driver
/// has answered, or the inventory itself failed.
pub fn gpu_atoms(inventory: &Inventory) -> Option<GpuAtoms> {
    let has_gpu = inventory
        .pci_devices
        .iter()
        .any(|device| device.vendor_id == NVIDIA && device.class.starts_with("03") && device.driver != "vfio-pci");
    let driver = inventory.gpu_driver.as_ref();
    if inventory.schema == 0 || (driver.is_none() && has_gpu) {
        return None;
    }
    // The driver's own files name GPUs and not their MIG instances.
    let knows_mig = driver.is_some_and(|driver| driver.query_schema.is_some());
    let facts = |gpu: &Gpu| GpuFacts {
        uuid: gpu.uuid.clone(),
        minor: gpu.minor_number,
        mig: knows_mig.then(|| gpu.mig_instances.iter().map(mig_facts).collect()),
    };
    Some(GpuAtoms { gpus: inventory.gpus.iter().map(facts).collect() })
}

fn mig_facts(instance: &MigInstance) -> MigFacts {
    MigFacts {
        gpu_instance: instance.gpu_instance_id,
        compute_instance: instance.compute_instance_id,
        uuid: instance.uuid.clone(),
    }
}

fn names(tree: &Tree, path: &'static str) -> Result<Vec<String>, ObserveError> {
    let names = match tree.try_names(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        other => other.map_err(|source| ObserveError::List { path, source })?,
    };
    if names.len() >= DIRECTORY_ENTRIES_MAX { Err(ObserveError::TooMany { path }) } else { Ok(names) }
}

fn cdi_files(tree: &Tree) -> Result<Vec<CdiFile>, ObserveError> {
    let names = names(tree, CDI_DIRECTORY)?;
    let ours: Vec<&String> = names.iter().filter(|name| name.starts_with("bcd-") && name.ends_with(".json")).collect();
    if ours.len() > CDI_FILES_MAX {
        return Err(ObserveError::TooMany { path: CDI_DIRECTORY });
    }
    let mut files = Vec::new();
    for name in ours {
        files.extend(cdi_file(tree, name)?);
    }
    Ok(files)
}

/// `None` for a file of another kind, and one that went while it was read.
fn cdi_file(tree: &Tree, name: &str) -> Result<Option<CdiFile>, ObserveError> {
    let path = format!("{CDI_DIRECTORY}/{name}");
    let allocation = FileKind::Cdi.allocation(name);
    let bytes = match tree.bytes(&path, CDI_FILE_BYTES_MAX as usize) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !tree.exists(&path) => return Ok(None),
        Err(source) => {
            // A directory, a link that leads nowhere or a file without end in a hold's place.
            let is_place_taken = matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::Other);
            return match allocation.filter(|_| is_place_taken) {
                Some(allocation) => Ok(Some(CdiFile::Damaged { allocation, why: reason(&source) })),
                None => Err(ObserveError::Read { path, source }),
            };
        }
    };
    let Some(allocation) = allocation else { return Ok(stray(name, &bytes)) };
    Ok(match cdi::parse_cdi(&allocation, &bytes) {
        Ok(None) => None,
        Ok(Some(hold)) => {
            let is_exact = is_plain(tree, &path, FileKind::Cdi) && render_cdi(&hold) == bytes;
            Some(CdiFile::Hold { hold, is_exact })
        }
        Err(why) => Some(CdiFile::Damaged { allocation, why }),
    })
}

/// A spec of our kind under a name that is no allocation's, with the devices it can be seen to claim.
fn stray(name: &str, bytes: &[u8]) -> Option<CdiFile> {
    let spec: Value = serde_json::from_slice(bytes).ok()?;
    if spec.get("kind").and_then(Value::as_str) != Some(CDI_KIND) {
        return None;
    }
    let id = |device: &Value| {
        let id = device.get("annotations")?.get(crate::gpu::holds::DEVICE_ID_ANNOTATION)?.as_str()?;
        Atom::parse(id)
    };
    let devices = spec.get("devices").and_then(Value::as_array);
    let atoms = devices.into_iter().flatten().filter_map(id).collect();
    Some(CdiFile::Stray { file: clean(name), atoms })
}

/// Whether the file is a file, not a link to one, with the mode it was written with.
fn is_plain(tree: &Tree, path: &str, kind: FileKind) -> bool {
    let metadata = tree.path(path).symlink_metadata();
    metadata.is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o7777 == kind.mode())
}

fn env_files(tree: &Tree) -> Result<Vec<(model::AllocationId, EnvFile)>, ObserveError> {
    let mut files = Vec::new();
    for name in names(tree, ALLOCATIONS_DIRECTORY)? {
        let Some(allocation) = FileKind::AllocationEnv.allocation(&name) else { continue };
        let path = format!("{ALLOCATIONS_DIRECTORY}/{name}");
        let file = match tree.bytes(&path, CDI_FILE_BYTES_MAX as usize) {
            Ok(bytes) if is_plain(tree, &path, FileKind::AllocationEnv) => env_file::parse(&bytes),
            Ok(_) | Err(_) => EnvFile::Damaged,
        };
        files.push((allocation, file));
    }
    Ok(files)
}

/// The hold of a file that is as it was written.
#[cfg(test)]
pub(super) fn exact(file: &CdiFile) -> Option<&node_core::converge::Hold> {
    match file {
        CdiFile::Hold { hold, is_exact: true } => Some(hold),
        _ => None,
    }
}
