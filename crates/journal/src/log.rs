//! An append-only log of opaque records in one file, `journal.db`. Acknowledged records survive a
//! power cut; what a crash left of an unacknowledged batch is cut at open; anything else that is
//! not as it was written is [`OpenError::Corrupt`], never a shorter log. It does not know what a
//! record means, and keeps none in memory.
//!
//! ```text
//! open ─► usable ─append, rewrite─► usable
//!            └── a failed sync, or a failed write that could not be erased ──► poisoned
//! ```
//!
//! # Durability
//!
//! Assumed of the disk: a sector of 512 bytes is written whole or not at all; a sync that succeeds
//! made everything before it durable; until then any subset of the written sectors may be there
//! after a crash, in any order, and one of them may have landed on another sector. A sector may
//! also rot: one byte of it, or anything a CRC32C detects.
//!
//! An append packs its records into sectors behind the tail, writes them with one write and syncs
//! once. The first of these sectors may be shared with acknowledged records; its new content
//! repeats them, so old or new, they stay. The others held zeroes or were blank. Each sector says
//! in its header, under its own checksum, where it belongs (`index`), which log it is of (`tag`)
//! and up to which record the log was durable when it was written (`durable`). Records are
//! numbered from 1 without gaps.
//!
//! At open a sector is *zero*, *own* (sound, at its index), *blank*, *foreign* (sound, of another
//! index) or *broken*. Records are read through own sectors until record `n` is not whole: its
//! header is zeroes, or a sector it needs is zero, blank or foreign. Then:
//!
//! 1. **A crash is never called corrupt.** At most one batch is unacknowledged, and all its
//!    sectors were written with `durable` = `d`, where `d + 1` is its first record, so `d < n`.
//!    Whatever subset of them is on disk, and wherever one landed outside acknowledged sectors,
//!    everything at and behind the end is zero, blank, or has `durable < n`. That is cut. The cut
//!    itself is such a write (`durable` = `n - 1`), so a crash in it changes nothing.
//! 2. **A flip is never taken for a crash.** No flipped byte makes a sector zero, for marker and
//!    checksum are both there, nor blank or foreign, for the checksum covers the whole sector,
//!    padding included. A flip in the free zeroes is a broken sector too: it is reported, for a
//!    disk that flips there is not to be trusted. So every broken sector is corrupt, the last
//!    acknowledged record's included.
//! 3. **A misdirected write onto acknowledged data is never taken for a crash.** It came from a
//!    batch or a cut after the record it hit, so its `durable >= n`, and that proves the loss. The
//!    same holds for a sector that went back to an older state, if anything was written later;
//!    and a record out of sequence is corrupt.
//! 4. **A truncated file is seen.** The log never uses the last sector of its file: it grows
//!    first, by zeroes that are synced before use. So records that go on up to the file's end,
//!    with no zeroes behind them, went on after it.
//!
//! Cut sectors become *blank*, not zero: were the zeroes misdirected onto the last acknowledged
//! record, it would look torn; a blank sector says where it belongs. A rewritten file was durable
//! as a whole before its rename, so its sectors are *sealed*: behind a hole they always prove a loss.
//!
//! Before it reads, open makes the disk's state and the cache's the same ([`Storage::settle`]): a
//! record read at open is durable, even if a killed process never synced it, and so is the rename
//! of a rewrite that was killed before it synced the directory.
//!
//! Not seen: a disk that acknowledges a sync and forgets the whole last batch, and a file replaced
//! by an older copy of itself.

mod encode;
mod error;
mod format;
mod open;
mod rewrite;
mod scan;
#[cfg(test)]
mod tests;

pub use error::{AppendError, Corruption, OpenError, RewriteError};
pub use format::{
    BATCH_BYTES_MAX, FORMAT_VERSION, GROW_STEP_BYTES, JOURNAL_FILE_BYTES_MAX, RECORD_BYTES_MAX, SECTOR_BYTES,
};
pub use open::Opened;

use crate::storage::Storage;
use encode::{Encoded, Encoder, Tail, sector_offset};
use format::{LogTag, SectorHeader, SectorKind, blank_sector, seal_sector};
use std::io;

/// The batch buffer is kept between appends up to this many bytes.
const BUFFER_KEPT_BYTES: usize = 64 << 10;

/// The open log. One owner; every call returns after its disk operations.
#[derive(Debug)]
pub struct Log<S: Storage> {
    storage: S,
    tag: LogTag,
    log_id: [u8; 16],
    records: u64,
    tail: Tail,
    /// The file's length in bytes, as far as it may be used.
    file_bytes: u64,
    poisoned: bool,
    buffer: Vec<u8>,
}

impl<S: Storage> Log<S> {
    /// Appends `records` in order, as one batch, and returns after one sync that covers them all.
    /// After a crash before that, a prefix of them may be there. An empty batch does nothing.
    pub fn append(&mut self, records: &[&[u8]]) -> Result<(), AppendError> {
        check_batch(records)?;
        if self.poisoned {
            return Err(AppendError::Poisoned);
        }
        if records.is_empty() {
            return Ok(());
        }
        let mut encoder = Encoder::resume(self.tag, self.records, &self.tail, std::mem::take(&mut self.buffer));
        for (sequence, record) in (self.records + 1..).zip(records) {
            encoder.record(sequence, record);
        }
        let batch = encoder.finish();
        let result = self.write_batch(&batch);
        if result.is_ok() {
            self.records += records.len() as u64;
            self.tail = batch.tail;
        }
        if batch.bytes.capacity() <= BUFFER_KEPT_BYTES {
            self.buffer = batch.bytes;
        }
        result
    }

    fn write_batch(&mut self, batch: &Encoded) -> Result<(), AppendError> {
        self.reserve(batch.sectors_needed() * SECTOR_BYTES as u64)?;
        if let Err(error) = self.storage.write_at(sector_offset(batch.first), &batch.bytes) {
            let behind = batch.first + (batch.bytes.len() / SECTOR_BYTES) as u32;
            return Err(match self.erase((batch.first..behind).collect()) {
                Ok(()) => AppendError::Write(error),
                Err(error) => {
                    self.poisoned = true;
                    AppendError::TailNotCut(error)
                }
            });
        }
        self.sync_data()
    }

    fn sync_data(&mut self) -> Result<(), AppendError> {
        self.storage.sync_data().map_err(|error| {
            self.poisoned = true;
            AppendError::Sync(error)
        })
    }

    /// Grows the file so that it has `bytes_needed`; the new zeroes are durable on return.
    fn reserve(&mut self, bytes_needed: u64) -> Result<(), AppendError> {
        if bytes_needed <= self.file_bytes {
            return Ok(());
        }
        let to = bytes_needed.next_multiple_of(GROW_STEP_BYTES);
        if to > JOURNAL_FILE_BYTES_MAX {
            return Err(AppendError::Full { bytes: to, bytes_max: JOURNAL_FILE_BYTES_MAX });
        }
        self.storage.grow(self.file_bytes, to).map_err(AppendError::Grow)?;
        self.sync_data()?;
        self.file_bytes = to;
        Ok(())
    }

    /// Durably makes `sectors` hold nothing behind the tail: the tail's sector keeps what is before it.
    fn erase(&mut self, sectors: Vec<u32>) -> io::Result<()> {
        for index in sectors {
            let image = if index == self.tail.sector && !self.tail.is_fresh() {
                let mut image = self.tail.image;
                let header = SectorHeader { kind: SectorKind::Data, index, durable: self.records };
                seal_sector(&mut image, header, self.tag);
                image
            } else {
                blank_sector(index, self.records, self.tag)
            };
            self.storage.write_at(sector_offset(index), &image)?;
        }
        self.storage.sync_data()
    }

    /// The end of the records: bytes from the start of the file.
    pub fn bytes(&self) -> u64 {
        self.tail.offset()
    }

    /// The file's length in bytes, the free space included.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// How many records the log holds.
    pub fn len(&self) -> u64 {
        self.records
    }

    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Whether a failure left the log in an unknown state: every append and rewrite is refused.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// The random name of this file; a rewrite makes a new one.
    pub fn log_id(&self) -> [u8; 16] {
        self.log_id
    }

    /// Gives the storage back. Everything acknowledged is on it already.
    pub fn into_storage(self) -> S {
        self.storage
    }
}

fn check_batch(records: &[&[u8]]) -> Result<(), AppendError> {
    if let Some(record) = records.iter().find(|record| !record_size_is_allowed(record)) {
        return Err(AppendError::RecordSize { bytes: record.len(), bytes_max: RECORD_BYTES_MAX });
    }
    let bytes = records.iter().map(|record| record.len()).sum();
    if bytes > BATCH_BYTES_MAX {
        return Err(AppendError::BatchSize { bytes, bytes_max: BATCH_BYTES_MAX });
    }
    Ok(())
}

fn record_size_is_allowed(record: &[u8]) -> bool {
    (1..=RECORD_BYTES_MAX).contains(&record.len())
}
