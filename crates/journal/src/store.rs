//! The journal as a daemon uses it: typed mutations over the log, compacted when mostly dead.

use crate::file::{self, FileError, FileStorage};
use crate::log::{AppendError, BATCH_BYTES_MAX, Log, OpenError, RewriteError};
use crate::records::{RecordError, decode, encode};
use crate::storage::Storage;
use model::{JournalId, NodeId, ServerTimeMs};
use node_core::{JournalState, Mutation};
use std::path::{Path, PathBuf};

/// Dead bytes that are not worth a rewrite.
const DEAD_BYTES_MIN: u64 = 4 << 20;

/// What a new journal begins with.
#[derive(Clone, Debug)]
pub struct Birth {
    pub node_id: NodeId,
    pub journal_id: JournalId,
    /// F-Q13: for a node's first journal the time its certificate was issued, else now in server time.
    pub birth: ServerTimeMs,
    /// The mark kept beside the journal, so that a lost journal does not reset it.
    pub time_mark: ServerTimeMs,
}

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("cannot open the journal's directory")]
    File(#[from] FileError),
    #[error("cannot open the journal")]
    Open(#[from] OpenError),
    #[error("record {index} of the journal is not readable")]
    Record {
        index: usize,
        #[source]
        source: RecordError,
    },
    #[error("the journal does not begin with its birth")]
    NoBirth,
    #[error("the journal belongs to node `{have}`, not `{want}`")]
    OtherNode { have: NodeId, want: NodeId },
    #[error("cannot write the journal")]
    Append(#[from] AppendError),
    #[error("cannot compact the journal")]
    Rewrite(#[from] RewriteError),
}

impl JournalError {
    /// Damage that a new journal gets around; anything else must stop the daemon.
    fn is_damage(&self) -> bool {
        match self {
            Self::Open(OpenError::Corrupt { .. } | OpenError::TooLarge { .. })
            | Self::Record { .. }
            | Self::NoBirth => true,
            Self::Open(OpenError::Storage { .. } | OpenError::Version { .. }) => false,
            Self::File(_) | Self::OtherNode { .. } | Self::Append(_) | Self::Rewrite(_) => false,
        }
    }
}

/// The open journal of one node.
#[derive(Debug)]
pub struct Journal<S: Storage> {
    log: Log<S>,
    state: JournalState,
}

impl<S: Storage> Journal<S> {
    /// Opens the journal on `storage`, or begins one. On damage nothing is changed.
    pub fn open(storage: S, birth: &Birth) -> Result<Self, JournalError> {
        let opened = Log::open(storage)?;
        let mut records = opened.records.iter().enumerate();
        let Some((_, first)) = records.next() else { return Self::begin(opened.log, birth) };
        let readable =
            |index: usize, record: &[u8]| decode(record).map_err(|source| JournalError::Record { index, source });
        let mut state = JournalState::created(&readable(0, first)?).ok_or(JournalError::NoBirth)?;
        for (index, record) in records {
            state.apply(&readable(index, record)?);
        }
        if state.meta().node_id != birth.node_id {
            return Err(JournalError::OtherNode { have: state.meta().node_id.clone(), want: birth.node_id.clone() });
        }
        Ok(Self { log: opened.log, state })
    }

    fn begin(mut log: Log<S>, birth: &Birth) -> Result<Self, JournalError> {
        let Birth { node_id, journal_id, birth, time_mark } = birth.clone();
        let created = Mutation::Created { node_id, journal_id, birth, time_mark };
        let state = JournalState::created(&created).ok_or(JournalError::NoBirth)?;
        log.append(&[&encode(&created)])?;
        Ok(Self { log, state })
    }

    /// What is durable.
    pub fn state(&self) -> &JournalState {
        &self.state
    }

    /// Appends and syncs; returns when all of it is durable. On an error nothing more may be written
    /// or acknowledged by this process.
    pub fn commit<'a>(&mut self, mutations: impl IntoIterator<Item = &'a Mutation>) -> Result<(), JournalError> {
        let mut batch: Vec<Vec<u8>> = Vec::new();
        let mut bytes = 0;
        for mutation in mutations {
            let record = encode(mutation);
            if bytes + record.len() > BATCH_BYTES_MAX / 2 {
                self.append(&mut batch)?;
                bytes = 0;
            }
            bytes += record.len();
            batch.push(record);
            self.state.apply(mutation);
        }
        self.append(&mut batch)?;
        self.compact_if_mostly_dead()
    }

    fn append(&mut self, batch: &mut Vec<Vec<u8>>) -> Result<(), JournalError> {
        if !batch.is_empty() {
            let records: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
            self.log.append(&records)?;
            batch.clear();
        }
        Ok(())
    }

    /// Rewrites the file when at least half of it, and more than [`DEAD_BYTES_MIN`], is dead.
    fn compact_if_mostly_dead(&mut self) -> Result<(), JournalError> {
        let dead = self.log.bytes().saturating_sub(self.state.bytes());
        if dead < DEAD_BYTES_MIN || dead < self.state.bytes() {
            return Ok(());
        }
        let snapshot = self.state.snapshot();
        match self.log.rewrite(snapshot.iter().map(encode)) {
            // The old file goes on; there may be room later.
            Err(error) if error.is_no_space() => Ok(()),
            other => Ok(other?),
        }
    }

    pub fn into_storage(self) -> S {
        self.log.into_storage()
    }
}

/// A journal that did not open and was moved out of the way.
#[derive(Clone, Debug)]
pub struct MovedAside {
    pub path: PathBuf,
    pub why: String,
}

/// The journal in a data directory, and what was moved aside to get it.
#[derive(Debug)]
pub struct OpenedFile {
    pub journal: Journal<FileStorage>,
    pub moved_aside: Option<MovedAside>,
}

/// Opens `journal.db` in `directory`. A damaged one becomes `journal.db.corrupt-<UTC time>` and a new one
/// begins, with `birth` called for what it is born with: `true` when it replaces a lost one.
pub fn open_directory(
    directory: &Path,
    wall_unix_ms: i64,
    birth: impl Fn(bool) -> Birth,
) -> Result<OpenedFile, JournalError> {
    match Journal::open(FileStorage::open(directory)?, &birth(false)) {
        Ok(journal) => Ok(OpenedFile { journal, moved_aside: None }),
        Err(error) if error.is_damage() => {
            let why = stdx::error::chain(&error);
            let mut storage = FileStorage::open(directory)?;
            let path = storage.move_aside(&file::suffix("corrupt", wall_unix_ms))?;
            let journal = Journal::open(storage, &birth(true))?;
            Ok(OpenedFile { journal, moved_aside: path.map(|path| MovedAside { path, why }) })
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
