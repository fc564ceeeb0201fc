//! `GET {basePath}/blobs/{sha256}`: output of a command, streamed from the blob directory. Which blobs a
//! caller may see is decided by the commands that brought them.

use crate::auth::Caller;
use crate::refusal::Refusal;
use crate::service::Shared;
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use std::path::{Path, PathBuf};
use tokio_util::io::ReaderStream;

/// Bytes of one piece.
const CHUNK_BYTES: usize = 64 << 10;

/// Where a blob lies: by its digest, whoever wrote it.
fn path(directory: &Path, sha256: &str) -> PathBuf {
    directory.join(sha256)
}

/// The blob, if a command of the caller's tenant brought it.
pub(crate) async fn open(shared: &Shared, caller: &Caller, sha256: &str) -> Result<Response, Refusal> {
    if !is_digest(sha256) {
        return Err(Refusal::invalid("a blob is named by 64 lower-case hex digits, its SHA-256"));
    }
    let (digest, tenant) = (sha256.to_owned(), caller.tenant.clone());
    let found = shared.store.read(move |tx| {
        for blob in kernel::blobs::find(tx, &digest)? {
            let command = kernel::commands::get(tx, &blob.command)?;
            if command.is_some_and(|command| command.tenant == tenant) {
                return Ok::<_, Refusal>(Some(blob.size));
            }
        }
        Ok(None)
    });
    let size = found.await?.ok_or_else(|| Refusal::not_found("blob", sha256))?;
    stream(shared, sha256, size).await
}

/// Streams a blob that the index already said the caller may see.
async fn stream(shared: &Shared, sha256: &str, size: u64) -> Result<Response, Refusal> {
    let path = path(&shared.blobs, sha256);
    let file = match tokio::fs::File::open(&path).await {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            tracing::error!(%sha256, "a blob of the index is not in the blob directory");
            return Err(Refusal::not_found("blob", sha256));
        }
        Err(error) => {
            let message = format!("cannot open the blob {sha256}: {error}");
            return Err(Refusal::new(api_types::ErrorCode::Unavailable, message));
        }
    };
    let mut response = Response::new(Body::from_stream(ReaderStream::with_capacity(file, CHUNK_BYTES)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, immutable, max-age=86400"));
    Ok(response)
}

/// 64 lower-case hex digits, and nothing that could name another file.
fn is_digest(text: &str) -> bool {
    text.len() == 64 && stdx::hex::decode(text).is_some()
}
