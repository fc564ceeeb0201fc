//! The store of simulations and tests: the same schema and the same operations on SQLite in memory,
//! each one atomic step. Its caller decides which commit fails.

use super::savepoint::{self, Ran};
use super::{Clock, Hint, StoreError, Tx, connection, migrate};
use rusqlite::Connection;
use std::sync::Arc;

/// A store in memory, used by one thread.
pub struct MemoryStore {
    connection: Connection,
}

impl MemoryStore {
    /// An empty, migrated store whose `compute_now()` is `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let connection = connection::open_memory(&clock)?;
        migrate::migrate(&connection, clock.as_ref())?;
        Ok(Self { connection })
    }

    /// Runs one operation and commits it. An error or a panic leaves no trace of it.
    pub fn run<T, E: From<StoreError>>(
        &self,
        op: impl FnOnce(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<(T, Vec<Hint>), E> {
        self.step(op, "COMMIT")
    }

    /// Runs one operation and then fails its commit: nothing of it is stored.
    pub fn run_failing_commit<T, E: From<StoreError>>(
        &self,
        op: impl FnOnce(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<(T, Vec<Hint>), E> {
        self.step(op, "ROLLBACK")?;
        Err(StoreError::Unavailable("the commit failed".to_owned()).into())
    }

    fn step<T, E: From<StoreError>>(
        &self,
        op: impl FnOnce(&mut Tx<'_>) -> Result<T, E>,
        end: &str,
    ) -> Result<(T, Vec<Hint>), E> {
        self.execute("BEGIN IMMEDIATE")?;
        let mut tx = Tx::new(&self.connection);
        let outcome = savepoint::run(&mut tx, op);
        let hints = tx.into_hints();
        if !self.connection.is_autocommit() {
            self.execute(if matches!(outcome, Ok(Ran::Done(Ok(_)))) { end } else { "ROLLBACK" })?;
        }
        match outcome? {
            Ran::Done(outcome) => Ok((outcome?, hints)),
            Ran::Gone(outcome) => {
                outcome?;
                Err(StoreError::Unavailable("the transaction was rolled back".to_owned()).into())
            }
        }
    }

    fn execute(&self, sql: &str) -> Result<(), StoreError> {
        let mut statement = self.connection.prepare_cached(sql).map_err(StoreError::sql)?;
        statement.execute([]).map(|_| ()).map_err(StoreError::sql)
    }
}
