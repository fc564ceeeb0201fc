//! A folder that goes when its test has passed and stays when it has not.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// Short, because a unix socket's path has at most 107 bytes.
const PREFIX: &str = "bc-";

pub struct Scratch {
    /// `None` once it stays.
    directory: Mutex<Option<TempDir>>,
    path: PathBuf,
}

impl Scratch {
    pub fn new() -> Result<Self> {
        Self::new_in(&std::env::temp_dir())
    }

    pub fn new_in(parent: &Path) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent).context("no folder for a fleet")?;
        Ok(Self { path: directory.path().to_owned(), directory: Mutex::new(Some(directory)) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From now on the folder stays.
    pub fn keep(&self) -> PathBuf {
        let directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner).take();
        directory.map_or_else(|| self.path.clone(), TempDir::keep)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the test's folder is kept: {}", self.keep().display());
        }
    }
}
