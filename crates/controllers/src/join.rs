//! JoinService: opens what gateways relay, certifies nodes, signs the answers. A gateway can neither read
//! a token nor attach a request of its own nor forge an answer: the token is sealed to this service and
//! bound to the request, a renewal is signed by the node's current key, and the answer by the pinned
//! key.
//!
//! One transaction uses the token, records the certificate and answers, so a crash leaves all of it or
//! nothing, and the same request asked again gets the same certificate.

mod answer;
mod fresh;
mod issue;
mod renew;
mod trust;

pub(crate) use trust::prepare;
#[cfg(test)]
pub(crate) use trust::prepare_in;

use crate::lease::{Lease, StepError};
use crate::metrics::Metrics;
use crate::runner::{Controller, Progress};
use kernel::db::{Hint, Tx};
use kernel::join::{JoinKind, JoinRequest, join_answer, join_requests_take};
use model::frame::Signed;
use pki::roles::JoinKeys;
use std::sync::Arc;
use std::time::Duration;

/// Requests answered in one step.
const BATCH: u32 = 16;

pub(crate) struct JoinService {
    keys: Arc<JoinKeys>,
}

impl JoinService {
    pub fn new(keys: Arc<JoinKeys>) -> Self {
        Self { keys }
    }
}

impl Controller for JoinService {
    const NAME: &'static str = "join";
    const PERIOD: Duration = Duration::from_secs(1);

    fn wakes(hint: &Hint) -> bool {
        matches!(hint, Hint::Join)
    }

    async fn step(&mut self, lease: &Lease, metrics: &Metrics) -> Result<Progress, StepError> {
        let requests = lease.store().read(|tx| join_requests_take(tx, BATCH)).await?;
        let full = requests.len() == BATCH as usize;
        for request in requests {
            let keys = self.keys.clone();
            let outcome = lease.write(move |tx| serve(tx, &keys, &request)).await?;
            metrics.outcome(Self::NAME, outcome, 1);
        }
        Ok(if full { Progress::More } else { Progress::Done })
    }
}

/// Answers one request in the caller's transaction. Returns what became of it, for the metrics.
pub(crate) fn serve(tx: &mut Tx<'_>, keys: &JoinKeys, request: &JoinRequest) -> Result<&'static str, StepError> {
    let outcome = match request.kind {
        JoinKind::Join => fresh::join(tx, keys, &request.request),
        JoinKind::Renew => renew::renew(tx, keys, &request.request),
    };
    let (reply, word) = match outcome {
        Ok(granted) => (answer::granted(tx, keys, &granted)?, "granted"),
        Err(answer::JoinError::Refused(refused)) => {
            tracing::info!(code = refused.code, message = %refused.message, "a join or renewal was refused");
            (answer::refused(&refused), refused.code)
        }
        Err(answer::JoinError::Step(error)) => return Err(error),
    };
    join_answer(tx, request.id, &reply)?;
    Ok(word)
}

/// A signature as frames carry it.
pub(crate) fn to_frame(signed: pki::Signed) -> Signed {
    Signed { body: signed.body, kid: signed.kid, chain: signed.chain, signature: signed.signature }
}

/// The same, to be verified.
pub(crate) fn from_frame(signed: Signed) -> pki::Signed {
    pki::Signed { body: signed.body, kid: signed.kid, chain: signed.chain, signature: signed.signature }
}
