//! Canonical JSON (RFC 8785): sorted keys, one spelling for each value, so that equal documents
//! have equal bytes and equal hashes.

use serde_json::Value;

/// Integers beyond this are not exact in a JSON number: 2^53.
pub const INTEGER_MAX: i64 = 1 << 53;

#[derive(Debug, thiserror::Error)]
pub enum CanonicalError {
    #[error("the integer {0} is beyond 2^53 and would lose digits as JSON")]
    Integer(String),
    #[error("the document has no canonical form")]
    Serialize(#[source] serde_json::Error),
}

/// The canonical bytes of `value`. Integers beyond 2^53 are refused, never rounded.
pub fn to_vec(value: &Value) -> Result<Vec<u8>, CanonicalError> {
    check_integers(value)?;
    serde_json_canonicalizer::to_vec(value).map_err(CanonicalError::Serialize)
}

fn check_integers(value: &Value) -> Result<(), CanonicalError> {
    match value {
        Value::Number(number) => {
            let beyond = match (number.as_i64(), number.as_u64()) {
                (Some(signed), _) => !(-INTEGER_MAX..=INTEGER_MAX).contains(&signed),
                (None, Some(unsigned)) => unsigned > INTEGER_MAX as u64,
                (None, None) => false,
            };
            if beyond { Err(CanonicalError::Integer(number.to_string())) } else { Ok(()) }
        }
        Value::Array(items) => items.iter().try_for_each(check_integers),
        Value::Object(fields) => fields.values().try_for_each(check_integers),
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn key_order_does_not_matter() {
        let one = to_vec(&json!({"b": 1, "a": [true, null]})).expect("canonical");
        assert_eq!(String::from_utf8_lossy(&one), r#"{"a":[true,null],"b":1}"#);
    }

    #[test]
    fn an_integer_that_would_lose_digits_is_refused() {
        assert!(to_vec(&json!({"n": 9_007_199_254_740_992_i64})).is_ok());
        assert!(matches!(to_vec(&json!([9_007_199_254_740_993_i64])), Err(CanonicalError::Integer(_))));
    }
}
