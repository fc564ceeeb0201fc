//! The two files of a hold, written and removed durably. Who asks names a kind and an allocation; the path is
//! made here.

use crate::gpu::holds::CDI_DIRECTORY;
use crate::tree::Tree;
use model::AllocationId;
use std::fmt;
use std::path::PathBuf;
use stdx::durable::{self, DurableError};

/// Where env files are.
pub const ALLOCATIONS_DIRECTORY: &str = "/run/bcd/allocations";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    Cdi,
    AllocationEnv,
}

impl FileKind {
    pub const fn directory(self) -> &'static str {
        match self {
            Self::Cdi => CDI_DIRECTORY,
            Self::AllocationEnv => ALLOCATIONS_DIRECTORY,
        }
    }

    /// Container runtimes of any account read CDI specs; an env file may hold secrets (D-Q17).
    pub const fn mode(self) -> u32 {
        match self {
            Self::Cdi => 0o644,
            Self::AllocationEnv => 0o600,
        }
    }

    const fn directory_mode(self) -> u32 {
        match self {
            Self::Cdi => 0o755,
            Self::AllocationEnv => 0o700,
        }
    }

    /// The file's path on the host. An allocation id has no character that could leave the directory: it is
    /// checked where it enters and again here.
    fn path(self, allocation: &AllocationId) -> Result<String, HoldFilesError> {
        if AllocationId::parse(allocation.as_str()).is_err() {
            return Err(HoldFilesError::Name);
        }
        Ok(match self {
            Self::Cdi => format!("{CDI_DIRECTORY}/bcd-{allocation}.json"),
            Self::AllocationEnv => format!("{ALLOCATIONS_DIRECTORY}/{allocation}.env"),
        })
    }

    /// The allocation a file name of the directory is for.
    pub(super) fn allocation(self, name: &str) -> Option<AllocationId> {
        let id = match self {
            Self::Cdi => name.strip_prefix("bcd-")?.strip_suffix(".json")?,
            Self::AllocationEnv => name.strip_suffix(".env")?,
        };
        AllocationId::parse(id).ok()
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cdi => "CDI spec",
            Self::AllocationEnv => "env file",
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum HoldFilesError {
    #[error(transparent)]
    File(#[from] DurableError),
    #[error("the allocation's name cannot be a file's")]
    Name,
}

/// What writes the files: this process, or a helper with more rights.
pub trait HoldFiles {
    /// Replaces the file. Returns once it is durable.
    fn write(&self, kind: FileKind, allocation: &AllocationId, bytes: &[u8]) -> Result<(), HoldFilesError>;

    /// Removes the file durably; a missing one is fine.
    fn remove(&self, kind: FileKind, allocation: &AllocationId) -> Result<(), HoldFilesError>;
}

/// Writes the files in process.
#[derive(Clone, Debug)]
pub struct DirectFiles {
    tree: Tree,
}

impl DirectFiles {
    pub fn new(tree: Tree) -> Self {
        Self { tree }
    }

    fn path(&self, kind: FileKind, allocation: &AllocationId) -> Result<PathBuf, HoldFilesError> {
        Ok(self.tree.path(&kind.path(allocation)?))
    }
}

impl HoldFiles for DirectFiles {
    fn write(&self, kind: FileKind, allocation: &AllocationId, bytes: &[u8]) -> Result<(), HoldFilesError> {
        let path = self.path(kind, allocation)?;
        durable::create_directory(&self.tree.path(kind.directory()), kind.directory_mode())?;
        Ok(durable::write_file(&path, bytes, kind.mode())?)
    }

    fn remove(&self, kind: FileKind, allocation: &AllocationId) -> Result<(), HoldFilesError> {
        let path = self.path(kind, allocation)?;
        if !self.tree.is_directory(kind.directory()) {
            return Ok(());
        }
        if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
            // What a write that a crash cut short has left.
            durable::remove(&path.with_file_name(format!(".{name}.new")))?;
        }
        Ok(durable::remove(&path)?)
    }
}
