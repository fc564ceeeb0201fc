//! Takes secrets out of log text: join tokens, private keys, bearer tokens. Works on bytes, since
//! logs need not be UTF-8.

const TOKEN: &[u8] = b"bcjt_";
const BEARER: &[u8] = b"bearer ";
const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const PRIVATE_KEY: &[u8] = b"PRIVATE KEY-----";
/// Label of a PEM block with its end, `ENCRYPTED PRIVATE KEY-----`.
const LABEL_BYTES_MAX: usize = 64;
/// How much is taken away for a private key whose other end is missing. An RSA key of 8192 bits has 6.4 KiB.
const KEY_BYTES_MAX: usize = 16 << 10;
/// Shorter words after `Bearer` are prose.
const BEARER_BYTES_MIN: usize = 16;

/// `bytes` without secrets, and how many were taken out.
pub fn redact(bytes: &[u8]) -> (Vec<u8>, usize) {
    let mut out = Vec::with_capacity(bytes.len());
    let mut count = 0;
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let Some(skip) = secret(rest, &mut out) else {
            out.push(bytes[at]);
            at += 1;
            continue;
        };
        count += 1;
        at += skip;
    }
    (out, count)
}

/// When `rest` begins with a secret: writes its replacement and tells its length.
fn secret(rest: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    match rest[0] {
        b'b' if rest.starts_with(TOKEN) => {
            let length = word(&rest[TOKEN.len()..]);
            (length > 0).then(|| {
                out.extend_from_slice(b"bcjt_[redacted]");
                TOKEN.len() + length
            })
        }
        b'b' | b'B' if starts_with_ignoring_case(rest, BEARER) => {
            let length = word(&rest[BEARER.len()..]);
            (length >= BEARER_BYTES_MIN).then(|| {
                out.extend_from_slice(b"Bearer [redacted]");
                BEARER.len() + length
            })
        }
        b'-' if rest.starts_with(BEGIN) => {
            private_label(&rest[BEGIN.len()..])?;
            out.extend_from_slice(b"[redacted private key]");
            Some(key_length(rest))
        }
        b'-' if rest.starts_with(END) => {
            // Its beginning was cut off, or lines stand in reverse: what is before it may be the key.
            let label = private_label(&rest[END.len()..])?;
            out.truncate(out.len().saturating_sub(KEY_BYTES_MAX));
            out.extend_from_slice(b"[redacted private key]");
            Some(END.len() + label)
        }
        _ => None,
    }
}

/// Bytes up to and including the end marker of the key that begins here.
fn key_length(rest: &[u8]) -> usize {
    let window = &rest[..rest.len().min(KEY_BYTES_MAX)];
    let mut from = BEGIN.len();
    while let Some(offset) = find(&window[from..], END) {
        let label_at = from + offset + END.len();
        if let Some(label) = private_label(&rest[label_at..]) {
            return label_at + label;
        }
        from = label_at;
    }
    window.len()
}

/// Length of a label that ends in `PRIVATE KEY-----`.
fn private_label(rest: &[u8]) -> Option<usize> {
    let window = &rest[..rest.len().min(LABEL_BYTES_MAX)];
    let end = find(window, PRIVATE_KEY)?;
    let plain = window[..end].iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b' ');
    plain.then_some(end + PRIVATE_KEY.len())
}

fn word(rest: &[u8]) -> usize {
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.~+/=%".contains(byte);
    rest.iter().position(|byte| !part(byte)).unwrap_or(rest.len())
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn starts_with_ignoring_case(rest: &[u8], prefix: &[u8]) -> bool {
    rest.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(input: &str, output: &str) {
        assert_eq!(String::from_utf8_lossy(&redact(input.as_bytes()).0), output);
    }

    #[test]
    fn join_tokens_and_bearer_tokens_are_taken_out() {
        check("BCD_JOIN_TOKEN=bcjt_jt_01.s3cr3t/+=; next", "BCD_JOIN_TOKEN=bcjt_[redacted]; next");
        check("\"bcjt_a.b\" and bcjt_", "\"bcjt_[redacted]\" and bcjt_");
        check("authorization: bearer abcdefghijklmnop.q x", "authorization: Bearer [redacted] x");
        check("the bearer of this", "the bearer of this");
    }

    #[test]
    fn private_keys_are_taken_out_and_certificates_stay() {
        let certificate = "-----BEGIN CERTIFICATE-----\nAAA\n-----END CERTIFICATE-----\n";
        check(certificate, certificate);
        check("-----BEGIN PUBLIC KEY-----", "-----BEGIN PUBLIC KEY-----");
        for label in ["PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY"] {
            let text = format!("a\n-----BEGIN {label}-----\nbcjt_x\n{certificate}MIG\n-----END {label}-----\nb");
            check(&text, "a\n[redacted private key]\nb");
        }
        // As journald prefixes lines, and escaped in JSON.
        check(
            "12:00 bcd: -----BEGIN PRIVATE KEY-----\n12:00 bcd: MII\n12:00 bcd: -----END PRIVATE KEY-----\n",
            "12:00 bcd: [redacted private key]\n",
        );
        check(
            r#"{"k":"-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n"}"#,
            r#"{"k":"[redacted private key]\n"}"#,
        );
    }

    #[test]
    fn half_a_private_key_is_taken_out_too() {
        check("a -----BEGIN PRIVATE KEY-----\nMII", "a [redacted private key]");
        check("MIIsecret\n-----END PRIVATE KEY-----\nb", "[redacted private key]\nb");
        let long = format!("-----BEGIN PRIVATE KEY-----{}tail", "x".repeat(KEY_BYTES_MAX));
        let (out, count) = redact(long.as_bytes());
        assert_eq!((out.len() < 64, count), (true, 1));
    }

    proptest! {
        #[test]
        fn no_token_survives_whatever_surrounds_it(
            before in proptest::collection::vec(any::<u8>(), 0..60),
            secret in "[a-z0-9]{20}",
            after in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut text = before;
            text.extend_from_slice(b"bcjt_");
            text.extend_from_slice(secret.as_bytes());
            text.extend_from_slice(&after);
            let (out, _) = redact(&text);
            prop_assert!(find(&out, secret.as_bytes()).is_none());
            prop_assert_eq!(redact(&out).0.len(), out.len(), "what is redacted stays as it is");
        }
    }
}
