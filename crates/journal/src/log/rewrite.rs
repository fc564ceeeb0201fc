//! Compaction: a new file with the records the caller wants kept takes the old one's place. A
//! crash at any moment leaves the old records or the new ones.

use super::encode::Encoder;
use super::error::RewriteError;
use super::format::{
    GROW_STEP_BYTES, JOURNAL_FILE_BYTES_MAX, LogTag, RECORD_BYTES_MAX, SEALED, SECTOR_BYTES, file_header,
};
use super::open::stage_zeroes;
use super::{Log, Tail, record_size_is_allowed};
use crate::storage::Storage;
use std::io;

/// Finished sectors are written once there are this many bytes of them.
const WRITE_BYTES: usize = 256 << 10;

/// What the staged file holds.
struct Staged {
    log_id: [u8; 16],
    records: u64,
    tail: Tail,
    file_bytes: u64,
}

impl<S: Storage> Log<S> {
    /// Replaces all records by `records`, numbered from 1 again, and returns when that is durable.
    /// Records are written as they come; none is kept. A record that is refused, or no space, leaves
    /// the log as it was; a failed sync poisons it.
    pub fn rewrite(&mut self, records: impl Iterator<Item = Vec<u8>>) -> Result<(), RewriteError> {
        if self.poisoned {
            return Err(RewriteError::Poisoned);
        }
        let result = self.stage(records).and_then(|staged| self.adopt(staged));
        match &result {
            Err(RewriteError::Sync { .. }) => self.poisoned = true,
            Err(_) => self.storage.discard_staged(),
            Ok(()) => {}
        }
        result
    }

    fn stage(&mut self, records: impl Iterator<Item = Vec<u8>>) -> Result<Staged, RewriteError> {
        let log_id = self.storage.new_log_id();
        self.storage.stage().map_err(stage_failed("create"))?;
        self.storage.stage_append(&file_header(&log_id)).map_err(stage_failed("write"))?;
        let mut encoder = Encoder::resume(LogTag::of(&log_id), SEALED, &Tail::at_start_of(1), Vec::new());
        let mut count = 0;
        for record in records {
            if !record_size_is_allowed(&record) {
                return Err(RewriteError::RecordSize { bytes: record.len(), bytes_max: RECORD_BYTES_MAX });
            }
            count += 1;
            encoder.record(count, &record);
            if encoder.sealed_bytes() >= WRITE_BYTES {
                refuse_over_long((u64::from(encoder.last_sector()) + 2) * SECTOR_BYTES as u64)?;
                self.storage.stage_append(&encoder.take_sealed()).map_err(stage_failed("write"))?;
            }
        }
        let encoded = encoder.finish();
        let written = (encoded.sectors_needed() - 1) * SECTOR_BYTES as u64;
        let file_bytes = (written + SECTOR_BYTES as u64).next_multiple_of(GROW_STEP_BYTES);
        refuse_over_long(file_bytes)?;
        self.storage.stage_append(&encoded.bytes).map_err(stage_failed("write"))?;
        stage_zeroes(&mut self.storage, written, file_bytes).map_err(stage_failed("write"))?;
        Ok(Staged { log_id, records: count, tail: encoded.tail, file_bytes })
    }

    fn adopt(&mut self, staged: Staged) -> Result<(), RewriteError> {
        self.storage.stage_sync().map_err(|source| RewriteError::Sync { what: "new journal", source })?;
        self.storage.publish().map_err(stage_failed("rename"))?;
        self.tag = LogTag::of(&staged.log_id);
        self.log_id = staged.log_id;
        self.records = staged.records;
        self.tail = staged.tail;
        self.file_bytes = staged.file_bytes;
        self.storage.sync_directory().map_err(|source| RewriteError::Sync { what: "journal's directory", source })
    }
}

fn refuse_over_long(bytes: u64) -> Result<(), RewriteError> {
    if bytes > JOURNAL_FILE_BYTES_MAX {
        return Err(RewriteError::Full { bytes, bytes_max: JOURNAL_FILE_BYTES_MAX });
    }
    Ok(())
}

fn stage_failed(step: &'static str) -> impl FnOnce(io::Error) -> RewriteError {
    move |source| RewriteError::Stage { step, source }
}
