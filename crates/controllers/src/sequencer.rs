//! Gives committed outbox rows their positions, so that readers can follow a number.

use crate::lease::{Lease, StepError};
use crate::metrics::Metrics;
use crate::runner::{Controller, Progress};
use kernel::db::Hint;
use kernel::outbox;
use std::time::Duration;

/// Rows of one transaction.
const BATCH: u32 = 500;

pub(crate) struct Sequencer;

impl Controller for Sequencer {
    const NAME: &'static str = "sequencer";
    const PERIOD: Duration = Duration::from_secs(1);

    fn wakes(hint: &Hint) -> bool {
        matches!(hint, Hint::Outbox)
    }

    async fn step(&mut self, lease: &Lease, metrics: &Metrics) -> Result<Progress, StepError> {
        let count = lease.write(|tx| Ok(outbox::sequence(tx, BATCH)?)).await?;
        metrics.outcome(Self::NAME, "sequenced", count);
        Ok(if count == BATCH as usize { Progress::More } else { Progress::Done })
    }
}
