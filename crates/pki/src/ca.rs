//! The three authorities of a fleet and what each may issue: the serving CA gateways' TLS
//! certificates, the node CA nodes' certificates, the command root workers' certificates. An authority
//! issues nothing of another's, and nothing that would outlive it.

use crate::certificate::{
    self, BACKDATE_MS, CertificateError, CertificateInfo, KINDS_MAX, NODE_EXTENSION, Oid, PURPOSES_EXTENSION,
    SERIAL_BYTES, SIGNING_USAGE,
};
use crate::fleet::FleetId;
use crate::key::{self, CertificateSigner, KeyPair, PublicKey};
use crate::purpose::Purpose;
use model::{NodeId, Role};
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyUsagePurpose, SanType, SerialNumber,
};
use rustls_pki_types::CertificateDer;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Life of a node's certificate from its issue.
pub const NODE_LIFE_MS: i64 = DAY_MS;
/// Life of a ramdisk's certificate from its issue.
pub const RAMDISK_LIFE_MS: i64 = 2 * 60 * 60 * 1000;
/// Life of a serving or worker certificate from its issue.
pub const LEAF_LIFE_MS: i64 = 2 * 365 * DAY_MS;
/// Life of an authority from its making.
pub const AUTHORITY_LIFE_MS: i64 = 20 * 365 * DAY_MS;
/// The last second that X.509 can name, 9999-12-31T23:59:59Z, in Unix milliseconds.
const TIME_MS_MAX: i64 = 253_402_300_799_000;
/// Most names of one serving certificate.
pub const SERVING_NAMES_MAX: usize = 64;

/// What an authority certifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    Serving,
    Node,
    Command,
}

impl Authority {
    pub const fn name(self) -> &'static str {
        match self {
            Authority::Serving => "serving CA",
            Authority::Node => "node CA",
            Authority::Command => "command root",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CaError {
    #[error("the {} does not issue this", .0.name())]
    NotItsAffair(Authority),
    #[error("the time {0} ms is outside of what a certificate can say")]
    Time(i64),
    #[error("the certificate would outlive the {}", .0.name())]
    Outlives(Authority),
    #[error("{0:?} is not a DNS name or an IP address")]
    ServingName(String),
    #[error("a serving certificate names 1 to {SERVING_NAMES_MAX} hosts")]
    ServingNames,
    #[error("a node's certificate lists at most {KINDS_MAX} well-formed kinds")]
    Kinds,
    #[error("the authority's certificate and key do not belong together")]
    Mismatch,
    #[error("the authority's certificate cannot be read")]
    Certificate(#[from] CertificateError),
    #[error("the certificate cannot be encoded")]
    Encode(#[source] rcgen::Error),
}

/// A node to certify. `allowed_kinds` are names of command kinds.
pub struct NodeRequest<'a> {
    pub node_id: &'a NodeId,
    pub role: Role,
    pub allowed_kinds: &'a [String],
    /// From a verified request ([`crate::csr::verify`]).
    pub public_key: &'a PublicKey,
}

/// An authority: its self-signed certificate and its key.
#[derive(Clone)]
pub struct Ca {
    authority: Authority,
    certificate: CertificateDer<'static>,
    not_after_ms: i64,
    key: KeyPair,
}

impl Ca {
    /// A new authority with a new key.
    pub fn create(authority: Authority, fleet: &FleetId, now_ms: i64) -> Result<Self, CaError> {
        let key = KeyPair::generate();
        let mut params = params(&format!("better-compute {}", authority.name()), fleet, now_ms, AUTHORITY_LIFE_MS)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&CertificateSigner(&key)).map_err(CaError::Encode)?.der().clone();
        Self::from_parts(authority, certificate, key)
    }

    /// An authority as it was stored; the key must be the certificate's.
    pub fn from_parts(
        authority: Authority,
        certificate: CertificateDer<'static>,
        key: KeyPair,
    ) -> Result<Self, CaError> {
        let info = CertificateInfo::parse(&certificate)?;
        if !info.is_ca || info.public_key != *key.public() {
            return Err(CaError::Mismatch);
        }
        Ok(Self { authority, certificate, not_after_ms: info.not_after_ms, key })
    }

    pub fn authority(&self) -> Authority {
        self.authority
    }

    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    pub fn public_key(&self) -> &PublicKey {
        self.key.public()
    }

    pub(crate) fn key(&self) -> &KeyPair {
        &self.key
    }

    /// A gateway's TLS certificate for DNS names and addresses.
    pub fn issue_serving(
        &self,
        fleet: &FleetId,
        names: &[String],
        key: &PublicKey,
        now_ms: i64,
    ) -> Result<CertificateDer<'static>, CaError> {
        if !(1..=SERVING_NAMES_MAX).contains(&names.len()) {
            return Err(CaError::ServingNames);
        }
        let mut params = params("better-compute gateway", fleet, now_ms, LEAF_LIFE_MS)?;
        params.subject_alt_names = names.iter().map(|name| serving_name(name)).collect::<Result<_, _>>()?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(Authority::Serving, params, key, now_ms, LEAF_LIFE_MS)
    }

    /// A worker's certificate: its key signs for `purposes` and no others.
    pub fn issue_worker(
        &self,
        fleet: &FleetId,
        name: &str,
        purposes: &[Purpose],
        key: &PublicKey,
        now_ms: i64,
    ) -> Result<CertificateDer<'static>, CaError> {
        let params = signing_params(fleet, name, purposes, now_ms)?;
        self.issue(Authority::Command, params, key, now_ms, LEAF_LIFE_MS)
    }

    /// A node's certificate: 24 hours, a ramdisk's 2.
    pub fn issue_node(
        &self,
        fleet: &FleetId,
        request: &NodeRequest<'_>,
        now_ms: i64,
    ) -> Result<CertificateDer<'static>, CaError> {
        let kinds = request.allowed_kinds;
        if kinds.len() > KINDS_MAX || !kinds.iter().all(|kind| certificate::is_kind_name(kind)) {
            return Err(CaError::Kinds);
        }
        let life_ms = match request.role {
            Role::Ramdisk => RAMDISK_LIFE_MS,
            Role::Node | Role::Site => NODE_LIFE_MS,
        };
        let mut params = params(request.node_id.as_str(), fleet, now_ms, life_ms)?;
        let uri = certificate::spiffe_id(fleet, request.node_id).try_into().map_err(CaError::Encode)?;
        params.subject_alt_names = vec![SanType::URI(uri)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.custom_extensions = vec![extension(&NODE_EXTENSION, certificate::role_extension(request.role, kinds))];
        self.issue(Authority::Node, params, request.public_key, now_ms, life_ms)
    }

    fn issue(
        &self,
        authority: Authority,
        mut params: CertificateParams,
        key: &PublicKey,
        now_ms: i64,
        life_ms: i64,
    ) -> Result<CertificateDer<'static>, CaError> {
        if self.authority != authority {
            return Err(CaError::NotItsAffair(self.authority));
        }
        if now_ms.saturating_add(life_ms) > self.not_after_ms {
            return Err(CaError::Outlives(self.authority));
        }
        params.use_authority_key_identifier_extension = true;
        let issuer =
            Issuer::from_ca_cert_der(&self.certificate, CertificateSigner(&self.key)).map_err(CaError::Encode)?;
        Ok(params.signed_by(key, &issuer).map_err(CaError::Encode)?.der().clone())
    }
}

impl fmt::Debug for Ca {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ca({}, {})", self.authority.name(), self.key.kid())
    }
}

/// A self-signed certificate of a key that others pin: JoinService's signing key. It carries the key
/// and its purposes; the pin is what makes it trusted.
pub fn self_signed_signer(
    fleet: &FleetId,
    name: &str,
    purposes: &[Purpose],
    key: &KeyPair,
    now_ms: i64,
) -> Result<CertificateDer<'static>, CaError> {
    let params = signing_params(fleet, name, purposes, now_ms)?;
    Ok(params.self_signed(&CertificateSigner(key)).map_err(CaError::Encode)?.der().clone())
}

fn signing_params(
    fleet: &FleetId,
    name: &str,
    purposes: &[Purpose],
    now_ms: i64,
) -> Result<CertificateParams, CaError> {
    let mut params = params(name, fleet, now_ms, LEAF_LIFE_MS)?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::Other(SIGNING_USAGE.arcs.to_vec())];
    params.custom_extensions = vec![extension(&PURPOSES_EXTENSION, certificate::purposes_extension(purposes))];
    Ok(params)
}

fn params(name: &str, fleet: &FleetId, now_ms: i64, life_ms: i64) -> Result<CertificateParams, CaError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, fleet.as_str());
    params.distinguished_name.push(DnType::CommonName, name);
    let mut serial: [u8; SERIAL_BYTES] = key::random();
    // Zero is not a serial number (RFC 5280 section 4.1.2.2).
    serial[SERIAL_BYTES - 1] |= u8::from(serial == [0; SERIAL_BYTES]);
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + since_epoch(now_ms.saturating_sub(BACKDATE_MS).max(0))?;
    params.not_after = epoch + since_epoch(now_ms.saturating_add(life_ms))?;
    params.is_ca = IsCa::NoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

fn since_epoch(ms: i64) -> Result<Duration, CaError> {
    if (0..=TIME_MS_MAX).contains(&ms) { Ok(Duration::from_secs(ms as u64 / 1000)) } else { Err(CaError::Time(ms)) }
}

fn serving_name(name: &str) -> Result<SanType, CaError> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    let bad = || CaError::ServingName(name.to_owned());
    rustls_pki_types::DnsName::try_from(name).map_err(|_| bad())?;
    Ok(SanType::DnsName(name.try_into().map_err(|_| bad())?))
}

/// Not critical, because verifiers refuse critical extensions they do not know; ours requires it itself.
fn extension(oid: &Oid, content: Vec<u8>) -> CustomExtension {
    CustomExtension::from_oid_content(&oid.arcs, content)
}

#[cfg(test)]
mod tests;
