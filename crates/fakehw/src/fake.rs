//! `FakeHost`: the simulated machine as a daemon sees it.

use crate::effects;
use crate::machine;
use crate::state::{self, HostState, StateError};
use host::gpu::holds::CDI_DIRECTORY;
use host::gpu::{GpuHold, read_holds};
use host::logs::{Source, Sources};
use host::tree::Tree;
use host::{Host, HostError, LogsRequest, LogsSummary, RebootEffect};
use model::{BootId, FailCode};
use proto::v1::{Inventory, NvmlDiag, Problem};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use stdx::durable::{self, DurableError};

const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

#[derive(Debug, thiserror::Error)]
pub enum FakeError {
    #[error("cannot set the simulated host up")]
    Root(#[source] DurableError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("cannot write the effects log {path}")]
    Effects {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("the effects log {path} is inside the host's own root")]
    EffectsInside { path: String },
}

impl From<FakeError> for HostError {
    fn from(error: FakeError) -> Self {
        HostError::internal(&error)
    }
}

/// A simulated host over `root`. Several may share one effects log.
#[derive(Debug)]
pub struct FakeHost {
    root: PathBuf,
    index: u32,
    effects_log: PathBuf,
    /// Held from reading the state to writing it.
    changing: Mutex<()>,
}

impl FakeHost {
    /// Opens the host under `root`, which is made and booted for the first time if it is not there.
    /// `index` decides the machine's ids. `effects_log` must be outside `root`.
    pub fn open(root: impl Into<PathBuf>, index: u32, effects_log: impl Into<PathBuf>) -> Result<Self, FakeError> {
        let (root, effects_log) = (root.into(), effects_log.into());
        if effects_log.starts_with(&root) {
            return Err(FakeError::EffectsInside { path: effects_log.display().to_string() });
        }
        durable::create_directory(&root, DIRECTORY_MODE).map_err(FakeError::Root)?;
        let host = Self { root, index, effects_log, changing: Mutex::new(()) };
        if state::load(&host.root)?.is_none() {
            host.write_files().map_err(FakeError::Root)?;
            // Last, so that a host with a state has all its files.
            let gpus = machine::new_gpus(index);
            state::save(&host.root, &HostState { boot_id: new_boot_id(), boots: 1, effects: 0, gpus })?;
        }
        Ok(host)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The state as the file has it now.
    pub fn state(&self) -> Result<HostState, FakeError> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let path = self.root.join(state::FILE);
        state::load(&self.root)?.ok_or_else(|| FakeError::Root(DurableError { step: "read", path, source: missing() }))
    }

    /// Changes the machine, as a test or a fault would. Returns after fsync.
    pub fn edit(&self, change: impl FnOnce(&mut HostState)) -> Result<(), FakeError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state()?;
        change(&mut state);
        Ok(state::save(&self.root, &state)?)
    }

    /// The files of the host's own that logs and holds are read from.
    fn write_files(&self) -> Result<(), DurableError> {
        for directory in ["proc", "etc", "etc/cdi", "log"] {
            durable::create_directory(&self.root.join(directory), DIRECTORY_MODE)?;
        }
        let kernel = format!("simulated host {} booted\n", self.index);
        let files = [
            ("proc/meminfo", "MemTotal:       2147483648 kB\n"),
            ("proc/cmdline", "BOOT_IMAGE=/vmlinuz simulated\n"),
            ("proc/mounts", "simulated / ext4 rw 0 0\n"),
            ("proc/interrupts", "           CPU0\n  0:          1  simulated\n"),
            ("log/kernel.txt", kernel.as_str()),
            ("log/journal.txt", "simulated hosts keep no journal of units\n"),
        ];
        for (name, text) in files {
            durable::write_file(&self.root.join(name), text.as_bytes(), FILE_MODE)?;
        }
        Ok(())
    }

    /// One line in the effects log, then `change` to the state. A crash between the two leaves the
    /// line: it happened.
    fn act(&self, state: &mut HostState, what: &str, command_id: &str) -> Result<(), FakeError> {
        let line = format!("{} {} {what} {command_id}", state.boot_id, state.effects);
        effects::append(&self.effects_log, &line)
            .map_err(|source| FakeError::Effects { path: self.effects_log.display().to_string(), source })?;
        state.effects = state.effects.saturating_add(1);
        Ok(())
    }
}

impl Host for FakeHost {
    fn hostname(&self) -> String {
        machine::hostname(self.index)
    }

    fn boot_id(&self) -> Result<BootId, HostError> {
        Ok(BootId::new(self.state()?.boot_id))
    }

    fn inventory(&self) -> Inventory {
        match self.state() {
            Ok(state) => machine::inventory(self.index, &state),
            Err(error) => {
                let problem = Problem { subject: state::FILE.to_owned(), reason: stdx::error::chain(&error) };
                Inventory { hostname: self.hostname(), problems: vec![problem], ..Inventory::default() }
            }
        }
    }

    fn nvml_diag(&self) -> Result<NvmlDiag, HostError> {
        Ok(machine::diag(&self.state()?))
    }

    fn gpu_reset(&self, uuid: &str, command_id: &str) -> Result<(), HostError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state()?;
        let Some(number) = state.gpus.iter().position(|gpu| gpu.uuid == uuid) else {
            return Err(HostError::new(FailCode::Internal, format!("no such GPU: {uuid}")));
        };
        if let Some(why) = &state.gpus[number].reset_fails {
            return Err(HostError::new(FailCode::Internal, why.clone()));
        }
        self.act(&mut state, uuid, command_id)?;
        let gpu = &mut state.gpus[number];
        gpu.ecc_volatile_uncorrectable = 0;
        gpu.remap_pending = false;
        gpu.resets = gpu.resets.saturating_add(1);
        state::save(&self.root, &state).map_err(FakeError::from)?;
        Ok(())
    }

    fn gpu_holds(&self) -> Result<Vec<GpuHold>, HostError> {
        read_holds(&Tree::new(&self.root), CDI_DIRECTORY).map_err(|error| HostError::internal(&error))
    }

    /// The next boot's id is durable when this returns; the caller ends the node and starts it again.
    fn reboot(&self, command_id: &str) -> Result<RebootEffect, HostError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state()?;
        self.act(&mut state, "reboot", command_id)?;
        state.boot_id = new_boot_id();
        state.boots = state.boots.saturating_add(1);
        for gpu in &mut state.gpus {
            gpu.ecc_volatile_uncorrectable = 0;
            gpu.remap_pending = false;
        }
        state::save(&self.root, &state).map_err(FakeError::from)?;
        Ok(RebootEffect::RestartSimulated)
    }

    fn collect_logs(&self, request: &LogsRequest, into: &mut dyn Write) -> Result<LogsSummary, HostError> {
        let smi = self.root.join("log/nvidia-smi.txt");
        let text = format!("{:#?}\n", self.nvml_diag()?);
        durable::write_file(&smi, text.as_bytes(), FILE_MODE).map_err(|error| HostError::internal(&error))?;
        let sources = Sources {
            tree: Tree::new(&self.root),
            journal: Source::File(self.root.join("log/journal.txt")),
            kernel: Source::File(self.root.join("log/kernel.txt")),
            nvidia_smi: Source::File(smi),
        };
        sources.collect(request, into).map_err(|error| HostError::internal(&error))
    }
}

/// A boot id in the kernel's form. Random, as the kernel's is.
fn new_boot_id() -> String {
    let digits = format!("{:032x}", rand::random::<u128>());
    format!("{}-{}-{}-{}-{}", &digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..])
}
