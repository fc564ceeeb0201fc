//! The gRPC service: a connection becomes a session of the machine; joins, renewals and blobs are
//! answered beside it.

use crate::core::{ConnId, Input};
use crate::metrics::GatewayMetrics;
use crate::relay::{Relay, RelayKind};
use crate::shell::{FromConnection, GatewayKeys, GatewayOptions};
use futures_util::StreamExt;
use kernel::db::Store;
use kernel::sessions::CertFacts;
use model::frame::{AgentFrame, GatewayFrame};
use model::{CommandId, NodeId, SessionEnd, limits};
use pki::verify::{NodeVerifyError, RENEW_GRACE_MS, Standing, VerifiedNode, verify_node_chain};
use proto::v1;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Frames on their way to one agent. Commands are bounded by credits, acknowledgements by what was read.
const FRAMES_OUT_MAX: usize = 128;
/// Blobs being received at once.
const BLOBS_MAX: usize = 16;

/// The machine's end of one session's transport.
pub(crate) struct Connection {
    pub id: ConnId,
    pub certificate: Result<CertFacts, SessionEnd>,
    frames_tx: mpsc::Sender<Result<v1::GatewayFrame, Status>>,
    read_tx: mpsc::Sender<()>,
}

impl Connection {
    /// False when the agent does not take its frames.
    pub(crate) fn send(&self, frame: GatewayFrame) -> bool {
        self.frames_tx.try_send(Ok(frame.into())).is_ok()
    }

    /// Lets the reader take one more frame.
    pub(crate) fn read_one(&self) {
        if self.read_tx.try_send(()).is_err() {
            tracing::trace!("a reader was already allowed to read, or is gone");
        }
    }
}

pub(crate) struct NodeApi {
    keys: GatewayKeys,
    store: Store,
    inputs_tx: mpsc::Sender<FromConnection>,
    next_conn: AtomicU64,
    relay: Relay,
    blob_dir: Arc<PathBuf>,
    blobs: Arc<Semaphore>,
    metrics: GatewayMetrics,
}

impl NodeApi {
    pub(crate) fn new(options: &GatewayOptions, inputs_tx: mpsc::Sender<FromConnection>, relay: Relay) -> Self {
        Self {
            keys: options.keys.clone(),
            store: options.store.clone(),
            inputs_tx,
            next_conn: AtomicU64::new(1),
            relay,
            blob_dir: Arc::new(options.blob_dir.clone()),
            blobs: Arc::new(Semaphore::new(BLOBS_MAX)),
            metrics: options.metrics.clone(),
        }
    }

    /// Who the client proved to be, with expired certificates told apart.
    fn client(&self, request: &Request<impl Sized>) -> Result<VerifiedNode, SessionEnd> {
        let certificates = request.peer_certs().ok_or(SessionEnd::ProtocolError)?;
        let leaf = certificates.first().ok_or(SessionEnd::ProtocolError)?;
        let now_ms = stdx::clock::wall_unix_ms();
        verify_node_chain(leaf, &self.keys.public.node_trust(), now_ms, RENEW_GRACE_MS).map_err(|error| match error {
            NodeVerifyError::WrongFleet => SessionEnd::WrongFleet,
            NodeVerifyError::Expired { .. } => SessionEnd::CertificateExpired,
            NodeVerifyError::Malformed(_) | NodeVerifyError::Unfit | NodeVerifyError::NotYetValid { .. } => {
                SessionEnd::ProtocolError
            }
        })
    }

    fn session_client(&self, request: &Request<impl Sized>) -> Result<CertFacts, SessionEnd> {
        let verified = self.client(request)?;
        if verified.standing == Standing::InGrace {
            return Err(SessionEnd::CertificateExpired);
        }
        let certificate = verified.certificate;
        Ok(CertFacts {
            node_id: certificate.node_id,
            serial: certificate.serial_hex,
            role: certificate.role,
            allowed_kinds: certificate.allowed_kinds,
            not_after_ms: certificate.not_after_ms,
        })
    }
}

#[tonic::async_trait]
impl v1::node_service_server::NodeService for NodeApi {
    type SessionStream = ReceiverStream<Result<v1::GatewayFrame, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<v1::AgentFrame>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let certificate = self.session_client(&request);
        let id = ConnId(self.next_conn.fetch_add(1, Ordering::Relaxed));
        let (frames_tx, frames_rx) = mpsc::channel(FRAMES_OUT_MAX);
        let (read_tx, read_rx) = mpsc::channel(1);
        let connection = Connection { id, certificate, frames_tx, read_tx };
        let stopped = |_| Status::unavailable("the gateway stops");
        self.inputs_tx.send(FromConnection::Opened(connection)).await.map_err(stopped)?;
        tokio::spawn(read(id, request.into_inner(), read_rx, self.inputs_tx.clone()));
        Ok(Response::new(ReceiverStream::new(frames_rx)))
    }

    async fn put_blob(&self, request: Request<Streaming<v1::BlobChunk>>) -> Result<Response<v1::BlobReceipt>, Status> {
        let client = self.session_client(&request).map_err(|code| Status::unauthenticated(code.name()))?;
        let busy = |_| Status::resource_exhausted("the gateway stops");
        let permit = self.blobs.clone().acquire_owned().await.map_err(busy)?;
        let received = receive_blob(&self.store, &self.blob_dir, client.node_id, request.into_inner()).await;
        drop(permit);
        let sha256 = received?;
        self.metrics.blobs_stored.inc();
        Ok(Response::new(v1::BlobReceipt { sha256 }))
    }

    async fn join(&self, request: Request<v1::JoinRequest>) -> Result<Response<v1::JoinReply>, Status> {
        let request = request.into_inner();
        let csr_sha256 = stdx::hex::sha256(&request.csr);
        self.relay.ask(RelayKind::Join, csr_sha256, request).await.map(Response::new)
    }

    async fn renew(&self, request: Request<v1::RenewRequest>) -> Result<Response<v1::JoinReply>, Status> {
        // JoinService verifies the request's own signature; a client that proves no key is not relayed.
        self.client(&request).map_err(|code| Status::unauthenticated(code.name()))?;
        let request = request.into_inner();
        let body = request.signed.as_ref().map(|signed| signed.body.as_slice()).unwrap_or_default();
        let digest = stdx::hex::sha256(body);
        self.relay.ask(RelayKind::Renew, digest, request).await.map(Response::new)
    }
}

/// Reads one frame each time the machine can take one.
async fn read(
    conn: ConnId,
    mut frames: Streaming<v1::AgentFrame>,
    mut read_rx: mpsc::Receiver<()>,
    inputs_tx: mpsc::Sender<FromConnection>,
) {
    loop {
        // The machine allows one frame, or has let go of the connection.
        let Some(()) = read_rx.recv().await else { return };
        let received = frames.next().await;
        let input = match received {
            Some(Ok(frame)) => match AgentFrame::try_from(frame) {
                Ok(frame) => Input::Frame { conn, frame },
                Err(error) => {
                    tracing::warn!(%error, "an agent sent a frame that breaks the protocol");
                    Input::BadFrame { conn, code: SessionEnd::ProtocolError }
                }
            },
            Some(Err(status)) => match bad_frame(&status) {
                Some(code) => Input::BadFrame { conn, code },
                None => Input::Closed { conn },
            },
            None => Input::Closed { conn },
        };
        let is_last = !matches!(input, Input::Frame { .. });
        if inputs_tx.send(FromConnection::Input(input)).await.is_err() || is_last {
            return;
        }
    }
}

/// tonic says `OutOfRange` for a message above the decoding limit and `Internal` for one that does not decode.
fn bad_frame(status: &Status) -> Option<SessionEnd> {
    match status.code() {
        tonic::Code::OutOfRange => Some(SessionEnd::FrameTooLarge),
        tonic::Code::Internal => Some(SessionEnd::ProtocolError),
        _ => None,
    }
}

/// Takes a blob into a file under its digest; the file appears only whole and verified.
async fn receive_blob(
    store: &Store,
    directory: &Arc<PathBuf>,
    node: NodeId,
    mut chunks: Streaming<v1::BlobChunk>,
) -> Result<String, Status> {
    let Some(v1::blob_chunk::Part::Header(header)) = chunks.message().await?.and_then(|chunk| chunk.part) else {
        return Err(Status::invalid_argument("the first part of a blob is its header"));
    };
    let is_digest = stdx::hex::decode(&header.sha256).is_some_and(|bytes| bytes.len() == 32);
    if !is_digest || header.size == 0 || header.size > limits::BLOB_BYTES_MAX {
        return Err(Status::invalid_argument("a blob has a SHA-256 in lower-case hex and 1 byte to 64 MiB"));
    }
    let command = CommandId::parse(&header.command_id).map_err(|error| Status::invalid_argument(error.to_string()))?;
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.message().await? {
        let Some(v1::blob_chunk::Part::Data(data)) = chunk.part else {
            return Err(Status::invalid_argument("a blob has one header"));
        };
        if data.len() > limits::BLOB_CHUNK_BYTES_MAX || (bytes.len() + data.len()) as u64 > header.size {
            return Err(Status::invalid_argument("more data than the header says, or a chunk above 256 KiB"));
        }
        bytes.extend_from_slice(&data);
    }
    if bytes.len() as u64 != header.size || stdx::hex::sha256_hex(&bytes) != header.sha256 {
        return Err(Status::data_loss("the blob is not what its header says; send it again"));
    }
    let (path, sha256, size) = (directory.join(&header.sha256), header.sha256.clone(), header.size);
    tokio::task::spawn_blocking(move || stdx::durable::write_file(&path, &bytes, 0o600))
        .await
        .map_err(|error| Status::internal(error.to_string()))?
        .map_err(|error| Status::unavailable(stdx::error::chain(&error)))?;
    let indexed = sha256.clone();
    store
        .write(move |tx| kernel::blobs::put(tx, &indexed, size, &node, &command))
        .await
        .map_err(|error: kernel::db::StoreError| Status::unavailable(error.to_string()))
        .and_then(|is_known| {
            is_known.then_some(sha256).ok_or_else(|| Status::not_found("the command is not this node's"))
        })
}
