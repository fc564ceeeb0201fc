//! Signs pending, never dispatched commands again when their node comes with a new journal: the node
//! refuses what was signed before the journal's birth (F-Q13).

use crate::lease::{Lease, StepError};
use crate::metrics::Metrics;
use crate::runner::{Controller, Progress};
use kernel::commands;
use kernel::db::Hint;
use model::frame::{CommandBody, Signed};
use pki::{Purpose, SigningIdentity};
use std::sync::Arc;
use std::time::Duration;

/// Commands of one transaction.
const BATCH: u32 = 100;

pub(crate) struct Resigner {
    worker: Arc<SigningIdentity>,
}

impl Resigner {
    pub fn new(worker: Arc<SigningIdentity>) -> Self {
        Self { worker }
    }
}

/// A command's body as it is sent: encoded and signed by `worker`.
pub(crate) fn seal(worker: &SigningIdentity, body: &CommandBody) -> Signed {
    let signed = worker.sign(Purpose::Command, proto::encode_body(body));
    crate::join::to_frame(
        signed.expect("a controllers worker's certificate allows `command`: checked when it was issued"),
    )
}

impl Controller for Resigner {
    const NAME: &'static str = "resigner";
    const PERIOD: Duration = Duration::from_secs(5);

    fn wakes(hint: &Hint) -> bool {
        matches!(hint, Hint::Resign)
    }

    async fn step(&mut self, lease: &Lease, metrics: &Metrics) -> Result<Progress, StepError> {
        let worker = self.worker.clone();
        let count = lease.write(move |tx| Ok(commands::resign(tx, &|body| seal(&worker, body), BATCH)?)).await?;
        metrics.outcome(Self::NAME, "signed", count);
        Ok(if count == BATCH as usize { Progress::More } else { Progress::Done })
    }
}
