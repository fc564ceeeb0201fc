//! The store of simulations and tests: the same schema and the same operations on SQLite in memory,
//! each one atomic step. Its caller decides which commit fails.

use super::savepoint::{self, Ran};
use super::{Clock, Hint, StoreError, Tx, connection, migrate};
use crate::module::Module;
use rusqlite::Connection;
use std::sync::Arc;

/// A store in memory, used by one thread.
pub struct MemoryStore {
    connection: Connection,
}

impl MemoryStore {
    /// An empty, migrated store whose `compute_now()` is `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::with_modules(clock, &[])
    }

    /// An empty store with the tables of these modules beside the kernel's.
    pub fn with_modules(clock: Arc<dyn Clock>, modules: &[&dyn Module]) -> Result<Self, StoreError> {
        let connection = connection::open_memory(&clock)?;
        migrate::migrate(&connection, clock.as_ref(), modules)?;
        Ok(Self { connection })
    }

    /// A copy of everything committed so far, as a backup that is restored later.
    pub fn copy(&self, clock: &Arc<dyn Clock>) -> Result<Self, StoreError> {
        let mut connection = connection::open_memory(clock)?;
        let backup = rusqlite::backup::Backup::new(&self.connection, &mut connection).map_err(StoreError::sql)?;
        // -1: all pages in one step.
        backup.step(-1).map_err(StoreError::sql)?;
        drop(backup);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings;

    struct Fixed;

    impl Clock for Fixed {
        fn now_ms(&self) -> i64 {
            1
        }
    }

    #[test]
    fn a_copy_has_what_was_committed_and_goes_its_own_way() {
        let clock: Arc<dyn Clock> = Arc::new(Fixed);
        let store = MemoryStore::new(clock.clone()).unwrap();
        store.run(|tx| settings::put(tx, "a", b"1")).unwrap();
        let copy = store.copy(&clock).unwrap();
        store.run(|tx| settings::put(tx, "a", b"2")).unwrap();
        copy.run(|tx| settings::put(tx, "b", b"3")).unwrap();
        assert_eq!(copy.run(|tx| settings::get(tx, "a")).unwrap().0, Some(vec![b'1']));
        assert_eq!(store.run(|tx| settings::get(tx, "b")).unwrap().0, None);
        assert_eq!(copy.run(|tx| tx.now()).unwrap().0, model::ServerTimeMs(1));
    }

    #[test]
    fn errors_panics_and_failed_commits_leave_no_trace() {
        let store = MemoryStore::new(Arc::new(Fixed)).unwrap();
        let put = |tx: &mut Tx<'_>| settings::put(tx, "a", b"1");
        let failed = store.run(|tx| {
            tx.hint(Hint::Join);
            put(tx)?;
            Err::<(), StoreError>(StoreError::Closed)
        });
        assert!(matches!(failed, Err(StoreError::Closed)));
        let panicked = store.run(|tx| -> Result<(), StoreError> {
            put(tx)?;
            panic!("a defect");
        });
        assert!(matches!(panicked, Err(StoreError::Panicked(_))));
        assert!(matches!(store.run_failing_commit(put), Err(StoreError::Unavailable(_))));
        let lost = store.run(|tx| {
            put(tx)?;
            tx.execute("ROLLBACK", &[])
        });
        assert!(lost.is_err());
        assert_eq!(store.run(|tx| settings::get(tx, "a")).unwrap().0, None);
        assert_eq!(store.run(|tx| tx.now()).unwrap().0, model::ServerTimeMs(1));
        store.run(put).unwrap();
        assert_eq!(store.run(|tx| settings::get(tx, "a")).unwrap().0, Some(vec![b'1']));
    }
}
