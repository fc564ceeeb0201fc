//! The plaintext of a sealed key file: named byte strings, each once, in the order written. A binary
//! form, because private keys in JSON strings would stay in memory unwiped.
//!
//! `name length u8, name, value length u32 big-endian, value`, repeated to the end.

use zeroize::Zeroizing;

/// Most fields of one file.
const FIELDS_MAX: usize = 64;

#[derive(Default)]
pub struct FieldWriter(Zeroizing<Vec<u8>>);

impl FieldWriter {
    pub fn put(&mut self, name: &str, value: &[u8]) {
        let name_length = u8::try_from(name.len()).expect("field names are short constants");
        let value_length = u32::try_from(value.len()).expect("keys and certificates are small");
        // Growing a vector would leave the old copy behind unwiped, so a wiped one takes its place.
        let mut grown = Zeroizing::new(Vec::with_capacity(self.0.len() + name.len() + value.len() + 5));
        grown.extend_from_slice(&self.0);
        grown.push(name_length);
        grown.extend_from_slice(name.as_bytes());
        grown.extend_from_slice(&value_length.to_be_bytes());
        grown.extend_from_slice(value);
        self.0 = grown;
    }

    pub fn finish(self) -> Zeroizing<Vec<u8>> {
        self.0
    }
}

/// The fields of a plaintext. Every field must be taken, and none may be left.
pub struct FieldReader<'a>(Vec<(&'a [u8], &'a [u8])>);

impl<'a> FieldReader<'a> {
    pub fn parse(mut input: &'a [u8]) -> Option<Self> {
        let mut fields: Vec<(&[u8], &[u8])> = Vec::new();
        while let Some((name_length, rest)) = input.split_first() {
            let (name, rest) = rest.split_at_checked(usize::from(*name_length))?;
            let (value_length, rest) = rest.split_first_chunk::<4>()?;
            let (value, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*value_length)).ok()?)?;
            if fields.len() == FIELDS_MAX || fields.iter().any(|(known, _)| *known == name) {
                return None;
            }
            fields.push((name, value));
            input = rest;
        }
        Some(Self(fields))
    }

    pub fn take(&mut self, name: &str) -> Option<&'a [u8]> {
        let at = self.0.iter().position(|(known, _)| *known == name.as_bytes())?;
        Some(self.0.swap_remove(at).1)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_are_taken_by_name_and_none_is_doubled() {
        let mut writer = FieldWriter::default();
        writer.put("one", b"1");
        writer.put("two", b"");
        let bytes = writer.finish();
        let mut reader = FieldReader::parse(&bytes).expect("parse");
        assert_eq!(
            (reader.take("two"), reader.take("one"), reader.take("one")),
            (Some(&b""[..]), Some(&b"1"[..]), None)
        );
        assert!(reader.is_empty());
        assert!(FieldReader::parse(&[bytes.as_slice(), &bytes].concat()).is_none());
        assert!(FieldReader::parse(&bytes[..bytes.len() - 1]).is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(reader) = FieldReader::parse(&bytes) {
                prop_assert!(bytes.is_empty() || !reader.is_empty());
            }
        }
    }
}
