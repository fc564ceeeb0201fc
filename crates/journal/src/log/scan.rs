//! Sectors to records: reads a journal in order and decides where it ends, what behind the end is
//! a crash's leftover, and what no crash can have done. A machine fed with one sector at a time;
//! it does no I/O. The rules are argued in [`crate::log`].

use super::encode::{Tail, header_fits, sector_offset};
use super::error::Corruption;
use super::format::{
    LogTag, RECORD_HEADER_BYTES, RecordHeader, SECTOR_BYTES, SECTOR_HEADER_BYTES, SectorHeader, SectorKind,
    read_record_header, read_sector,
};

/// A failed check: the byte of the file and what was found there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub offset: u64,
    pub why: Corruption,
}

/// What a sound journal holds.
pub(super) struct Scanned {
    pub records: Vec<Vec<u8>>,
    pub tail: Tail,
    /// Sectors that hold something of an unacknowledged batch behind the tail, in rising order.
    pub leftovers: Vec<u32>,
}

enum State {
    /// The next record begins in this sector or at the start of the next.
    Between,
    Within(Box<Partial>),
    /// The records have ended; only leftovers may follow.
    Ended,
}

/// A record whose header was read.
struct Partial {
    header: RecordHeader,
    payload: Vec<u8>,
    /// Where it begins, and what its first sector holds before it.
    start: Tail,
    /// The highest `durable` of the sectors that hold it.
    durable_max: u64,
}

pub(super) struct Scanner {
    tag: LogTag,
    state: State,
    index: u32,
    scanned: Scanned,
}

impl Scanner {
    /// Expects sector 1 first.
    pub(super) fn new(tag: LogTag) -> Self {
        let tail = Tail::at_start_of(1);
        let scanned = Scanned { records: Vec::new(), tail, leftovers: Vec::new() };
        Self { tag, state: State::Between, index: 1, scanned }
    }

    /// Takes the next sector.
    pub(super) fn sector(&mut self, bytes: &[u8]) -> Result<(), Damage> {
        let header = read_sector(bytes, self.tag).map_err(|why| self.damage(0, why))?;
        let own_data = header.filter(|header| header.kind == SectorKind::Data && header.index == self.index);
        match (header, own_data) {
            (_, Some(own)) if !matches!(self.state, State::Ended) => self.data(bytes, own)?,
            (None, _) => self.hole()?,
            (Some(header), _) => {
                self.hole()?;
                self.leftover(header)?;
            }
        }
        self.index += 1;
        Ok(())
    }

    /// After the last whole sector; `rest` are the bytes behind it. The records of a whole file end before it does.
    pub(super) fn finish(self, rest: &[u8]) -> Result<Scanned, Damage> {
        if !matches!(self.state, State::Ended) {
            return Err(self.damage(0, Corruption::Truncated));
        }
        if rest.iter().any(|byte| *byte != 0) {
            return Err(self.damage(0, Corruption::SectorMarker));
        }
        Ok(self.scanned)
    }

    fn damage(&self, at: usize, why: Corruption) -> Damage {
        Damage { offset: sector_offset(self.index) + at as u64, why }
    }

    /// The sequence number of the first record that is not there.
    fn missing(&self) -> u64 {
        self.scanned.records.len() as u64 + 1
    }

    /// A sector that holds nothing of this log at this place: the records end here, at the latest.
    fn hole(&mut self) -> Result<(), Damage> {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Ended => {}
            State::Between => self.scanned.tail = Tail::at_start_of(self.index),
            State::Within(partial) => {
                if partial.durable_max >= self.missing() {
                    return Err(self.damage(0, Corruption::AcknowledgedMissing { sequence: self.missing() }));
                }
                self.scanned.leftovers.extend(partial.start.sector..self.index);
                self.scanned.tail = partial.start;
            }
        }
        Ok(())
    }

    /// A written sector behind the end. One written when the missing record was durable proves a loss.
    fn leftover(&mut self, header: SectorHeader) -> Result<(), Damage> {
        if header.durable >= self.missing() {
            return Err(self.damage(0, Corruption::AcknowledgedMissing { sequence: self.missing() }));
        }
        if header.kind == SectorKind::Data || header.index != self.index {
            self.scanned.leftovers.push(self.index);
        }
        Ok(())
    }

    /// The next sector of records.
    fn data(&mut self, bytes: &[u8], sector: SectorHeader) -> Result<(), Damage> {
        let mut at = SECTOR_HEADER_BYTES;
        loop {
            match std::mem::replace(&mut self.state, State::Between) {
                State::Within(partial) => match self.payload(partial, &bytes[at..], sector)? {
                    Some(taken) => at += taken,
                    None => return Ok(()),
                },
                State::Between if !header_fits(at) => return self.padding(&bytes[at..], at),
                State::Between if bytes[at..at + RECORD_HEADER_BYTES].iter().all(|byte| *byte == 0) => {
                    return self.end(bytes, at);
                }
                State::Between => {
                    self.state = State::Within(self.begin(bytes, at, sector)?);
                    at += RECORD_HEADER_BYTES;
                }
                State::Ended => unreachable!("checked by the caller, and data() ends only by returning"),
            }
        }
    }

    fn begin(&self, bytes: &[u8], at: usize, sector: SectorHeader) -> Result<Box<Partial>, Damage> {
        let header =
            read_record_header(&bytes[at..at + RECORD_HEADER_BYTES], self.tag).map_err(|why| self.damage(at, why))?;
        let expected = self.missing();
        if header.sequence != expected {
            return Err(self.damage(at, Corruption::Sequence { expected, found: header.sequence }));
        }
        let payload = Vec::with_capacity(header.length);
        let start = Tail::behind(self.index, at, bytes);
        Ok(Box::new(Partial { header, payload, start, durable_max: sector.durable }))
    }

    /// Takes this sector's part of a payload; how many bytes when that completes it.
    fn payload(
        &mut self,
        mut partial: Box<Partial>,
        area: &[u8],
        sector: SectorHeader,
    ) -> Result<Option<usize>, Damage> {
        let taken = area.len().min(partial.header.length - partial.payload.len());
        partial.payload.extend_from_slice(&area[..taken]);
        partial.durable_max = partial.durable_max.max(sector.durable);
        if partial.payload.len() < partial.header.length {
            self.state = State::Within(partial);
            return Ok(None);
        }
        if !partial.header.covers(&partial.payload) {
            let why = Corruption::RecordChecksum { sequence: partial.header.sequence };
            return Err(Damage { offset: partial.start.offset(), why });
        }
        self.scanned.records.push(partial.payload);
        Ok(Some(taken))
    }

    fn padding(&self, rest: &[u8], at: usize) -> Result<(), Damage> {
        if rest.iter().any(|byte| *byte != 0) {
            return Err(self.damage(at, Corruption::BytesAfterEnd));
        }
        Ok(())
    }

    /// Zeroes where a record header must be.
    fn end(&mut self, bytes: &[u8], at: usize) -> Result<(), Damage> {
        self.padding(&bytes[at..], at)?;
        if at == SECTOR_HEADER_BYTES {
            return Err(self.damage(at, Corruption::RecordMagic));
        }
        self.scanned.tail = Tail::behind(self.index, at, &bytes[..SECTOR_BYTES]);
        self.state = State::Ended;
        Ok(())
    }
}
