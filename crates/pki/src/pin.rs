//! Pins: `sha256/` and the standard base64 of the SHA-256 of a SubjectPublicKeyInfo, the form of HPKP
//! and of `curl --pinnedpubkey`. Exactly one text per pin is accepted.

use crate::certificate::{CertificateError, CertificateInfo};
use crate::key::PublicKey;
use data_encoding::BASE64;
use std::fmt;
use std::str::FromStr;

const PREFIX: &str = "sha256/";

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a pin is `sha256/` followed by the standard base64 of 32 bytes")]
pub struct PinError;

/// The SHA-256 of a SubjectPublicKeyInfo.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pin([u8; 32]);

impl Pin {
    pub fn of(key: &PublicKey) -> Self {
        Self(key.spki_sha256())
    }

    /// The pin of a certificate's key.
    pub fn of_certificate(der: &[u8]) -> Result<Self, CertificateError> {
        Ok(Self::of(&CertificateInfo::parse(der)?.public_key))
    }

    pub fn matches(&self, key: &PublicKey) -> bool {
        *self == Self::of(key)
    }

    /// Whether `der` is a certificate of the pinned key.
    pub fn matches_certificate(&self, der: &[u8]) -> bool {
        Self::of_certificate(der).is_ok_and(|pin| pin == *self)
    }

    pub fn digest(&self) -> &[u8; 32] {
        &self.0
    }
}

impl FromStr for Pin {
    type Err = PinError;

    fn from_str(text: &str) -> Result<Self, PinError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(PinError)?;
        let bytes = BASE64.decode(encoded.as_bytes()).map_err(|_| PinError)?;
        Ok(Self(bytes.try_into().map_err(|_| PinError)?))
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", BASE64.encode(&self.0))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyPair;
    use proptest::prelude::*;

    #[test]
    fn a_pin_is_sha256_and_the_base64_of_the_key_hash() {
        let key = KeyPair::generate();
        let pin = Pin::of(key.public());
        let text = pin.to_string();
        assert_eq!(text, format!("sha256/{}", BASE64.encode(&stdx::hex::sha256(key.public().spki()))));
        assert_eq!(text.parse(), Ok(pin));
        assert!(pin.matches(key.public()));
        assert!(!pin.matches(KeyPair::generate().public()));
    }

    #[test]
    fn only_the_one_spelling_is_accepted() {
        let good = Pin([0xfb; 32]).to_string();
        let mut not_canonical = good.clone();
        // The last character before the padding carries two bits that must be zero.
        not_canonical.replace_range(good.len() - 2..good.len() - 1, "9");
        let unpadded = good.trim_end_matches('=').to_owned();
        let url_safe = good.replace('+', "-").replace("sha256/", "SHA256/");
        let short = format!("sha256/{}", BASE64.encode(&[1; 31]));
        let long = format!("sha256/{}", BASE64.encode(&[1; 33]));
        for bad in [
            &not_canonical,
            &unpadded,
            &url_safe,
            &short,
            &long,
            &format!(" {good}"),
            &format!("{good}\n"),
            "",
            "sha256/",
        ] {
            assert_eq!(bad.parse::<Pin>(), Err(PinError), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn pins_round_trip_and_no_text_panics(bytes: [u8; 32], text in ".{0,60}") {
            prop_assert_eq!(Pin(bytes).to_string().parse(), Ok(Pin(bytes)));
            if let Ok(pin) = text.parse::<Pin>() {
                prop_assert_eq!(pin.to_string(), text);
            }
        }
    }
}
