//! How each operation of the log fails, and what a failure leaves behind.

use std::io;

/// What is wrong with a journal that cannot be a crash's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Corruption {
    #[error("the file does not begin as a journal does")]
    FileMagic,
    #[error("the file header fails its checksum")]
    FileHeaderChecksum,
    #[error("a written sector begins with an unknown marker")]
    SectorMarker,
    #[error("a sector fails its checksum")]
    SectorChecksum,
    #[error("a sector belongs to another log")]
    OtherLog,
    #[error("no record begins where one must")]
    RecordMagic,
    #[error("a record claims {length} bytes")]
    RecordLength { length: usize },
    #[error("record {sequence} fails its checksum")]
    RecordChecksum { sequence: u64 },
    #[error("record {found} is where record {expected} must be")]
    Sequence { expected: u64, found: u64 },
    #[error("bytes follow the end of the records in one sector")]
    BytesAfterEnd,
    #[error("record {sequence} was acknowledged and is missing")]
    AcknowledgedMissing { sequence: u64 },
    #[error("the file is shorter than what was acknowledged")]
    Truncated,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot {step} the journal")]
    Storage {
        step: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("the journal is {bytes} bytes long, at most {bytes_max} are read")]
    TooLarge { bytes: u64, bytes_max: u64 },
    /// The header is sound and of another version: another program's file, not a damaged one.
    #[error("the journal has format version {found}, this program reads {supported}")]
    Version { found: u32, supported: u32 },
    /// Acknowledged data cannot be vouched for. `offset` is the byte the check failed at.
    #[error("the journal is corrupt at byte {offset}")]
    Corrupt {
        offset: u64,
        #[source]
        why: Corruption,
    },
}

/// Every variant but `Sync`, `TailNotCut` and `Poisoned` leaves the log as it was before the append.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    #[error("an earlier failure left the journal in an unknown state")]
    Poisoned,
    #[error("a record of {bytes} bytes, 1 to {bytes_max} are taken")]
    RecordSize { bytes: usize, bytes_max: usize },
    #[error("a batch of {bytes} bytes, at most {bytes_max} are taken")]
    BatchSize { bytes: usize, bytes_max: usize },
    #[error("the journal would grow to {bytes} bytes, at most {bytes_max} are allowed")]
    Full { bytes: u64, bytes_max: u64 },
    #[error("cannot grow the journal")]
    Grow(#[source] io::Error),
    /// The write failed and what it left was erased durably: the append can be tried again.
    #[error("cannot write to the journal")]
    Write(#[source] io::Error),
    /// The write failed and so did erasing what it left; the log is poisoned.
    #[error("cannot erase a failed write to the journal")]
    TailNotCut(#[source] io::Error),
    /// A sync failed; the log is poisoned, for the page cache may hold what the disk does not.
    #[error("cannot sync the journal")]
    Sync(#[source] io::Error),
}

impl AppendError {
    /// Whether the disk had no room (ENOSPC, EDQUOT).
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::Grow(error) | Self::Write(error) if no_space(error))
    }
}

/// `Sync` and `Poisoned` say the log takes no more; after the others it is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    #[error("an earlier failure left the journal in an unknown state")]
    Poisoned,
    #[error("a record of {bytes} bytes, 1 to {bytes_max} are taken")]
    RecordSize { bytes: usize, bytes_max: usize },
    #[error("the journal would grow to {bytes} bytes, at most {bytes_max} are allowed")]
    Full { bytes: u64, bytes_max: u64 },
    #[error("cannot {step} the new journal")]
    Stage {
        step: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("cannot sync the {what}")]
    Sync {
        what: &'static str,
        #[source]
        source: io::Error,
    },
}

impl RewriteError {
    /// Whether the disk had no room (ENOSPC, EDQUOT).
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::Stage { source, .. } if no_space(source))
    }
}

fn no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
