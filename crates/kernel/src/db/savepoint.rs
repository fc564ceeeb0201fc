//! Running one operation so that its error or its panic undoes its own writes and nothing else.

use super::{StoreError, Tx};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What became of an operation and of the transaction around it.
pub(super) enum Ran<T, E> {
    /// Its writes are in the transaction, or undone if it failed.
    Done(Result<T, E>),
    /// The whole transaction is gone: SQLite rolls it back when the disk is full, for one.
    Gone(Result<T, E>),
}

/// Runs `op` between SAVEPOINT and RELEASE.
pub(super) fn run<T, E: From<StoreError>>(
    tx: &mut Tx<'_>,
    op: impl FnOnce(&mut Tx<'_>) -> Result<T, E>,
) -> Result<Ran<T, E>, StoreError> {
    let hints = tx.hints_len();
    batch(tx, "SAVEPOINT op")?;
    // The transaction is either released or rolled back below, so nothing half-written is seen.
    let outcome =
        catch_unwind(AssertUnwindSafe(|| op(tx))).unwrap_or_else(|panic| Err(panicked(panic.as_ref()).into()));
    if tx.connection().is_autocommit() {
        tx.hints_truncate(hints);
        return Ok(Ran::Gone(outcome));
    }
    match outcome {
        Ok(value) => {
            batch(tx, "RELEASE op")?;
            Ok(Ran::Done(Ok(value)))
        }
        Err(error) => {
            tx.hints_truncate(hints);
            batch(tx, "ROLLBACK TO op")?;
            batch(tx, "RELEASE op")?;
            Ok(Ran::Done(Err(error)))
        }
    }
}

fn batch(tx: &Tx<'_>, sql: &str) -> Result<(), StoreError> {
    let mut statement = tx.connection().prepare_cached(sql).map_err(StoreError::sql)?;
    statement.execute([]).map_err(StoreError::sql)?;
    Ok(())
}

fn panicked(panic: &(dyn Any + Send)) -> StoreError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    StoreError::Panicked(text.unwrap_or_else(|| "without a message".to_owned()))
}
