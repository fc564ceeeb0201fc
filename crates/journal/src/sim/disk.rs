//! The simulated disk: the two names, a rename that may be undone, injected failures, counters.

use super::file::SimFile;
use super::{Counters, CrashReport, Misdirect};
use crate::log::SECTOR_BYTES;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore};
use std::io;

/// Kinds of calls that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Write,
    Grow,
    Sync,
    Rename,
}

enum Failure {
    /// The machine is about to lose power: the call changes nothing more.
    Dead,
    NoSpace,
    Io,
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Dead => Self::other("the simulated machine is off"),
            Failure::NoSpace => io::ErrorKind::StorageFull.into(),
            Failure::Io => Self::other("simulated I/O error"),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Disk {
    rng: SmallRng,
    journal: Option<SimFile>,
    staged: Option<SimFile>,
    /// What the name `journal.db` meant before a rename whose directory was not synced.
    before_rename: Option<Option<SimFile>>,
    failing: Option<Op>,
    calls_left: Option<u64>,
    pub counters: Counters,
}

impl Disk {
    pub(super) fn new(rng: SmallRng) -> Self {
        Self {
            rng,
            journal: None,
            staged: None,
            before_rename: None,
            failing: None,
            calls_left: None,
            counters: Counters::default(),
        }
    }

    pub(super) fn rng(&mut self) -> &mut SmallRng {
        &mut self.rng
    }

    pub(super) fn install(&mut self, bytes: &[u8]) {
        let mut file = SimFile::default();
        file.write(0, bytes);
        file.sync();
        self.journal = Some(file);
    }

    pub(super) fn fail_next(&mut self, op: Op) {
        self.failing = Some(op);
    }

    pub(super) fn fail_after(&mut self, calls: u64) {
        self.calls_left = Some(calls);
    }

    pub(super) fn clear_failures(&mut self) {
        self.failing = None;
        self.calls_left = None;
    }

    /// Counts a call; how it must fail, if it must.
    fn enter(&mut self, op: Op) -> Option<Failure> {
        let dead = match &mut self.calls_left {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        let failing = self.failing == Some(op);
        if failing {
            self.failing = None;
        }
        if dead || failing {
            self.counters.failures += 1;
            return Some(match op {
                _ if dead => Failure::Dead,
                Op::Write | Op::Grow => Failure::NoSpace,
                Op::Sync | Op::Rename => Failure::Io,
            });
        }
        match op {
            Op::Write => self.counters.writes += 1,
            Op::Grow => self.counters.grows += 1,
            Op::Sync => self.counters.syncs += 1,
            Op::Rename => self.counters.renames += 1,
        }
        None
    }

    fn journal(&mut self) -> io::Result<&mut SimFile> {
        self.journal.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn staged(&mut self) -> io::Result<&mut SimFile> {
        self.staged.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn length(&self) -> Option<u64> {
        self.journal.as_ref().map(SimFile::length)
    }

    pub(super) fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let file = self.journal()?;
        if offset + bytes.len() as u64 > file.length() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.read(offset, bytes);
        Ok(())
    }

    pub(super) fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        assert!(
            self.length().is_some_and(|length| offset + bytes.len() as u64 <= length),
            "the log grows before it writes"
        );
        let failure = self.enter(Op::Write);
        let written = self.written(bytes.len(), failure.is_some());
        self.journal()?.write(offset, &bytes[..written]);
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// How much of a write of whole sectors happens: a kernel that gives up does so between pages.
    fn written(&mut self, bytes: usize, fails: bool) -> usize {
        if fails { self.rng.random_range(0..=bytes / SECTOR_BYTES) * SECTOR_BYTES } else { bytes }
    }

    pub(super) fn grow(&mut self, from: u64, to: u64) -> io::Result<()> {
        let failure = self.enter(Op::Grow);
        let sectors = (to - from) / SECTOR_BYTES as u64;
        let grown = if failure.is_some() { self.rng.random_range(0..=sectors) } else { sectors };
        self.journal()?.extend(from + grown * SECTOR_BYTES as u64);
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    pub(super) fn sync_data(&mut self) -> io::Result<()> {
        let failure = self.enter(Op::Sync);
        let file = self.journal.as_mut().ok_or(io::ErrorKind::NotFound)?;
        sync(file, failure, &mut self.rng)
    }

    pub(super) fn settle(&mut self) -> io::Result<()> {
        self.sync_data()?;
        self.sync_directory()?;
        self.journal()?.drop_clean();
        Ok(())
    }

    pub(super) fn stage(&mut self) -> io::Result<()> {
        if let Some(failure) = self.enter(Op::Write) {
            return Err(failure.into());
        }
        self.staged = Some(SimFile::default());
        Ok(())
    }

    pub(super) fn stage_append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let failure = self.enter(Op::Write);
        let written = self.written(bytes.len(), failure.is_some());
        let file = self.staged()?;
        file.write(file.length(), &bytes[..written]);
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    pub(super) fn stage_sync(&mut self) -> io::Result<()> {
        let failure = self.enter(Op::Sync);
        let file = self.staged.as_mut().ok_or(io::ErrorKind::NotFound)?;
        sync(file, failure, &mut self.rng)
    }

    pub(super) fn publish(&mut self) -> io::Result<()> {
        if let Some(failure) = self.enter(Op::Rename) {
            return Err(failure.into());
        }
        let file = self.staged.take().ok_or(io::ErrorKind::NotFound)?;
        let before = self.journal.replace(file);
        self.before_rename.get_or_insert(before);
        Ok(())
    }

    pub(super) fn sync_directory(&mut self) -> io::Result<()> {
        if let Some(failure) = self.enter(Op::Sync) {
            return Err(failure.into());
        }
        self.before_rename = None;
        Ok(())
    }

    pub(super) fn discard_staged(&mut self) {
        self.staged = None;
    }

    pub(super) fn crash(&mut self, rng: &mut dyn RngCore, misdirect: Misdirect) -> CrashReport {
        self.clear_failures();
        let mut report = CrashReport::default();
        if let Some(before) = self.before_rename.take()
            && rng.random_bool(0.5)
        {
            self.journal = before;
            report.rename_undone = true;
        }
        if let Some(file) = &mut self.journal {
            file.crash(rng, misdirect, &mut report);
        }
        if let Some(file) = &mut self.staged {
            file.crash(rng, Misdirect::Never, &mut CrashReport::default());
        }
        report
    }

    pub(super) fn crash_with(&mut self, keep: &dyn Fn(u32) -> bool, stray: Option<(u32, u32)>) {
        self.clear_failures();
        if let Some(file) = &mut self.journal {
            file.crash_with(keep, stray);
        }
    }

    pub(super) fn unsynced_sectors(&self) -> Vec<u32> {
        self.journal.as_ref().map_or_else(Vec::new, SimFile::unsynced)
    }

    pub(super) fn flip(&mut self, offset: u64, mask: u8) {
        if let Some(file) = &mut self.journal {
            file.flip(offset, mask);
        }
    }

    pub(super) fn truncate(&mut self, bytes: u64) {
        if let Some(file) = &mut self.journal {
            file.truncate(bytes);
        }
    }

    pub(super) fn journal_bytes(&self) -> Option<Vec<u8>> {
        let file = self.journal.as_ref()?;
        let mut bytes = vec![0; file.length() as usize];
        file.read(0, &mut bytes);
        Some(bytes)
    }

    pub(super) fn move_aside(&mut self) -> Option<Vec<u8>> {
        let bytes = self.journal_bytes();
        self.journal = None;
        self.before_rename = None;
        bytes
    }
}

fn sync(file: &mut SimFile, failure: Option<Failure>, rng: &mut SmallRng) -> io::Result<()> {
    match failure {
        None => file.sync(),
        Some(Failure::Dead) => return Err(Failure::Dead.into()),
        Some(failure) => {
            file.sync_failing(rng);
            return Err(failure.into());
        }
    }
    Ok(())
}
