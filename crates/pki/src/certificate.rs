//! Reading certificates: what any certificate says ([`CertificateInfo`]), what a node's says
//! ([`NodeCertificate`]) and what a worker's says ([`WorkerCertificate`]). Reading is not trusting:
//! signatures and time are checked in [`crate::verify`].

use crate::der;
use crate::fleet::FleetId;
use crate::key::PublicKey;
use crate::purpose::Purpose;
use model::{Kind, NodeId, Role};
use stdx::hex;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::x509::X509Version;

/// Longest certificate read, in bytes.
pub const CERTIFICATE_BYTES_MAX: usize = 16 * 1024;
/// Most command kinds a node's certificate may list.
pub const KINDS_MAX: usize = 128;
/// Longest name of a kind, in bytes.
const KIND_BYTES_MAX: usize = 64;
/// A serial is 128 random bits.
pub(crate) const SERIAL_BYTES: usize = 16;
/// A certificate is made to start this much before it is issued, so that a node whose clock is a little
/// behind can use it at once.
pub const BACKDATE_MS: i64 = 60 * 60 * 1000;

/// Arc under 2.25 (X.667: a UUID as an integer) of the project's own object identifiers.
const PROJECT_ARC: u64 = 0x3a5c_9e17_42bd_60f1;
/// Extension of a node's certificate: role and allowed kinds.
pub(crate) const NODE_EXTENSION: Oid = Oid::new(1);
/// Extension of a worker's certificate: the purposes it may sign.
pub(crate) const PURPOSES_EXTENSION: Oid = Oid::new(2);
/// Extended key usage of certificates that only sign bytes, so that they are of no use in TLS.
pub(crate) const SIGNING_USAGE: Oid = Oid::new(3);

/// One object identifier of the project, as arcs and as DER content.
pub(crate) struct Oid {
    pub(crate) arcs: [u64; 4],
    pub(crate) der: [u8; 11],
}

impl Oid {
    const fn new(last: u8) -> Self {
        Self {
            arcs: [2, 25, PROJECT_ARC, last as u64],
            der: [0x69, 0xba, 0xae, 0xa7, 0xc2, 0xf4, 0x95, 0xf5, 0xc1, 0x71, last],
        }
    }
}

/// What is wrong with the bytes of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    #[error("not an X.509 version 3 certificate in DER")]
    Der,
    #[error("the certificate's key is not P-256")]
    Key,
    #[error("the certificate's serial number is not 1 to 128 bits")]
    Serial,
    #[error("the certificate's SPIFFE id is not spiffe://<fleet>/node/<node>")]
    SpiffeId,
    #[error("the certificate does not carry a role and allowed kinds")]
    Role,
    #[error("the certificate does not carry the purposes its key signs for")]
    Purposes,
    #[error("the certificate is an authority's")]
    Authority,
}

/// What every certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateInfo {
    /// 32 lower-case hex digits.
    pub serial_hex: String,
    /// The subject, for people.
    pub subject: String,
    pub public_key: PublicKey,
    pub is_ca: bool,
    pub not_before_ms: i64,
    pub not_after_ms: i64,
    /// The DNS names and addresses it serves, as text.
    pub names: Vec<String>,
    pub uris: Vec<String>,
}

impl CertificateInfo {
    pub fn parse(der: &[u8]) -> Result<Self, CertificateError> {
        Self::of(&parse_x509(der)?)
    }

    fn of(certificate: &X509Certificate<'_>) -> Result<Self, CertificateError> {
        let public_key = PublicKey::from_spki(certificate.public_key().raw).map_err(|_| CertificateError::Key)?;
        let seconds = |time: x509_parser::time::ASN1Time| time.timestamp().saturating_mul(1000);
        let mut info = Self {
            serial_hex: serial_hex(certificate.raw_serial())?,
            subject: certificate.subject().to_string(),
            public_key,
            is_ca: certificate.is_ca(),
            not_before_ms: seconds(certificate.validity().not_before),
            not_after_ms: seconds(certificate.validity().not_after),
            names: Vec::new(),
            uris: Vec::new(),
        };
        let alternative = certificate.subject_alternative_name().map_err(|_| CertificateError::Der)?;
        for name in alternative.iter().flat_map(|extension| &extension.value.general_names) {
            match name {
                GeneralName::DNSName(name) => info.names.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => info.names.extend(address(bytes)),
                GeneralName::URI(uri) => info.uris.push((*uri).to_owned()),
                _ => {}
            }
        }
        Ok(info)
    }
}

fn parse_x509(der: &[u8]) -> Result<X509Certificate<'_>, CertificateError> {
    if der.len() > CERTIFICATE_BYTES_MAX {
        return Err(CertificateError::Der);
    }
    let (rest, certificate) = x509_parser::parse_x509_certificate(der).map_err(|_| CertificateError::Der)?;
    if rest.is_empty() && certificate.version() == X509Version::V3 {
        Ok(certificate)
    } else {
        Err(CertificateError::Der)
    }
}

fn serial_hex(raw: &[u8]) -> Result<String, CertificateError> {
    if raw.first().is_none_or(|first| first & 0x80 != 0) {
        return Err(CertificateError::Serial);
    }
    let start = raw.iter().position(|byte| *byte != 0).ok_or(CertificateError::Serial)?;
    let digits = &raw[start..];
    let start = SERIAL_BYTES.checked_sub(digits.len()).ok_or(CertificateError::Serial)?;
    let mut padded = [0; SERIAL_BYTES];
    padded[start..].copy_from_slice(digits);
    Ok(hex::encode(&padded))
}

fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(std::net::IpAddr::from(four).to_string());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|sixteen| std::net::IpAddr::from(sixteen).to_string())
}

/// The content of one of our extensions; none, or more than one, is an error.
fn extension<'a>(certificate: &X509Certificate<'a>, oid: &Oid) -> Option<&'a [u8]> {
    let mut found = certificate.extensions().iter().filter(|extension| extension.oid.as_bytes() == oid.der);
    let first = found.next()?;
    if found.next().is_some() { None } else { Some(first.value) }
}

/// The SPIFFE id of a node.
pub fn spiffe_id(fleet: &FleetId, node: &NodeId) -> String {
    format!("spiffe://{fleet}/node/{node}")
}

fn parse_spiffe_id(uri: &str) -> Option<(FleetId, NodeId)> {
    let (fleet, node) = uri.strip_prefix("spiffe://")?.split_once("/node/")?;
    Some((FleetId::parse(fleet).ok()?, NodeId::parse(node).ok()?))
}

/// What a node's certificate says of it. Not yet trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCertificate {
    /// 32 lower-case hex digits; what a revocation names.
    pub serial_hex: String,
    pub fleet_id: FleetId,
    pub node_id: NodeId,
    pub role: Role,
    /// Names of command kinds, sorted as issued. A name this version does not know is kept.
    pub allowed_kinds: Vec<String>,
    pub not_before_ms: i64,
    pub not_after_ms: i64,
    pub public_key: PublicKey,
}

impl NodeCertificate {
    pub fn parse(der: &[u8]) -> Result<Self, CertificateError> {
        let certificate = parse_x509(der)?;
        let info = CertificateInfo::of(&certificate)?;
        if info.is_ca {
            return Err(CertificateError::Authority);
        }
        let [uri] = info.uris.as_slice() else { return Err(CertificateError::SpiffeId) };
        let (fleet_id, node_id) = parse_spiffe_id(uri).ok_or(CertificateError::SpiffeId)?;
        let content = extension(&certificate, &NODE_EXTENSION).ok_or(CertificateError::Role)?;
        let (role, allowed_kinds) = parse_role(content).ok_or(CertificateError::Role)?;
        Ok(Self {
            serial_hex: info.serial_hex,
            fleet_id,
            node_id,
            role,
            allowed_kinds,
            not_before_ms: info.not_before_ms,
            not_after_ms: info.not_after_ms,
            public_key: info.public_key,
        })
    }

    /// SubjectPublicKeyInfo, DER.
    pub fn spki(&self) -> &[u8] {
        self.public_key.spki()
    }

    pub fn allows(&self, kind: &str) -> bool {
        self.allowed_kinds.iter().any(|allowed| allowed == kind)
    }

    /// When it was issued: it starts an hour before.
    pub fn issued_at_ms(&self) -> i64 {
        self.not_before_ms.saturating_add(BACKDATE_MS)
    }

    /// When to renew: two thirds of the life that was left when it was issued.
    pub fn renew_at_ms(&self) -> i64 {
        let life_ms = self.not_after_ms.saturating_sub(self.issued_at_ms()).max(0);
        self.issued_at_ms().saturating_add(life_ms / 3 * 2)
    }
}

pub(crate) fn role_extension(role: Role, allowed_kinds: &[String]) -> Vec<u8> {
    der::sequence(&[der::utf8(role.name()), der::strings(allowed_kinds.iter().map(String::as_str))])
}

fn parse_role(content: &[u8]) -> Option<(Role, Vec<String>)> {
    let (role, kinds) = der::take_utf8(der::whole_sequence(content)?)?;
    let kinds = der::whole_strings(kinds, KINDS_MAX)?;
    kinds.iter().all(|kind| is_kind_name(kind)).then_some((Role::parse(role)?, kinds))
}

/// The names of the kinds that a daemon of `role` runs, sorted: what its certificate allows unless an
/// operator allows fewer.
pub fn kinds_of(role: Role) -> Vec<String> {
    let of_role = Kind::ALL.iter().filter(|kind| kind.spec().roles.contains(&role));
    let mut names: Vec<String> = of_role.map(|kind| kind.name().to_owned()).collect();
    names.sort();
    names
}

pub(crate) fn is_kind_name(text: &str) -> bool {
    let ok = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
    (1..=KIND_BYTES_MAX).contains(&text.len()) && text.bytes().all(ok)
}

/// What the certificate of a signing key says: a worker's, or JoinService's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerCertificate {
    pub info: CertificateInfo,
    /// Purposes that this version knows; the others are passed over.
    pub purposes: Vec<Purpose>,
}

impl WorkerCertificate {
    pub fn parse(der: &[u8]) -> Result<Self, CertificateError> {
        let certificate = parse_x509(der)?;
        let info = CertificateInfo::of(&certificate)?;
        if info.is_ca {
            return Err(CertificateError::Authority);
        }
        let content = extension(&certificate, &PURPOSES_EXTENSION).ok_or(CertificateError::Purposes)?;
        let names = der::whole_strings(content, KINDS_MAX).ok_or(CertificateError::Purposes)?;
        let purposes = names.iter().filter_map(|name| Purpose::parse(name)).collect();
        Ok(Self { info, purposes })
    }

    pub fn signs(&self, purpose: Purpose) -> bool {
        self.purposes.contains(&purpose)
    }
}

pub(crate) fn purposes_extension(purposes: &[Purpose]) -> Vec<u8> {
    der::strings(purposes.iter().map(|purpose| purpose.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_can_be_certified_for_all_its_kinds() {
        for role in Role::ALL {
            let kinds = kinds_of(role);
            assert!(!kinds.is_empty() && kinds.len() <= KINDS_MAX);
            assert!(kinds.iter().all(|kind| is_kind_name(kind)));
            assert_eq!(parse_role(&role_extension(role, &kinds)), Some((role, kinds)));
        }
    }

    #[test]
    fn a_role_extension_has_one_form() {
        let good = role_extension(Role::Node, &["gpu.reset".to_owned()]);
        for at in 0..good.len() {
            assert_eq!(parse_role(&good[..at]), None);
        }
        assert_eq!(parse_role(&[good.as_slice(), &[0]].concat()), None);
        let unknown = der::sequence(&[der::utf8("king"), der::strings(["gpu.reset"])]);
        assert_eq!(parse_role(&unknown), None);
        let spaced = der::sequence(&[der::utf8("node"), der::strings(["gpu reset"])]);
        assert_eq!(parse_role(&spaced), None);
    }

    #[test]
    fn a_spiffe_id_names_one_fleet_and_one_node() {
        let (fleet, node) = (FleetId::random(), NodeId::new("node_1"));
        let uri = spiffe_id(&fleet, &node);
        assert_eq!(parse_spiffe_id(&uri), Some((fleet, node)));
        for bad in
            ["spiffe://f/node/", "spiffe://f/node/a/b", "spiffe://F/node/a", "https://f/node/a", "spiffe://f/site/a"]
        {
            assert_eq!(parse_spiffe_id(bad), None, "{bad}");
        }
    }
}
