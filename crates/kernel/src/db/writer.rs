//! The writer thread: operations wait in a bounded queue, and those that wait together share one
//! COMMIT. Nobody hears of an operation before the commit it is part of.
//!
//! ```text
//! idle ──job──▶ BEGIN ─▶ (SAVEPOINT, op, RELEASE)* ─▶ COMMIT ─▶ replies, hints ─▶ idle
//! ```

use super::savepoint::{self, Ran};
use super::{Hint, HintBus, StoreError, Tx};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

/// Operations that may share a commit.
const BATCH_MAX: usize = 256;

/// One operation on its way through the writer.
pub(super) trait Job: Send {
    /// Runs inside the batch's transaction. An error means that the whole transaction is gone.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError>;
    /// Tells the caller, once the fate of the batch is known.
    fn finish(self: Box<Self>, committed: Result<(), StoreError>);
}

/// An operation with the channel its caller waits on.
pub(super) struct WriteJob<F, T, E> {
    op: Option<F>,
    outcome: Option<Result<T, E>>,
    reply_tx: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> WriteJob<F, T, E> {
    pub(super) fn new(op: F, reply_tx: oneshot::Sender<Result<T, E>>) -> Self {
        Self { op: Some(op), outcome: None, reply_tx }
    }
}

impl<F, T, E> Job for WriteJob<F, T, E>
where
    F: FnOnce(&mut Tx<'_>) -> Result<T, E> + Send,
    T: Send,
    E: From<StoreError> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        let Some(op) = self.op.take() else { return Ok(()) };
        match savepoint::run(tx, op)? {
            Ran::Done(outcome) => {
                self.outcome = Some(outcome);
                Ok(())
            }
            Ran::Gone(outcome) => {
                self.outcome = outcome.err().map(Err);
                Err(StoreError::Unavailable("an operation of the batch lost the transaction".to_owned()))
            }
        }
    }

    fn finish(self: Box<Self>, committed: Result<(), StoreError>) {
        let reply = match (self.outcome, committed) {
            // An operation's own refusal stands whatever became of the batch.
            (Some(Err(error)), _) => Err(error),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (_, Err(error)) => Err(error.into()),
            (None, Ok(())) => Err(StoreError::Closed.into()),
        };
        if self.reply_tx.send(reply).is_err() {
            tracing::debug!("the caller of a store operation went away before its reply");
        }
    }
}

/// Runs until every sender is gone.
pub(super) fn run(connection: &Connection, mut jobs_rx: mpsc::Receiver<Box<dyn Job>>, hints: &HintBus) {
    while let Some(first) = jobs_rx.blocking_recv() {
        let mut done: Vec<Box<dyn Job>> = Vec::new();
        let committed = batch(connection, first, &mut jobs_rx, &mut done);
        let failure = committed.as_ref().err().map(StoreError::copy);
        for job in done {
            job.finish(failure.as_ref().map_or(Ok(()), |error| Err(error.copy())));
        }
        match committed {
            Ok(committed_hints) => committed_hints.into_iter().for_each(|hint| hints.send(hint)),
            Err(error) => tracing::warn!(%error, "a batch of store operations was rolled back"),
        }
    }
}

/// One transaction: `first`, and whatever waits in the queue, up to [`BATCH_MAX`].
fn batch(
    connection: &Connection,
    first: Box<dyn Job>,
    jobs_rx: &mut mpsc::Receiver<Box<dyn Job>>,
    done: &mut Vec<Box<dyn Job>>,
) -> Result<Vec<Hint>, StoreError> {
    let mut next = Some(first);
    if let Err(error) = control(connection, "BEGIN IMMEDIATE") {
        done.extend(next);
        return Err(error);
    }
    let mut hints = Vec::new();
    while let Some(mut job) = next.take() {
        let mut tx = Tx::new(connection);
        let ran = job.run(&mut tx);
        hints.extend(tx.into_hints());
        done.push(job);
        if let Err(error) = ran {
            roll_back(connection);
            return Err(error);
        }
        if done.len() < BATCH_MAX {
            next = jobs_rx.try_recv().ok();
        }
    }
    control(connection, "COMMIT").inspect_err(|_| roll_back(connection))?;
    Ok(hints)
}

fn roll_back(connection: &Connection) {
    if connection.is_autocommit() {
        return;
    }
    if let Err(error) = control(connection, "ROLLBACK") {
        tracing::error!(%error, "cannot roll back");
    }
}

fn control(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::sql)?;
    statement.execute([]).map(|_| ()).map_err(StoreError::sql)
}
