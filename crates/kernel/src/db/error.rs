//! What can go wrong below an operation. A refusal that belongs to an operation is that operation's
//! own enum, never one of these.

use rusqlite::ErrorCode;
use std::path::PathBuf;

/// A failure of the store itself.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The transaction did not commit; nothing of it is stored. Trying again may succeed.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// No space is left; reads go on.
    #[error("the store is full: free disk space on the control plane's data directory")]
    Full,
    /// A stored value is not what this version writes. Never "not found".
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// A statement this build carries is wrong or broke a constraint: a defect.
    #[error("a statement failed: {0}")]
    Statement(String),
    /// The operation panicked; its effects were rolled back.
    #[error("the operation panicked: {0}")]
    Panicked(String),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// A newer version has written this database.
    #[error("the database holds migration {0}, which this version does not know: run the newer version")]
    NewerSchema(String),
    /// Another process holds the database.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
    /// The file cannot be opened.
    #[error("cannot open {path}: {message}")]
    Open { path: PathBuf, message: String },
}

impl StoreError {
    pub(super) fn sql(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Corrupt(error.to_string()),
            Some(
                ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::OutOfMemory
                | ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::OperationInterrupted,
            ) => Self::Unavailable(error.to_string()),
            _ => Self::Statement(error.to_string()),
        }
    }

    /// The same failure for every operation of a batch.
    pub(super) fn copy(&self) -> Self {
        match self {
            Self::Full => Self::Full,
            other => Self::Unavailable(other.to_string()),
        }
    }
}
