//! The archive itself: a tar under zstd whose size has a bound whatever goes in, and its MANIFEST.

use super::Item;
use super::redact::redact;
use crate::api::LogsSummary;
use crate::bounds::{LOG_ARCHIVE_RAW_BYTES_MAX, LOG_ITEM_BYTES_MAX, clean};
use model::limits::BLOB_BYTES_MAX;
use std::io::{self, Write};

/// The tar's own cost of one entry: header and padding.
const ENTRY_BYTES: usize = 1024;
/// Kept free for the MANIFEST.
const MANIFEST_BYTES_MAX: usize = 256 << 10;
const LEVEL: i32 = 3;

#[derive(Debug, thiserror::Error)]
#[error("cannot write the archive at {item}")]
pub struct ArchiveError {
    pub item: String,
    #[source]
    pub source: io::Error,
}

/// Counts what goes through and refuses to go beyond a blob.
struct Bounded<'a> {
    into: &'a mut dyn Write,
    written: u64,
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.written + bytes.len() as u64 > BLOB_BYTES_MAX {
            return Err(io::Error::other(format!("the archive is longer than {BLOB_BYTES_MAX} bytes")));
        }
        let count = self.into.write(bytes)?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.into.flush()
    }
}

pub(super) struct Archive<'a> {
    tar: tar::Builder<zstd::Encoder<'static, Bounded<'a>>>,
    raw_left: usize,
    taken_unix_s: u64,
    manifest: String,
    summary: LogsSummary,
}

impl<'a> Archive<'a> {
    pub fn new(into: &'a mut dyn Write) -> Result<Self, ArchiveError> {
        let encoder = zstd::Encoder::new(Bounded { into, written: 0 }, LEVEL)
            .map_err(|source| ArchiveError { item: "the beginning".to_owned(), source })?;
        Ok(Self {
            tar: tar::Builder::new(encoder),
            raw_left: LOG_ARCHIVE_RAW_BYTES_MAX - MANIFEST_BYTES_MAX - ENTRY_BYTES,
            taken_unix_s: stdx::clock::wall_unix_ms().max(0) as u64 / 1000,
            manifest: String::new(),
            summary: LogsSummary::default(),
        })
    }

    /// Adds one item, redacted, or the reason why there is none.
    pub fn add(&mut self, name: &str, item: Result<Item, String>) -> Result<(), ArchiveError> {
        let item = match item {
            Ok(item) => item,
            Err(why) => {
                self.problem(name, &why);
                return Ok(());
            }
        };
        let room = self.raw_left.saturating_sub(ENTRY_BYTES).min(LOG_ITEM_BYTES_MAX);
        let (bytes, redacted) = redact(&whole_lines(item.bytes, item.cut));
        let whole = bytes.len();
        let bytes = whole_lines_of_tail(bytes, room);
        if item.cut || bytes.len() < whole {
            self.problem(name, "longer than its bound: the beginning is missing");
        }
        self.line(&format!("{name}: {} bytes, {redacted} secrets taken out", bytes.len()));
        self.summary.items += 1;
        self.raw_left = self.raw_left.saturating_sub(bytes.len() + ENTRY_BYTES);
        self.append(name, &bytes)
    }

    pub fn problem(&mut self, name: &str, why: &str) {
        // A program's own words may quote what it was given.
        let (why, _) = redact(why.as_bytes());
        let problem = format!("{name}: {}", clean(&String::from_utf8_lossy(&why)));
        self.line(&format!("PROBLEM {problem}"));
        self.summary.problems.push(problem);
    }

    /// Writes the MANIFEST and ends the archive.
    pub fn finish(mut self) -> Result<LogsSummary, ArchiveError> {
        let manifest = std::mem::take(&mut self.manifest);
        self.append("MANIFEST", manifest.as_bytes())?;
        let failed = |source| ArchiveError { item: "the end".to_owned(), source };
        let mut bounded = self.tar.into_inner().and_then(zstd::Encoder::finish).map_err(failed)?;
        bounded.flush().map_err(failed)?;
        self.summary.bytes = bounded.written;
        Ok(self.summary)
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), ArchiveError> {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(self.taken_unix_s);
        self.tar.append_data(&mut header, name, bytes).map_err(|source| ArchiveError { item: name.to_owned(), source })
    }

    fn line(&mut self, line: &str) {
        if self.manifest.len() + line.len() < MANIFEST_BYTES_MAX {
            self.manifest.push_str(line);
            self.manifest.push('\n');
        }
    }
}

/// The last whole lines of `bytes` in at most `room`.
fn whole_lines_of_tail(mut bytes: Vec<u8>, room: usize) -> Vec<u8> {
    if bytes.len() <= room {
        return bytes;
    }
    bytes.drain(..bytes.len() - room);
    whole_lines(bytes, true)
}

/// Without the broken first line of a text whose beginning was cut: half a secret is not recognised.
fn whole_lines(mut bytes: Vec<u8>, cut: bool) -> Vec<u8> {
    if cut {
        let first = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |newline| newline + 1);
        bytes.drain(..first);
    }
    bytes
}
