//! Ends commands that nobody will end: `pending` past its deadline, in flight past its kind's timeout.

use crate::lease::{Lease, StepError};
use crate::metrics::Metrics;
use crate::runner::{Controller, Progress};
use kernel::commands;
use kernel::db::Hint;
use model::limits::SWEEP_EVERY_MS;
use std::time::Duration;

/// Commands of each sort in one transaction.
const BATCH: u32 = 500;

pub(crate) struct Sweeper;

impl Controller for Sweeper {
    const NAME: &'static str = "sweeper";
    const PERIOD: Duration = Duration::from_millis(SWEEP_EVERY_MS as u64);

    fn wakes(_: &Hint) -> bool {
        false
    }

    async fn step(&mut self, lease: &Lease, metrics: &Metrics) -> Result<Progress, StepError> {
        let swept = lease.write(|tx| Ok(commands::sweep(tx, BATCH)?)).await?;
        metrics.outcome(Self::NAME, "expired", swept.expired);
        metrics.outcome(Self::NAME, "timeout", swept.timed_out);
        let full = swept.expired.max(swept.timed_out) >= BATCH as usize;
        Ok(if full { Progress::More } else { Progress::Done })
    }
}
