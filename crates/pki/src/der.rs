//! The few lines of DER that the project needs beside its libraries: sequences of UTF-8 strings for its
//! own extensions, bit strings; definite minimal lengths, nothing else (X.690 sections 8 and 10).

const SEQUENCE: u8 = 0x30;
const UTF8_STRING: u8 = 0x0c;
const BIT_STRING: u8 = 0x03;

/// Longest content written or read, in bytes.
const CONTENT_BYTES_MAX: usize = 0xffff;

fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    assert!(content.len() <= CONTENT_BYTES_MAX, "extensions are bounded by their makers");
    let length = content.len();
    let mut out = vec![tag];
    match length {
        0..=0x7f => out.push(length as u8),
        0x80..=0xff => out.extend_from_slice(&[0x81, length as u8]),
        _ => out.extend_from_slice(&[0x82, (length >> 8) as u8, length as u8]),
    }
    out.extend_from_slice(content);
    out
}

pub(crate) fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    tagged(SEQUENCE, &parts.concat())
}

pub(crate) fn utf8(text: &str) -> Vec<u8> {
    tagged(UTF8_STRING, text.as_bytes())
}

/// A bit string of whole bytes.
pub(crate) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    tagged(BIT_STRING, &[&[0], bytes].concat())
}

/// A sequence of UTF-8 strings.
pub(crate) fn strings<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    sequence(&texts.into_iter().map(utf8).collect::<Vec<_>>())
}

/// The content of the element at the front of `input` and what follows it.
fn read(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = input.split_first()?;
    if *found != tag {
        return None;
    }
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match *first {
        short @ 0..=0x7f => (usize::from(short), rest),
        0x81 => {
            let (low, rest) = rest.split_first()?;
            (usize::from(*low).checked_sub(0x80)? + 0x80, rest)
        }
        0x82 => {
            let (bytes, rest) = rest.split_at_checked(2)?;
            let length = usize::from(bytes[0]) << 8 | usize::from(bytes[1]);
            (length.checked_sub(0x100)? + 0x100, rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// A sequence that is the whole of `input`.
pub(crate) fn whole_sequence(input: &[u8]) -> Option<&[u8]> {
    let (content, rest) = read(input, SEQUENCE)?;
    rest.is_empty().then_some(content)
}

/// A UTF-8 string at the front of `input` and what follows it.
pub(crate) fn take_utf8(input: &[u8]) -> Option<(&str, &[u8])> {
    let (content, rest) = read(input, UTF8_STRING)?;
    Some((std::str::from_utf8(content).ok()?, rest))
}

/// The strings of a sequence that is the whole of `input`, at most `count_max`.
pub(crate) fn whole_strings(input: &[u8], count_max: usize) -> Option<Vec<String>> {
    let mut rest = whole_sequence(input)?;
    let mut texts = Vec::new();
    while !rest.is_empty() {
        if texts.len() == count_max {
            return None;
        }
        let (text, tail) = take_utf8(rest)?;
        texts.push(text.to_owned());
        rest = tail;
    }
    Some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strings_round_trip_in_one_form(texts in proptest::collection::vec(".{0,300}", 0..6)) {
            let bytes = strings(texts.iter().map(String::as_str));
            prop_assert_eq!(whole_strings(&bytes, 6), Some(texts));
        }

        #[test]
        fn what_is_read_is_what_would_be_written(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(texts) = whole_strings(&bytes, 300) {
                prop_assert_eq!(strings(texts.iter().map(String::as_str)), bytes);
            }
        }
    }

    #[test]
    fn lengths_that_are_not_minimal_are_refused() {
        assert_eq!(whole_strings(&[0x30, 0x81, 0x02, 0x0c, 0x00], 4), None);
        assert_eq!(whole_strings(&[0x30, 0x82, 0x00, 0x02, 0x0c, 0x00], 4), None);
        assert_eq!(whole_strings(&[0x30, 0x02, 0x0c, 0x00], 4), Some(vec![String::new()]));
    }
}
