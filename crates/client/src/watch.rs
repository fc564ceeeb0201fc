//! `/watch`, followed: every event once and in order, across lost connections and restarts of the
//! control plane, because each reconnect goes on from the last position seen.

use crate::call::{is_worth_repeating, read_bounded, refusal, unreachable};
use crate::sse::{SseEvent, SseParser};
use crate::{Client, ClientError};
use api_types::Event;
use std::collections::VecDeque;
use std::time::Duration;

/// Failures in a row after which `next` gives up and says why.
const FAILURES_MAX: u32 = 12;
const RECONNECT_FIRST: Duration = Duration::from_millis(250);
const RECONNECT_MOST: Duration = Duration::from_secs(10);
/// Largest refusal read from a watch, bytes.
const REFUSAL_BYTES_MAX: usize = 1 << 20;

/// Which events, and from where.
#[derive(Clone, Debug, Default)]
pub struct WatchFilter {
    /// A topic, or a prefix of topics that ends in a dot.
    pub topic: Option<String>,
    /// An id or a unique name.
    pub node_id: Option<String>,
    /// The last position already seen; `None` starts at what happens from now on.
    pub after: Option<u64>,
}

/// What a watch yields.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchItem {
    /// The stream stands, and everything after this position will come. Read state after this, not before.
    Ready {
        position: u64,
    },
    Event(Box<Event>),
}

/// An open watch. Dropping it closes the connection.
pub struct Watch {
    client: Client,
    filter: WatchFilter,
    position: Option<u64>,
    stream: Option<(reqwest::Response, SseParser)>,
    ready: VecDeque<WatchItem>,
    backoff: stdx::backoff::Backoff,
}

impl Client {
    pub fn watch(&self, filter: WatchFilter) -> Watch {
        Watch {
            client: self.clone(),
            position: filter.after,
            filter,
            stream: None,
            ready: VecDeque::new(),
            backoff: stdx::backoff::Backoff::new(RECONNECT_FIRST, RECONNECT_MOST),
        }
    }
}

impl Watch {
    /// The next item. Cancel-safe: what was read is kept. An error is final for this position: `CURSOR_EXPIRED`
    /// means that events were missed for good.
    pub async fn next(&mut self) -> Result<WatchItem, ClientError> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(item);
            }
            let Err(error) = self.read_more().await else { continue };
            self.stream = None;
            let delay = self.backoff.next_full_jitter(&mut rand::rng());
            if self.backoff.attempts() >= FAILURES_MAX || !is_worth_repeating(&error) {
                return Err(error);
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// The last position seen.
    pub fn position(&self) -> Option<u64> {
        self.position
    }

    async fn read_more(&mut self) -> Result<(), ClientError> {
        if self.stream.is_none() {
            let response = self.connect().await?;
            self.stream = Some((response, SseParser::default()));
        }
        let Some((response, parser)) = &mut self.stream else { return Ok(()) };
        let chunk = response.chunk().await.map_err(|source| unreachable(&self.client.base, source))?;
        let Some(chunk) = chunk else {
            // The server drains: it closed the stream in order, and the next one is reached at once.
            self.stream = None;
            return Ok(());
        };
        let events = parser.push(&chunk)?;
        for event in events {
            self.take(event)?;
        }
        Ok(())
    }

    async fn connect(&self) -> Result<reqwest::Response, ClientError> {
        let url = format!("{}/watch", self.client.base);
        let mut query: Vec<(&str, String)> = Vec::new();
        query.extend(self.filter.topic.iter().map(|topic| ("topic", topic.clone())));
        query.extend(self.filter.node_id.iter().map(|node| ("nodeId", node.clone())));
        let full = reqwest::Url::parse_with_params(&url, &query)
            .map_err(|_| ClientError::BadUrl { url: url.clone(), reason: "it does not parse" })?;
        let mut request = self.client.http.get(full).header("accept", "text/event-stream");
        if let Some(position) = self.position {
            request = request.header("last-event-id", position.to_string());
        }
        let response = request.send().await.map_err(|source| unreachable(&url, source))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = read_bounded(&url, response, REFUSAL_BYTES_MAX).await?;
        Err(refusal(&url, status, &body))
    }

    fn take(&mut self, event: SseEvent) -> Result<(), ClientError> {
        let position: u64 = event.id.parse().map_err(|_| ClientError::Stream("an id is not a position"))?;
        self.backoff.reset();
        if event.event == "position" {
            self.position = Some(self.position.map_or(position, |seen| seen.max(position)));
            self.ready.push_back(WatchItem::Ready { position });
            return Ok(());
        }
        if self.position.is_some_and(|seen| position <= seen) {
            return Ok(());
        }
        let event: Event =
            serde_json::from_str(&event.data).map_err(|source| ClientError::Decode { verb: "watch", source })?;
        self.position = Some(position);
        self.ready.push_back(WatchItem::Event(Box::new(event)));
        Ok(())
    }
}
