//! What `pki show` prints of a key file: fingerprints, dates, which private keys it holds. Never a
//! secret.

use crate::bundle::{Bundle, PublicPart};
use crate::certificate::CertificateInfo;
use crate::envelope::FileKind;
use crate::key::PublicKey;
use crate::pin::Pin;
use crate::roles::{ApiKeys, ControllersKeys, GatewayKeys, JoinKeys, KeyFile, OfflineKeys};
use rustls_pki_types::CertificateDer;
use stdx::hex;

/// One certificate or bare public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: &'static str,
    pub kid: String,
    pub pin: Pin,
    /// Whether the file holds the private key.
    pub private: bool,
    /// None for a key without a certificate.
    pub certificate: Option<CertificateEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateEntry {
    /// SHA-256 of the DER, 64 lower-case hex digits.
    pub sha256: String,
    pub serial_hex: String,
    pub subject: String,
    pub names: Vec<String>,
    pub not_before_ms: i64,
    pub not_after_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub file: FileKind,
    pub fleet_id: String,
    pub entries: Vec<Entry>,
}

fn key_entry(name: &'static str, key: &PublicKey, private: bool) -> Entry {
    Entry { name, kid: key.kid(), pin: Pin::of(key), private, certificate: None }
}

fn certificate_entry(name: &'static str, der: &CertificateDer<'_>, private: bool) -> Entry {
    let info = CertificateInfo::parse(der).expect("a key file's certificates were read when it was opened");
    let mut entry = key_entry(name, &info.public_key, private);
    entry.certificate = Some(CertificateEntry {
        sha256: hex::sha256_hex(der),
        serial_hex: info.serial_hex,
        subject: info.subject,
        names: info.names,
        not_before_ms: info.not_before_ms,
        not_after_ms: info.not_after_ms,
    });
    entry
}

impl PublicPart {
    /// The public half of a file of `kind`, which is all that can be shown without opening it.
    pub fn summary(&self, kind: FileKind) -> Summary {
        let holds = |kinds: &[FileKind]| kind == FileKind::Bundle || kinds.contains(&kind);
        let entries = vec![
            certificate_entry("serving CA", &self.serving_ca, holds(&[FileKind::Offline])),
            certificate_entry("node CA", &self.node_ca, holds(&[FileKind::Join])),
            certificate_entry("command root", &self.command_root, holds(&[FileKind::Offline])),
            certificate_entry("join signing key", &self.join_signing, holds(&[FileKind::Join])),
            key_entry("join encryption key", &self.join_encryption, holds(&[FileKind::Join])),
            key_entry("secrets key", &self.secrets, holds(&[FileKind::Controllers])),
        ];
        Summary { file: kind, fleet_id: self.fleet_id.to_string(), entries }
    }
}

/// What can be shown of an opened file.
pub trait Show: KeyFile {
    /// The certificates that only this file holds.
    fn own(&self) -> Vec<Entry>;

    fn summary(&self) -> Summary {
        let mut summary = self.public().summary(Self::KIND);
        summary.entries.extend(self.own());
        summary
    }
}

impl Show for GatewayKeys {
    fn own(&self) -> Vec<Entry> {
        self.serving
            .chain
            .first()
            .map(|leaf| certificate_entry("serving certificate", leaf, true))
            .into_iter()
            .collect()
    }
}

impl Show for JoinKeys {
    fn own(&self) -> Vec<Entry> {
        Vec::new()
    }
}

impl Show for ApiKeys {
    fn own(&self) -> Vec<Entry> {
        vec![certificate_entry("api worker", self.worker.certificate(), true)]
    }
}

impl Show for ControllersKeys {
    fn own(&self) -> Vec<Entry> {
        vec![certificate_entry("controllers worker", self.worker.certificate(), true)]
    }
}

impl Show for OfflineKeys {
    fn own(&self) -> Vec<Entry> {
        Vec::new()
    }
}

impl Show for Bundle {
    fn own(&self) -> Vec<Entry> {
        let roles = self.split();
        [roles.gateway.own(), roles.api.own(), roles.controllers.own()].concat()
    }
}
