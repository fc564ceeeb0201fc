//! Ids as the project writes them: 128 bits in Crockford base32, 26 characters, the form of a
//! ULID (decision F-Q1). An id the API creates is a hash of the request's tuple, so nothing
//! reads a time from an id.

use crate::hex::sha256;

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Length of an id without its prefix, in characters.
pub const ID_CHARS: usize = 26;

/// 128 bits as 26 characters of Crockford base32, most significant first.
pub fn encode(value: u128) -> String {
    let mut out = [0u8; ID_CHARS];
    let mut rest = value;
    for slot in out.iter_mut().rev() {
        *slot = ALPHABET[(rest & 31) as usize];
        rest >>= 5;
    }
    out.iter().map(|byte| char::from(*byte)).collect()
}

/// The reverse of [`encode`]; `None` for anything that `encode` does not produce.
pub fn decode(text: &str) -> Option<u128> {
    if text.len() != ID_CHARS {
        return None;
    }
    let mut value: u128 = 0;
    for (index, byte) in text.bytes().enumerate() {
        let digit = ALPHABET.iter().position(|known| *known == byte)? as u128;
        if index == 0 && digit > 7 {
            return None;
        }
        value = (value << 5) | digit;
    }
    Some(value)
}

/// The id of an object the API creates: the first 128 bits of the SHA-256 of the tuple, each
/// part preceded by its length so that no two tuples share an encoding.
pub fn derive(parts: &[&str]) -> String {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    let digest = sha256(&bytes);
    let mut first = [0u8; 16];
    first.copy_from_slice(&digest[..16]);
    encode(u128::from_be_bytes(first))
}

/// A fresh random id from the given source of randomness.
pub fn random(rng: &mut impl rand::RngCore) -> String {
    let high = u128::from(rng.next_u64());
    let low = u128::from(rng.next_u64());
    encode((high << 64) | low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_id_round_trips(value: u128) {
            prop_assert_eq!(decode(&encode(value)), Some(value));
        }
    }

    #[test]
    fn what_encode_never_writes_is_refused() {
        for bad in ["", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "0000000000000000000000000l", "0000000000000000000000000"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(derive(&["ab", "c"]), derive(&["a", "bc"]));
    }
}
