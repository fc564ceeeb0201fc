//! `logs.collect`: an archive grows in a file without a name, its digest is taken as it grows, and it goes to
//! the gateway in chunks over a connection of its own. The digest is in the signed result.

use super::{Context, failed, succeeded};
use crate::clock::AgentClock;
use crate::keeper::Keeper;
use crate::transport::{self, ConnectError, Gateway};
use aws_lc_rs::digest;
use host::{Host, HostError, LogsRequest, LogsSummary};
use model::limits::{BLOB_BYTES_MAX, BLOB_CHUNK_BYTES_MAX};
use model::{CommandId, FailCode};
use node_core::{Work, WorkResult};
use proto::v1;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// One upload, connection included.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Uploads tried before the command fails.
const UPLOADS_MAX: u32 = 3;
const UPLOAD_PAUSE: Duration = Duration::from_secs(2);
/// Chunks read ahead of the network.
const CHUNKS_AHEAD: usize = 2;
const WRITE_BUFFER_BYTES: usize = 64 << 10;
/// What could not be collected, as lines of the result.
const PROBLEMS_MAX: usize = 256;
const PROBLEM_BYTES_MAX: usize = 256;

#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    #[error("the gateway cannot be reached")]
    Connect(#[from] ConnectError),
    #[error("the gateway refused the blob")]
    Call(#[source] Box<tonic::Status>),
    #[error("the upload took more than {} seconds", UPLOAD_TIMEOUT.as_secs())]
    Timeout,
    #[error("the gateway received other bytes than were sent")]
    Receipt,
}

/// Sends blobs with the node's certificate.
#[derive(Clone, Debug)]
pub struct Uploader {
    pub keeper: Keeper,
    pub gateway: Gateway,
    pub clock: AgentClock,
}

/// Bytes in a file without a name.
struct Spooled {
    file: File,
    bytes: u64,
    sha256: String,
    summary: LogsSummary,
}

pub async fn collect(context: &Arc<Context>, work: &Work) -> WorkResult {
    let request: v1::LogsCollectRequest = match proto::unpack(&work.payload) {
        Ok(request) => request,
        Err(error) => return failed(FailCode::InvalidPayload, stdx::error::chain(&error)),
    };
    let on_host = context.clone();
    let spooling = tokio::task::spawn_blocking(move || spool(&*on_host.host, request.since_s, &on_host.spool_dir));
    let spooled = match spooling.await {
        Ok(Ok(spooled)) => spooled,
        Ok(Err(HostError { code, message })) => {
            return WorkResult::Failed { code: code.to_owned(), message, value: None };
        }
        Err(_) => return failed(FailCode::Internal, "the worker panicked"),
    };
    if spooled.bytes == 0 || spooled.bytes > BLOB_BYTES_MAX {
        let message = format!("the archive has {} bytes, 1 to {BLOB_BYTES_MAX} are sent", spooled.bytes);
        return failed(FailCode::ResultTooLarge, message);
    }
    let spooled = Arc::new(spooled);
    for attempt in 1.. {
        match context.uploader.send(&work.id, &spooled).await {
            Ok(()) => break,
            Err(error) if attempt == UPLOADS_MAX => return failed(FailCode::Internal, stdx::error::chain(&error)),
            Err(error) => {
                tracing::warn!(command_id = %work.id, error = stdx::error::chain(&error), "the upload is tried again");
                tokio::time::sleep(UPLOAD_PAUSE).await;
            }
        }
    }
    let problems = spooled.summary.problems.iter().take(PROBLEMS_MAX);
    succeeded(proto::pack(&v1::LogsCollectResult {
        blob_sha256: spooled.sha256.clone(),
        blob_bytes: spooled.bytes,
        problems: problems.map(|problem| host::bounds::clean_to(problem, PROBLEM_BYTES_MAX)).collect(),
    }))
}

fn spool(host: &dyn Host, since_s: u32, directory: &Path) -> Result<Spooled, HostError> {
    let internal = |error: io::Error| HostError::internal(&error);
    let file = nameless_file(directory).map_err(internal)?;
    let hashed = Hashed { file, bytes: 0, context: digest::Context::new(&digest::SHA256) };
    let mut writer = BufWriter::with_capacity(WRITE_BUFFER_BYTES, hashed);
    let request = LogsRequest { since_s, files: Vec::new() };
    let summary = host.collect_logs(&request, &mut writer)?;
    let hashed = writer.into_inner().map_err(|error| internal(error.into_error()))?;
    let sha256 = stdx::hex::encode(hashed.context.finish().as_ref());
    Ok(Spooled { file: hashed.file, bytes: hashed.bytes, sha256, summary })
}

fn nameless_file(directory: &Path) -> io::Result<File> {
    let path = directory.join(format!(".spool-{:016x}", rand::random::<u64>()));
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

struct Hashed {
    file: File,
    bytes: u64,
    context: digest::Context,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.context.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Uploader {
    async fn send(&self, id: &CommandId, spooled: &Arc<Spooled>) -> Result<(), UploadError> {
        tokio::time::timeout(UPLOAD_TIMEOUT, self.send_once(id, spooled)).await.map_err(|_| UploadError::Timeout)?
    }

    async fn send_once(&self, id: &CommandId, spooled: &Arc<Spooled>) -> Result<(), UploadError> {
        let tls = self.keeper.credentials().tls();
        let mut client = transport::connect(&self.gateway, Some(&tls), &self.clock).await?;
        let (chunk_tx, chunk_rx) = mpsc::channel(CHUNKS_AHEAD);
        let header = v1::BlobHeader { command_id: id.to_string(), sha256: spooled.sha256.clone(), size: spooled.bytes };
        let source = spooled.clone();
        let reading = tokio::task::spawn_blocking(move || read_chunks(&source, header, &chunk_tx));
        let receipt = client.put_blob(ReceiverStream::new(chunk_rx)).await;
        // A refused upload drops the receiver, which ends the reader.
        if let Ok(Err(error)) = reading.await {
            tracing::warn!(command_id = %id, error = %error, "the archive cannot be read back");
        }
        let receipt = receipt.map_err(|status| UploadError::Call(Box::new(status)))?;
        if receipt.into_inner().sha256 == spooled.sha256 { Ok(()) } else { Err(UploadError::Receipt) }
    }
}

fn read_chunks(spooled: &Spooled, header: v1::BlobHeader, chunks: &mpsc::Sender<v1::BlobChunk>) -> io::Result<()> {
    let mut part = v1::blob_chunk::Part::Header(header);
    let mut offset = 0;
    loop {
        if chunks.blocking_send(v1::BlobChunk { part: Some(part) }).is_err() || offset == spooled.bytes {
            return Ok(());
        }
        let mut bytes = vec![0; (spooled.bytes - offset).min(BLOB_CHUNK_BYTES_MAX as u64) as usize];
        spooled.file.read_exact_at(&mut bytes, offset)?;
        offset += bytes.len() as u64;
        part = v1::blob_chunk::Part::Data(bytes);
    }
}
