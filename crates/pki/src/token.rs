//! The join token: `bcjt_<id>.<secret>`, where the id is public (`jt_<26>`) and the secret is 32 random
//! bytes in base64url. The control plane keeps the SHA-256 of the secret. On the wire the token is
//! sealed to JoinService and bound to one certificate request and its claims.
//!
//! No error and no `Debug` here shows any part of what was given.

use crate::hpke::{self, EncryptionKey, HpkeError, Sealed, SealedFor};
use crate::key::{self, PublicKey};
use data_encoding::BASE64URL_NOPAD;
use model::TokenId;
use std::fmt;
use stdx::hex;
use zeroize::Zeroizing;

const PREFIX: &str = "bcjt_";
const ID_PREFIX: &str = "jt_";
const SECRET_BYTES: usize = 32;
/// Length of a token, in bytes.
pub const TOKEN_BYTES: usize = PREFIX.len() + ID_PREFIX.len() + stdx::id::ID_CHARS + 1 + 43;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a join token: expected bcjt_<id>.<secret>")]
pub struct TokenError;

/// The secret half; wiped when dropped.
#[derive(Clone)]
pub struct JoinSecret(Zeroizing<[u8; SECRET_BYTES]>);

impl JoinSecret {
    /// What the control plane stores: SHA-256 of the secret.
    pub fn hash(&self) -> [u8; 32] {
        hex::sha256(self.0.as_slice())
    }

    /// Whether `hash` is this secret's, in constant time.
    pub fn matches(&self, hash: &[u8]) -> bool {
        aws_lc_rs::constant_time::verify_slices_are_equal(&self.hash(), hash).is_ok()
    }
}

impl fmt::Debug for JoinSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinSecret(..)")
    }
}

/// A join token. `Debug` shows its id.
#[derive(Clone)]
pub struct JoinToken {
    pub id: TokenId,
    pub secret: JoinSecret,
}

impl JoinToken {
    /// A new secret for the token `id`, which must have the form `jt_<26>`.
    pub fn generate(id: TokenId) -> Result<Self, TokenError> {
        if is_token_id(id.as_str()) {
            Ok(Self { id, secret: JoinSecret(Zeroizing::new(key::random())) })
        } else {
            Err(TokenError)
        }
    }

    /// Reads a token: exactly its one spelling, without surrounding space.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        if text.len() != TOKEN_BYTES {
            return Err(TokenError);
        }
        let (id, secret) = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('.')).ok_or(TokenError)?;
        if !is_token_id(id) {
            return Err(TokenError);
        }
        let bytes = Zeroizing::new(BASE64URL_NOPAD.decode(secret.as_bytes()).map_err(|_| TokenError)?);
        let secret = JoinSecret(Zeroizing::new(bytes.as_slice().try_into().map_err(|_| TokenError)?));
        Ok(Self { id: TokenId::new(id), secret })
    }

    /// The whole token: for the answer that creates it, and for the box that is sent.
    pub fn reveal(&self) -> Zeroizing<String> {
        let secret = Zeroizing::new(BASE64URL_NOPAD.encode(self.secret.0.as_slice()));
        Zeroizing::new(format!("{PREFIX}{}.{}", self.id, secret.as_str()))
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinToken({})", self.id)
    }
}

fn is_token_id(id: &str) -> bool {
    id.strip_prefix(ID_PREFIX).is_some_and(|rest| stdx::id::decode(rest).is_some())
}

/// What binds a sealed token to one join: SHA-256 of the request, SHA-256 of the claims.
fn join_aad(csr_der: &[u8], claims: &[u8]) -> [u8; 64] {
    let mut aad = [0; 64];
    aad[..32].copy_from_slice(&hex::sha256(csr_der));
    aad[32..].copy_from_slice(&hex::sha256(claims));
    aad
}

/// Seals a token to JoinService for one certificate request and the claims as sent.
pub fn seal(token: &JoinToken, to: &PublicKey, csr_der: &[u8], claims: &[u8]) -> Result<Sealed, HpkeError> {
    hpke::seal(SealedFor::Join, to, &join_aad(csr_der, claims), token.reveal().as_bytes())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenTokenError {
    #[error("the token was not sealed to this key for this request and these claims")]
    Sealed(#[from] HpkeError),
    #[error("the sealed box holds no token")]
    Token(#[from] TokenError),
}

/// Opens a token that came with this request and these claims.
pub fn open(key: &EncryptionKey, sealed: &Sealed, csr_der: &[u8], claims: &[u8]) -> Result<JoinToken, OpenTokenError> {
    let text = key.open(SealedFor::Join, &join_aad(csr_der, claims), sealed)?;
    let text = std::str::from_utf8(&text).map_err(|_| TokenError)?;
    Ok(JoinToken::parse(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn token() -> JoinToken {
        JoinToken::generate(TokenId::new(format!("jt_{}", stdx::id::encode(7)))).expect("id")
    }

    #[test]
    fn a_token_round_trips_and_matches_its_hash() {
        let made = token();
        let text = made.reveal();
        assert_eq!(text.len(), TOKEN_BYTES);
        assert!(text.starts_with("bcjt_jt_00000000000000000000000007."));
        let read = JoinToken::parse(&text).expect("parse");
        assert_eq!(read.id, made.id);
        assert!(read.secret.matches(&made.secret.hash()));
        assert!(!token().secret.matches(&made.secret.hash()));
        assert!(!made.secret.matches(&made.secret.hash()[..31]));
    }

    #[test]
    fn neither_errors_nor_debug_show_a_token() {
        let made = token();
        let text = made.reveal();
        let (_, secret) = text.split_once('.').expect("dot");
        for shown in [format!("{made:?}"), format!("{:?}", made.secret)] {
            assert!(!shown.contains(secret));
        }
        let spoiled = format!("{}!", &text[..text.len() - 1]);
        let error = JoinToken::parse(&spoiled).expect_err("spoiled");
        assert_eq!(error.to_string(), "not a join token: expected bcjt_<id>.<secret>");
    }

    #[test]
    fn only_the_one_spelling_is_a_token() {
        let text = token().reveal().to_string();
        let lower = text.to_lowercase();
        let bad = [
            format!(" {text}"),
            format!("{text}\n"),
            text.replace("bcjt_jt_", "bcjt_"),
            text.replace("jt_00", "jt_80"),
            text.replace('.', "_"),
            text[..text.len() - 1].to_owned(),
            lower.replace("bcjt_", "BCJT_"),
            String::new(),
        ];
        for text in bad {
            assert!(JoinToken::parse(&text).is_err());
        }
    }

    #[test]
    fn a_sealed_token_opens_for_its_own_request_and_claims_only() {
        let (key, made) = (EncryptionKey::generate(), token());
        let sealed = seal(&made, key.public(), b"csr", b"claims").expect("seal");
        assert!(open(&key, &sealed, b"csr", b"claims").expect("open").secret.matches(&made.secret.hash()));
        let refused = OpenTokenError::Sealed(HpkeError::Open);
        assert_eq!(open(&key, &sealed, b"another csr", b"claims").map(|_| ()), Err(refused));
        assert_eq!(open(&key, &sealed, b"csr", b"other claims").map(|_| ()), Err(refused));
        assert_eq!(open(&key, &sealed, b"claims", b"csr").map(|_| ()), Err(refused));
        assert_eq!(open(&EncryptionKey::generate(), &sealed, b"csr", b"claims").map(|_| ()), Err(refused));
        let visible = [sealed.enc.as_slice(), &sealed.ciphertext].concat();
        assert!(!visible.windows(5).any(|bytes| bytes == b"bcjt_"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,90}") {
            prop_assert!(JoinToken::parse(&text).is_err());
        }

        #[test]
        fn a_changed_token_is_another_token_or_none(at in 0..TOKEN_BYTES, with in "[ -~]") {
            let text = token().reveal().to_string();
            let mut changed = text.clone();
            changed.replace_range(at..at + 1, &with);
            if let Ok(read) = JoinToken::parse(&changed) {
                prop_assert!(*read.reveal() == changed);
            }
        }
    }
}
