//! JoinService's encryption public key as the JWK that is published and stored beside `config.toml`
//! (RFC 7517; RFC 7518 section 6.2).

use crate::key::{POINT_BYTES, PublicKey};
use crate::pin::Pin;
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value, json};

/// Longest JWK read, in bytes.
pub const JWK_BYTES_MAX: usize = 4096;
const COORDINATE_BYTES: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwkError {
    #[error("not a JSON object of at most {JWK_BYTES_MAX} bytes")]
    Json,
    #[error("the JWK holds a private key")]
    Private,
    #[error("the JWK's `{0}` is missing or not what a P-256 encryption key has")]
    Member(&'static str),
    #[error("the JWK's point is not on P-256")]
    Point,
    #[error("the JWK's key does not match its pin")]
    Pin,
}

/// The JWK of an encryption key, one line of JSON.
pub fn export(key: &PublicKey) -> String {
    let (x, y) = key.point()[1..].split_at(COORDINATE_BYTES);
    json!({
        "kty": "EC",
        "crv": "P-256",
        "x": BASE64URL_NOPAD.encode(x),
        "y": BASE64URL_NOPAD.encode(y),
        "use": "enc",
        "kid": key.kid(),
    })
    .to_string()
}

/// Reads a JWK. Members this version does not know are passed over (RFC 7517 section 4).
pub fn import(text: &[u8]) -> Result<PublicKey, JwkError> {
    if text.len() > JWK_BYTES_MAX {
        return Err(JwkError::Json);
    }
    let members: Map<String, Value> = serde_json::from_slice(text).map_err(|_| JwkError::Json)?;
    if members.contains_key("d") {
        return Err(JwkError::Private);
    }
    let is = |name: &str, expected: &str| members.get(name).and_then(Value::as_str) == Some(expected);
    for (name, expected) in [("kty", "EC"), ("crv", "P-256"), ("use", "enc")] {
        if !is(name, expected) {
            return Err(JwkError::Member(name));
        }
    }
    let mut point = [4; POINT_BYTES];
    for (name, start) in [("x", 1), ("y", 1 + COORDINATE_BYTES)] {
        let encoded = members.get(name).and_then(Value::as_str).ok_or(JwkError::Member(name))?;
        let bytes = BASE64URL_NOPAD.decode(encoded.as_bytes()).map_err(|_| JwkError::Member(name))?;
        if bytes.len() != COORDINATE_BYTES {
            return Err(JwkError::Member(name));
        }
        point[start..start + COORDINATE_BYTES].copy_from_slice(&bytes);
    }
    let key = PublicKey::from_point(&point).map_err(|_| JwkError::Point)?;
    if members.contains_key("kid") && !is("kid", &key.kid()) {
        return Err(JwkError::Member("kid"));
    }
    Ok(key)
}

/// [`import`], and the key must be the pinned one.
pub fn import_pinned(text: &[u8], pin: &Pin) -> Result<PublicKey, JwkError> {
    let key = import(text)?;
    if pin.matches(&key) { Ok(key) } else { Err(JwkError::Pin) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyPair;
    use proptest::prelude::*;

    fn check(change: impl Fn(&mut Map<String, Value>), expected: JwkError) {
        let key = KeyPair::generate();
        let mut members: Map<String, Value> = serde_json::from_str(&export(key.public())).expect("json");
        change(&mut members);
        assert_eq!(import(Value::Object(members).to_string().as_bytes()), Err(expected));
    }

    #[test]
    fn a_key_round_trips_and_must_match_its_pin() {
        let (key, other) = (KeyPair::generate(), KeyPair::generate());
        let text = export(key.public());
        assert_eq!(import(text.as_bytes()), Ok(*key.public()));
        assert_eq!(import_pinned(text.as_bytes(), &Pin::of(key.public())), Ok(*key.public()));
        assert_eq!(import_pinned(text.as_bytes(), &Pin::of(other.public())), Err(JwkError::Pin));
    }

    #[test]
    fn what_is_not_a_p256_encryption_key_is_refused() {
        check(|m| drop(m.insert("kty".into(), "RSA".into())), JwkError::Member("kty"));
        check(|m| drop(m.insert("crv".into(), "P-384".into())), JwkError::Member("crv"));
        check(|m| drop(m.insert("use".into(), "sig".into())), JwkError::Member("use"));
        check(|m| drop(m.insert("d".into(), "AAAA".into())), JwkError::Private);
        check(|m| drop(m.insert("x".into(), "AAAA".into())), JwkError::Member("x"));
        check(|m| drop(m.insert("y".into(), BASE64URL_NOPAD.encode(&[9; 32]).into())), JwkError::Point);
        check(|m| drop(m.insert("kid".into(), "0".into())), JwkError::Member("kid"));
        check(|m| drop(m.remove("y")), JwkError::Member("y"));
        assert_eq!(import(&[b' '; JWK_BYTES_MAX + 1]), Err(JwkError::Json));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), at: usize, with: u8) {
            prop_assert!(import(&bytes).is_err());
            let mut changed = export(KeyPair::generate().public()).into_bytes();
            let at = at % changed.len();
            changed[at] = with;
            if let Ok(key) = import(&changed) {
                prop_assert_eq!(import(export(&key).as_bytes()), Ok(key));
            }
        }
    }
}
