//! The bytes of the journal: file header, sector header, record header. Pure functions; nothing
//! here knows where the log ends or what a bad sector means. All integers are little-endian.
//!
//! ```text
//! sector 0    magic 8 | version 4 | log id 16 | crc 4 | zeroes
//! sector 1..  kind 1 | index 3 | log tag 4 | durable 8 | crc 4 | 492 bytes of records
//! record      magic 4 | length 4 | sequence 8 | crc 4 | payload
//! ```
//!
//! The first byte of a written sector is never zero. A record header never crosses a sector; its
//! payload goes on in the records area of the next ones. The sector's checksum covers the other
//! 508 bytes, padding included; the record's covers log id, header and payload.

use super::error::Corruption;

/// What a disk writes whole or not at all.
pub const SECTOR_BYTES: usize = 512;
pub(super) const SECTOR_HEADER_BYTES: usize = 20;
pub(super) const RECORD_HEADER_BYTES: usize = 20;
/// The longest record, in bytes.
pub const RECORD_BYTES_MAX: usize = 4 << 20;
/// The most payload one append takes, in bytes.
pub const BATCH_BYTES_MAX: usize = 16 << 20;
/// The file grows by this many bytes of zeroes.
pub const GROW_STEP_BYTES: u64 = 256 << 10;
/// A longer file is refused at open and never made.
pub const JOURNAL_FILE_BYTES_MAX: u64 = 128 << 20;
/// The format this code reads and writes.
pub const FORMAT_VERSION: u32 = 1;

/// `durable` of a rewritten file's sectors: all of the file was durable before it got its name.
pub(super) const SEALED: u64 = u64::MAX;

const FILE_MAGIC: [u8; 8] = *b"\xb7BCJRNL\n";
const RECORD_MAGIC: [u8; 4] = *b"\xc3rec";
const KIND_DATA: u8 = 0xd7;
const KIND_BLANK: u8 = 0xb2;

pub(super) type SectorImage = [u8; SECTOR_BYTES];
pub(super) const ZERO_SECTOR: SectorImage = [0; SECTOR_BYTES];

/// What ties a sector and a record to one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogTag(u32);

impl LogTag {
    pub(super) fn of(log_id: &[u8; 16]) -> Self {
        Self(crc32c::crc32c(log_id))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SectorKind {
    /// Holds records.
    Data,
    /// Was erased: reads as a sector that was never written.
    Blank,
}

/// A sector whose checksum holds. `index` is where it was meant to be; `durable` the sequence
/// number up to which records were durable before it was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct SectorHeader {
    pub kind: SectorKind,
    pub index: u32,
    pub durable: u64,
}

/// Fills in the header of `sector`, whose records area is final.
pub(super) fn seal_sector(sector: &mut [u8], header: SectorHeader, tag: LogTag) {
    debug_assert_eq!(sector.len(), SECTOR_BYTES);
    sector[1..4].copy_from_slice(&header.index.to_le_bytes()[..3]);
    sector[0] = match header.kind {
        SectorKind::Data => KIND_DATA,
        SectorKind::Blank => KIND_BLANK,
    };
    sector[4..8].copy_from_slice(&tag.0.to_le_bytes());
    sector[8..16].copy_from_slice(&header.durable.to_le_bytes());
    let crc = sector_crc(sector);
    sector[16..20].copy_from_slice(&crc.to_le_bytes());
}

/// A sector that holds nothing and says where it belongs.
pub(super) fn blank_sector(index: u32, durable: u64, tag: LogTag) -> SectorImage {
    let mut sector = ZERO_SECTOR;
    seal_sector(&mut sector, SectorHeader { kind: SectorKind::Blank, index, durable }, tag);
    sector
}

/// `None` for a sector of zeroes.
pub(super) fn read_sector(sector: &[u8], tag: LogTag) -> Result<Option<SectorHeader>, Corruption> {
    if sector == ZERO_SECTOR {
        return Ok(None);
    }
    let kind = match sector[0] {
        KIND_DATA => SectorKind::Data,
        KIND_BLANK => SectorKind::Blank,
        _ => return Err(Corruption::SectorMarker),
    };
    if sector_crc(sector) != u32_at(sector, 16) {
        return Err(Corruption::SectorChecksum);
    }
    if u32_at(sector, 4) != tag.0 {
        return Err(Corruption::OtherLog);
    }
    Ok(Some(SectorHeader { kind, index: u32_at(sector, 0) >> 8, durable: u64_at(sector, 8) }))
}

fn sector_crc(sector: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&sector[..16]), &sector[SECTOR_HEADER_BYTES..])
}

/// A record's header as read; its length is in bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordHeader {
    pub length: usize,
    pub sequence: u64,
    crc: u32,
    /// The checksum so far; `covers` goes on with the payload.
    seed: u32,
}

impl RecordHeader {
    /// Whether `payload` is what was written under this header.
    pub(super) fn covers(&self, payload: &[u8]) -> bool {
        crc32c::crc32c_append(self.seed, payload) == self.crc
    }
}

pub(super) fn record_header(sequence: u64, payload: &[u8], tag: LogTag) -> [u8; RECORD_HEADER_BYTES] {
    let length = u32::try_from(payload.len()).expect("a record is at most RECORD_BYTES_MAX");
    let mut header = [0; RECORD_HEADER_BYTES];
    header[0..4].copy_from_slice(&RECORD_MAGIC);
    header[4..8].copy_from_slice(&length.to_le_bytes());
    header[8..16].copy_from_slice(&sequence.to_le_bytes());
    let crc = crc32c::crc32c_append(record_seed(&header, tag), payload);
    header[16..20].copy_from_slice(&crc.to_le_bytes());
    header
}

pub(super) fn read_record_header(header: &[u8], tag: LogTag) -> Result<RecordHeader, Corruption> {
    if header[0..4] != RECORD_MAGIC {
        return Err(Corruption::RecordMagic);
    }
    let length = u32_at(header, 4) as usize;
    if length == 0 || length > RECORD_BYTES_MAX {
        return Err(Corruption::RecordLength { length });
    }
    Ok(RecordHeader { length, sequence: u64_at(header, 8), crc: u32_at(header, 16), seed: record_seed(header, tag) })
}

fn record_seed(header: &[u8], tag: LogTag) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&tag.0.to_le_bytes()), &header[..16])
}

/// Sector 0 of a log.
pub(super) fn file_header(log_id: &[u8; 16]) -> SectorImage {
    versioned_file_header(log_id, FORMAT_VERSION)
}

pub(super) fn versioned_file_header(log_id: &[u8; 16], version: u32) -> SectorImage {
    let mut header = ZERO_SECTOR;
    header[0..8].copy_from_slice(&FILE_MAGIC);
    header[8..12].copy_from_slice(&version.to_le_bytes());
    header[12..28].copy_from_slice(log_id);
    let crc = file_header_crc(&header);
    header[28..32].copy_from_slice(&crc.to_le_bytes());
    header
}

/// The version and the log id, once magic and checksum hold.
pub(super) fn read_file_header(header: &SectorImage) -> Result<(u32, [u8; 16]), Corruption> {
    if header[0..8] != FILE_MAGIC {
        return Err(Corruption::FileMagic);
    }
    if u32_at(header, 28) != file_header_crc(header) {
        return Err(Corruption::FileHeaderChecksum);
    }
    Ok((u32_at(header, 8), header[12..28].try_into().expect("sixteen bytes")))
}

fn file_header_crc(header: &SectorImage) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[..28]), &header[32..])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
