//! Messages with their type, and the tags of a message whose type this build may not know whole.

use crate::WireError;
use crate::check;
use model::frame::Any;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use prost::{Message, Name};
use std::collections::BTreeSet;

/// `message` with its type URL, as `type.googleapis.com/bettercompute.node.v1.DiagNvmlRequest`.
pub fn pack<M: Message + Name>(message: &M) -> Any {
    Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

/// The message in `any`, which must be of type `M`.
pub fn unpack<M: Message + Name + Default>(any: &Any) -> Result<M, WireError> {
    if any.type_url != M::type_url() {
        return Err(WireError::WrongType { expected: M::type_url(), found: any.type_url.clone() });
    }
    M::decode(any.value.as_slice()).map_err(|source| WireError::Decode { message: M::NAME, source })
}

/// Every field number that `bytes` sets at the top level, rising, each once. The generated code drops
/// fields it does not know; a receiver that must not ignore them looks here (decision F-Q18).
pub fn scan_tags(bytes: &[u8]) -> Result<Vec<u32>, WireError> {
    let failed = |source| WireError::Decode { message: "message", source };
    let mut rest = bytes;
    let mut tags = BTreeSet::new();
    while !rest.is_empty() {
        let (tag, wire_type) = decode_key(&mut rest).map_err(failed)?;
        skip_field(wire_type, tag, &mut rest, DecodeContext::default()).map_err(failed)?;
        tags.insert(tag);
    }
    Ok(tags.into_iter().collect())
}

pub(crate) fn from_wire(field: &'static str, any: prost_types::Any) -> Result<Any, WireError> {
    Ok(Any { type_url: check::text(field, any.type_url)?, value: any.value })
}

pub(crate) fn to_wire(any: Any) -> prost_types::Any {
    prost_types::Any { type_url: any.type_url, value: any.value }
}
