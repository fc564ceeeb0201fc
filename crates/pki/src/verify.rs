//! Whether a certificate belongs to this fleet and holds now. Chains are verified by rustls-webpki,
//! always of length one: a leaf under a root that is already trusted.

use crate::certificate::{CertificateError, CertificateInfo, NodeCertificate};
use crate::fleet::FleetId;
use crate::key::PublicKey;
use crate::pin::Pin;
use model::{NodeId, Role};
use rustls_pki_types::{CertificateDer, ServerName, SignatureVerificationAlgorithm, TrustAnchor, UnixTime};
use std::time::Duration;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

/// For this long after it expired, a certificate may be used to renew and for nothing else.
pub const RENEW_GRACE_MS: i64 = 7 * 24 * 60 * 60 * 1000;
/// Most roots of one kind that are trusted at once.
pub const ROOTS_MAX: usize = 16;

/// All keys of a fleet are P-256.
pub(crate) static SIGNATURE_ALGORITHMS: &[&dyn SignatureVerificationAlgorithm] =
    &[webpki::aws_lc_rs::ECDSA_P256_SHA256];

/// Unix milliseconds as webpki counts; times before 1970 are 1970.
pub(crate) fn unix_time(at_ms: i64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(at_ms.max(0) as u64 / 1000))
}

/// What a chain to a root can fail by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChainFault {
    /// No root signed it.
    Untrusted,
    Expired,
    NotYetValid,
    /// It is not a certificate of this use.
    Unfit,
}

/// Verifies that one of `roots` certified `leaf` for `usage`, at `at_ms`. A root that cannot be read, or
/// that comes after [`ROOTS_MAX`] others, certifies nothing.
pub(crate) fn verify_leaf(
    leaf: &CertificateDer<'_>,
    roots: &[CertificateDer<'_>],
    at_ms: i64,
    usage: KeyUsage,
) -> Result<(), ChainFault> {
    let anchors: Vec<TrustAnchor<'_>> =
        roots.iter().take(ROOTS_MAX).filter_map(|root| anchor_from_trusted_cert(root).ok()).collect();
    let parsed = EndEntityCert::try_from(leaf).map_err(|_| ChainFault::Unfit)?;
    match parsed.verify_for_usage(SIGNATURE_ALGORITHMS, &anchors, &[], unix_time(at_ms), usage, None, None) {
        Ok(_) => Ok(()),
        Err(webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey) => Err(ChainFault::Untrusted),
        Err(webpki::Error::CertExpired { .. }) => Err(ChainFault::Expired),
        Err(webpki::Error::CertNotValidYet { .. }) => Err(ChainFault::NotYetValid),
        Err(_) => Err(ChainFault::Unfit),
    }
}

/// What makes a node's certificate one of this fleet.
#[derive(Clone, Debug)]
pub struct NodeTrust {
    pub fleet_id: FleetId,
    /// Node CA certificates, at most [`ROOTS_MAX`].
    pub node_ca: Vec<CertificateDer<'static>>,
}

/// How a node's certificate stands at the time of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Valid,
    /// Expired, and not for longer than the grace: good for a renewal only.
    InGrace,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedNode {
    pub certificate: NodeCertificate,
    pub standing: Standing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeVerifyError {
    #[error("not a node's certificate")]
    Malformed(#[from] CertificateError),
    #[error("the certificate is not fit for a client")]
    Unfit,
    #[error("the certificate is of another fleet")]
    WrongFleet,
    #[error("the certificate is not valid before {not_before_ms} ms")]
    NotYetValid { not_before_ms: i64 },
    #[error("the certificate expired at {not_after_ms} ms and its grace is over")]
    Expired { not_after_ms: i64 },
}

/// Checks a client's certificate for the gateway, which answers each fault with a code of its own.
/// Possession of the key is proven by the handshake, revocation is looked up by the caller.
pub fn verify_node_chain(
    certificate: &CertificateDer<'_>,
    trust: &NodeTrust,
    at_ms: i64,
    grace_ms: i64,
) -> Result<VerifiedNode, NodeVerifyError> {
    let info = CertificateInfo::parse(certificate)?;
    // Whose it is comes before whether it still holds, so the chain is checked at a time it covers.
    let within_ms = at_ms.min(info.not_after_ms).max(info.not_before_ms);
    verify_leaf(certificate, &trust.node_ca, within_ms, KeyUsage::client_auth()).map_err(|fault| match fault {
        ChainFault::Untrusted => NodeVerifyError::WrongFleet,
        ChainFault::Expired | ChainFault::NotYetValid | ChainFault::Unfit => NodeVerifyError::Unfit,
    })?;
    let node = NodeCertificate::parse(certificate)?;
    if node.fleet_id != trust.fleet_id {
        return Err(NodeVerifyError::WrongFleet);
    }
    if at_ms < node.not_before_ms {
        return Err(NodeVerifyError::NotYetValid { not_before_ms: node.not_before_ms });
    }
    let standing = if at_ms <= node.not_after_ms {
        Standing::Valid
    } else if at_ms <= node.not_after_ms.saturating_add(grace_ms) {
        Standing::InGrace
    } else {
        return Err(NodeVerifyError::Expired { not_after_ms: node.not_after_ms });
    };
    Ok(VerifiedNode { certificate: node, standing })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssuedError {
    #[error("the issued certificate does not verify")]
    Chain(#[from] NodeVerifyError),
    #[error("the issued certificate is not for this key")]
    Key,
    #[error("the issued certificate names another node")]
    Node,
    #[error("the issued certificate has another role")]
    Role,
}

/// What a node expects of a certificate issued to it.
pub struct Expected<'a> {
    pub public_key: &'a PublicKey,
    /// The node id that the signed answer names.
    pub node_id: &'a NodeId,
    pub role: Role,
}

/// A node's check of the certificate it was given, after the answer's own signature: it certifies this
/// key, this SPIFFE id and this role. `at_ms` is the time the signed answer states.
pub fn verify_issued(
    certificate: &CertificateDer<'_>,
    trust: &NodeTrust,
    expected: &Expected<'_>,
    at_ms: i64,
) -> Result<NodeCertificate, IssuedError> {
    let node = verify_node_chain(certificate, trust, at_ms, 0)?.certificate;
    if node.public_key != *expected.public_key {
        return Err(IssuedError::Key);
    }
    if node.node_id != *expected.node_id {
        return Err(IssuedError::Node);
    }
    if node.role != expected.role {
        return Err(IssuedError::Role);
    }
    Ok(node)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServingVerifyError {
    #[error("no presented authority's key matches the pin")]
    Pin,
    #[error("the gateway's certificate is not signed by the pinned authority")]
    Untrusted,
    #[error("the gateway's certificate has expired, or this host's clock is ahead")]
    Expired,
    #[error("the gateway's certificate is not valid yet, or this host's clock is behind")]
    NotYetValid,
    #[error("the gateway's certificate is not fit for a server")]
    Unfit,
    #[error("the gateway's certificate does not name this server")]
    Name,
}

/// Checks a gateway's chain, leaf first: one of the certificates after the leaf is an authority whose
/// key has one of the pins, it signed the leaf, and the leaf names `name`.
pub fn verify_serving_chain(
    leaf: &CertificateDer<'_>,
    rest: &[CertificateDer<'_>],
    pins: &[Pin],
    name: &ServerName<'_>,
    at_ms: i64,
) -> Result<(), ServingVerifyError> {
    let is_pinned = |der: &&CertificateDer<'_>| {
        CertificateInfo::parse(der).is_ok_and(|info| info.is_ca && pins.contains(&Pin::of(&info.public_key)))
    };
    let roots: Vec<CertificateDer<'_>> = rest.iter().filter(is_pinned).take(ROOTS_MAX).cloned().collect();
    if roots.is_empty() {
        return Err(ServingVerifyError::Pin);
    }
    verify_leaf(leaf, &roots, at_ms, KeyUsage::server_auth()).map_err(|fault| match fault {
        ChainFault::Untrusted => ServingVerifyError::Untrusted,
        ChainFault::Expired => ServingVerifyError::Expired,
        ChainFault::NotYetValid => ServingVerifyError::NotYetValid,
        ChainFault::Unfit => ServingVerifyError::Unfit,
    })?;
    let parsed = EndEntityCert::try_from(leaf).map_err(|_| ServingVerifyError::Unfit)?;
    parsed.verify_is_valid_for_subject_name(name).map_err(|_| ServingVerifyError::Name)
}

#[cfg(test)]
mod tests;
