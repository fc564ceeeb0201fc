//! What the log needs from a disk: one file that is read at open, written in place and synced,
//! and one staged file that can take its place whole. Synchronous, two names, no policy: which
//! failure poisons the log is decided in [`crate::log`].

use std::io;

/// The log's file.
pub const JOURNAL_NAME: &str = "journal.db";
/// The file a rewrite prepares; renamed over [`JOURNAL_NAME`] once it is durable.
pub const STAGED_NAME: &str = "journal.db.new";

/// A disk that holds the journal. Calls return when the operating system has taken the bytes; only
/// [`Storage::sync_data`], [`Storage::settle`], [`Storage::stage_sync`] and
/// [`Storage::sync_directory`] make anything durable. All calls but those on the staged file
/// concern `journal.db` and fail with `NotFound` while there is none.
pub trait Storage: Send {
    /// The file's length in bytes, `None` when there is no file.
    fn length(&mut self) -> io::Result<Option<u64>>;

    /// Fills `bytes` from `offset`; fails with `UnexpectedEof` past the end.
    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Writes within the file. After a failure any part of `bytes` may be in the file.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Appends zeroes so that the file, whose bytes from `from` on are all zero, reaches `to`
    /// bytes, with their blocks allocated. After a failure the file has any length in between.
    fn grow(&mut self, from: u64, to: u64) -> io::Result<()>;

    /// Makes everything written durable, the length included (fdatasync).
    fn sync_data(&mut self) -> io::Result<()>;

    /// Makes everything written durable, the file's name included, and from then on reads what the
    /// disk holds: a process that died, or a sync that failed, may have left pages in the cache that
    /// never reached it, and a rename that was not synced.
    fn settle(&mut self) -> io::Result<()>;

    /// Begins an empty staged file; one left by an earlier run goes.
    fn stage(&mut self) -> io::Result<()>;

    /// Appends to the staged file.
    fn stage_append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the staged file durable (fsync).
    fn stage_sync(&mut self) -> io::Result<()>;

    /// Renames the staged file over `journal.db`; from then on the other calls concern it.
    fn publish(&mut self) -> io::Result<()>;

    /// Makes the rename durable (fsync of the directory).
    fn sync_directory(&mut self) -> io::Result<()>;

    /// Removes the staged file, if there is one and it can be; else the next [`Storage::stage`] does.
    fn discard_staged(&mut self);

    /// Sixteen random bytes that tell this log from every other.
    fn new_log_id(&mut self) -> [u8; 16];
}
