//! `events`: the past in pages, the present as it happens.

use crate::args::EventsCommand;
use crate::{CliError, Session, output, table, time};
use api_types::{Event, EventsList};
use client::{WatchFilter, WatchItem};
use std::process::ExitCode;

pub(crate) async fn run(session: &Session, command: EventsCommand) -> Result<ExitCode, CliError> {
    match command {
        EventsCommand::List { topic, node, page } => {
            let tenant_id = session.tenant.clone();
            let mut request = EventsList { tenant_id, node_id: node, topic, cursor: page.cursor, limit: page.limit };
            let mut all = session.client.call(&request).await?;
            while page.limit.is_none() && all.next_cursor.is_some() {
                request.cursor = all.next_cursor.take();
                let more = session.client.call(&request).await?;
                all.items.extend(more.items);
                all.next_cursor = more.next_cursor;
            }
            session.print(&all, |page| list(&page.items))
        }
        EventsCommand::Watch { topic, node, after } => {
            let mut watch = session.client.watch(WatchFilter { topic, node_id: node, after });
            loop {
                match watch.next().await? {
                    WatchItem::Ready { .. } => {}
                    WatchItem::Event(event) => output::print_streamed(session.format, &*event, line)?,
                }
            }
        }
    }
}

pub(crate) fn list(events: &[Event]) -> String {
    let rows = events.iter().map(|event| {
        vec![event.position.to_string(), event.at.clone(), event.topic.clone(), event.key.clone(), payload(event)]
    });
    table::render(&["POSITION", "AT", "TOPIC", "KEY", "PAYLOAD"], rows)
}

pub(crate) fn line(event: &Event) -> String {
    let (position, at) = (event.position, time::clock(&event.at));
    table::printable(&format!("{position:>7} {at} {:<22} {} {}", event.topic, event.key, payload(event)))
}

fn payload(event: &Event) -> String {
    if event.payload.is_null() { String::new() } else { event.payload.to_string() }
}
