//! Joining: one machine, one token, one certificate. The steps of `install.md`, "Joining", in order:
//!
//! 1. the key and the request are on disk before anybody is asked;
//! 2. the token is sealed to JoinService and bound to the request and the claims;
//! 3. the gateway, pinned by its serving CA, relays both and the answer;
//! 4. the answer is checked (`certify`) and stored; an earlier identity's journal moves aside first.
//!
//! A deferral asks again with the same request; what may pass is tried again with growing pauses; anything
//! else ends the join.

use crate::certify::{self, AnswerError, Asked, Certified};
use crate::clock::AgentClock;
use crate::config::Config;
use crate::identity::{Identity, IdentityError, IdentityStore, PendingJoin};
use crate::moved_aside;
use crate::transport::{self, ConnectError, Gateway};
use host::Host;
use journal::file::{FileError, FileStorage};
use model::limits::JOIN_RETRY_MS;
use model::{Role, ServerTimeMs};
use pki::{JoinToken, PublicKey};
use proto::Message;
use proto::v1;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stdx::backoff::Backoff;
use stdx::durable::DurableError;
use tokio::time::Instant;

pub const JWK_FILE: &str = "join-encryption.jwk";
const ATTESTOR: &str = "join-token";
/// One `Join` call, connection included.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MOST: Duration = Duration::from_secs(30);
/// After this long without any answer a person is told. A deferral is an answer.
const UNREACHABLE_MOST: Duration = Duration::from_secs(15 * 60);
/// MAC addresses claimed; more say nothing more.
const MACS_MAX: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("cannot read the join encryption key")]
    JwkRead(#[source] DurableError),
    #[error("{} is missing: it comes with the install and holds the key the token is sealed to", .0.display())]
    JwkMissing(PathBuf),
    #[error("{} is not the key of join_encryption_key_pin {pin}", path.display())]
    Jwk {
        path: PathBuf,
        pin: pki::Pin,
        #[source]
        source: pki::jwk::JwkError,
    },
    #[error("the token cannot be sealed")]
    Seal(#[source] pki::hpke::HpkeError),
    #[error("the gateway is not this fleet's")]
    Distrust(#[source] ConnectError),
    #[error("the gateway cannot be reached")]
    Unreachable(#[source] ConnectError),
    #[error("the gateway refused the call")]
    Call(#[source] Box<tonic::Status>),
    #[error("the join was refused, {code}: {message}")]
    Refused { code: String, message: String },
    #[error("the answer to the join is refused")]
    Answer(#[from] AnswerError),
    #[error("the data directory cannot be taken")]
    Journal(#[source] FileError),
}

/// How long to wait, and for how long altogether.
#[derive(Clone, Debug)]
pub struct Timing {
    pub deferred: Duration,
    pub backoff_first: Duration,
    pub backoff_most: Duration,
    /// `None` tries for ever.
    pub unreachable_most: Option<Duration>,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            deferred: Duration::from_millis(JOIN_RETRY_MS),
            backoff_first: BACKOFF_FIRST,
            backoff_most: BACKOFF_MOST,
            unreachable_most: Some(UNREACHABLE_MOST),
        }
    }
}

/// The key a token is sealed to, from the file beside `config.toml`, and only the pinned one.
pub fn read_jwk(config_path: &Path, config: &Config) -> Result<PublicKey, JoinError> {
    read_jwk_file(&config_path.with_file_name(JWK_FILE), config)
}

/// As [`read_jwk`], from a file anywhere.
pub fn read_jwk_file(path: &Path, config: &Config) -> Result<PublicKey, JoinError> {
    let bytes = stdx::durable::read_bounded(path, pki::jwk::JWK_BYTES_MAX as u64)
        .map_err(JoinError::JwkRead)?
        .ok_or_else(|| JoinError::JwkMissing(path.to_owned()))?;
    let pin = config.join_encryption_pin;
    pki::jwk::import_pinned(&bytes, &pin).map_err(|source| JoinError::Jwk { path: path.to_owned(), pin, source })
}

/// What the machine says of itself. JoinService compares it with what a token expects.
pub fn claims(config: &Config, role: Role, host: &dyn Host) -> v1::JoinClaims {
    let inventory = host.inventory();
    let firmware = inventory.firmware.unwrap_or_default();
    let os = inventory.os.unwrap_or_default();
    let trusted = |value: String, is_trusted| if is_trusted { value } else { String::new() };
    let physical = inventory.nics.iter().filter(|nic| !nic.pci_address.is_empty() && !nic.mac.is_empty());
    let mut macs: Vec<String> = physical.map(|nic| nic.mac.clone()).collect();
    macs.sort();
    macs.dedup();
    macs.truncate(MACS_MAX);
    v1::JoinClaims {
        site: config.site.clone(),
        role: wire_role(role).into(),
        hostname: host.hostname(),
        arch: os.architecture,
        os: os.pretty_name,
        daemon_version: crate::VERSION.to_owned(),
        product_uuid: trusted(firmware.product_uuid, firmware.product_uuid_trusted),
        product_serial: trusted(firmware.product_serial, firmware.product_serial_trusted),
        macs,
    }
}

fn wire_role(role: Role) -> v1::Role {
    match role {
        Role::Node => v1::Role::Node,
        Role::Site => v1::Role::Site,
        Role::Ramdisk => v1::Role::Ramdisk,
    }
}

/// Joins and stores the identity. Only called while there is none. Cancelling it leaves a state that a later
/// call goes on from.
pub async fn join(
    config: &Config,
    claims: v1::JoinClaims,
    token: &JoinToken,
    seal_to: &PublicKey,
    timing: &Timing,
) -> Result<Identity, JoinError> {
    let store = IdentityStore::new(&config.data_dir);
    store.create_directory()?;
    // Held to the end: no daemon and no second join at the same time.
    let mut storage = FileStorage::open(&config.data_dir).map_err(JoinError::Journal)?;
    let pending = store.prepare_join()?;
    let role = match v1::Role::try_from(claims.role) {
        Ok(v1::Role::Site) => Role::Site,
        Ok(v1::Role::Ramdisk) => Role::Ramdisk,
        _ => Role::Node,
    };
    let claims = claims.encode_to_vec();
    let sealed = pki::token::seal(token, seal_to, &pending.csr, &claims).map_err(JoinError::Seal)?;
    let request = v1::JoinRequest {
        csr: pending.csr.clone(),
        claims,
        attestor: ATTESTOR.to_owned(),
        sealed_enc: sealed.enc,
        sealed_token: sealed.ciphertext,
        encryption_kid: seal_to.kid(),
    };
    let certified = ask(config, &request, &pending, role, timing).await?;
    let identity = Identity {
        node_id: certified.node_id,
        fleet_id: certified.fleet_id,
        role: certified.role,
        site: certified.site,
        pool: certified.pool,
        chain: certified.chain,
        trust_bundle: Some(certified.trust_bundle),
        time_mark: ServerTimeMs(certified.issued_at.0),
        joined_at: certified.issued_at,
        journal_id: None,
    };
    // A journal here is of an identity that is gone: a node never opens another node's.
    moved_aside::earlier_journal(&mut storage, stdx::clock::wall_unix_ms()).map_err(JoinError::Journal)?;
    store.install(&identity)?;
    tracing::info!(node_id = %identity.node_id, site = %identity.site, pool = %identity.pool, "joined");
    Ok(identity)
}

/// Asks until there is an answer that counts.
async fn ask(
    config: &Config,
    request: &v1::JoinRequest,
    pending: &PendingJoin,
    role: Role,
    timing: &Timing,
) -> Result<Certified, JoinError> {
    let gateway = Gateway::of(config);
    let clock = AgentClock::new(ServerTimeMs(0));
    let mut backoff = Backoff::new(timing.backoff_first, timing.backoff_most);
    let mut unanswered_since = Instant::now();
    loop {
        let answer = call(&gateway, &clock, request.clone()).await;
        let gives_up = timing.unreachable_most.is_some_and(|most| unanswered_since.elapsed() >= most);
        match answer {
            Ok(v1::join_reply::Reply::Response(answer)) => {
                let asked = Asked { csr: &pending.csr, key: pending.key.public(), role, node: None };
                return Ok(certify::check(answer, &config.join_signing_pin, &asked)?);
            }
            Ok(v1::join_reply::Reply::Deferred(deferred)) => {
                let wait = timing.deferred;
                tracing::info!(reason = %deferred.reason, wait_ms = wait.as_millis() as u64, "the join is deferred");
                unanswered_since = Instant::now();
                backoff.reset();
                tokio::time::sleep(wait).await;
            }
            Ok(v1::join_reply::Reply::Refused(refused)) if !refused.retryable => {
                return Err(JoinError::Refused { code: refused.code, message: refused.message });
            }
            Ok(v1::join_reply::Reply::Refused(refused)) => {
                let error = JoinError::Refused { code: refused.code, message: refused.message };
                pause(&mut backoff, gives_up, error).await?;
            }
            Err(error) if is_retryable(&error) => pause(&mut backoff, gives_up, error).await?,
            Err(error) => return Err(error),
        }
    }
}

async fn pause(backoff: &mut Backoff, gives_up: bool, error: JoinError) -> Result<(), JoinError> {
    if gives_up {
        return Err(error);
    }
    let wait = backoff.next_full_jitter(&mut rand::rng());
    tracing::warn!(error = stdx::error::chain(&error), wait_ms = wait.as_millis() as u64, "the join is tried again");
    tokio::time::sleep(wait).await;
    Ok(())
}

fn is_retryable(error: &JoinError) -> bool {
    match error {
        JoinError::Unreachable(_) => true,
        JoinError::Call(status) => transport::is_retryable(status.code()),
        _ => false,
    }
}

async fn call(
    gateway: &Gateway,
    clock: &AgentClock,
    request: v1::JoinRequest,
) -> Result<v1::join_reply::Reply, JoinError> {
    let mut client = transport::connect(gateway, None, clock).await.map_err(|error| match error.is_distrust() {
        true => JoinError::Distrust(error),
        false => JoinError::Unreachable(error),
    })?;
    let mut request = tonic::Request::new(request);
    request.set_timeout(CALL_TIMEOUT);
    let reply = client.join(request).await.map_err(|status| JoinError::Call(Box::new(status)))?;
    reply.into_inner().reply.ok_or(JoinError::Answer(AnswerError::Decode("JoinReply.reply")))
}

#[cfg(test)]
mod tests;
