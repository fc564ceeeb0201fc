//! The one thread that writes the journal. It takes whatever waits, writes it with one sync, and only then
//! answers. If it cannot, the process ends: nothing of the batch was acknowledged to anybody.

use journal::Journal;
use journal::file::FileStorage;
use node_core::{Mutation, Ticket};
use std::thread::JoinHandle;
use tokio::sync::mpsc;

/// Commits that wait for the disk. Beyond this the driver waits too.
const COMMITS_WAITING_MAX: usize = 1024;
/// Commits written with one sync.
const COMMITS_TOGETHER_MAX: usize = 256;
/// Exit status of a daemon that cannot keep its journal (EX_IOERR of sysexits.h).
pub const EXIT_JOURNAL: i32 = 74;

type Commit = (Ticket, Vec<Mutation>);

pub struct JournalThread {
    commits: Option<mpsc::Sender<Commit>>,
    /// Tickets whose commit is durable, in order.
    pub committed: mpsc::UnboundedReceiver<Ticket>,
    thread: Option<JoinHandle<()>>,
}

impl JournalThread {
    pub fn spawn(journal: Journal<FileStorage>) -> std::io::Result<Self> {
        let (commit_tx, commit_rx) = mpsc::channel(COMMITS_WAITING_MAX);
        // Not bounded by itself: there is at most one ticket for each commit that was let in.
        let (committed_tx, committed) = mpsc::unbounded_channel();
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || write_all(journal, commit_rx, &committed_tx))?;
        Ok(Self { commits: Some(commit_tx), committed, thread: Some(thread) })
    }

    /// Hands a commit over. Waits while too many wait already.
    pub async fn commit(&self, ticket: Ticket, mutations: Vec<Mutation>) {
        let Some(commits) = &self.commits else { return };
        commits.send((ticket, mutations)).await.expect("the journal's thread outlives its sender");
    }

    /// Writes what was handed over, then lets the journal go. Returns once its lock is free.
    pub async fn close(mut self) {
        self.commits = None;
        if let Some(thread) = self.thread.take() {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("the journal's thread panicked");
            }
        }
    }
}

fn write_all(
    mut journal: Journal<FileStorage>,
    mut commits: mpsc::Receiver<Commit>,
    committed: &mpsc::UnboundedSender<Ticket>,
) {
    let mut batch: Vec<Commit> = Vec::new();
    while let Some(first) = commits.blocking_recv() {
        batch.push(first);
        while batch.len() < COMMITS_TOGETHER_MAX {
            let Ok(next) = commits.try_recv() else { break };
            batch.push(next);
        }
        if let Err(error) = journal.commit(batch.iter().flat_map(|(_, mutations)| mutations)) {
            tracing::error!(error = stdx::error::chain(&error), "the journal cannot be written; the daemon ends");
            std::process::exit(EXIT_JOURNAL);
        }
        for (ticket, _) in batch.drain(..) {
            if committed.send(ticket).is_err() {
                tracing::debug!("the driver has ended");
            }
        }
    }
}
