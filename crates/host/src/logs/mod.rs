//! What `logs.collect` brings home: the daemon's journal, the kernel's messages, `nvidia-smi -q`, a
//! few files of /proc and the daemon's own log files, as a tar under zstd with a MANIFEST.
//!
//! Each item is bounded and redacted on its own, and written before the next is read, so that one
//! item at a time is in memory. An item that cannot be had is a line of the MANIFEST.

mod archive;
mod kernel;
mod redact;

#[cfg(test)]
mod tests;

pub use archive::ArchiveError;
pub use redact::redact;

use crate::api::{LogsRequest, LogsSummary};
use crate::bounds::{
    LOG_COMMAND_TIMEOUT, LOG_FILES_MAX, LOG_ITEM_BYTES_MAX, LOG_SINCE_DEFAULT_S, LOG_SINCE_MAX_S, clean,
};
use crate::exec::{self, Keep, Run};
use crate::tree::{Tree, reason};
use archive::Archive;
use rustix::fs::{FileType, Mode, OFlags};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const PROC_FILES: [&str; 4] = ["meminfo", "cmdline", "mounts", "interrupts"];

/// A program of the host, or a file that stands for its output on a simulated one.
#[derive(Clone, Debug)]
pub enum Source {
    Program(OsString),
    File(PathBuf),
}

/// Where logs come from.
#[derive(Clone, Debug)]
pub struct Sources {
    pub tree: Tree,
    /// `journalctl`
    pub journal: Source,
    /// `dmesg`, asked only where /dev/kmsg cannot be read.
    pub kernel: Source,
    pub nvidia_smi: Source,
}

/// One item as it was had: its bytes, and whether its beginning is missing.
struct Item {
    bytes: Vec<u8>,
    cut: bool,
}

impl Sources {
    pub fn new(tree: Tree, nvidia_smi: OsString) -> Self {
        let program = |name: &str| Source::Program(name.into());
        Self { tree, journal: program("journalctl"), kernel: program("dmesg"), nvidia_smi: Source::Program(nvidia_smi) }
    }

    /// Writes the archive. Fails only when it cannot be written.
    pub fn collect(&self, request: &LogsRequest, into: &mut dyn Write) -> Result<LogsSummary, ArchiveError> {
        let mut archive = Archive::new(into)?;
        archive.add("journal.txt", self.journal(request.since_s))?;
        archive.add("kernel.txt", self.kernel())?;
        archive.add("nvidia-smi.txt", self.output(&self.nvidia_smi, &["-q"]))?;
        for name in PROC_FILES {
            archive.add(&format!("proc/{name}"), self.proc(name))?;
        }
        for (number, path) in request.files.iter().take(LOG_FILES_MAX).enumerate() {
            let name = clean(&path.file_name().unwrap_or_default().to_string_lossy());
            archive.add(&format!("files/{number:02}-{name}"), tail_of_file(path))?;
        }
        if request.files.len() > LOG_FILES_MAX {
            archive.problem("files", &format!("{} asked for, the first {LOG_FILES_MAX} taken", request.files.len()));
        }
        archive.finish()
    }

    fn journal(&self, since_s: u32) -> Result<Item, String> {
        let seconds = if since_s == 0 { LOG_SINCE_DEFAULT_S } else { since_s.min(LOG_SINCE_MAX_S) };
        let since = format!("--since=-{seconds}s");
        let units = ["--unit=bcd.service", "--unit=bcd-helper.service"];
        let form = ["--no-pager", "--quiet", "--utc", "--output=short-iso-precise"];
        let arguments: Vec<&str> = [since.as_str()].into_iter().chain(units).chain(form).collect();
        self.output(&self.journal, &arguments)
    }

    /// The ring buffer itself, or dmesg where it cannot be opened.
    fn kernel(&self) -> Result<Item, String> {
        if let Source::File(path) = &self.kernel {
            return tail_of_file(path);
        }
        match kernel::read(&self.tree.path("/dev/kmsg")) {
            Ok((bytes, cut)) => Ok(Item { bytes, cut }),
            Err(error) => self.output(&self.kernel, &[]).map_err(|and| format!("/dev/kmsg: {}; {and}", reason(&error))),
        }
    }

    fn output(&self, source: &Source, arguments: &[&str]) -> Result<Item, String> {
        let program = match source {
            Source::Program(program) => program.as_os_str(),
            Source::File(path) => return tail_of_file(path),
        };
        let run = Run::new(program, arguments, LOG_COMMAND_TIMEOUT, Keep::Tail(LOG_ITEM_BYTES_MAX));
        let output = exec::run(&run).map_err(|error| stdx::error::chain(&error))?;
        if output.code != 0 && output.stdout.is_empty() {
            return Err(format!("{} ended with status {}: {}", program.to_string_lossy(), output.code, output.stderr));
        }
        Ok(Item { bytes: output.stdout, cut: output.cut })
    }

    fn proc(&self, name: &str) -> Result<Item, String> {
        let bytes = self.tree.bytes(&format!("/proc/{name}"), LOG_ITEM_BYTES_MAX).map_err(|error| reason(&error))?;
        Ok(Item { bytes, cut: false })
    }
}

/// The last bytes of a regular file; a link in its place is not followed.
fn tail_of_file(path: &Path) -> Result<Item, String> {
    let read = || -> io::Result<Item> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let status = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("not a regular file"));
        }
        let skipped = (status.st_size as u64).saturating_sub(LOG_ITEM_BYTES_MAX as u64);
        file.seek(SeekFrom::Start(skipped))?;
        let mut bytes = Vec::new();
        file.take(LOG_ITEM_BYTES_MAX as u64).read_to_end(&mut bytes)?;
        Ok(Item { bytes, cut: skipped > 0 })
    };
    read().map_err(|error| format!("{}: {}", path.display(), reason(&error)))
}
