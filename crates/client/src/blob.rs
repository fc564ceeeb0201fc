//! Blobs: output of a command that is too large for its result.

use crate::call::{checked, is_worth_repeating, read_bounded, unreachable};
use crate::{Client, ClientError};

/// Largest blob, bytes; the node sends none that is larger.
const BLOB_BYTES_MAX: usize = 64 << 20;

impl Client {
    /// The bytes whose SHA-256 is `sha256` (64 lower-case hex digits), checked.
    pub async fn blob(&self, sha256: &str) -> Result<Vec<u8>, ClientError> {
        let url = format!("{}/blobs/{sha256}", self.base);
        let mut backoff = self.retry.backoff();
        loop {
            let failure = match self.blob_once(&url, sha256).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => error,
            };
            let delay = backoff.next_full_jitter(&mut rand::rng());
            if backoff.attempts() >= self.retry.attempts_max || !is_worth_repeating(&failure) {
                return Err(failure);
            }
            tokio::time::sleep(delay).await;
        }
    }

    async fn blob_once(&self, url: &str, sha256: &str) -> Result<Vec<u8>, ClientError> {
        let response = self.http.get(url).send().await.map_err(|source| unreachable(url, source))?;
        if !response.status().is_success() {
            return checked(url, response).await.map(|(_, body)| body);
        }
        let bytes = read_bounded(url, response, BLOB_BYTES_MAX).await?;
        let actual = stdx::hex::sha256_hex(&bytes);
        if actual != sha256 {
            return Err(ClientError::BlobDigest { expected: sha256.to_owned(), actual });
        }
        Ok(bytes)
    }
}
