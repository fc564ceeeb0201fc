//! The two rustls configurations of a session: TLS 1.3, ALPN `h2`, ECDSA P-256, and no resumption,
//! because a resumed handshake skips the verifier and would let a revoked node back in.
//!
//! - The server asks for a client certificate and does not insist on one (a node that joins has none).
//!   It proves that the client holds the certificate's key and nothing else: an expired, revoked or
//!   foreign certificate passes here, so that the gateway can refuse it with a code
//!   ([`crate::verify::verify_node_chain`]).
//! - The client trusts one authority, by the pin of its key, and the names of the certificate it signed.

use crate::certificate::CertificateInfo;
use crate::key::KeyPair;
use crate::pin::Pin;
use crate::verify::{self, ServingVerifyError};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, OtherError, PeerIncompatible,
    ServerConfig, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::fmt;
use std::sync::Arc;

/// The one protocol spoken inside.
pub const ALPN: &[u8] = b"h2";

/// Unix milliseconds, from whatever the caller holds to be the time.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

static SUPPORTED: WebPkiSupportedAlgorithms = WebPkiSupportedAlgorithms {
    all: verify::SIGNATURE_ALGORITHMS,
    mapping: &[(SignatureScheme::ECDSA_NISTP256_SHA256, verify::SIGNATURE_ALGORITHMS)],
};

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("the certificate chain is empty or its first certificate is not this key's")]
    Identity(#[source] Error),
    #[error("the TLS configuration is refused")]
    Config(#[source] Error),
    #[error("{0:?} is not a DNS name or an IP address")]
    ServerName(String),
}

/// A certificate chain, leaf first, with the leaf's key.
#[derive(Clone, Debug)]
pub struct TlsIdentity {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: KeyPair,
}

impl TlsIdentity {
    fn certified(&self) -> Result<Arc<SingleCertAndKey>, TlsError> {
        let certified = CertifiedKey::new(self.chain.clone(), self.key.tls_signer().map_err(TlsError::Identity)?);
        certified.keys_match().map_err(TlsError::Identity)?;
        Ok(Arc::new(SingleCertAndKey::from(certified)))
    }
}

/// A gateway's configuration. `serving.chain` is the leaf followed by its authority, which clients pin.
pub fn server_config(serving: &TlsIdentity, clock: Clock) -> Result<ServerConfig, TlsError> {
    let mut config = ServerConfig::builder_with_details(provider(), Arc::new(CallersTime(clock)))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(TlsError::Config)?
        .with_client_cert_verifier(Arc::new(PossessionOnly))
        .with_cert_resolver(serving.certified()?);
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Ok(config)
}

/// An agent's configuration: it connects to a server whose authority has one of `pins`, with its own
/// certificate if it has one. `clock` may be a host's wrong clock until the first signed server time.
pub fn client_config(pins: Vec<Pin>, identity: Option<&TlsIdentity>, clock: Clock) -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder_with_details(provider(), Arc::new(CallersTime(clock)))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(TlsError::Config)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(PinnedAuthority { pins }));
    let mut config = match identity {
        Some(identity) => builder.with_client_cert_resolver(identity.certified()?),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// The name a gateway's certificate must carry: the configured one, else the host of its URL (without
/// port; an IPv6 address with or without brackets).
pub fn server_name(url_host: &str, gateway_server_name: Option<&str>) -> Result<ServerName<'static>, TlsError> {
    let text = gateway_server_name.unwrap_or(url_host);
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    ServerName::try_from(bare.to_owned()).map_err(|_| TlsError::ServerName(text.to_owned()))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

struct CallersTime(Clock);

impl TimeProvider for CallersTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(verify::unix_time((self.0)()))
    }
}

impl fmt::Debug for CallersTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallersTime")
    }
}

fn tls13_only() -> Result<HandshakeSignatureValid, Error> {
    Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOfferedOrEnabled))
}

/// Takes any P-256 certificate whose key the client proves to hold.
#[derive(Debug)]
struct PossessionOnly;

impl ClientCertVerifier for PossessionOnly {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        CertificateInfo::parse(end_entity).map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        tls13_only()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &SUPPORTED)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SUPPORTED.supported_schemes()
    }
}

/// Takes a server whose presented authority is pinned.
#[derive(Debug)]
struct PinnedAuthority {
    pins: Vec<Pin>,
}

impl ServerCertVerifier for PinnedAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let at_ms = i64::try_from(now.as_secs().saturating_mul(1000)).unwrap_or(i64::MAX);
        verify::verify_serving_chain(end_entity, intermediates, &self.pins, server_name, at_ms).map_err(|fault| {
            Error::InvalidCertificate(match fault {
                ServingVerifyError::Untrusted => CertificateError::UnknownIssuer,
                ServingVerifyError::Expired => CertificateError::Expired,
                ServingVerifyError::NotYetValid => CertificateError::NotValidYet,
                ServingVerifyError::Unfit => CertificateError::InvalidPurpose,
                ServingVerifyError::Name => CertificateError::NotValidForName,
                ServingVerifyError::Pin => CertificateError::Other(OtherError(Arc::new(fault))),
            })
        })?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        tls13_only()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &SUPPORTED)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SUPPORTED.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
