//! Every key of `config.toml` with its type. A key that is not here is refused with its line, so a
//! typo never passes for a default.

use super::syntax::{Document, LineError, Value, shown};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Text,
    Integer,
    Boolean,
}

impl Type {
    const fn name(self) -> &'static str {
        match self {
            Type::Text => "a string",
            Type::Integer => "an integer",
            Type::Boolean => "a boolean",
        }
    }

    const fn holds(self, value: &Value) -> bool {
        matches!(
            (self, value),
            (Type::Text, Value::Text(_)) | (Type::Integer, Value::Integer(_)) | (Type::Boolean, Value::Boolean(_))
        )
    }
}

use Type::{Boolean, Integer, Text};

/// Section (empty for the top level), key, type.
pub const KEYS: &[(&str, &str, Type)] = &[
    ("", "gateway_url", Text),
    ("", "site", Text),
    ("", "serving_ca_spki_pin", Text),
    ("", "join_signing_key_pin", Text),
    ("", "join_encryption_key_pin", Text),
    ("", "data_dir", Text),
    ("", "socket_path", Text),
    ("", "gateway_server_name", Text),
    ("", "dev_insecure_h2c", Boolean),
    ("", "approver_set_sha256", Text),
    ("", "command_root_sha256", Text),
    ("journal", "max_bytes", Integer),
    ("journal", "max_events", Integer),
    ("log", "level", Text),
    ("log", "json", Boolean),
    ("update", "release_pins", Text),
    ("update", "release_threshold", Integer),
    ("update", "release_sequence", Integer),
    ("update", "entrypoint", Text),
    ("update", "slots_dir", Text),
    ("helper", "socket", Text),
    ("helper", "user", Text),
    ("helper", "instance_bridges", Text),
    ("site", "bmc_networks", Text),
    ("websocket", "url", Text),
    ("websocket", "proxy_ca_file", Text),
    ("websocket", "audience", Text),
    ("instances", "balloon_floor_percent", Integer),
    ("instances", "emulation", Boolean),
    ("imds", "listen", Text),
    ("host", "units", Boolean),
    ("kubernetes", "allowed_clusters", Text),
    ("kubernetes", "gpu_api", Text),
    ("boot", "listen", Text),
    ("boot", "url", Text),
    ("boot", "kernel", Text),
    ("boot", "initrd", Text),
    ("boot", "cmdline", Text),
    ("boot", "server_ip", Text),
    ("boot", "proxy_dhcp", Boolean),
    ("boot", "tftp", Text),
    ("boot", "tftp_root", Text),
    ("boot", "cache_max_bytes", Integer),
    ("plugins", "dir", Text),
    ("plugins", "user", Text),
    ("plugins", "privileged", Text),
    ("plugins", "sandbox", Boolean),
    ("plugins", "cgroup", Text),
    ("plugins", "memory_max", Integer),
    ("plugins", "pids_max", Integer),
];

/// Refuses unknown sections, unknown keys and wrong types; the first line that is wrong is named.
pub fn check(document: &Document) -> Result<(), LineError> {
    let mut problems: Vec<LineError> = Vec::new();
    for (section, line) in &document.sections {
        if !KEYS.iter().any(|(known, _, _)| known == section) {
            problems.push(LineError::new(*line, format!("unknown section [{section}]")));
        }
    }
    for ((section, key), (line, value)) in &document.entries {
        match KEYS.iter().find(|(s, k, _)| s == section && k == key) {
            None => problems.push(LineError::new(*line, format!("unknown key {}", shown(section, key)))),
            Some((_, _, kind)) if !kind.holds(value) => {
                let message = format!("{} must be {}, not {}", shown(section, key), kind.name(), value.type_name());
                problems.push(LineError::new(*line, message));
            }
            Some(_) => {}
        }
    }
    problems.into_iter().min_by_key(|problem| problem.line).map_or(Ok(()), Err)
}

/// Typed access to a checked document.
pub struct Keys<'a>(pub &'a Document);

impl Keys<'_> {
    /// The line of a key, or the line where a missing top-level key is reported.
    pub fn line(&self, section: &str, key: &str) -> usize {
        self.get(section, key).map_or(self.0.top_level_end, |(line, _)| *line)
    }

    fn get(&self, section: &str, key: &str) -> Option<&(usize, Value)> {
        self.0.entries.get(&(section.to_owned(), key.to_owned()))
    }

    /// An optional string under a rule.
    pub fn text<T>(
        &self,
        section: &str,
        key: &str,
        rule: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, LineError> {
        match self.get(section, key) {
            Some((line, Value::Text(text))) => rule(text).map(Some).map_err(|what| {
                // A message that already ends a sentence of its own keeps the key in front, as the page has it.
                let joint = if what.starts_with('"') { ":" } else { "" };
                LineError::new(*line, format!("{}{joint} {what}", shown(section, key)))
            }),
            _ => Ok(None),
        }
    }

    /// A string that must be there.
    pub fn required<T>(&self, key: &str, rule: impl Fn(&str) -> Result<T, String>) -> Result<T, LineError> {
        self.text("", key, rule)?
            .ok_or_else(|| LineError::new(self.0.top_level_end, format!("the required key {key} is missing")))
    }

    pub fn boolean(&self, section: &str, key: &str, default: bool) -> bool {
        match self.get(section, key) {
            Some((_, Value::Boolean(value))) => *value,
            _ => default,
        }
    }

    /// An integer between two bounds, both included.
    pub fn integer(
        &self,
        section: &str,
        key: &str,
        default: u64,
        bounds: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, LineError> {
        match self.get(section, key) {
            Some((line, Value::Integer(value))) => {
                u64::try_from(*value).ok().filter(|value| bounds.contains(value)).ok_or_else(|| {
                    let range = match *bounds.end() {
                        u64::MAX => format!("{} or more", bounds.start()),
                        end => format!("{} to {end}", bounds.start()),
                    };
                    LineError::new(*line, format!("{} must be {range}, not {value}", shown(section, key)))
                })
            }
            _ => Ok(default),
        }
    }
}
