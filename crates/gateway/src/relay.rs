//! Joins and renewals pass through: the request's bytes go into the store, JoinService answers there,
//! and the answer's bytes go back. The gateway can open neither.

use crate::metrics::GatewayMetrics;
use kernel::db::{Hint, HintBus, Store};
use prost::Message;
use proto::v1::{self, join_reply};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tonic::Status;

pub(crate) use kernel::join::JoinKind as RelayKind;
use kernel::join::PutError;

/// A join request is small: a CSR, claims, a sealed token.
const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Requests waiting at once.
const WAITING_MAX: usize = 128;
/// How long a client waits for JoinService before it is told to come back.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// How often the store is asked when no hint comes.
const ASK_EVERY: Duration = Duration::from_millis(500);

pub(crate) struct Relay {
    store: Store,
    hints: HintBus,
    metrics: GatewayMetrics,
    waiting: Arc<Semaphore>,
}

impl Relay {
    pub(crate) fn new(store: Store, hints: HintBus, metrics: GatewayMetrics) -> Self {
        Self { store, hints, metrics, waiting: Arc::new(Semaphore::new(WAITING_MAX)) }
    }

    /// Waits for JoinService's answer. Without one in time the client is told to try again.
    pub(crate) async fn ask(
        &self,
        kind: RelayKind,
        csr_sha256: [u8; 32],
        request: impl Message,
    ) -> Result<v1::JoinReply, Status> {
        let bytes = request.encode_to_vec();
        if bytes.len() > REQUEST_BYTES_MAX {
            return Err(Status::invalid_argument("a join or renewal has at most 64 KiB"));
        }
        let Ok(permit) = self.waiting.try_acquire() else { return Ok(unavailable("too many joins at once")) };
        self.metrics.joins_relayed.inc();
        let reply = self.wait(kind, csr_sha256, bytes).await;
        drop(permit);
        match reply {
            Ok(Some(reply)) => {
                v1::JoinReply::decode(reply.as_slice()).map_err(|error| Status::internal(error.to_string()))
            }
            Ok(None) => Ok(unavailable("JoinService did not answer in time; it runs in the controllers role")),
            Err(error) => Ok(unavailable(&format!("the store failed: {error}"))),
        }
    }

    async fn wait(&self, kind: RelayKind, csr_sha256: [u8; 32], bytes: Vec<u8>) -> Result<Option<Vec<u8>>, PutError> {
        let mut hints_rx = self.hints.subscribe();
        let deadline = Instant::now() + ANSWER_WITHIN;
        let id = self.store.write(move |tx| kernel::join::join_request_put(tx, kind, &csr_sha256, &bytes)).await?;
        loop {
            let answer = self.store.read(move |tx| kernel::join::join_answer_get(tx, id)).await?;
            if answer.is_some() || Instant::now() >= deadline {
                return Ok(answer);
            }
            let ask_at = (Instant::now() + ASK_EVERY).min(deadline);
            loop {
                match tokio::time::timeout_at(ask_at, hints_rx.recv()).await {
                    Ok(Ok(Hint::Join)) | Err(_) => break,
                    // Another hint, or some were lost: the timer is behind them.
                    Ok(Ok(_) | Err(tokio::sync::broadcast::error::RecvError::Lagged(_))) => {}
                    Ok(Err(tokio::sync::broadcast::error::RecvError::Closed)) => {
                        tokio::time::sleep_until(ask_at).await;
                        break;
                    }
                }
            }
        }
    }
}

fn unavailable(message: &str) -> v1::JoinReply {
    let refused = v1::JoinRefused { code: "unavailable".to_owned(), message: message.to_owned(), retryable: true };
    v1::JoinReply { reply: Some(join_reply::Reply::Refused(refused)) }
}
