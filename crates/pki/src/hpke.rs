//! Sealing to a public key (RFC 9180): base mode, DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-128-GCM.
//! What a box is for is its `info`, so a box of one use never opens as another.

use crate::key::{KeyPair, POINT_BYTES, PublicKey};
use rustls::crypto::aws_lc_rs::hpke::DH_KEM_P256_HKDF_SHA256_AES_128;
use rustls::crypto::hpke::{EncapsulatedSecret, Hpke, HpkePrivateKey, HpkePublicKey};
use std::fmt;
use zeroize::Zeroizing;

/// Longest plaintext sealed, in bytes.
pub const PLAINTEXT_BYTES_MAX: usize = 1024 * 1024;
/// AES-128-GCM adds this many bytes.
const TAG_BYTES: usize = 16;

/// What a box is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedFor {
    /// A join token, to JoinService.
    Join,
    /// An answer to a node's secret request, to the key the request carries.
    SecretAnswer,
    /// A stored secret, to the controllers role.
    StoredSecret,
}

impl SealedFor {
    pub const ALL: [SealedFor; 3] = [SealedFor::Join, SealedFor::SecretAnswer, SealedFor::StoredSecret];

    const fn info(self) -> &'static [u8] {
        match self {
            SealedFor::Join => b"bettercompute/join/v1",
            SealedFor::SecretAnswer => b"bettercompute/secret-answer/v1",
            SealedFor::StoredSecret => b"bettercompute/stored-secret/v1",
        }
    }
}

/// A sealed box: the encapsulated key (65 bytes) and the ciphertext.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    pub enc: Vec<u8>,
    pub ciphertext: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HpkeError {
    #[error("the plaintext is over {PLAINTEXT_BYTES_MAX} bytes, or the key cannot be sealed to")]
    Seal,
    #[error("the sealed box does not open with this key for this use")]
    Open,
}

/// Seals `plaintext` to `key`; whoever opens it must give the same `aad`.
pub fn seal(sealed_for: SealedFor, key: &PublicKey, aad: &[u8], plaintext: &[u8]) -> Result<Sealed, HpkeError> {
    if plaintext.len() > PLAINTEXT_BYTES_MAX {
        return Err(HpkeError::Seal);
    }
    let recipient = HpkePublicKey(key.point().to_vec());
    let (enc, ciphertext) = DH_KEM_P256_HKDF_SHA256_AES_128
        .seal(sealed_for.info(), aad, plaintext, &recipient)
        .map_err(|_| HpkeError::Seal)?;
    Ok(Sealed { enc: enc.0, ciphertext })
}

/// A private key that opens boxes. It signs nothing.
#[derive(Clone)]
pub struct EncryptionKey(KeyPair);

impl EncryptionKey {
    pub fn generate() -> Self {
        Self(KeyPair::generate())
    }

    pub fn from_pkcs8(der: &[u8]) -> Result<Self, crate::key::KeyError> {
        KeyPair::from_pkcs8(der).map(Self)
    }

    pub fn to_pkcs8(&self) -> Zeroizing<Vec<u8>> {
        self.0.to_pkcs8()
    }

    pub fn public(&self) -> &PublicKey {
        self.0.public()
    }

    pub fn kid(&self) -> String {
        self.0.kid()
    }

    /// Opens a box sealed to this key for this use with this `aad`.
    pub fn open(&self, sealed_for: SealedFor, aad: &[u8], sealed: &Sealed) -> Result<Zeroizing<Vec<u8>>, HpkeError> {
        let sizes_ok = sealed.enc.len() == POINT_BYTES
            && (TAG_BYTES..=PLAINTEXT_BYTES_MAX + TAG_BYTES).contains(&sealed.ciphertext.len());
        if !sizes_ok {
            return Err(HpkeError::Open);
        }
        let private = HpkePrivateKey::from(self.0.scalar().to_vec());
        let enc = EncapsulatedSecret(sealed.enc.clone());
        DH_KEM_P256_HKDF_SHA256_AES_128
            .open(&enc, sealed_for.info(), aad, &sealed.ciphertext, &private)
            .map(Zeroizing::new)
            .map_err(|_| HpkeError::Open)
    }
}

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncryptionKey({})", self.kid())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_opens_only_with_its_key_its_use_and_its_aad() {
        let (key, other) = (EncryptionKey::generate(), EncryptionKey::generate());
        let sealed = seal(SealedFor::Join, key.public(), b"aad", b"secret").expect("seal");
        assert_eq!(key.open(SealedFor::Join, b"aad", &sealed).expect("open").as_slice(), b"secret");
        assert_eq!(other.open(SealedFor::Join, b"aad", &sealed), Err(HpkeError::Open));
        assert_eq!(key.open(SealedFor::Join, b"aae", &sealed), Err(HpkeError::Open));
        for wrong in [SealedFor::SecretAnswer, SealedFor::StoredSecret] {
            assert_eq!(key.open(wrong, b"aad", &sealed), Err(HpkeError::Open));
        }
    }

    #[test]
    fn no_flipped_bit_and_no_cut_box_opens() {
        let key = EncryptionKey::generate();
        let sealed = seal(SealedFor::Join, key.public(), b"aad", b"secret").expect("seal");
        for at in 0..sealed.enc.len() + sealed.ciphertext.len() {
            let mut flipped = sealed.clone();
            match at.checked_sub(flipped.enc.len()) {
                None => flipped.enc[at] ^= 1 << (at % 8),
                Some(at) => flipped.ciphertext[at] ^= 1 << (at % 8),
            }
            assert_eq!(key.open(SealedFor::Join, b"aad", &flipped), Err(HpkeError::Open), "byte {at}");
        }
        for length in 0..sealed.ciphertext.len() {
            let cut = Sealed { enc: sealed.enc.clone(), ciphertext: sealed.ciphertext[..length].to_vec() };
            assert_eq!(key.open(SealedFor::Join, b"aad", &cut), Err(HpkeError::Open));
        }
    }

    /// The base-mode vector of this suite from RFC 9180, appendix A.3.1.
    #[test]
    fn the_box_of_the_standard_opens() {
        let hex = |text: &str| stdx::hex::decode(text).expect("hex");
        let scalar = hex("f3ce7fdae57e1a310d87f1ebbde6f328be0a99cdbcadf4d6589cf29de4b8ffd2");
        let enc = hex(concat!(
            "04a92719c6195d5085104f469a8b9814d5838ff72b60501e2c4466e5e67b325ac98536d7b61a1af4b78e5b7f951c0900be863c403ce6",
            "5c9bfcb9382657222d18c4"
        ));
        let opened = DH_KEM_P256_HKDF_SHA256_AES_128
            .open(
                &EncapsulatedSecret(enc),
                &hex("4f6465206f6e2061204772656369616e2055726e"),
                &hex("436f756e742d30"),
                &hex("5ad590bb8baa577f8619db35a36311226a896e7342a6d836d8b7bcd2f20b6c7f9076ac232e3ab2523f39513434"),
                &HpkePrivateKey::from(scalar),
            )
            .expect("open");
        assert_eq!(opened, hex("4265617574792069732074727574682c20747275746820626561757479"));
    }
}
