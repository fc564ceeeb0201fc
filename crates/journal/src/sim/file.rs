//! One simulated file: platter and cache, sector by sector. Only sectors that are not zero, or not
//! synced, take memory.

use super::{CrashReport, Misdirect};
use crate::log::SECTOR_BYTES;
use rand::seq::IndexedRandom;
use rand::{Rng, RngCore};
use std::collections::{BTreeMap, BTreeSet};

type Sector = [u8; SECTOR_BYTES];
const ZERO: Sector = [0; SECTOR_BYTES];
/// Misdirected writes land at most this many sectors behind the last written one.
const FREE_SECTORS: u32 = 16;

#[derive(Clone, Debug, Default)]
pub(super) struct SimFile {
    /// The length as it is read, and as a crash finds it at least.
    length: u64,
    durable_length: u64,
    platter: BTreeMap<u32, Box<Sector>>,
    cache: BTreeMap<u32, Box<Sector>>,
    /// Cached sectors the next sync writes; the others in the cache were dropped by a failed one.
    dirty: BTreeSet<u32>,
}

impl SimFile {
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    fn sector(&self, index: u32) -> &Sector {
        self.cache.get(&index).or_else(|| self.platter.get(&index)).map_or(&ZERO, |sector| sector)
    }

    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) {
        bytes.fill(0);
        let end = offset + bytes.len() as u64;
        let touched = sector_of(offset)..sector_of(end + SECTOR_BYTES as u64 - 1);
        // The cache lies above the platter, so it is copied last.
        for (index, sector) in self.platter.range(touched.clone()).chain(self.cache.range(touched)) {
            let start = u64::from(*index) * SECTOR_BYTES as u64;
            let (from, to) = (offset.max(start), end.min(start + SECTOR_BYTES as u64));
            let part = (from - start) as usize..(to - start) as usize;
            bytes[(from - offset) as usize..(to - offset) as usize].copy_from_slice(&sector[part]);
        }
    }

    /// Writes into the cache; the file is long enough or becomes so.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.length = self.length.max(offset + bytes.len() as u64);
        for_each_part(offset, bytes.len(), |index, at, part| {
            let length = part.len();
            let mut sector = Box::new(*self.sector(index));
            sector[at..at + length].copy_from_slice(&bytes[part]);
            if *sector == ZERO && !self.cache.contains_key(&index) && !self.platter.contains_key(&index) {
                return;
            }
            self.cache.insert(index, sector);
            self.dirty.insert(index);
        });
    }

    /// Zeroes up to `to`.
    pub(super) fn extend(&mut self, to: u64) {
        self.length = self.length.max(to);
    }

    pub(super) fn sync(&mut self) {
        self.durable_length = self.length;
        for index in std::mem::take(&mut self.dirty) {
            if let Some(sector) = self.cache.remove(&index) {
                self.put(index, sector);
            }
        }
    }

    /// A sync that fails: some dirty sectors reach the platter, the others stay readable and are
    /// never written.
    pub(super) fn sync_failing(&mut self, rng: &mut dyn RngCore) {
        for index in std::mem::take(&mut self.dirty) {
            if rng.random_bool(0.5)
                && let Some(sector) = self.cache.remove(&index)
            {
                self.put(index, sector);
            }
        }
    }

    /// Drops clean pages: reads see the platter where nothing is dirty.
    pub(super) fn drop_clean(&mut self) {
        let dirty = &self.dirty;
        self.cache.retain(|index, _| dirty.contains(index));
    }

    fn put(&mut self, index: u32, sector: Box<Sector>) {
        if *sector == ZERO {
            self.platter.remove(&index);
        } else {
            self.platter.insert(index, sector);
        }
    }

    pub(super) fn unsynced(&self) -> Vec<u32> {
        self.dirty.iter().copied().collect()
    }

    /// The dirty sectors that `keep` names survive in place; `stray` is a dirty sector that landed on another.
    pub(super) fn crash_with(&mut self, keep: &dyn Fn(u32) -> bool, stray: Option<(u32, u32)>) {
        let landed = stray.and_then(|(from, to)| Some((to, self.cache.get(&from)?.clone())));
        for index in std::mem::take(&mut self.dirty) {
            let strayed = stray.is_some_and(|(from, _)| from == index);
            if let (true, false, Some(sector)) = (keep(index), strayed, self.cache.remove(&index)) {
                self.put(index, sector);
            }
        }
        if let Some((to, sector)) = landed {
            self.put(to, sector);
        }
        self.cache.clear();
        self.length = self.durable_length;
    }

    pub(super) fn crash(&mut self, rng: &mut dyn RngCore, misdirect: Misdirect, report: &mut CrashReport) {
        if self.length > self.durable_length {
            let sectors = (self.length - self.durable_length) / SECTOR_BYTES as u64;
            self.durable_length += rng.random_range(0..=sectors) * SECTOR_BYTES as u64;
        }
        self.length = self.durable_length;
        // All, none and some are each common enough to be met often.
        let kept_share = *[0.0, 0.5, 0.5, 0.9, 1.0].choose(rng).expect("not empty");
        let targets = self.targets(misdirect);
        let strayed = match targets.is_empty() || self.dirty.is_empty() || !rng.random_bool(0.5) {
            true => None,
            false => self.unsynced().choose(rng).copied(),
        };
        let mut landed = Vec::new();
        for index in std::mem::take(&mut self.dirty) {
            let sector = self.cache.remove(&index).expect("a dirty sector is cached");
            if strayed == Some(index) {
                landed.extend(targets.choose(rng).map(|target| (*target, sector)));
            } else if rng.random_bool(kept_share) {
                report.kept += 1;
                self.put(index, sector);
            } else {
                report.lost += 1;
            }
        }
        for (target, sector) in landed {
            match misdirect {
                Misdirect::Acknowledged => report.misdirected_onto_acknowledged += 1,
                _ => report.misdirected += 1,
            }
            self.put(target, sector);
        }
        self.cache.clear();
    }

    /// Where a stray sector may land. Sector 0, the file's header, counts as acknowledged.
    fn targets(&self, misdirect: Misdirect) -> Vec<u32> {
        let sectors = sector_of(self.length);
        let written = |index: &u32| self.platter.contains_key(index);
        match misdirect {
            Misdirect::Never => Vec::new(),
            Misdirect::Acknowledged => self.platter.keys().copied().collect(),
            Misdirect::Unsynced => {
                let last = self.platter.keys().chain(self.dirty.iter()).max().map_or(0, |last| *last);
                (1..(last + FREE_SECTORS).min(sectors)).filter(|index| !written(index)).collect()
            }
        }
    }

    pub(super) fn flip(&mut self, offset: u64, mask: u8) {
        let (index, at) = (sector_of(offset), (offset % SECTOR_BYTES as u64) as usize);
        if let Some(sector) = self.cache.get_mut(&index) {
            sector[at] ^= mask;
        }
        self.platter.entry(index).or_insert_with(|| Box::new(ZERO))[at] ^= mask;
    }

    pub(super) fn truncate(&mut self, bytes: u64) {
        self.length = bytes;
        self.durable_length = bytes;
        let (whole, rest) = (sector_of(bytes), (bytes % SECTOR_BYTES as u64) as usize);
        let sectors = whole + u32::from(rest > 0);
        for map in [&mut self.platter, &mut self.cache] {
            map.retain(|index, _| *index < sectors);
            if let Some(sector) = map.get_mut(&whole) {
                sector[rest..].fill(0);
            }
        }
        self.dirty.retain(|index| *index < sectors);
    }
}

fn sector_of(offset: u64) -> u32 {
    u32::try_from(offset / SECTOR_BYTES as u64).expect("journals are small")
}

/// Calls `part(sector, byte in it, range of the buffer)` for each sector that `length` bytes from `offset` touch.
fn for_each_part(offset: u64, length: usize, mut part: impl FnMut(u32, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < length {
        let position = offset + done as u64;
        let at = (position % SECTOR_BYTES as u64) as usize;
        let now = (length - done).min(SECTOR_BYTES - at);
        part(sector_of(position), at, done..done + now);
        done += now;
    }
}
