//! The reader threads: each has a connection that cannot write and sees only what has committed.

use super::{StoreError, Tx};
use rusqlite::Connection;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// A query on its way to a reader.
pub(super) type Read = Box<dyn FnOnce(&Connection) + Send>;

/// The queue that all readers share.
pub(super) type Reads = Arc<Mutex<mpsc::Receiver<Read>>>;

/// Runs until every sender is gone.
pub(super) fn run(connection: &Connection, reads: &Reads) {
    loop {
        // A poisoned lock only means that another reader died between two queries.
        let read = reads.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(read) = read else { return };
        read(connection);
    }
}

/// Runs one query in a read transaction, so that all its statements see the same state.
pub(super) fn query<T, E: From<StoreError>>(
    connection: &Connection,
    op: impl FnOnce(&mut Tx<'_>) -> Result<T, E>,
) -> Result<T, E> {
    execute(connection, "BEGIN")?;
    let outcome = Tx::new(connection).savepoint(op);
    execute(connection, "ROLLBACK")?;
    outcome?
}

fn execute(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::sql)?;
    statement.execute([]).map(|_| ()).map_err(StoreError::sql)
}
