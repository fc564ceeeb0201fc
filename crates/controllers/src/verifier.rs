//! Judges attested results: whether the node itself signed this outcome of this command. Only this
//! makes such a command terminal; gateways store and relay, and judge nothing.

use crate::join::from_frame;
use crate::lease::{Lease, StepError};
use crate::metrics::Metrics;
use crate::runner::{Controller, Progress};
use kernel::db::Hint;
use kernel::verifier::{Unverified, Verdict, settle_verified, take_unverified};
use model::CommandId;
use pki::{NodeCertificate, Purpose};
use std::time::Duration;

/// Results of one step.
const BATCH: u32 = 64;

pub(crate) struct Verifier;

impl Controller for Verifier {
    const NAME: &'static str = "verifier";
    const PERIOD: Duration = Duration::from_secs(1);

    fn wakes(hint: &Hint) -> bool {
        matches!(hint, Hint::Verify)
    }

    async fn step(&mut self, lease: &Lease, metrics: &Metrics) -> Result<Progress, StepError> {
        let waiting = lease.store().read(|tx| take_unverified(tx, BATCH)).await?;
        if waiting.is_empty() {
            return Ok(Progress::Done);
        }
        let full = waiting.len() == BATCH as usize;
        let verdicts: Vec<(CommandId, Verdict)> =
            waiting.iter().map(|result| (result.command.clone(), verdict(result))).collect();
        let forged = verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Forged(_))).count();
        let genuine = verdicts.len() - forged;
        lease
            .write(move |tx| {
                for (command, verdict) in &verdicts {
                    settle_verified(tx, command, verdict)?;
                }
                Ok(())
            })
            .await?;
        metrics.outcome(Self::NAME, "verified", genuine);
        metrics.outcome(Self::NAME, "forged", forged);
        Ok(if full { Progress::More } else { Progress::Done })
    }
}

/// Genuine only if a key that this fleet certified for this node signed exactly this result.
pub(crate) fn verdict(result: &Unverified) -> Verdict {
    match check(result) {
        Ok(()) => Verdict::Genuine,
        Err(reason) => Verdict::Forged(reason),
    }
}

fn check(result: &Unverified) -> Result<(), String> {
    let signed = result.node_sig.clone().ok_or("the result carries no signature")?;
    let signed = from_frame(signed);
    let certificates = result.certs.iter().filter_map(|der| NodeCertificate::parse(der).ok());
    let key = certificates
        .filter(|certificate| certificate.node_id == result.node)
        .map(|certificate| certificate.public_key)
        .find(|key| key.kid() == signed.kid)
        .ok_or("the signing key was never certified for this node")?;
    let body = signed.verify(Purpose::CommandResult, &key).map_err(|error| error.to_string())?;
    let statement = proto::decode_statement(body).map_err(|error| error.to_string())?;
    if statement.command_id != result.command {
        return Err(format!("the signature is about command {}", statement.command_id));
    }
    if statement.outcome != result.outcome {
        return Err(format!("the node signed {}, and {} was reported", statement.outcome, result.outcome));
    }
    if statement.result_sha256 != stdx::hex::sha256(&result.result) {
        return Err("the result is not the one the node signed".to_owned());
    }
    Ok(())
}
