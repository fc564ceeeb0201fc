//! How a connection is set up: durability, foreign keys, `compute_now()`.

use super::{Clock, StoreError};
use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::sync::Arc;

/// Prepared statements kept for each connection: more than there are operations.
const STATEMENTS_KEPT: usize = 512;
/// How long a connection waits for a lock of the same process, milliseconds (only a checkpoint holds one).
const BUSY_TIMEOUT_MS: u64 = 5_000;

/// The one connection that writes.
pub(super) fn open_writer(path: &Path, clock: &Arc<dyn Clock>) -> Result<Connection, StoreError> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    set_pragma(&connection, "journal_mode", "WAL")?;
    // Every commit reaches the disk before anybody hears of it.
    set_pragma(&connection, "synchronous", "FULL")?;
    set_up(&connection, clock)?;
    Ok(connection)
}

/// A connection that only reads.
pub(super) fn open_reader(path: &Path, clock: &Arc<dyn Clock>) -> Result<Connection, StoreError> {
    // Read-write at the file level, because a reader of a WAL database maps its index; query_only
    // refuses every write.
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    set_pragma(&connection, "query_only", "ON")?;
    set_up(&connection, clock)?;
    Ok(connection)
}

/// A database in memory, for simulation and tests.
pub(super) fn open_memory(clock: &Arc<dyn Clock>) -> Result<Connection, StoreError> {
    let connection = Connection::open_in_memory().map_err(StoreError::sql)?;
    set_up(&connection, clock)?;
    Ok(connection)
}

fn open(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
        .map_err(|error| StoreError::Open { path: path.to_owned(), message: error.to_string() })
}

fn set_up(connection: &Connection, clock: &Arc<dyn Clock>) -> Result<(), StoreError> {
    set_pragma(connection, "foreign_keys", "ON")?;
    connection.busy_timeout(std::time::Duration::from_millis(BUSY_TIMEOUT_MS)).map_err(StoreError::sql)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    // Otherwise a statement whose plan looked at a bound value is prepared again each time one is bound,
    // which costs more than running it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(StoreError::sql)?;
    let clock = clock.clone();
    connection
        .create_scalar_function("compute_now", 0, FunctionFlags::SQLITE_UTF8, move |_| Ok(clock.now_ms()))
        .map_err(StoreError::sql)
}

fn set_pragma(connection: &Connection, name: &str, value: &str) -> Result<(), StoreError> {
    connection.pragma_update(None, name, value).map_err(StoreError::sql)
}
