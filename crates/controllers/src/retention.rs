//! Deletes what is no longer kept: events, settled commands with their blobs, old certificates and joins.

use crate::lease::{Lease, StepError};
use crate::metrics::Metrics;
use crate::runner::{Controller, Progress};
use kernel::db::Hint;
use kernel::{outbox, retention};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Rows of each sort in one transaction, so that the writer is never held for long.
const BATCH: u32 = 500;

pub(crate) struct Retention {
    blobs: PathBuf,
}

impl Retention {
    pub fn new(blobs: PathBuf) -> Self {
        Self { blobs }
    }
}

impl Controller for Retention {
    const NAME: &'static str = "retention";
    const PERIOD: Duration = Duration::from_secs(600);

    fn wakes(_: &Hint) -> bool {
        false
    }

    async fn step(&mut self, lease: &Lease, metrics: &Metrics) -> Result<Progress, StepError> {
        let (events, pruned) = lease.write(|tx| Ok((outbox::prune(tx, BATCH)?, retention::prune(tx, BATCH)?))).await?;
        for sha256 in &pruned.blobs {
            remove_blob(&self.blobs, sha256).await;
        }
        metrics.outcome(Self::NAME, "event", events);
        metrics.outcome(Self::NAME, "command", pruned.commands);
        metrics.outcome(Self::NAME, "certificate", pruned.certificates);
        metrics.outcome(Self::NAME, "join-request", pruned.join_requests);
        metrics.outcome(Self::NAME, "blob", pruned.blobs.len());
        let most = [events, pruned.commands, pruned.certificates, pruned.join_requests, pruned.event_gaps];
        Ok(if most.into_iter().any(|count| count >= BATCH as usize) { Progress::More } else { Progress::Done })
    }
}

/// The index no longer names it, so a file that stays costs only its space.
async fn remove_blob(directory: &Path, sha256: &str) {
    match tokio::fs::remove_file(directory.join(sha256)).await {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(%sha256, %error, "a blob that nobody needs was not removed"),
    }
}
