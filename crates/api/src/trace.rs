//! W3C trace context (the `traceparent` header, version 00): a caller's trace goes on through the command
//! to the node; a call without one begins a trace.

use axum::http::HeaderMap;
use rand::RngCore;

const HEADER: &str = "traceparent";

/// The caller's `traceparent` if it is well formed, else a new one that is sampled.
pub(crate) fn of(headers: &HeaderMap) -> String {
    let given = headers.get(HEADER).and_then(|value| value.to_str().ok()).filter(|text| is_well_formed(text));
    given.map_or_else(begin, str::to_owned)
}

fn begin() -> String {
    let mut bytes = [0u8; 24];
    rand::rng().fill_bytes(&mut bytes);
    format!("00-{}-{}-01", stdx::hex::encode(&bytes[..16]), stdx::hex::encode(&bytes[16..]))
}

/// `00-<32 hex>-<16 hex>-<2 hex>`, lower case, neither id all zero.
fn is_well_formed(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [version, trace, span, flags] = parts.as_slice() else { return false };
    let is_hex = |text: &str, len: usize| text.len() == len && stdx::hex::decode(text).is_some();
    let is_set = |text: &str| text.bytes().any(|byte| byte != b'0');
    *version == "00" && is_hex(trace, 32) && is_set(trace) && is_hex(span, 16) && is_set(span) && is_hex(flags, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_trace_goes_on_and_anything_else_begins_one() {
        let with = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, text.parse().expect("a header"));
            of(&headers)
        };
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(with(given), given);
        let bad = [
            "",
            "00",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
        ];
        for text in bad {
            let begun = with(text);
            assert!(is_well_formed(&begun) && begun != text, "{text}");
        }
        assert_ne!(of(&HeaderMap::new()), of(&HeaderMap::new()));
    }
}
