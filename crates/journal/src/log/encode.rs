//! Records to sectors: packs records after a tail and seals every sector it touches. Knows no
//! storage; the caller writes what [`Encoder::finish`] returns.

use super::format::{
    LogTag, RECORD_HEADER_BYTES, SECTOR_BYTES, SECTOR_HEADER_BYTES, SectorHeader, SectorImage, SectorKind, ZERO_SECTOR,
    record_header, seal_sector,
};

/// Where the next record goes: a byte of a sector, and what that sector holds before it. A record
/// header always fits there. At the first byte of the records area the sector holds nothing yet.
#[derive(Clone, Debug)]
pub(super) struct Tail {
    pub sector: u32,
    pub at: usize,
    pub image: SectorImage,
}

impl Tail {
    pub(super) fn at_start_of(sector: u32) -> Self {
        Self { sector, at: SECTOR_HEADER_BYTES, image: ZERO_SECTOR }
    }

    /// The tail behind the first `at` bytes of `image`.
    pub(super) fn behind(sector: u32, at: usize, image: &[u8]) -> Self {
        if !header_fits(at) {
            return Self::at_start_of(sector + 1);
        }
        let mut tail = Self::at_start_of(sector);
        tail.at = at;
        tail.image[..at].copy_from_slice(&image[..at]);
        tail
    }

    pub(super) fn is_fresh(&self) -> bool {
        self.at == SECTOR_HEADER_BYTES
    }

    /// Bytes from the start of the file.
    pub(super) fn offset(&self) -> u64 {
        sector_offset(self.sector) + self.at as u64
    }
}

/// Whether a record may begin at byte `at` of a sector.
pub(super) fn header_fits(at: usize) -> bool {
    SECTOR_BYTES - at >= RECORD_HEADER_BYTES
}

pub(super) fn sector_offset(sector: u32) -> u64 {
    u64::from(sector) * SECTOR_BYTES as u64
}

pub(super) struct Encoder {
    tag: LogTag,
    durable: u64,
    /// Index of the first sector in `bytes`.
    first: u32,
    /// Byte of the last sector in `bytes` that is free.
    at: usize,
    bytes: Vec<u8>,
}

impl Encoder {
    /// Goes on behind `tail`, in `buffer`'s memory.
    pub(super) fn resume(tag: LogTag, durable: u64, tail: &Tail, mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.extend_from_slice(&tail.image);
        Self { tag, durable, first: tail.sector, at: tail.at, bytes: buffer }
    }

    pub(super) fn record(&mut self, sequence: u64, payload: &[u8]) {
        if !header_fits(self.at) {
            self.next_sector();
        }
        self.put(&record_header(sequence, payload, self.tag));
        let mut rest = payload;
        while !rest.is_empty() {
            if self.at == SECTOR_BYTES {
                self.next_sector();
            }
            let (now, later) = rest.split_at(rest.len().min(SECTOR_BYTES - self.at));
            self.put(now);
            rest = later;
        }
    }

    fn put(&mut self, part: &[u8]) {
        let start = self.bytes.len() - SECTOR_BYTES + self.at;
        self.bytes[start..start + part.len()].copy_from_slice(part);
        self.at += part.len();
    }

    fn next_sector(&mut self) {
        self.seal_last();
        self.bytes.extend_from_slice(&ZERO_SECTOR);
        self.at = SECTOR_HEADER_BYTES;
    }

    fn seal_last(&mut self) {
        let (index, last) = (self.last_sector(), self.bytes.len() - SECTOR_BYTES);
        let header = SectorHeader { kind: SectorKind::Data, index, durable: self.durable };
        seal_sector(&mut self.bytes[last..], header, self.tag);
    }

    /// Index of the sector being filled.
    pub(super) fn last_sector(&self) -> u32 {
        self.first + (self.bytes.len() / SECTOR_BYTES) as u32 - 1
    }

    pub(super) fn sealed_bytes(&self) -> usize {
        self.bytes.len() - SECTOR_BYTES
    }

    /// The sealed sectors before the one being filled, which the encoder then forgets.
    pub(super) fn take_sealed(&mut self) -> Vec<u8> {
        let last = self.bytes.split_off(self.bytes.len() - SECTOR_BYTES);
        self.first += (self.bytes.len() / SECTOR_BYTES) as u32;
        std::mem::replace(&mut self.bytes, last)
    }

    /// Seals what is left: all sectors, and the tail behind them. A sector that holds no record is left out.
    pub(super) fn finish(mut self) -> Encoded {
        let tail = if self.at == SECTOR_HEADER_BYTES {
            let tail = Tail::at_start_of(self.last_sector());
            self.bytes.truncate(self.bytes.len() - SECTOR_BYTES);
            tail
        } else {
            self.seal_last();
            Tail::behind(self.last_sector(), self.at, &self.bytes[self.bytes.len() - SECTOR_BYTES..])
        };
        Encoded { first: self.first, bytes: self.bytes, tail }
    }
}

/// Sealed sectors from index `first` on, and the tail behind them.
pub(super) struct Encoded {
    pub first: u32,
    pub bytes: Vec<u8>,
    pub tail: Tail,
}

impl Encoded {
    /// How many sectors a file needs so that its last one stays free (see the module's argument).
    pub(super) fn sectors_needed(&self) -> u64 {
        u64::from(self.first) + (self.bytes.len() / SECTOR_BYTES) as u64 + 1
    }
}
