//! Signatures as they travel (decision F-Q10): the body as sent, the key's id, the certificates that
//! lead to a trusted root, the signature. A verifier names the purpose it expects; the sender cannot.

use crate::certificate::{CertificateError, SIGNING_USAGE, WorkerCertificate};
use crate::key::{KeyPair, PublicKey};
use crate::pin::Pin;
use crate::purpose::Purpose;
use crate::verify::{ChainFault, verify_leaf};
use rustls_pki_types::CertificateDer;
use webpki::KeyUsage;

/// A body with its signature. Nothing in it is trusted before one of the `verify` functions returned it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    pub body: Vec<u8>,
    /// [`PublicKey::kid`] of the signer.
    pub kid: String,
    /// Certificates, DER, leaf first: none where the verifier knows the key, one where a root or a pin
    /// vouches for it.
    pub chain: Vec<Vec<u8>>,
    /// ES256, P1363, 64 bytes.
    pub signature: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("the key id is not the signer's")]
    Kid,
    #[error("the signature does not verify for purpose `{0}`")]
    Signature(Purpose),
    #[error("the signature must carry exactly one certificate")]
    ChainLength,
    #[error("the signer's certificate cannot be read")]
    Certificate(#[from] CertificateError),
    #[error("the signer's certificate does not lead to a trusted root")]
    Untrusted,
    #[error("the signer's certificate has expired")]
    Expired,
    #[error("the signer's certificate is not valid yet")]
    NotYetValid,
    #[error("the signer's key is not the pinned one")]
    Pin,
    #[error("the signer's certificate does not allow purpose `{0}`")]
    Purpose(Purpose),
}

impl Signed {
    pub fn sign(purpose: Purpose, body: Vec<u8>, key: &KeyPair, chain: Vec<Vec<u8>>) -> Self {
        let signature = key.sign(&purpose.signing_input(&body)).to_vec();
        Self { body, kid: key.kid(), chain, signature }
    }

    /// The body, if `key` signed it for `purpose`. For keys known otherwise: a node's, an approver's.
    pub fn verify(&self, purpose: Purpose, key: &PublicKey) -> Result<&[u8], SignatureError> {
        if self.kid != key.kid() {
            return Err(SignatureError::Kid);
        }
        if !key.verifies(&purpose.signing_input(&self.body), &self.signature) {
            return Err(SignatureError::Signature(purpose));
        }
        Ok(&self.body)
    }

    /// The body, if a worker signed it whose certificate one of `roots` issued, that was valid at
    /// `at_ms`, and that allows `purpose`.
    pub fn verify_chain(
        &self,
        purpose: Purpose,
        roots: &[CertificateDer<'_>],
        at_ms: i64,
    ) -> Result<&[u8], SignatureError> {
        let (leaf, worker) = self.leaf()?;
        verify_leaf(&leaf, roots, at_ms, KeyUsage::required(&SIGNING_USAGE.der)).map_err(|fault| match fault {
            ChainFault::Expired => SignatureError::Expired,
            ChainFault::NotYetValid => SignatureError::NotYetValid,
            ChainFault::Untrusted | ChainFault::Unfit => SignatureError::Untrusted,
        })?;
        self.verify_worker(purpose, &worker)
    }

    /// The body, if the pinned key signed it: JoinService's answers and trust bundles. The certificate
    /// only carries the key, so its dates do not matter.
    pub fn verify_pinned(&self, purpose: Purpose, pin: &Pin) -> Result<&[u8], SignatureError> {
        let (_, worker) = self.leaf()?;
        if !pin.matches(&worker.info.public_key) {
            return Err(SignatureError::Pin);
        }
        self.verify_worker(purpose, &worker)
    }

    fn leaf(&self) -> Result<(CertificateDer<'_>, WorkerCertificate), SignatureError> {
        let [leaf] = self.chain.as_slice() else { return Err(SignatureError::ChainLength) };
        Ok((CertificateDer::from(leaf.as_slice()), WorkerCertificate::parse(leaf)?))
    }

    fn verify_worker(&self, purpose: Purpose, worker: &WorkerCertificate) -> Result<&[u8], SignatureError> {
        if !worker.signs(purpose) {
            return Err(SignatureError::Purpose(purpose));
        }
        self.verify(purpose, &worker.info.public_key)
    }
}

/// A key with the certificate that says what it may sign.
#[derive(Clone, Debug)]
pub struct SigningIdentity {
    key: KeyPair,
    certificate: CertificateDer<'static>,
    worker: WorkerCertificate,
}

impl SigningIdentity {
    pub fn new(key: KeyPair, certificate: CertificateDer<'static>) -> Result<Self, SignatureError> {
        let worker = WorkerCertificate::parse(&certificate)?;
        if worker.info.public_key != *key.public() {
            return Err(SignatureError::Kid);
        }
        Ok(Self { key, certificate, worker })
    }

    /// Signs `body`; refused for a purpose that the certificate does not allow.
    pub fn sign(&self, purpose: Purpose, body: Vec<u8>) -> Result<Signed, SignatureError> {
        if !self.worker.signs(purpose) {
            return Err(SignatureError::Purpose(purpose));
        }
        Ok(Signed::sign(purpose, body, &self.key, vec![self.certificate.to_vec()]))
    }

    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    pub fn purposes(&self) -> &[Purpose] {
        &self.worker.purposes
    }

    pub fn public_key(&self) -> &PublicKey {
        self.key.public()
    }

    pub(crate) fn key(&self) -> &KeyPair {
        &self.key
    }
}

#[cfg(test)]
mod tests;
