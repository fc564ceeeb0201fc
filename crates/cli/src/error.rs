//! Why a command of the CLI did not do what was asked, and the exit status that says so.

use crate::ContextError;
use client::ClientError;
use std::path::PathBuf;

/// Refused or failed.
const EXIT_FAILED: u8 = 1;
/// The command line cannot mean anything.
const EXIT_USAGE: u8 = 2;

#[derive(Debug, thiserror::Error)]
pub enum CliError {
    #[error(transparent)]
    Context(#[from] ContextError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("{0}")]
    Usage(String),
    #[error("FILE_EXISTS: {} is there already; remove it or name another file", .0.display())]
    FileExists(PathBuf),
    #[error("cannot write the file")]
    Write(#[from] stdx::durable::DurableError),
    #[error("cannot write to standard output")]
    Stdout(#[source] std::io::Error),
    #[error("cannot print the result")]
    Print(String),
    /// Nobody reads standard output any more.
    #[error("standard output is closed")]
    Closed,
    #[error("the answer holds no token: this key was used before, and a token is shown once; use another --key")]
    NoToken,
    #[error("no result after {seconds} s; command {id} goes on: better-compute commands get {id}")]
    WaitedTooLong { id: String, seconds: u64 },
    #[error("the result of {kind} names no output to write to {}", out.display())]
    NoOutput { kind: String, out: PathBuf },
}

impl CliError {
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Usage(_) => EXIT_USAGE,
            Self::Context(error) if error.is_usage() => EXIT_USAGE,
            Self::Client(ClientError::BadUrl { .. } | ClientError::BadToken) => EXIT_USAGE,
            _ => EXIT_FAILED,
        }
    }

    /// What helps to act on a refusal: the ids an ambiguous name stands for, the kinds there are.
    pub fn hints(&self) -> Vec<String> {
        let Self::Client(ClientError::Refused(error)) = self else { return Vec::new() };
        let Some(details) = error.details.as_object() else { return Vec::new() };
        let mut lines = Vec::new();
        for (name, value) in details {
            match value {
                serde_json::Value::Array(items) => {
                    let items: Vec<String> = items.iter().map(plain).collect();
                    lines.push(format!("{name}: {}", items.join(", ")));
                }
                other => lines.push(format!("{name}: {}", plain(other))),
            }
        }
        lines
    }
}

fn plain(value: &serde_json::Value) -> String {
    crate::table::printable(value.as_str().map_or_else(|| value.to_string(), str::to_owned).as_str())
}
