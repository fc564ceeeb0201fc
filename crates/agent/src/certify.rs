//! What makes an answer of JoinService this node's: the pinned key signed it, it answers this very request,
//! and the certificate in it is for this key, this node and this role. A gateway in between can do nothing
//! but withhold it.

use crate::signed;
use model::{NodeId, Role, ServerTimeMs};
use pki::verify::{Expected, IssuedError, NodeTrust};
use pki::{CertificateDer, FleetId, Pin, PublicKey, Purpose};
use proto::Message;
use proto::v1;

/// Authorities of one kind that a trust bundle may hold.
const BUNDLE_ROOTS_MAX: usize = pki::verify::ROOTS_MAX;

#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    #[error("the answer is not signed by the pinned join signing key")]
    Signature(#[source] pki::signed::SignatureError),
    #[error("the answer does not decode: {0}")]
    Decode(&'static str),
    #[error("the answer is for another certificate request")]
    OtherRequest,
    #[error("the trust bundle is not signed by the pinned join signing key")]
    BundleSignature(#[source] pki::signed::SignatureError),
    #[error("the trust bundle is of another fleet than the answer")]
    BundleFleet,
    #[error("the answer makes this machine a {got}, it asked to be a {wanted}")]
    Role { wanted: Role, got: Role },
    #[error("the answer is for another node, {0}")]
    OtherNode(NodeId),
    #[error("the certificate in the answer is refused")]
    Certificate(#[source] IssuedError),
}

/// What was asked for.
pub struct Asked<'a> {
    pub csr: &'a [u8],
    pub key: &'a PublicKey,
    pub role: Role,
    /// The node that renews, and its fleet; a machine that joins has neither yet.
    pub node: Option<(&'a NodeId, &'a FleetId)>,
}

/// A checked answer.
#[derive(Clone, Debug)]
pub struct Certified {
    pub node_id: NodeId,
    pub fleet_id: FleetId,
    pub role: Role,
    pub site: String,
    pub pool: String,
    pub chain: Vec<Vec<u8>>,
    pub trust_bundle: model::frame::Signed,
    pub issued_at: ServerTimeMs,
}

/// A trust bundle whose signature holds.
#[derive(Clone, Debug, Default)]
pub struct Bundle {
    pub version: u64,
    pub fleet_id: String,
    pub command_roots: Vec<CertificateDer<'static>>,
    pub node_cas: Vec<CertificateDer<'static>>,
}

/// Checks the signature of a trust bundle and reads it.
pub fn read_bundle(bundle: &pki::Signed, pin: &Pin) -> Result<Bundle, AnswerError> {
    let body = bundle.verify_pinned(Purpose::TrustBundle, pin).map_err(AnswerError::BundleSignature)?;
    let decoded = v1::TrustBundle::decode(body).map_err(|_| AnswerError::Decode("TrustBundle"))?;
    let lists = [&decoded.command_roots, &decoded.node_cas, &decoded.serving_cas];
    if lists.iter().any(|list| list.len() > BUNDLE_ROOTS_MAX) {
        return Err(AnswerError::Decode("TrustBundle holds too many roots"));
    }
    Ok(Bundle {
        version: decoded.version,
        fleet_id: decoded.fleet_id,
        command_roots: decoded.command_roots.into_iter().map(CertificateDer::from).collect(),
        node_cas: decoded.node_cas.into_iter().map(CertificateDer::from).collect(),
    })
}

/// Checks an answer in the order of its layers: signature, request, bundle, certificate.
pub fn check(answer: v1::Signed, pin: &Pin, asked: &Asked<'_>) -> Result<Certified, AnswerError> {
    let answer = signed::from_wire(answer);
    let body = answer.verify_pinned(Purpose::JoinResponse, pin).map_err(AnswerError::Signature)?;
    let response = v1::JoinResponse::decode(body).map_err(|_| AnswerError::Decode("JoinResponse"))?;
    if response.csr_sha256 != stdx::hex::sha256(asked.csr) {
        return Err(AnswerError::OtherRequest);
    }
    let role = match v1::Role::try_from(response.role) {
        Ok(v1::Role::Node) => Role::Node,
        Ok(v1::Role::Site) => Role::Site,
        Ok(v1::Role::Ramdisk) => Role::Ramdisk,
        Ok(v1::Role::Unspecified) | Err(_) => return Err(AnswerError::Decode("JoinResponse.role")),
    };
    if role != asked.role {
        return Err(AnswerError::Role { wanted: asked.role, got: role });
    }
    let node_id = NodeId::parse(&response.node_id).map_err(|_| AnswerError::Decode("JoinResponse.node_id"))?;
    let fleet_id = FleetId::parse(&response.fleet_id).map_err(|_| AnswerError::Decode("JoinResponse.fleet_id"))?;
    if asked.node.is_some_and(|(node, fleet)| *node != node_id || *fleet != fleet_id) {
        return Err(AnswerError::OtherNode(node_id));
    }
    let bundle = response.trust_bundle.ok_or(AnswerError::Decode("JoinResponse.trust_bundle"))?;
    let bundle = signed::from_wire(bundle);
    let trusted = read_bundle(&bundle, pin)?;
    if trusted.fleet_id != fleet_id.as_str() {
        return Err(AnswerError::BundleFleet);
    }
    let leaf = response.chain.first().ok_or(AnswerError::Decode("JoinResponse.chain"))?;
    let trust = NodeTrust { fleet_id: fleet_id.clone(), node_ca: trusted.node_cas };
    let expected = Expected { public_key: asked.key, node_id: &node_id, role };
    pki::verify::verify_issued(&CertificateDer::from(leaf.as_slice()), &trust, &expected, response.issued_at_ms)
        .map_err(AnswerError::Certificate)?;
    Ok(Certified {
        node_id,
        fleet_id,
        role,
        site: response.site,
        pool: response.pool,
        chain: response.chain,
        trust_bundle: signed::from_pki(bundle),
        issued_at: ServerTimeMs(response.issued_at_ms),
    })
}
