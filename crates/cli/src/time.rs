//! Times as people read them: how long ago, or until when, beside the exact time of JSON and YAML.

use jiff::Timestamp;

/// `5s`, `3m`, `2h`, `4d`: the largest unit, rounded down.
pub(crate) fn age(since: &str, now_ms: i64) -> String {
    let Some(then) = parse(since) else { return since.to_owned() };
    let seconds = (now_ms - then).max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// `in 59m`, or `expired`.
pub(crate) fn until(time: &str, now_ms: i64) -> String {
    match parse(time) {
        Some(then) if then > now_ms => {
            let ago = Timestamp::from_millisecond(now_ms).map(|now| now.to_string()).unwrap_or_default();
            format!("in {}", age(&ago, then))
        }
        Some(_) => "expired".to_owned(),
        None => time.to_owned(),
    }
}

/// `12:03:44.120`, for a stream of events.
pub(crate) fn clock(time: &str) -> &str {
    time.get(11..23).unwrap_or(time)
}

fn parse(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

pub(crate) fn now_ms() -> i64 {
    stdx::clock::wall_unix_ms()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_use_the_largest_unit() {
        let now = parse("2026-12-01T12:00:00Z").expect("time");
        for (since, expected) in [
            ("2026-12-01T11:59:01.500Z", "58s"),
            ("2026-12-01T11:01:00Z", "59m"),
            ("2026-11-30T12:00:01Z", "23h"),
            ("2026-11-20T00:00:00Z", "11d"),
            ("2026-12-01T13:00:00Z", "0s"),
        ] {
            assert_eq!(age(since, now), expected, "{since}");
        }
        assert_eq!(until("2026-12-01T12:59:59Z", now), "in 59m");
        assert_eq!(until("2026-12-01T12:00:00Z", now), "expired");
        assert_eq!(clock("2026-12-01T12:03:44.120Z"), "12:03:44.120");
    }
}
