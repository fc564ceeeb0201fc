//! Where a join token comes from: `BCD_JOIN_TOKEN`, the first line of standard input, or a file that is its
//! owner's alone. Never an argument. No error shows any part of what was read.

use model::limits::JOIN_TOKEN_BYTES_MAX;
use pki::JoinToken;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

pub const TOKEN_VARIABLE: &str = "BCD_JOIN_TOKEN";

#[derive(Debug, thiserror::Error)]
pub enum TokenReadError {
    #[error("no join token: set {TOKEN_VARIABLE}, pass it on standard input or name a file with --token-file")]
    Absent,
    #[error("what was given is not a join token (bcjt_<id>.<secret>)")]
    Malformed,
    #[error("cannot read the join token from standard input")]
    Input(#[source] io::Error),
    #[error("cannot open the token file {}", path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the token file {} must be {rule}", path.display())]
    File { path: PathBuf, rule: &'static str },
    #[error("cannot read the token file {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl TokenReadError {
    /// The caller gave no token, or none that looks like one.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Absent | Self::Malformed)
    }
}

/// A token from its text: the first line, exactly one spelling.
pub fn parse(text: &[u8]) -> Result<JoinToken, TokenReadError> {
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = std::str::from_utf8(line).map_err(|_| TokenReadError::Malformed)?;
    if line.is_empty() {
        return Err(TokenReadError::Absent);
    }
    JoinToken::parse(line).map_err(|_| TokenReadError::Malformed)
}

/// The first line of `input`, which is standard input where that is not a terminal.
pub fn from_input(input: impl Read) -> Result<JoinToken, TokenReadError> {
    let mut text = Zeroizing::new(Vec::with_capacity(JOIN_TOKEN_BYTES_MAX as usize + 1));
    input.take(JOIN_TOKEN_BYTES_MAX + 1).read_to_end(&mut text).map_err(TokenReadError::Input)?;
    parse(&text)
}

/// A token file: regular, mode 0600 or 0400, at most 4 KiB; links are followed, as a Secret volume has one.
/// Nothing is read before that is known of the very file that is read.
pub fn from_file(path: &Path) -> Result<JoinToken, TokenReadError> {
    // Without NONBLOCK, opening a pipe would wait for a writer.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .map_err(|source| TokenReadError::Open { path: path.to_owned(), source })?;
    let read = |source| TokenReadError::Read { path: path.to_owned(), source };
    let metadata = file.metadata().map_err(read)?;
    let refused = |rule| Err(TokenReadError::File { path: path.to_owned(), rule });
    if !metadata.is_file() {
        return refused("a regular file");
    }
    if !matches!(metadata.mode() & 0o7777, 0o600 | 0o400) {
        return refused("its owner's alone, mode 0600 or 0400");
    }
    if metadata.size() > JOIN_TOKEN_BYTES_MAX {
        return refused("at most 4 KiB");
    }
    let mut text = Zeroizing::new(Vec::with_capacity(JOIN_TOKEN_BYTES_MAX as usize + 1));
    file.take(JOIN_TOKEN_BYTES_MAX + 1).read_to_end(&mut text).map_err(read)?;
    parse(&text)
}

/// Removes a token file that has done its work. On a read-only mount that fails, and only a warning says so.
pub fn discard(path: &Path) {
    if let Err(error) = stdx::durable::remove(path) {
        tracing::warn!(path = %path.display(), error = stdx::error::chain(&error), "cannot delete the token file");
    }
}

#[cfg(test)]
mod tests;
