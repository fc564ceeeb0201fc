//! `GET {basePath}/watch`: the outbox as server-sent events, in position order, without gap or double.
//!
//! The stream first says where it stands (`event: position`), then sends each event with its position
//! as `id:`. A reader that reconnects sends `Last-Event-ID` and goes on from there. Between events it
//! waits on the hint bus with a timer behind it, since hints may be lost; comments keep it alive.

use crate::auth::{self, Caller};
use crate::refusal::Refusal;
use crate::service::Shared;
use crate::shape;
use api_types::ErrorCode;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use futures_util::stream;
use kernel::db::Hint;
use kernel::outbox::{self, Filter, ReadError};
use serde::Deserialize;
use serde_json::json;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::time::Instant;

/// Open streams of one process.
pub(crate) const WATCHES_MAX: i64 = 1024;
/// Rows of one read.
const BATCH: u32 = 256;
/// The outbox is looked at this often without a hint.
const POLL: Duration = Duration::from_secs(1);
/// A comment at least this often; the caller's token is checked again then.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The query of a watch. Unknown keys are refused, as in every request.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WatchQuery {
    topic: Option<String>,
    node_id: Option<String>,
    cursor: Option<String>,
}

/// Opens the stream, or refuses with the error shape before anything is sent.
pub(crate) async fn open(
    shared: &Arc<Shared>,
    caller: Caller,
    query: WatchQuery,
    headers: &HeaderMap,
) -> Result<Response, Refusal> {
    let after = cursor(&query, headers)?;
    let scope = caller.tenant.clone();
    let (topic, node) = (query.topic, query.node_id);
    let opened = shared.store.read(move |tx| {
        let filter = shape::event_filter(tx, &scope, topic.as_deref(), node.as_deref())?;
        let position = match after {
            Some(after) => outbox::read(tx, after, 1, &filter).map(|_| after).map_err(expired)?,
            None => outbox::head(tx)?,
        };
        Ok::<_, Refusal>((filter, position))
    });
    let (filter, position) = opened.await?;
    if shared.metrics.watches.inc() >= WATCHES_MAX {
        shared.metrics.watches.dec();
        return Err(Refusal::new(ErrorCode::Unavailable, format!("{WATCHES_MAX} watches are open; try again later")));
    }
    let mut follower = Follower {
        shared: shared.clone(),
        caller,
        filter,
        position,
        ready: VecDeque::new(),
        hints: shared.store.hints().subscribe(),
        keep_alive_at: Instant::now() + KEEP_ALIVE,
    };
    follower.ready.push_back(format!(
        ": better-compute events\nevent: position\nid: {position}\ndata: {}\n\n",
        json!({ "position": position })
    ));
    let stream = stream::unfold(follower, |mut follower| async move {
        let text = follower.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(text)), follower))
    });
    let mut response = Response::new(Body::from_stream(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

fn cursor(query: &WatchQuery, headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    let header = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?").to_owned());
    let Some(text) = header.or_else(|| query.cursor.clone()) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| Refusal::invalid(format!("the cursor {text:?} is not a position")))
}

pub(crate) fn expired(error: ReadError) -> Refusal {
    match error {
        ReadError::CursorExpired { after, oldest } => {
            let message = format!(
                "events after position {after} are not here: the oldest position to go on from is {oldest}; read the state again and watch from there"
            );
            Refusal::new(ErrorCode::CursorExpired, message).with(json!({ "oldest": oldest }))
        }
        ReadError::Store(error) => error.into(),
    }
}

struct Follower {
    shared: Arc<Shared>,
    caller: Caller,
    filter: Filter,
    position: u64,
    ready: VecDeque<String>,
    hints: broadcast::Receiver<Hint>,
    keep_alive_at: Instant,
}

impl Follower {
    /// The next piece of the stream; `None` ends it, and the reader comes back by itself.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(text) = self.ready.pop_front() {
                self.keep_alive_at = Instant::now() + KEEP_ALIVE;
                return Some(text);
            }
            if self.shared.is_draining() {
                return None;
            }
            if !self.read().await? {
                self.wait().await;
            }
            if self.ready.is_empty() && Instant::now() >= self.keep_alive_at {
                if auth::still_valid(&self.shared.store, &self.caller).await.is_err() {
                    return None;
                }
                self.ready.push_back(": keep-alive\n\n".to_owned());
            }
        }
    }

    /// Reads one batch. Whether more may be there already; `None` when the stream cannot go on.
    async fn read(&mut self) -> Option<bool> {
        let (after, filter) = (self.position, self.filter.clone());
        let page = self.shared.store.read(move |tx| outbox::read(tx, after, BATCH, &filter)).await;
        let page = match page {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(error = %error, "a watch ends because the outbox cannot be read");
                return None;
            }
        };
        self.position = page.next;
        for event in page.events {
            let mut text = String::new();
            let event = shape::event(event);
            let data = serde_json::to_string(&event).ok()?;
            write!(text, "id: {}\ndata: {data}\n\n", event.position).ok()?;
            self.ready.push_back(text);
        }
        Some(!page.at_end)
    }

    /// Until a hint, the poll, the next comment or the drain.
    async fn wait(&mut self) {
        if !self.ready.is_empty() {
            return;
        }
        let until = (Instant::now() + POLL).min(self.keep_alive_at);
        let mut draining = self.shared.draining.subscribe();
        loop {
            tokio::select! {
                // Cancel-safe: a hint that is lost is made up for by the timer.
                hint = self.hints.recv() => match hint {
                    Ok(Hint::Outbox) | Err(broadcast::error::RecvError::Lagged(_)) => return,
                    Ok(_) => {}
                    Err(broadcast::error::RecvError::Closed) => {
                        tokio::time::sleep_until(until).await;
                        return;
                    }
                },
                // Cancel-safe: the value stays changed.
                () = drained(&mut draining) => return,
                () = tokio::time::sleep_until(until) => return,
            }
        }
    }
}

/// Ends once the process drains. The borrowed value is not held across the caller's `select!`.
async fn drained(draining: &mut tokio::sync::watch::Receiver<bool>) {
    draining.wait_for(|draining| *draining).await.map(|_| ()).unwrap_or_default();
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.metrics.watches.dec();
    }
}
