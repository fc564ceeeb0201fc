//! A disk in memory that crashes like a real one: what was not synced is lost, kept or misdirected
//! sector by sector. For tests and for the deterministic simulation: everything random comes from a
//! seed or from the caller's generator. A [`SimStorage`] is a handle; clones share the disk, so a
//! test keeps one while a log owns another.
//!
//! The model: a file is a length and its non-zero sectors, on the platter and, above that, in the
//! cache. Reads see the cache. A sync moves the cache to the platter; a sync that fails moves some
//! of it and leaves the rest in the cache as clean pages, which no later sync writes and a crash
//! loses. Growth and lengths become durable with a sync; a rename with a sync of the directory.

mod disk;
mod file;

use crate::storage::Storage;
use disk::{Disk, Op};
use rand::{Rng, RngCore, SeedableRng, rngs::SmallRng};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a crash may put a sector that was not synced, besides its own place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Misdirect {
    #[default]
    Never,
    /// Onto another sector that was not synced, or a free one.
    Unsynced,
    /// Onto a sector that was written and synced.
    Acknowledged,
}

/// What a crash did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrashReport {
    /// Unsynced sectors that are gone.
    pub lost: u32,
    /// Unsynced sectors that are on the platter.
    pub kept: u32,
    /// Unsynced sectors written to a free or unsynced place instead of their own.
    pub misdirected: u32,
    /// Unsynced sectors written over acknowledged ones instead of their own place.
    pub misdirected_onto_acknowledged: u32,
    /// A rename whose directory was not synced was undone.
    pub rename_undone: bool,
}

/// How often each call succeeded or failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub writes: u64,
    pub syncs: u64,
    pub grows: u64,
    pub renames: u64,
    pub failures: u64,
}

/// A handle to a simulated disk.
#[derive(Clone, Debug)]
pub struct SimStorage(Arc<Mutex<Disk>>);

impl SimStorage {
    /// An empty disk. `seed` decides log ids and what failing calls leave behind.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Disk::new(SmallRng::seed_from_u64(seed)))))
    }

    /// A disk whose `journal.db` durably holds `bytes`.
    pub fn with_journal(seed: u64, bytes: &[u8]) -> Self {
        let storage = Self::new(seed);
        storage.disk().install(bytes);
        storage
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        // A panic elsewhere leaves the disk as some operation left it: that is what a disk is for.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Power goes out and comes back: only the platter remains, with what the crash made of the
    /// unsynced sectors. Injected failures are gone.
    pub fn crash(&mut self, rng: &mut dyn RngCore, misdirect: Misdirect) -> CrashReport {
        self.disk().crash(rng, misdirect)
    }

    /// The process dies, the machine does not: the cache stays. Injected failures are gone.
    pub fn kill(&mut self) {
        self.disk().clear_failures();
    }

    /// As [`SimStorage::crash`], but decided by the caller: the unsynced sectors that `keep` names
    /// survive in place, and the first sector of `stray` landed on the second.
    pub fn crash_with(&mut self, keep: impl Fn(u32) -> bool, stray: Option<(u32, u32)>) {
        self.disk().crash_with(&keep, stray);
    }

    /// Another disk in the same state.
    pub fn fork(&self) -> Self {
        Self(Arc::new(Mutex::new(self.disk().clone())))
    }

    /// The indices of the journal's unsynced sectors.
    pub fn unsynced_sectors(&self) -> Vec<u32> {
        self.disk().unsynced_sectors()
    }

    /// Changes one byte of the journal, on the platter and as it is read.
    pub fn flip(&mut self, offset: u64, mask: u8) {
        self.disk().flip(offset, mask);
    }

    /// Cuts the journal's file, durably.
    pub fn truncate(&mut self, bytes: u64) {
        self.disk().truncate(bytes);
    }

    /// The journal as a read sees it, `None` when there is none.
    pub fn journal_bytes(&self) -> Option<Vec<u8>> {
        self.disk().journal_bytes()
    }

    /// Moves the journal out of the way, durably, as [`crate::file::FileStorage::move_aside`] does,
    /// and returns what it held.
    pub fn move_aside(&mut self) -> Option<Vec<u8>> {
        self.disk().move_aside()
    }

    /// The next write fails with ENOSPC after a part of it.
    pub fn fail_next_write(&mut self) {
        self.disk().fail_next(Op::Write);
    }

    /// The next growth fails with ENOSPC after a part of it.
    pub fn fail_next_grow(&mut self) {
        self.disk().fail_next(Op::Grow);
    }

    /// The next sync, of a file or of the directory, fails with EIO.
    pub fn fail_next_sync(&mut self) {
        self.disk().fail_next(Op::Sync);
    }

    /// The next `calls` changing calls succeed, every later one fails: the machine is about to die.
    pub fn fail_after(&mut self, calls: u64) {
        self.disk().fail_after(calls);
    }

    pub fn counters(&self) -> Counters {
        self.disk().counters
    }
}

impl Storage for SimStorage {
    fn length(&mut self) -> io::Result<Option<u64>> {
        Ok(self.disk().length())
    }

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.disk().read_at(offset, bytes)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk().write_at(offset, bytes)
    }

    fn grow(&mut self, from: u64, to: u64) -> io::Result<()> {
        self.disk().grow(from, to)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.disk().sync_data()
    }

    fn settle(&mut self) -> io::Result<()> {
        self.disk().settle()
    }

    fn stage(&mut self) -> io::Result<()> {
        self.disk().stage()
    }

    fn stage_append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.disk().stage_append(bytes)
    }

    fn stage_sync(&mut self) -> io::Result<()> {
        self.disk().stage_sync()
    }

    fn publish(&mut self) -> io::Result<()> {
        self.disk().publish()
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        self.disk().sync_directory()
    }

    fn discard_staged(&mut self) {
        self.disk().discard_staged();
    }

    fn new_log_id(&mut self) -> [u8; 16] {
        self.disk().rng().random()
    }
}
