//! The store of one control-plane process: a SQLite file, one writer thread, a few reader threads.
//!
//! A write returns after its commit reached the disk. A caller that stops waiting does not stop its
//! operation: like a lost reply, it may have happened.

use super::pool::{self, Read, Reads};
use super::writer::{self, Job, WriteJob};
use super::{Clock, HintBus, StoreError, Tx, connection, migrate};
use crate::module::Module;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};

/// Operations that may wait for the writer, and for the readers.
const QUEUE_MAX: usize = 1024;

/// How a store is opened.
pub struct StoreOptions {
    /// The database file; `-wal`, `-shm` and `.lock` lie beside it.
    pub path: PathBuf,
    pub clock: Arc<dyn Clock>,
    pub hints: HintBus,
    /// Reader threads.
    pub readers: usize,
}

/// A handle on the store. Clones share it; the last one to go closes the file.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    // Dropped first, which ends the threads.
    jobs_tx: Option<mpsc::Sender<Box<dyn Job>>>,
    reads_tx: Option<mpsc::Sender<Read>>,
    threads: Vec<JoinHandle<()>>,
    hints: HintBus,
    // Held as long as the store is open.
    _lock: File,
}

impl Store {
    /// Opens or creates the database and brings its schema up to date. One process at a time.
    pub fn open(options: StoreOptions) -> Result<Self, StoreError> {
        Self::open_with_modules(options, &[])
    }

    /// Opens or creates the database with the tables of these modules beside the kernel's. A database
    /// that holds a module's tables opens only with that module.
    pub fn open_with_modules(options: StoreOptions, modules: &[&dyn Module]) -> Result<Self, StoreError> {
        let StoreOptions { path, clock, hints, readers } = options;
        let lock = lock(&path)?;
        let writer = connection::open_writer(&path, &clock)?;
        migrate::migrate(&writer, clock.as_ref(), modules)?;
        let (jobs_tx, jobs_rx) = mpsc::channel(QUEUE_MAX);
        let (reads_tx, reads_rx) = mpsc::channel(QUEUE_MAX);
        let reads: Reads = Arc::new(Mutex::new(reads_rx));
        let bus = hints.clone();
        let mut threads = vec![spawn("store-writer", move || writer::run(&writer, jobs_rx, &bus))?];
        for _ in 0..readers.max(1) {
            let reader = connection::open_reader(&path, &clock)?;
            let reads = reads.clone();
            threads.push(spawn("store-reader", move || pool::run(&reader, &reads))?);
        }
        let inner = Inner { jobs_tx: Some(jobs_tx), reads_tx: Some(reads_tx), threads, hints, _lock: lock };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Where this store's hints go.
    pub fn hints(&self) -> &HintBus {
        &self.inner.hints
    }

    /// Runs one operation; returns after the commit it was part of. [`StoreError::Unavailable`] and
    /// [`StoreError::Full`] mean that nothing of it is stored.
    pub async fn write<T, E, F>(&self, op: F) -> Result<T, E>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (reply_tx, reply_rx) = oneshot::channel();
        let job: Box<dyn Job> = Box::new(WriteJob::new(op, reply_tx));
        let jobs_tx = self.inner.jobs_tx.as_ref().ok_or(StoreError::Closed)?;
        jobs_tx.send(job).await.map_err(|_| StoreError::Closed)?;
        reply_rx.await.map_err(|_| StoreError::Closed)?
    }

    /// Runs one query on committed state, beside the writer. Writes are refused, hints dropped.
    pub async fn read<T, E, F>(&self, op: F) -> Result<T, E>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (reply_tx, reply_rx) = oneshot::channel();
        let read: Read = Box::new(move |connection| {
            if reply_tx.send(pool::query(connection, op)).is_err() {
                tracing::debug!("the caller of a query went away before its reply");
            }
        });
        let reads_tx = self.inner.reads_tx.as_ref().ok_or(StoreError::Closed)?;
        reads_tx.send(read).await.map_err(|_| StoreError::Closed)?;
        reply_rx.await.map_err(|_| StoreError::Closed)?
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.jobs_tx = None;
        self.reads_tx = None;
        for thread in self.threads.drain(..) {
            // The last handle may go away inside an operation, on a thread of the store itself.
            if thread.thread().id() == std::thread::current().id() {
                continue;
            }
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
    }
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let failed = |error: std::io::Error| StoreError::Open { path: name.clone(), message: error.to_string() };
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&name).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map_err(|error| StoreError::Unavailable(format!("cannot start the {name} thread: {error}")))
}
