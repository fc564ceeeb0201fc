//! One verb, called: encode, send, repeat what may be repeated, decode.

use crate::{Client, ClientError};
use api_types::{ErrorBody, ErrorCode, Request};
use reqwest::{Response, StatusCode};
use std::time::Duration;

/// One attempt, from the first byte sent to the last one read.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest answer of a verb, bytes.
const ANSWER_BYTES_MAX: usize = 32 << 20;

impl Client {
    /// Calls a verb: `client.call(&NodesList::default())`. The caller keeps a mutation's idempotency key to
    /// repeat it later; within this call it is repeated with the same one.
    pub async fn call<R: Request>(&self, request: &R) -> Result<R::Response, ClientError> {
        let body = serde_json::to_vec(request).map_err(ClientError::Encode)?;
        let answer = self.call_bytes(R::VERB, body).await?;
        serde_json::from_slice(&answer).map_err(|source| ClientError::Decode { verb: R::VERB, source })
    }

    async fn call_bytes(&self, verb: &'static str, body: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        let url = format!("{}/{verb}", self.base);
        let mut backoff = self.retry.backoff();
        loop {
            let failure = match self.attempt(&url, &body).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let delay = backoff.next_full_jitter(&mut rand::rng());
            if backoff.attempts() >= self.retry.attempts_max || !is_worth_repeating(&failure) {
                return Err(with_attempts(failure, backoff.attempts()));
            }
            tokio::time::sleep(delay).await;
        }
    }

    async fn attempt(&self, url: &str, body: &[u8]) -> Result<Vec<u8>, ClientError> {
        let sent = self
            .http
            .post(url)
            .header("content-type", "application/json")
            .timeout(ATTEMPT_TIMEOUT)
            .body(body.to_vec())
            .send()
            .await;
        let response = sent.map_err(|source| unreachable(url, source))?;
        checked(url, response).await.map(|(_, body)| body)
    }
}

/// The body of a success, or the error that an answer carries.
pub(crate) async fn checked(url: &str, response: Response) -> Result<(StatusCode, Vec<u8>), ClientError> {
    let status = response.status();
    let body = read_bounded(url, response, ANSWER_BYTES_MAX).await?;
    if status.is_success() {
        return Ok((status, body));
    }
    Err(refusal(url, status, &body))
}

pub(crate) fn refusal(url: &str, status: StatusCode, body: &[u8]) -> ClientError {
    match serde_json::from_slice::<ErrorBody>(body) {
        Ok(body) => ClientError::Refused(Box::new(body.error)),
        Err(_) => ClientError::NotTheApi { url: url.to_owned(), status: status.as_u16() },
    }
}

pub(crate) async fn read_bounded(url: &str, mut response: Response, bytes_max: usize) -> Result<Vec<u8>, ClientError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|source| unreachable(url, source))? {
        if body.len() + chunk.len() > bytes_max {
            return Err(ClientError::TooLong { bytes_max });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

pub(crate) fn unreachable(url: &str, source: reqwest::Error) -> ClientError {
    ClientError::Unreachable { url: url.to_owned(), attempts: 1, source: source.without_url() }
}

fn with_attempts(error: ClientError, attempts: u32) -> ClientError {
    match error {
        ClientError::Unreachable { url, source, .. } => ClientError::Unreachable { url, attempts, source },
        other => other,
    }
}

/// A lost connection, a proxy in front of nothing, or a control plane that says so itself.
pub(crate) fn is_worth_repeating(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } => true,
        ClientError::NotTheApi { status, .. } => matches!(status, 502..=504),
        ClientError::Refused(error) => error.code == ErrorCode::Unavailable,
        _ => false,
    }
}
