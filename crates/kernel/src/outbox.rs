//! What changed, for whoever must hear of it. An operation publishes inside its own transaction; a
//! leased sequencer gives committed rows their positions; readers follow positions, so that no
//! cursor ever skips a row.
//!
//! Not here: delivering (webhooks, `/watch`) and who may see which row.

use crate::db::{Hint, Row, StoreError, Tx, args};
use model::limits::OUTBOX_KEPT_MS;
use model::{ServerTimeMs, TenantId};
use serde_json::Value;

/// Rows one read looks at, whatever its filter lets through.
pub const READ_ROWS_MAX: u32 = 1000;

/// A change to publish.
#[derive(Clone, Debug)]
pub struct EventRow<'a> {
    /// As `command.settled`.
    pub topic: &'a str,
    /// Whose it is.
    pub tenant: &'a TenantId,
    /// The id of the object it is about.
    pub key: &'a str,
    pub payload: Value,
}

/// A published change with its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub position: u64,
    pub topic: String,
    pub tenant: TenantId,
    pub key: String,
    pub payload: Value,
    pub at: ServerTimeMs,
}

/// Which rows a reader wants. Empty lists let everything through.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// A topic, or a prefix that ends in a dot.
    pub topics: Vec<String>,
    pub tenants: Vec<TenantId>,
    /// The object a row is about, or the node its payload names (`nodeId`).
    pub about: Option<String>,
}

/// Rows after a cursor, and the cursor to go on from.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    pub events: Vec<Event>,
    pub next: u64,
    /// Whether the newest position has been looked at.
    pub at_end: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// `CURSOR_EXPIRED`: the rows after it are no longer kept, or it was never given out.
    #[error("the cursor {after} is no longer valid: start again after position {oldest}")]
    CursorExpired { after: u64, oldest: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Writes a change into the caller's transaction.
pub fn publish(tx: &mut Tx<'_>, event: &EventRow<'_>) -> Result<(), StoreError> {
    let now = tx.now()?;
    tx.execute(
        "INSERT INTO outbox (topic, tenant_id, key, payload, at) VALUES (?1, ?2, ?3, ?4, ?5)",
        args![event.topic, event.tenant, event.key, event.payload.to_string(), now],
    )?;
    tx.hint(Hint::Outbox);
    Ok(())
}

/// Gives up to `limit` committed rows their positions, in commit order. Returns how many.
pub fn sequence(tx: &mut Tx<'_>, limit: u32) -> Result<usize, StoreError> {
    let last = positions(tx)?.0;
    let rows: Vec<i64> =
        tx.query("SELECT n FROM outbox WHERE position IS NULL ORDER BY n LIMIT ?1", args![limit], |row| row.take())?;
    for (row, position) in rows.iter().zip(last + 1..) {
        tx.execute("UPDATE outbox SET position = ?2 WHERE n = ?1", args![row, position])?;
    }
    if !rows.is_empty() {
        tx.execute("UPDATE outbox_positions SET last = ?1 WHERE one = 1", args![last + rows.len() as u64])?;
        tx.hint(Hint::Outbox);
    }
    Ok(rows.len())
}

/// The newest position.
pub fn head(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    Ok(positions(tx)?.0)
}

/// Up to `limit` rows after `after` that pass `filter`.
pub fn read(tx: &mut Tx<'_>, after: u64, limit: u32, filter: &Filter) -> Result<Page, ReadError> {
    let (last, pruned) = positions(tx)?;
    if after < pruned || after > last {
        return Err(ReadError::CursorExpired { after, oldest: pruned });
    }
    let rows = tx.query(
        "SELECT position, topic, tenant_id, key, payload, at FROM outbox
         WHERE position > ?1 ORDER BY position LIMIT ?2",
        args![after, READ_ROWS_MAX],
        read_event,
    )?;
    let mut page = Page { events: Vec::new(), next: after, at_end: false };
    for event in rows {
        if page.events.len() >= limit as usize {
            break;
        }
        page.next = event.position;
        if filter.admits(&event) {
            page.events.push(event);
        }
    }
    page.at_end = page.next == last;
    Ok(page)
}

/// Deletes up to `limit` rows that are older than 30 days, oldest first. Returns how many.
pub fn prune(tx: &mut Tx<'_>, limit: u32) -> Result<usize, StoreError> {
    let horizon = tx.now()?.plus(-OUTBOX_KEPT_MS);
    let old: Vec<(u64, ServerTimeMs)> = tx.query(
        "SELECT position, at FROM outbox WHERE position IS NOT NULL ORDER BY position LIMIT ?1",
        args![limit],
        |row| Ok((row.take()?, row.take()?)),
    )?;
    // Only a leading run goes, so that what is kept has no hole.
    let old: Vec<u64> = old.into_iter().take_while(|(_, at)| *at < horizon).map(|(position, _)| position).collect();
    let Some(newest) = old.last() else { return Ok(0) };
    tx.execute("DELETE FROM outbox WHERE position <= ?1", args![newest])?;
    tx.execute("UPDATE outbox_positions SET pruned = ?1 WHERE one = 1", args![newest])?;
    Ok(old.len())
}

fn positions(tx: &mut Tx<'_>) -> Result<(u64, u64), StoreError> {
    tx.query_one("SELECT last, pruned FROM outbox_positions WHERE one = 1", &[], |row| Ok((row.take()?, row.take()?)))
}

fn read_event(row: &mut Row<'_>) -> Result<Event, StoreError> {
    let (position, topic, tenant, key) = (row.take()?, row.take()?, row.take()?, row.take()?);
    let payload: String = row.take()?;
    let payload = serde_json::from_str(&payload)
        .map_err(|error| StoreError::Corrupt(format!("the payload of position {position}: {error}")))?;
    Ok(Event { position, topic, tenant, key, payload, at: row.take()? })
}

impl Filter {
    fn admits(&self, event: &Event) -> bool {
        let topic = self.topics.is_empty() || self.topics.iter().any(|wanted| topic_matches(wanted, &event.topic));
        let tenant = self.tenants.is_empty() || self.tenants.contains(&event.tenant);
        let about = self.about.as_ref().is_none_or(|id| {
            event.key == *id || event.payload.get("nodeId").and_then(Value::as_str) == Some(id.as_str())
        });
        topic && tenant && about
    }
}

fn topic_matches(wanted: &str, topic: &str) -> bool {
    if wanted.ends_with('.') { topic.starts_with(wanted) } else { topic == wanted }
}
