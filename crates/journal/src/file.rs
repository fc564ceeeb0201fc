//! The journal on a real disk: `journal.db` in a directory, held by one process at a time.
//!
//! The lock is an flock(2) on the directory itself: it outlives renames of the file, needs no file
//! of its own, and is there before the first journal. Files are made with mode 0600, and a link in
//! place of a file is not followed. Growth allocates the blocks and then writes real zeroes, so that an append changes
//! neither the file's size nor its extents and its fdatasync has no metadata to commit.

use crate::storage::{JOURNAL_NAME, STAGED_NAME, Storage};
use rand::RngCore;
use rustix::fs::{Advice, AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MODE: Mode = Mode::from_raw_mode(0o600);
/// Zeroes are written in pieces of this many bytes.
const ZEROES_BYTES: usize = 64 << 10;
static ZEROES: [u8; ZEROES_BYTES] = [0; ZEROES_BYTES];

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Another process, or another part of this one, has the journal open.
    #[error("the journal in {} is in use", directory.display())]
    InUse { directory: PathBuf },
    #[error("{} is not a regular file", path.display())]
    NotAFile { path: PathBuf },
    #[error("cannot {step} {}", path.display())]
    Io {
        step: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Holds the directory's lock until it is dropped.
#[derive(Debug)]
pub struct FileStorage {
    path: PathBuf,
    directory: OwnedFd,
    journal: Option<File>,
    staged: Option<(File, u64)>,
}

impl FileStorage {
    /// Locks `directory` and opens the journal in it, if there is one.
    pub fn open(directory: &Path) -> Result<Self, FileError> {
        let failed = |step| {
            let path = directory.to_owned();
            move |error: Errno| FileError::Io { step, path, source: error.into() }
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(directory, flags, Mode::empty()).map_err(failed("open"))?;
        match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(FileError::InUse { directory: directory.to_owned() }),
            Err(error) => return Err(failed("lock")(error)),
        }
        let journal = open_journal(&fd, &directory.join(JOURNAL_NAME))?;
        Ok(Self { path: directory.to_owned(), directory: fd, journal, staged: None })
    }

    /// Renames `journal.db` to `journal.db.<suffix>`, durably, and returns the new path. An existing
    /// file of that name is never replaced. `None` when there is no journal.
    pub fn move_aside(&mut self, suffix: &str) -> Result<Option<PathBuf>, FileError> {
        if self.journal.is_none() {
            return Ok(None);
        }
        let name = format!("{JOURNAL_NAME}.{suffix}");
        let path = self.path.join(&name);
        let failed = |step| {
            let path = path.clone();
            move |error: Errno| FileError::Io { step, path, source: error.into() }
        };
        rustix::fs::renameat_with(&self.directory, JOURNAL_NAME, &self.directory, &name, RenameFlags::NOREPLACE)
            .map_err(failed("move the journal to"))?;
        rustix::fs::fsync(&self.directory).map_err(failed("sync the directory of"))?;
        self.journal = None;
        Ok(Some(path))
    }

    fn journal(&self) -> io::Result<&File> {
        self.journal.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// `<what>-<UTC time>` as in `corrupt-20260926T114200Z`, for [`FileStorage::move_aside`]. `unix_ms`
/// are milliseconds; a time no calendar has is written as the number.
pub fn suffix(what: &str, unix_ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(unix_ms) {
        Ok(time) => format!("{what}-{}", time.strftime("%Y%m%dT%H%M%SZ")),
        Err(_) => format!("{what}-{unix_ms}"),
    }
}

fn open_journal(directory: &OwnedFd, path: &Path) -> Result<Option<File>, FileError> {
    let failed = |step| move |error: Errno| FileError::Io { step, path: path.to_owned(), source: error.into() };
    // NONBLOCK: a planted FIFO must not hang the daemon.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = match rustix::fs::openat(directory, JOURNAL_NAME, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(failed("open")(error)),
    };
    let stat = rustix::fs::fstat(&fd).map_err(failed("stat"))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(FileError::NotAFile { path: path.to_owned() });
    }
    Ok(Some(fd.into()))
}

impl Storage for FileStorage {
    fn length(&mut self) -> io::Result<Option<u64>> {
        self.journal.as_ref().map(|file| Ok(file.metadata()?.len())).transpose()
    }

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.journal()?.read_exact_at(bytes, offset)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.journal()?.write_all_at(bytes, offset)
    }

    fn grow(&mut self, from: u64, to: u64) -> io::Result<()> {
        let file = self.journal()?;
        // Finds out about missing space at once; not every file system can.
        match rustix::fs::fallocate(file, FallocateFlags::empty(), from, to - from) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
        let mut offset = from;
        while offset < to {
            let now = (to - offset).min(ZEROES_BYTES as u64);
            file.write_all_at(&ZEROES[..now as usize], offset)?;
            offset += now;
        }
        Ok(())
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.journal()?.sync_data()
    }

    fn settle(&mut self) -> io::Result<()> {
        let file = self.journal()?;
        file.sync_data()?;
        rustix::fs::fsync(&self.directory)?;
        // After a failed fsync the kernel keeps pages that are marked clean and are not on the disk.
        rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?;
        Ok(())
    }

    fn stage(&mut self) -> io::Result<()> {
        self.staged = None;
        match rustix::fs::unlinkat(&self.directory, STAGED_NAME, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file: File = rustix::fs::openat(&self.directory, STAGED_NAME, flags, MODE)?.into();
        self.staged = Some((file, 0));
        Ok(())
    }

    fn stage_append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (file, length) = self.staged.as_mut().ok_or(io::ErrorKind::NotFound)?;
        file.write_all_at(bytes, *length)?;
        *length += bytes.len() as u64;
        Ok(())
    }

    fn stage_sync(&mut self) -> io::Result<()> {
        self.staged.as_ref().ok_or(io::ErrorKind::NotFound)?.0.sync_all()
    }

    fn publish(&mut self) -> io::Result<()> {
        let (file, _) = self.staged.take().ok_or(io::ErrorKind::NotFound)?;
        rustix::fs::renameat(&self.directory, STAGED_NAME, &self.directory, JOURNAL_NAME)?;
        self.journal = Some(file);
        Ok(())
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.directory)?)
    }

    fn discard_staged(&mut self) {
        self.staged = None;
        // Best effort: `stage` removes what is left here, and reports it if it cannot.
        rustix::fs::unlinkat(&self.directory, STAGED_NAME, AtFlags::empty()).ok();
    }

    fn new_log_id(&mut self) -> [u8; 16] {
        let mut id = [0; 16];
        rand::rng().fill_bytes(&mut id);
        id
    }
}
