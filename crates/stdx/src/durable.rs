//! The one way to write a file so that it survives a crash: a new file beside the target, fsync,
//! rename over the target, fsync of the directory. A reader sees the old content or the new,
//! never a mixture, and a name is there only once its bytes are.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[error("cannot {step} {}", path.display())]
pub struct DurableError {
    pub step: &'static str,
    pub path: PathBuf,
    #[source]
    pub source: io::Error,
}

impl DurableError {
    /// Whether the disk had no room (ENOSPC, EDQUOT).
    pub fn is_full(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

fn failed(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DurableError {
    let path = path.to_owned();
    move |source| DurableError { step, path, source }
}

/// Writes `bytes` to `path` with `mode`, durably and atomically. Returns after both fsyncs.
pub fn write_file(path: &Path, bytes: &[u8], mode: u32) -> Result<(), DurableError> {
    let temporary = temporary_name(path);
    let result = write_new(&temporary, bytes, mode).and_then(|()| rename(&temporary, path));
    if result.is_err() {
        remove_if_there(&temporary)?;
    }
    result
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> Result<(), DurableError> {
    remove_if_there(path)?;
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(mode)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(path)
        .map_err(failed("create", path))?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(|e| failed("set the mode of", path)(e.into()))?;
    file.write_all(bytes).map_err(failed("write", path))?;
    file.sync_all().map_err(failed("fsync", path))
}

/// Renames `from` to `to` and fsyncs the directory of `to`.
pub fn rename(from: &Path, to: &Path) -> Result<(), DurableError> {
    std::fs::rename(from, to).map_err(failed("rename", from))?;
    sync_directory_of(to)
}

/// Removes `path` durably; a missing one is fine.
pub fn remove(path: &Path) -> Result<(), DurableError> {
    remove_if_there(path)?;
    sync_directory_of(path)
}

/// Makes `path` and its missing parents with `mode` and fsyncs what it changed.
pub fn create_directory(path: &Path, mode: u32) -> Result<(), DurableError> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_directory(parent, mode)?;
    }
    match rustix::fs::mkdir(path, Mode::from_raw_mode(mode)) {
        Ok(()) => sync_directory_of(path),
        Err(rustix::io::Errno::EXIST) if path.is_dir() => Ok(()),
        Err(error) => Err(failed("make the directory", path)(error.into())),
    }
}

/// Reads a file of at most `bytes_max`; `None` when it does not exist.
pub fn read_bounded(path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, DurableError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("open", path)(error)),
    };
    let size = file.metadata().map_err(failed("stat", path))?.size();
    if size > bytes_max {
        return Err(failed("read", path)(io::Error::other(format!("{size} bytes, at most {bytes_max} are read"))));
    }
    let mut bytes = Vec::with_capacity(size as usize);
    file.take(bytes_max).read_to_end(&mut bytes).map_err(failed("read", path))?;
    Ok(Some(bytes))
}

/// Fsyncs the directory that holds `path`.
pub fn sync_directory_of(path: &Path) -> Result<(), DurableError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = File::open(parent).map_err(failed("open the directory", parent))?;
    directory.sync_all().map_err(failed("fsync the directory", parent))
}

fn temporary_name(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    path.with_file_name(name)
}

fn remove_if_there(path: &Path) -> Result<(), DurableError> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("remove", path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_with_its_mode_and_leaves_no_temporary() {
        let directory = tempfile::tempdir().expect("tempdir");
        let path = directory.path().join("identity.json");
        write_file(&path, b"one", 0o600).expect("first");
        write_file(&path, b"two", 0o600).expect("second");
        assert_eq!(read_bounded(&path, 16).expect("read"), Some(b"two".to_vec()));
        assert_eq!(std::fs::metadata(&path).expect("stat").mode() & 0o7777, 0o600);
        assert_eq!(std::fs::read_dir(directory.path()).expect("list").count(), 1);
    }

    #[test]
    fn a_planted_link_at_the_temporary_name_is_not_followed() {
        let directory = tempfile::tempdir().expect("tempdir");
        let victim = directory.path().join("victim");
        write_file(&victim, b"keep", 0o600).expect("victim");
        std::os::unix::fs::symlink(&victim, directory.path().join(".x.new")).expect("link");
        write_file(&directory.path().join("x"), b"new", 0o600).expect("write");
        assert_eq!(read_bounded(&victim, 16).expect("read"), Some(b"keep".to_vec()));
    }

    #[test]
    fn a_file_over_the_bound_is_refused_and_a_missing_one_is_none() {
        let directory = tempfile::tempdir().expect("tempdir");
        let path = directory.path().join("big");
        write_file(&path, &[7; 17], 0o600).expect("write");
        assert!(read_bounded(&path, 16).is_err());
        assert!(read_bounded(&directory.path().join("none"), 16).expect("missing").is_none());
    }
}
