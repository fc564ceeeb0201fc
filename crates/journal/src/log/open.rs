//! Opening a log: makes it when there is none, reads it whole through a bounded buffer, and cuts
//! what a crash left of an unacknowledged batch.

use super::encode::sector_offset;
use super::error::OpenError;
use super::format::{
    FORMAT_VERSION, GROW_STEP_BYTES, JOURNAL_FILE_BYTES_MAX, LogTag, SECTOR_BYTES, ZERO_SECTOR, file_header,
    read_file_header,
};
use super::scan::{Damage, Scanned, Scanner};
use super::{Corruption, Log};
use crate::storage::Storage;
use std::io;

/// The file is read in pieces of this many bytes; a multiple of the sector.
const READ_BYTES: usize = 256 << 10;

/// A log that was opened or made.
#[derive(Debug)]
pub struct Opened<S: Storage> {
    pub log: Log<S>,
    /// All records, the first first. They are durable.
    pub records: Vec<Vec<u8>>,
    /// How many sectors held leftovers of an unacknowledged batch, now erased.
    pub sectors_cut: usize,
    /// There was no journal; this one is new and durable.
    pub created: bool,
}

impl<S: Storage> Log<S> {
    /// Opens the log on `storage`, or makes an empty one. On success every record returned is
    /// durable. On `Corrupt` nothing was changed.
    pub fn open(mut storage: S) -> Result<Opened<S>, OpenError> {
        let Some(bytes) = storage.length().map_err(failed("stat"))? else {
            return create(storage);
        };
        if bytes > JOURNAL_FILE_BYTES_MAX {
            return Err(OpenError::TooLarge { bytes, bytes_max: JOURNAL_FILE_BYTES_MAX });
        }
        storage.settle().map_err(failed("settle"))?;
        storage.discard_staged();
        let log_id = read_header(&mut storage, bytes)?;
        let tag = LogTag::of(&log_id);
        let Scanned { records, tail, leftovers } = read_records(&mut storage, bytes, tag)?;
        let mut log = Log {
            storage,
            tag,
            log_id,
            records: records.len() as u64,
            tail,
            file_bytes: bytes / SECTOR_BYTES as u64 * SECTOR_BYTES as u64,
            poisoned: false,
            buffer: Vec::new(),
        };
        let sectors_cut = leftovers.len();
        if sectors_cut > 0 {
            log.erase(leftovers).map_err(failed("cut"))?;
        }
        Ok(Opened { log, records, sectors_cut, created: false })
    }
}

fn create<S: Storage>(mut storage: S) -> Result<Opened<S>, OpenError> {
    let log_id = storage.new_log_id();
    storage.stage().map_err(failed("create"))?;
    storage.stage_append(&file_header(&log_id)).map_err(failed("write"))?;
    stage_zeroes(&mut storage, SECTOR_BYTES as u64, GROW_STEP_BYTES).map_err(failed("write"))?;
    storage.stage_sync().map_err(failed("sync"))?;
    storage.publish().map_err(failed("rename"))?;
    storage.sync_directory().map_err(failed("sync the directory of"))?;
    let log = Log {
        storage,
        tag: LogTag::of(&log_id),
        log_id,
        records: 0,
        tail: super::Tail::at_start_of(1),
        file_bytes: GROW_STEP_BYTES,
        poisoned: false,
        buffer: Vec::new(),
    };
    Ok(Opened { log, records: Vec::new(), sectors_cut: 0, created: true })
}

/// Appends zeroes to the staged file, which is `from` bytes long, until it has `to`.
pub(super) fn stage_zeroes<S: Storage>(storage: &mut S, from: u64, to: u64) -> io::Result<()> {
    let zeroes = vec![0; (to - from).min(READ_BYTES as u64) as usize];
    let mut left = to - from;
    while left > 0 {
        let now = left.min(zeroes.len() as u64);
        storage.stage_append(&zeroes[..now as usize])?;
        left -= now;
    }
    Ok(())
}

fn read_header<S: Storage>(storage: &mut S, bytes: u64) -> Result<[u8; 16], OpenError> {
    if bytes < SECTOR_BYTES as u64 {
        return Err(corrupt(Damage { offset: bytes, why: Corruption::Truncated }));
    }
    let mut header = ZERO_SECTOR;
    storage.read_at(0, &mut header).map_err(failed("read"))?;
    let (found, log_id) = read_file_header(&header).map_err(|why| corrupt(Damage { offset: 0, why }))?;
    if found != FORMAT_VERSION {
        return Err(OpenError::Version { found, supported: FORMAT_VERSION });
    }
    Ok(log_id)
}

fn read_records<S: Storage>(storage: &mut S, bytes: u64, tag: LogTag) -> Result<Scanned, OpenError> {
    let mut scanner = Scanner::new(tag);
    let mut buffer = vec![0; READ_BYTES.min(bytes as usize)];
    let mut offset = sector_offset(1);
    loop {
        let piece = &mut buffer[..((bytes - offset).min(READ_BYTES as u64)) as usize];
        storage.read_at(offset, piece).map_err(failed("read"))?;
        let mut sectors = piece.chunks_exact(SECTOR_BYTES);
        for sector in &mut sectors {
            scanner.sector(sector).map_err(corrupt)?;
        }
        offset += piece.len() as u64;
        if offset == bytes {
            return scanner.finish(sectors.remainder()).map_err(corrupt);
        }
    }
}

fn corrupt(damage: Damage) -> OpenError {
    OpenError::Corrupt { offset: damage.offset, why: damage.why }
}

fn failed(step: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    move |source| OpenError::Storage { step, source }
}
