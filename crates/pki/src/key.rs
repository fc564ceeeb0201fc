//! P-256 keys. A [`KeyPair`] signs ES256 in P1363 form (r and s, 32 bytes each); its PKCS#8 bytes
//! are wiped when the last clone is dropped, and `Debug` shows the key id only.
//!
//! Where a key is kept, and with which mode, is the caller's affair.

use aws_lc_rs::encoding::{AsBigEndian, EcPrivateKeyBin};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair,
    KeyPair as _, UnparsedPublicKey,
};
use aws_lc_rs::{agreement, signature};
use data_encoding::BASE64;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fmt;
use std::sync::Arc;
use stdx::hex;
use zeroize::{Zeroize, Zeroizing};

/// Bytes of an ES256 signature in P1363 form (RFC 7518 section 3.4).
pub const SIGNATURE_BYTES: usize = 64;
/// Bytes of an uncompressed P-256 point: 0x04, x, y.
pub const POINT_BYTES: usize = 65;
/// Bytes of the SHA-256 of the SubjectPublicKeyInfo that make a key id.
const KID_BYTES: usize = 16;
/// Longest PKCS#8 file read, in bytes.
const PKCS8_BYTES_MAX: usize = 4096;

/// SubjectPublicKeyInfo of an uncompressed P-256 point up to the point itself (RFC 5480).
const SPKI_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const SPKI_BYTES: usize = SPKI_PREFIX.len() + POINT_BYTES;

const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";
const PEM_LINE_CHARS: usize = 64;

/// Why bytes are not a key. Never carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("not a P-256 private key in PKCS#8")]
    Pkcs8,
    #[error("not a PEM block `PRIVATE KEY`")]
    Pem,
    #[error("not a P-256 public key (SubjectPublicKeyInfo with an uncompressed point)")]
    Spki,
}

/// A P-256 public key, checked to lie on the curve.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey {
    spki: [u8; SPKI_BYTES],
}

impl PublicKey {
    /// Reads SubjectPublicKeyInfo DER: exactly the named-curve, uncompressed form.
    pub fn from_spki(der: &[u8]) -> Result<Self, KeyError> {
        let point = der.strip_prefix(&SPKI_PREFIX).ok_or(KeyError::Spki)?;
        Self::from_point(point)
    }

    /// Reads an uncompressed point: 0x04, x, y.
    pub fn from_point(point: &[u8]) -> Result<Self, KeyError> {
        if point.len() != POINT_BYTES || point[0] != 4 {
            return Err(KeyError::Spki);
        }
        let unparsed = agreement::UnparsedPublicKey::new(&agreement::ECDH_P256, point);
        agreement::ParsedPublicKey::try_from(&unparsed).map_err(|_| KeyError::Spki)?;
        let mut spki = [0; SPKI_BYTES];
        spki[..SPKI_PREFIX.len()].copy_from_slice(&SPKI_PREFIX);
        spki[SPKI_PREFIX.len()..].copy_from_slice(point);
        Ok(Self { spki })
    }

    /// SubjectPublicKeyInfo, DER.
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    /// The uncompressed point, 65 bytes.
    pub fn point(&self) -> &[u8] {
        &self.spki[SPKI_PREFIX.len()..]
    }

    /// SHA-256 of the SubjectPublicKeyInfo.
    pub fn spki_sha256(&self) -> [u8; 32] {
        hex::sha256(&self.spki)
    }

    /// The key id: lower-case hex of the first 16 bytes of [`Self::spki_sha256`].
    pub fn kid(&self) -> String {
        hex::encode(&self.spki_sha256()[..KID_BYTES])
    }

    /// Whether `signature` is this key's ES256 signature (P1363) over `message`.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        signature.len() == SIGNATURE_BYTES
            && UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.point()).verify(message, signature).is_ok()
    }

    /// The same for a signature in DER form, as certificates and requests carry it.
    pub(crate) fn verifies_der(&self, message: &[u8], der_signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_ASN1, self.point()).verify(message, der_signature).is_ok()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.kid())
    }
}

/// A P-256 private key with its public half. Cheap to clone.
#[derive(Clone)]
pub struct KeyPair(Arc<Inner>);

struct Inner {
    pkcs8: Zeroizing<Vec<u8>>,
    signer: EcdsaKeyPair,
    public: PublicKey,
}

impl KeyPair {
    pub fn generate() -> Self {
        let signer = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("the system gives random bytes");
        Self::of(signer).expect("a key just made is well formed")
    }

    fn of(signer: EcdsaKeyPair) -> Result<Self, KeyError> {
        let document = signer.to_pkcs8v1().map_err(|_| KeyError::Pkcs8)?;
        let public = PublicKey::from_point(signer.public_key().as_ref())?;
        Ok(Self(Arc::new(Inner { pkcs8: Zeroizing::new(document.as_ref().to_vec()), signer, public })))
    }

    /// Reads an unencrypted PKCS#8 document of a P-256 key.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        if der.len() > PKCS8_BYTES_MAX {
            return Err(KeyError::Pkcs8);
        }
        let signer = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der).map_err(|_| KeyError::Pkcs8)?;
        Self::of(signer)
    }

    /// Reads one PEM block `PRIVATE KEY` and nothing else.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let body =
            text.trim().strip_prefix(PEM_BEGIN).and_then(|rest| rest.strip_suffix(PEM_END)).ok_or(KeyError::Pem)?;
        if body.len() > PKCS8_BYTES_MAX {
            return Err(KeyError::Pem);
        }
        let joined: Zeroizing<Vec<u8>> =
            Zeroizing::new(body.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect());
        let der = Zeroizing::new(BASE64.decode(&joined).map_err(|_| KeyError::Pem)?);
        Self::from_pkcs8(&der)
    }

    /// The PKCS#8 document (RFC 5208), DER. Wiped when dropped.
    pub fn to_pkcs8(&self) -> Zeroizing<Vec<u8>> {
        self.0.pkcs8.clone()
    }

    /// [`Self::to_pkcs8`] as a PEM block.
    pub fn to_pem(&self) -> Zeroizing<String> {
        let mut body = BASE64.encode(&self.0.pkcs8);
        let mut text = Zeroizing::new(String::with_capacity(body.len() + 128));
        text.push_str(PEM_BEGIN);
        text.push('\n');
        let mut rest = body.as_str();
        while !rest.is_empty() {
            let (line, tail) = rest.split_at(rest.len().min(PEM_LINE_CHARS));
            text.push_str(line);
            text.push('\n');
            rest = tail;
        }
        text.push_str(PEM_END);
        text.push('\n');
        body.zeroize();
        text
    }

    pub fn public(&self) -> &PublicKey {
        &self.0.public
    }

    pub fn kid(&self) -> String {
        self.0.public.kid()
    }

    /// ES256 over `message`, P1363. For bytes that others verify use [`crate::Signed`], which binds a purpose.
    pub(crate) fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let made = self.0.signer.sign(&SystemRandom::new(), message).expect("a well formed key signs");
        let mut signature = [0; SIGNATURE_BYTES];
        signature.copy_from_slice(made.as_ref());
        signature
    }

    /// The private scalar, 32 bytes: for HPKE only.
    pub(crate) fn scalar(&self) -> Zeroizing<Vec<u8>> {
        let private = self.0.signer.private_key();
        let scalar: EcPrivateKeyBin<'static> =
            AsBigEndian::<EcPrivateKeyBin<'static>>::as_be_bytes(&private).expect("a well formed key has a scalar");
        Zeroizing::new(scalar.as_ref().to_vec())
    }

    /// This key as rustls signs handshakes with it.
    pub(crate) fn tls_signer(&self) -> Result<Arc<dyn rustls::sign::SigningKey>, rustls::Error> {
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.0.pkcs8.as_slice()));
        rustls::crypto::aws_lc_rs::sign::any_ecdsa_type(&der)
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", self.kid())
    }
}

/// A key pair as the certificate writer signs with it: ECDSA with SHA-256, DER form.
pub(crate) struct CertificateSigner<'a>(pub(crate) &'a KeyPair);

impl rcgen::PublicKeyData for CertificateSigner<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0.public().point()
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

impl rcgen::SigningKey for CertificateSigner<'_> {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let signer = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &self.0.0.pkcs8)
            .map_err(|_| rcgen::Error::RemoteKeyError)?;
        let made = signer.sign(&SystemRandom::new(), message).map_err(|_| rcgen::Error::RemoteKeyError)?;
        Ok(made.as_ref().to_vec())
    }
}

impl rcgen::PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        self.point()
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

/// `N` bytes from the system's random source.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_der_and_pem() {
        let key = KeyPair::generate();
        let from_der = KeyPair::from_pkcs8(&key.to_pkcs8()).expect("der");
        let from_pem = KeyPair::from_pem(&key.to_pem()).expect("pem");
        assert_eq!(from_der.public(), key.public());
        assert_eq!(from_pem.public(), key.public());
        assert_eq!(PublicKey::from_spki(key.public().spki()).expect("spki"), *key.public());
        assert_eq!(key.kid().len(), 32);
        assert!(hex::sha256_hex(key.public().spki()).starts_with(&key.kid()));
    }

    #[test]
    fn debug_never_shows_a_secret() {
        let key = KeyPair::generate();
        assert_eq!(format!("{key:?}"), format!("KeyPair({})", key.kid()));
    }

    #[test]
    fn keys_of_other_forms_are_refused() {
        let key = KeyPair::generate();
        let mut off_curve = key.public().point().to_vec();
        off_curve[40] ^= 1;
        assert_eq!(PublicKey::from_point(&off_curve), Err(KeyError::Spki));
        assert_eq!(PublicKey::from_spki(&key.public().spki()[..90]), Err(KeyError::Spki));
        let p384 = EcdsaKeyPair::generate(&signature::ECDSA_P384_SHA384_FIXED_SIGNING).expect("p384");
        let document = p384.to_pkcs8v1().expect("pkcs8");
        assert_eq!(KeyPair::from_pkcs8(document.as_ref()).map(|_| ()), Err(KeyError::Pkcs8));
        assert_eq!(
            KeyPair::from_pem("-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----").map(|_| ()),
            Err(KeyError::Pem)
        );
    }

    #[test]
    fn a_signature_is_64_bytes_and_the_keys_own() {
        let (key, other) = (KeyPair::generate(), KeyPair::generate());
        let signature = key.sign(b"message");
        assert!(key.public().verifies(b"message", &signature));
        assert!(!key.public().verifies(b"message!", &signature));
        assert!(!other.public().verifies(b"message", &signature));
        assert!(!key.public().verifies(b"message", &signature[..63]));
    }
}
