//! The values of nvidia-smi's elements: text with its unit, or one of many ways to say "none".

use super::xml::Element;
use crate::problems::Problems;

/// What an element says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading<'a> {
    /// The hardware or the driver has no such value: nothing to worry about.
    Absent,
    /// The value should be there and could not be had.
    Odd(&'a str),
    Value(&'a str),
}

const ABSENT: [&str; 8] = [
    "",
    "n/a",
    "not supported",
    "not available",
    "requested functionality has been deprecated",
    "deprecated",
    "not applicable",
    "not found",
];

const ODD: [&str; 8] = [
    "error",
    "err!",
    "gpu is lost",
    "requires reset",
    "insufficient permissions",
    "no permission",
    "in use by another client",
    "timeout",
];

/// Sorts a text into absent, odd and value. Brackets around the whole do not matter.
pub fn reading(text: &str) -> Reading<'_> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text).trim();
    let lower = bare.to_ascii_lowercase();
    if ABSENT.contains(&lower.as_str()) {
        Reading::Absent
    } else if ODD.iter().any(|word| lower.contains(word)) {
        Reading::Odd(text)
    } else {
        Reading::Value(text)
    }
}

/// Reads elements below one element and notes what is odd under its label.
pub struct Values<'a> {
    pub element: &'a Element,
    /// `nvidia-smi gpu 0000:01:00.0`.
    pub label: String,
    pub problems: &'a mut Problems,
}

impl Values<'_> {
    /// The text at `path`, empty when absent.
    pub fn string(&mut self, path: &str) -> String {
        self.parse(path, "a text", |text| Some(text.to_owned())).unwrap_or_default()
    }

    /// The text at `path`, noted when absent: every schema and GPU has it.
    pub fn string_expected(&mut self, path: &str) -> String {
        let before = self.string(path);
        if before.is_empty() && self.element.at(path).is_none_or(|e| reading(&e.text) == Reading::Absent) {
            self.odd(path, "has no value");
        }
        before
    }

    pub fn number<T: std::str::FromStr>(&mut self, path: &str) -> Option<T> {
        self.parse(path, "a number", |text| text.parse().ok())
    }

    /// `30 %`, `16x`, `27 C`.
    pub fn number_with<T: std::str::FromStr>(&mut self, path: &str, unit: &str) -> Option<T> {
        self.parse(path, "a number with its unit", |text| text.strip_suffix(unit)?.trim().parse().ok())
    }

    /// `81920 MiB` as bytes.
    pub fn bytes(&mut self, path: &str) -> Option<u64> {
        self.parse(path, "a size", parse_bytes)
    }

    /// `67.03 W` as milliwatts.
    pub fn milliwatts(&mut self, path: &str) -> Option<u64> {
        self.parse(path, "a power", |text| parse_thousandths(text.strip_suffix('W')?.trim()))
    }

    /// `Enabled` or `Yes`, `Disabled` or `No`.
    pub fn flag(&mut self, path: &str) -> Option<bool> {
        self.parse(path, "a yes or no", |text| match text.to_ascii_lowercase().as_str() {
            "enabled" | "yes" => Some(true),
            "disabled" | "no" => Some(false),
            _ => None,
        })
    }

    /// The first of several names of one value in different schemas.
    pub fn first<T>(&mut self, paths: &[&str], mut read: impl FnMut(&mut Self, &str) -> Option<T>) -> Option<T> {
        paths.iter().find_map(|path| read(self, path))
    }

    pub fn odd(&mut self, path: &str, what: &str) {
        self.problems.note(format!("{} {path}", self.label), what);
    }

    fn parse<T>(&mut self, path: &str, what: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let element = self.element.at(path)?;
        match reading(&element.text) {
            Reading::Absent => None,
            Reading::Odd(text) => {
                self.odd(path, &format!("reads {text:?}"));
                None
            }
            Reading::Value(text) => {
                let value = parse(text);
                if value.is_none() {
                    self.odd(path, &format!("reads {text:?}, which is not {what}"));
                }
                value
            }
        }
    }
}

fn parse_bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ')?;
    let factor: u64 = match unit.trim() {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        // Drivers before 400 meant the same by MB.
        "MB" => 1 << 20,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// `67.03` as 67030, without a detour over floating point.
fn parse_thousandths(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut padded = fraction.to_owned();
    padded.push_str("000");
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(padded[..3].parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_say_none_is_absent_and_every_way_to_fail_is_odd() {
        for text in
            ["N/A", "[N/A]", "", "Requested functionality has been deprecated", "[Not Supported]", "Not Supported"]
        {
            assert_eq!(reading(text), Reading::Absent, "{text}");
        }
        for text in [
            "Unknown Error",
            "[Unknown Error]",
            "ERR!",
            "GPU is lost",
            "[GPU requires reset]",
            "Insufficient Permissions",
        ] {
            assert_eq!(reading(text), Reading::Odd(text), "{text}");
        }
        assert_eq!(reading("None"), Reading::Value("None"));
        assert_eq!(reading("0"), Reading::Value("0"));
    }

    #[test]
    fn units_are_read() {
        assert_eq!(parse_bytes("19968 MiB"), Some(19968 << 20));
        assert_eq!(parse_bytes("16 GiB"), Some(16 << 30));
        assert_eq!(parse_bytes("99999999999999999 GiB"), None);
        assert_eq!(parse_bytes("12 W"), None);
        assert_eq!(parse_thousandths("67.03"), Some(67_030));
        assert_eq!(parse_thousandths("8.4449"), Some(8_444));
        assert_eq!(parse_thousandths("500"), Some(500_000));
        assert_eq!(parse_thousandths("-1.0"), None);
        assert_eq!(parse_thousandths("1.+2"), None);
    }
}
