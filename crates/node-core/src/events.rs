//! Events: numbered, journaled, sent in batches, forgotten once acknowledged.

use crate::engine::{Decision, Engine, Then};
use crate::journal::{Mutation, event_bytes};
use crate::outside::Outside;
use model::frame::{AgentFrame, Any, Event, EventBatch};
use model::{EventClass, JournalId, limits};
use stdx::clock::Instant;

impl<O: Outside> Engine<O> {
    pub(crate) fn observed(
        &mut self,
        now: Instant,
        class: EventClass,
        kind: String,
        attributes: Vec<(String, String)>,
        body: Option<Any>,
    ) {
        let report = self.report(now, kind, attributes, body);
        let event = Event { seq: self.event_seq + 1, class, report, node_sig: None };
        let dropped = self.journal.droppable_metrics(&self.config.limits, event_bytes(&event));
        let fits = self.fits_after(&event, &dropped);
        if !fits && class == EventClass::Metric {
            return self.decide(Decision::EventsDropped { count: 1 });
        }
        let mut mutations = Vec::new();
        if !dropped.is_empty() {
            self.decide(Decision::EventsDropped { count: dropped.len() });
            mutations.push(Mutation::EventsDropped(dropped));
        }
        self.event_seq += 1;
        mutations.push(Mutation::Event(event));
        self.commit_then(mutations, Then::EventsReady);
    }

    fn fits_after(&self, event: &Event, dropped: &[u64]) -> bool {
        let limits = &self.config.limits;
        let freed: u64 = self.journal.events().filter(|old| dropped.contains(&old.seq)).map(event_bytes).sum();
        let count = self.journal.event_count() - dropped.len() as u32 + 1;
        count <= limits.events_max && self.journal.bytes() - freed + event_bytes(event) <= limits.bytes_max
    }

    pub(crate) fn has_droppable_metric(&self) -> bool {
        self.journal.events().any(|event| event.class == EventClass::Metric)
    }

    /// Sends the next batch when the last one was acknowledged.
    pub(crate) fn send_events(&mut self) {
        let Some(sent_to) = self.link.events_window(self.journal.meta().acked_event_seq) else { return };
        let mut events = Vec::new();
        let mut bytes = 0;
        for event in self.journal.events_after(sent_to) {
            bytes += event_bytes(event) as usize;
            if !events.is_empty() && (events.len() == limits::EVENT_BATCH_MAX || bytes > limits::EVENT_BATCH_BYTES_MAX)
            {
                break;
            }
            events.push(event.clone());
        }
        if let Some(last) = events.last() {
            self.link.events_sent(last.seq);
            let journal_id = self.journal.meta().journal_id.clone();
            self.send(AgentFrame::Events(EventBatch { journal_id, events }));
        }
    }

    pub(crate) fn events_acked(&mut self, now: Instant, journal_id: &JournalId, seq: u64) {
        let is_news = seq > self.journal.meta().acked_event_seq && seq <= self.journal.meta().event_seq;
        if *journal_id == self.journal.meta().journal_id && is_news {
            self.commit_lazily(now, Mutation::EventsAcked(seq));
        }
        self.send_events();
    }
}
