//! The env file beside a hold: the workload's environment, one line each.

use node_core::converge::{EnvFile, Hold};

/// The file's bytes.
pub fn render_env(hold: &Hold) -> Vec<u8> {
    hold.env.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect()
}

pub(super) fn parse(bytes: &[u8]) -> EnvFile {
    match std::str::from_utf8(bytes) {
        Ok("") => EnvFile::Lines(Vec::new()),
        Ok(text) => match text.strip_suffix('\n') {
            Some(lines) => EnvFile::Lines(lines.split('\n').map(str::to_owned).collect()),
            None => EnvFile::Damaged,
        },
        Err(_) => EnvFile::Damaged,
    }
}
