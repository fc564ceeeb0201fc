//! Times on the API: RFC 3339 in UTC with milliseconds, from the store's Unix milliseconds.

use jiff::Timestamp;
use model::ServerTimeMs;

/// `2026-12-01T12:00:00.000Z`.
pub(crate) fn rfc3339(at: ServerTimeMs) -> String {
    // A time that no calendar of ours reaches is shown as the last or first one it does.
    let edge = if at.0 < 0 { Timestamp::MIN } else { Timestamp::MAX };
    let time = Timestamp::from_millisecond(at.0).unwrap_or(edge);
    format!("{time:.3}")
}

pub(crate) fn rfc3339_opt(at: Option<ServerTimeMs>) -> Option<String> {
    at.map(rfc3339)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds_and_a_z() {
        assert_eq!(rfc3339(ServerTimeMs(1_796_126_400_007)), "2026-12-01T12:00:00.007Z");
        assert_eq!(rfc3339(ServerTimeMs(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(ServerTimeMs(i64::MAX)), "9999-12-30T22:00:00.999Z");
    }
}
