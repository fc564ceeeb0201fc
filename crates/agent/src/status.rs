//! The status socket: who connects gets one JSON document and the end of the stream. Mode 0600, so only the
//! account the daemon runs as, and root, may ask.

use crate::driver::Event;
use model::frame::Condition;
use model::{BootId, IncarnationId, NodeId, Role};
use serde_json::{Value, json};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};

const SOCKET_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
const SOCKET_PATH_BYTES_MAX: usize = 108;
/// One answer, from the question to the last byte.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// A document read back, bytes.
const DOCUMENT_BYTES_MAX: u64 = 4 << 20;

/// What does not change while the process lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    pub version: String,
    pub node_id: NodeId,
    pub fleet_id: String,
    pub role: Role,
    pub site: String,
    pub pool: String,
    pub hostname: String,
    pub boot_id: BootId,
    pub incarnation: IncarnationId,
    pub gateway_url: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StatusDocument {
    pub about: About,
    /// Of a session that is up.
    pub session_epoch: Option<u64>,
    /// Once a session of this process told it.
    pub server_time_ms: Option<i64>,
    pub certificate_serial: String,
    pub certificate_not_after_ms: i64,
    pub journal_id: String,
    pub results_unacked: usize,
    pub applied_generation: u64,
    pub conditions: Vec<Condition>,
    pub gauges: Vec<(String, i64)>,
}

impl StatusDocument {
    pub fn to_json(&self) -> Value {
        let about = &self.about;
        let conditions: Vec<Value> = self
            .conditions
            .iter()
            .map(|c| json!({"kind": c.kind, "reason": c.reason, "message": c.message, "ageMs": c.age_ms}))
            .collect();
        let gauges: serde_json::Map<String, Value> =
            self.gauges.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({
            "version": about.version,
            "nodeId": about.node_id.as_str(),
            "fleetId": about.fleet_id,
            "role": about.role.name(),
            "site": about.site,
            "pool": about.pool,
            "hostname": about.hostname,
            "bootId": about.boot_id.as_str(),
            "incarnation": about.incarnation.as_str(),
            "gatewayUrl": about.gateway_url,
            "connected": self.session_epoch.is_some(),
            "sessionEpoch": self.session_epoch,
            "serverTimeMs": self.server_time_ms,
            "certificate": {"serial": self.certificate_serial, "notAfterMs": self.certificate_not_after_ms},
            "journalId": self.journal_id,
            "resultsUnacked": self.results_unacked,
            "appliedGeneration": self.applied_generation,
            "conditions": conditions,
            "gauges": gauges,
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    #[error("cannot make the directory of the status socket")]
    Directory(#[source] stdx::durable::DurableError),
    #[error("cannot listen on {}", path.display())]
    Listen {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot connect to {}: is bcd running?", path.display())]
    Connect {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot read the status from {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("what {} answered is not a status", path.display())]
    Malformed {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
}

/// The same file by a name that fits a socket address, which has 108 bytes (unix(7)).
struct ShortPath {
    path: PathBuf,
    /// Keeps the name valid.
    _directory: Option<std::fs::File>,
}

impl ShortPath {
    fn of(path: &Path) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        if path.as_os_str().len() < SOCKET_PATH_BYTES_MAX {
            return Ok(Self { path: path.to_owned(), _directory: None });
        }
        let directory = std::fs::File::open(parent)?;
        let short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
        Ok(Self { path: short, _directory: Some(directory) })
    }
}

/// Binds the socket, over one that an earlier process left.
pub fn bind(path: &Path) -> Result<UnixListener, StatusError> {
    let listen = |source| StatusError::Listen { path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        stdx::durable::create_directory(parent, DIRECTORY_MODE).map_err(StatusError::Directory)?;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(listen(error)),
        _ => {}
    }
    let short = ShortPath::of(path).map_err(listen)?;
    let listener = UnixListener::bind(&short.path).map_err(listen)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(SOCKET_MODE)).map_err(listen)?;
    Ok(listener)
}

/// Answers whoever connects, one after the other, until it is dropped.
pub async fn serve(listener: UnixListener, events: mpsc::Sender<Event>) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        let answer = async {
            let (reply_tx, reply) = oneshot::channel();
            events.send(Event::Status(reply_tx)).await.map_err(io::Error::other)?;
            let document = reply.await.map_err(io::Error::other)?;
            let mut bytes = document.to_json().to_string().into_bytes();
            bytes.push(b'\n');
            stream.write_all(&bytes).await?;
            stream.shutdown().await
        };
        match tokio::time::timeout(ANSWER_WITHIN, answer).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a status was not taken"),
            Err(_) => tracing::debug!("a status was not taken in time"),
        }
    }
}

/// Asks a running daemon. Blocks.
pub fn ask(path: &Path) -> Result<Value, StatusError> {
    use std::io::Read;
    let stream = ShortPath::of(path)
        .and_then(|short| std::os::unix::net::UnixStream::connect(&short.path))
        .map_err(|source| StatusError::Connect { path: path.to_owned(), source })?;
    let read = |source| StatusError::Read { path: path.to_owned(), source };
    stream.set_read_timeout(Some(ANSWER_WITHIN)).map_err(read)?;
    let mut bytes = Vec::new();
    stream.take(DOCUMENT_BYTES_MAX).read_to_end(&mut bytes).map_err(read)?;
    serde_json::from_slice(&bytes).map_err(|source| StatusError::Malformed { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_may_lie_deeper_than_a_socket_address_is_long() {
        let directory = tempfile::tempdir().expect("tempdir");
        let path = directory.path().join("d".repeat(120)).join("bcd.sock");
        let listener = bind(&path).expect("bind");
        let (events_tx, events) = mpsc::channel(1);
        let serving = tokio::spawn(serve(listener, events_tx));
        drop(events);
        let answer = tokio::task::spawn_blocking(move || ask(&path)).await.expect("no panic");
        assert!(matches!(answer, Err(StatusError::Malformed { .. })), "connected, and nobody answers: {answer:?}");
        serving.abort();
    }
}
