//! The next certificate, from two thirds of this one's life: a new key, a request signed with the current
//! key, an answer checked like a join's. The session goes on meanwhile; the next connection shows the new
//! certificate.
//!
//! An expired certificate still renews for seven days, and nothing else.

use crate::certify::{self, AnswerError, Asked};
use crate::clock::AgentClock;
use crate::identity::IdentityError;
use crate::keeper::Keeper;
use crate::signed;
use crate::transport::{self, ConnectError, Gateway};
use model::ServerTimeMs;
use pki::{Pin, Purpose};
use proto::Message;
use proto::v1;
use rand::Rng;
use std::time::Duration;
use stdx::backoff::Backoff;

/// Nodes that joined together do not renew together: up to a twelfth of the life later.
const JITTER_PART: i64 = 12;
const RETRY_FIRST: Duration = Duration::from_secs(30);
const RETRY_MOST: Duration = Duration::from_secs(10 * 60);
/// The wait is looked at again this often, because server time may be told meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(60);
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("the gateway cannot be reached")]
    Connect(#[from] ConnectError),
    #[error("the gateway refused the call")]
    Call(#[source] Box<tonic::Status>),
    #[error("the renewal was refused, {code}: {message}")]
    Refused { code: String, message: String },
    #[error("the renewal is deferred: {0}")]
    Deferred(String),
    #[error("the answer to the renewal is refused")]
    Answer(#[from] AnswerError),
}

/// What a renewal needs.
#[derive(Clone, Debug)]
pub struct Renewer {
    pub keeper: Keeper,
    pub gateway: Gateway,
    pub join_signing_pin: Pin,
    pub clock: AgentClock,
}

/// Tells the rest of the daemon that a certificate was renewed: its serial and its last moment.
pub type OnRenewed = Box<dyn Fn(String, i64) + Send>;

impl Renewer {
    /// Renews for as long as the daemon runs. Ends only when it is dropped.
    pub async fn run(self, on_renewed: OnRenewed) {
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MOST);
        loop {
            let at_ms = due_at_ms(&self.keeper, rand::rng().random_range(0.0..1.0));
            while self.clock.certificate_time_ms() < at_ms {
                let left = Duration::from_millis((at_ms - self.clock.certificate_time_ms()).max(0) as u64);
                tokio::time::sleep(left.min(LOOK_EVERY)).await;
            }
            match self.renew().await {
                Ok((serial, not_after_ms)) => {
                    tracing::info!(serial, not_after_ms, "the certificate is renewed");
                    on_renewed(serial, not_after_ms);
                    backoff.reset();
                }
                Err(error) => {
                    let wait = backoff.next_full_jitter(&mut rand::rng());
                    let wait_ms = wait.as_millis() as u64;
                    tracing::warn!(error = stdx::error::chain(&error), wait_ms, "the renewal is tried again");
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    /// One attempt: returns the new certificate's serial and last moment once it is stored.
    pub async fn renew(&self) -> Result<(String, i64), RenewError> {
        let keeper = self.keeper.clone();
        let next = blocking(move || keeper.prepare_renewal()).await?;
        let csr = pki::csr::create(&next);
        let current = self.keeper.credentials();
        let leaf = current.leaf();
        let body = v1::RenewalBody { node_id: leaf.node_id.to_string(), csr: csr.clone() }.encode_to_vec();
        let request = pki::Signed::sign(Purpose::RenewalRequest, body, &current.key, current.chain.clone());
        let mut client = transport::connect(&self.gateway, Some(&current.tls()), &self.clock).await?;
        let mut request = tonic::Request::new(v1::RenewRequest { signed: Some(signed::to_wire(request)) });
        request.set_timeout(CALL_TIMEOUT);
        let reply = client.renew(request).await.map_err(|status| RenewError::Call(Box::new(status)))?;
        let answer = match reply.into_inner().reply {
            Some(v1::join_reply::Reply::Response(answer)) => answer,
            Some(v1::join_reply::Reply::Deferred(deferred)) => return Err(RenewError::Deferred(deferred.reason)),
            Some(v1::join_reply::Reply::Refused(refused)) => {
                return Err(RenewError::Refused { code: refused.code, message: refused.message });
            }
            None => return Err(AnswerError::Decode("JoinReply.reply").into()),
        };
        let node = Some((&leaf.node_id, &leaf.fleet_id));
        let asked = Asked { csr: &csr, key: next.public(), role: leaf.role, node };
        let certified = certify::check(answer, &self.join_signing_pin, &asked)?;
        let keeper = self.keeper.clone();
        let (chain, bundle) = (certified.chain, certified.trust_bundle);
        let mark = ServerTimeMs(certified.issued_at.0);
        blocking(move || keeper.renewed(chain, bundle, mark, next)).await?;
        let renewed = self.keeper.credentials().leaf();
        Ok((renewed.serial_hex, renewed.not_after_ms))
    }
}

/// When to renew, in Unix milliseconds: two thirds of the certificate's life and a little more, by chance.
fn due_at_ms(keeper: &Keeper, chance: f64) -> i64 {
    let leaf = keeper.credentials().leaf();
    let life_ms = leaf.not_after_ms - leaf.issued_at_ms();
    leaf.renew_at_ms() + ((life_ms / JITTER_PART) as f64 * chance) as i64
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, IdentityError> + Send + 'static,
) -> Result<T, IdentityError> {
    tokio::task::spawn_blocking(work).await.expect("writing the identity does not panic")
}

#[cfg(test)]
mod tests;
