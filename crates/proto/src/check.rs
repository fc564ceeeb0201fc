//! The checks every field goes through, one function a bound.

use crate::WireError;
use model::ServerTimeMs;
use model::ids::IdError;
use model::limits::{COUNTER_MAX, TEXT_BYTES_MAX};

type Checked<T> = Result<T, WireError>;

/// Decodes `bytes` of at most `max`.
pub(crate) fn decode<M: prost::Message + Default>(message: &'static str, bytes: &[u8], max: usize) -> Checked<M> {
    at_most(message, bytes.len(), max)?;
    M::decode(bytes).map_err(|source| WireError::Decode { message, source })
}

pub(crate) fn at_most(field: &'static str, have: usize, max: usize) -> Checked<()> {
    if have <= max { Ok(()) } else { Err(WireError::TooLong { field, have, max }) }
}

pub(crate) fn id<T>(field: &'static str, text: &str, parse: fn(&str) -> Result<T, IdError>) -> Checked<T> {
    parse(text).map_err(|_| WireError::BadId { field })
}

/// A text without a bound of its own.
pub(crate) fn text(field: &'static str, text: String) -> Checked<String> {
    bytes(field, text, TEXT_BYTES_MAX)
}

pub(crate) fn bytes<T: AsRef<[u8]>>(field: &'static str, bytes: T, max: usize) -> Checked<T> {
    at_most(field, bytes.as_ref().len(), max)?;
    Ok(bytes)
}

/// A counter that may be 0.
pub(crate) fn counter(field: &'static str, value: u64) -> Checked<u64> {
    if value <= COUNTER_MAX { Ok(value) } else { Err(WireError::OutOfRange { field, value: value.into() }) }
}

/// A counter that starts at 1.
pub(crate) fn counter_from_one(field: &'static str, value: u64) -> Checked<u64> {
    if value == 0 { Err(WireError::OutOfRange { field, value: 0 }) } else { counter(field, value) }
}

/// A signed number that survives JSON.
pub(crate) fn number(field: &'static str, value: i64) -> Checked<i64> {
    if value.unsigned_abs() <= COUNTER_MAX {
        Ok(value)
    } else {
        Err(WireError::OutOfRange { field, value: value.into() })
    }
}

pub(crate) fn time(field: &'static str, unix_ms: i64) -> Checked<ServerTimeMs> {
    number(field, unix_ms).map(ServerTimeMs)
}

pub(crate) fn required<T>(field: &'static str, value: Option<T>) -> Checked<T> {
    value.ok_or(WireError::Missing { field })
}

/// An enum value this build knows and that is not `UNSPECIFIED`.
pub(crate) fn known<T>(field: &'static str, value: i32, translate: impl Fn(i32) -> Option<T>) -> Checked<T> {
    translate(value).ok_or(WireError::OutOfRange { field, value: value.into() })
}

/// A SHA-256 as 64 lower-case hex digits.
pub(crate) fn digest(field: &'static str, text: String) -> Checked<String> {
    let well_formed = text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if well_formed { Ok(text) } else { Err(WireError::BadHex { field }) }
}

/// [`digest`], or empty for none.
pub(crate) fn digest_or_none(field: &'static str, text: String) -> Checked<String> {
    if text.is_empty() { Ok(text) } else { digest(field, text) }
}

/// Translates at most `max` entries.
pub(crate) fn list<W, T>(
    field: &'static str,
    entries: Vec<W>,
    max: usize,
    translate: impl FnMut(W) -> Checked<T>,
) -> Checked<Vec<T>> {
    at_most(field, entries.len(), max)?;
    entries.into_iter().map(translate).collect()
}

/// The longest prefix of `text` with at most `max` bytes; for texts that only people read.
pub(crate) fn cut(mut text: String, max: usize) -> String {
    text.truncate(text.floor_char_boundary(max));
    text
}
