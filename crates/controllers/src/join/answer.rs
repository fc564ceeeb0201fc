//! The answer: a `JoinReply`, with a response signed by the pinned key, or a refusal with its code.

use super::to_frame;
use crate::lease::StepError;
use kernel::db::{StoreError, Tx};
use kernel::settings;
use model::{NodeId, PoolId, Role, SiteId};
use pki::Purpose;
use pki::roles::JoinKeys;
use proto::{Message, v1};

/// What a node is granted.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    pub csr: Vec<u8>,
    pub node: NodeId,
    pub site: SiteId,
    pub pool: PoolId,
    pub role: Role,
    /// The node's certificate, DER.
    pub certificate: Vec<u8>,
}

/// A refusal as it goes on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// As `token-expired`.
    pub code: &'static str,
    pub message: String,
    pub retryable: bool,
}

impl Refused {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retryable: false }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new("bad-request", message)
    }
}

/// Why a request is not granted: it is refused, or it cannot be decided now.
#[derive(Debug)]
pub(crate) enum JoinError {
    Refused(Refused),
    Step(StepError),
}

impl From<Refused> for JoinError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<StoreError> for JoinError {
    fn from(error: StoreError) -> Self {
        Self::Step(error.into())
    }
}

impl From<StepError> for JoinError {
    fn from(error: StepError) -> Self {
        Self::Step(error)
    }
}

/// A serialized `JoinReply` with the signed response.
pub(crate) fn granted(tx: &mut Tx<'_>, keys: &JoinKeys, granted: &Granted) -> Result<Vec<u8>, StepError> {
    let bundle = settings::get_signed(tx, settings::TRUST_BUNDLE)?.map(|(bundle, _)| bundle);
    let response = v1::JoinResponse {
        csr_sha256: stdx::hex::sha256(&granted.csr).to_vec(),
        fleet_id: keys.public.fleet_id.to_string(),
        node_id: granted.node.to_string(),
        site: granted.site.to_string(),
        pool: granted.pool.to_string(),
        role: v1::Role::from(granted.role) as i32,
        chain: vec![granted.certificate.clone(), keys.node_ca.certificate().to_vec()],
        trust_bundle: bundle.map(v1::Signed::from),
        issued_at_ms: tx.now()?.0,
    };
    let signed = keys.signing.sign(Purpose::JoinResponse, response.encode_to_vec())?;
    Ok(reply(v1::join_reply::Reply::Response(to_frame(signed).into())))
}

/// A serialized `JoinReply` that refuses. It is not signed: a gateway that lies about it can as well
/// answer nothing.
pub(crate) fn refused(refused: &Refused) -> Vec<u8> {
    reply(v1::join_reply::Reply::Refused(v1::JoinRefused {
        code: refused.code.to_owned(),
        message: refused.message.clone(),
        retryable: refused.retryable,
    }))
}

fn reply(reply: v1::join_reply::Reply) -> Vec<u8> {
    v1::JoinReply { reply: Some(reply) }.encode_to_vec()
}
