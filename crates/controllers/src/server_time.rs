//! Signs what time it is, for gateways to relay: a daemon with command-signing roots believes nothing
//! else about the time.

use crate::lease::{Lease, StepError};
use crate::metrics::Metrics;
use crate::runner::{Controller, Progress};
use kernel::db::{Hint, Tx};
use kernel::settings;
use model::ServerTimeMs;
use model::frame::Signed;
use model::limits::SERVER_TIME_SIGNED_EVERY_MS;
use pki::{Purpose, SigningIdentity};
use proto::Message;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct ServerTimeSigner {
    fleet_id: String,
    worker: Arc<SigningIdentity>,
}

impl ServerTimeSigner {
    pub fn new(fleet_id: String, worker: Arc<SigningIdentity>) -> Self {
        Self { fleet_id, worker }
    }
}

/// The statement for `now`.
pub(crate) fn statement(worker: &SigningIdentity, fleet_id: &str, now: ServerTimeMs) -> Result<Signed, StepError> {
    let body = proto::v1::ServerTime { unix_ms: now.0, fleet_id: fleet_id.to_owned() };
    Ok(crate::join::to_frame(worker.sign(Purpose::ServerTime, body.encode_to_vec())?))
}

/// Signs inside the transaction, so that the statement is as fresh as its commit.
pub(crate) fn sign(tx: &mut Tx<'_>, worker: &SigningIdentity, fleet_id: &str) -> Result<(), StepError> {
    let signed = statement(worker, fleet_id, tx.now()?)?;
    Ok(settings::put_signed(tx, settings::SERVER_TIME, &signed)?)
}

impl Controller for ServerTimeSigner {
    const NAME: &'static str = "server-time";
    const PERIOD: Duration = Duration::from_millis(SERVER_TIME_SIGNED_EVERY_MS as u64);

    fn wakes(_: &Hint) -> bool {
        false
    }

    async fn step(&mut self, lease: &Lease, metrics: &Metrics) -> Result<Progress, StepError> {
        let (worker, fleet_id) = (self.worker.clone(), self.fleet_id.clone());
        lease.write(move |tx| sign(tx, &worker, &fleet_id)).await?;
        metrics.outcome(Self::NAME, "signed", 1);
        Ok(Progress::Done)
    }
}
