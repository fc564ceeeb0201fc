//! `events.list`: the outbox in pages. `/watch` follows the same rows.

use crate::call::{Call, Handle};
use crate::page;
use crate::refusal::Refusal;
use crate::{shape, watch};
use api_types::*;
use kernel::db::Tx;
use kernel::outbox;

impl Handle for EventsList {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<EventPage, Refusal> {
        let limit = page::limit(self.limit)?;
        let filter = shape::event_filter(tx, &call.tenant, self.topic.as_deref(), self.node_id.as_deref())?;
        let mut after = match page::number(self.cursor.as_deref())? {
            Some(after) => after,
            None => oldest(tx)?,
        };
        let mut items = Vec::new();
        // A read looks at a bounded number of rows, whatever the filter lets through.
        loop {
            let left = limit - items.len() as u32;
            let page = outbox::read(tx, after, left, &filter).map_err(watch::expired)?;
            after = page.next;
            items.extend(page.events.into_iter().map(shape::event));
            if page.at_end {
                return Ok(EventPage { items, next_cursor: None });
            }
            if items.len() >= limit as usize {
                return Ok(EventPage { items, next_cursor: Some(after.to_string()) });
            }
        }
    }

    fn resource(&self) -> String {
        "compute-event/*".to_owned()
    }
}

/// The position before the oldest kept event.
fn oldest(tx: &mut Tx<'_>) -> Result<u64, Refusal> {
    match outbox::read(tx, 0, 1, &outbox::Filter::default()) {
        Ok(_) => Ok(0),
        Err(outbox::ReadError::CursorExpired { oldest, .. }) => Ok(oldest),
        Err(outbox::ReadError::Store(error)) => Err(error.into()),
    }
}
