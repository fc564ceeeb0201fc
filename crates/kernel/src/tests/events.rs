//! Event batches: the acknowledgement, gaps, what is published, and handlers under savepoints.

use super::world::*;
use crate::db::{StoreError, Tx, args};
use crate::events::{self, Handlers, ReportError, ReportHandler};
use crate::nodes;
use crate::outbox::{self, EventRow};
use model::frame::{Event, EventBatch, Report, Signed};
use model::limits::COUNTER_MAX;
use model::{EventClass, JournalId, NodeId, ServerTimeMs};
use serde_json::json;

fn report(node: &NodeId, kind: &str) -> Vec<u8> {
    proto::encode_report(&Report {
        node_id: node.clone(),
        kind: kind.into(),
        attributes: vec![("reason".into(), "test".into())],
        body: None,
        observed_at: ServerTimeMs(START),
    })
}

fn event(seq: u64, report: Vec<u8>) -> Event {
    Event { seq, class: EventClass::Transition, report, node_sig: None }
}

fn ingest(world: &World, handlers: &Handlers, node: &NodeId, epoch: u64, events: Vec<Event>) -> Option<u64> {
    let batch = EventBatch { journal_id: JournalId::new("journal-1"), events };
    world.run(|tx| events::ingest_events(tx, handlers, node, epoch, &batch))
}

fn acked(world: &World, node: &NodeId) -> u64 {
    world.run(|tx| nodes::get_node(tx, node)).unwrap().session.unwrap().acked_event_seq
}

#[test]
fn events_are_stored_once_and_acknowledged_cumulatively() {
    let (world, node) = World::with_session();
    let none = Handlers::default();
    let events = |seqs: &[u64]| seqs.iter().map(|seq| event(*seq, report(&node, "daemon.started"))).collect();
    assert_eq!(ingest(&world, &none, &node, 1, events(&[1, 2])), Some(2));
    assert_eq!(ingest(&world, &none, &node, 1, events(&[1, 2, 3])), Some(3));
    assert_eq!(ingest(&world, &none, &node, 1, events(&[2])), Some(3));
    assert_eq!(acked(&world, &node), 3);
    assert_eq!(world.count("node.event"), 3);
    let payload = world.published().into_iter().rfind(|event| event.topic == "node.event").unwrap().payload;
    assert_eq!(
        payload,
        json!({
            "seq": 3, "class": "transition", "kind": "daemon.started", "attributes": { "reason": "test" },
            "bodyType": null, "observedAtMs": START, "signed": false, "nodeId": node.as_str(),
            "journalId": "journal-1",
        })
    );
}

#[test]
fn an_old_journal_that_comes_late_does_not_make_events_be_stored_twice() {
    let (world, node) = World::with_session();
    let none = Handlers::default();
    let of = |epoch: u64, journal: &str, seqs: &[u64]| {
        let events = seqs.iter().map(|seq| event(*seq, report(&node, "daemon.started"))).collect();
        let batch = EventBatch { journal_id: JournalId::new(journal), events };
        world.run(|tx| events::ingest_events(tx, &none, &node, epoch, &batch))
    };
    assert_eq!(of(1, "journal-1", &[1, 2]), Some(2));
    assert_eq!(world.connect(&node, "boot-1", "journal-2"), 2);
    assert_eq!(of(2, "journal-2", &[1, 2, 3]), Some(3));
    assert_eq!(world.connect(&node, "boot-1", "journal-1"), 3, "a process that is gone, late");
    assert_eq!(world.connect(&node, "boot-1", "journal-2"), 4);
    assert_eq!(of(4, "journal-2", &[3, 4]), Some(4));
    assert_eq!(world.count("node.event"), 6);
}

#[test]
fn the_welcome_of_the_same_journal_knows_the_acknowledged_event_and_a_new_one_starts_over() {
    let (world, node) = World::with_session();
    ingest(&world, &Handlers::default(), &node, 1, vec![event(1, report(&node, "daemon.started"))]);
    let welcome = |journal: &str| match world.accept(&node, &hello("boot-1", journal)) {
        crate::sessions::SessionAnswer::Accepted { acked_event_seq, .. } => acked_event_seq,
        refused => panic!("{refused:?}"),
    };
    assert_eq!(welcome("journal-1"), 1);
    assert_eq!(welcome("journal-2"), 0);
}

#[test]
fn a_batch_of_another_journal_or_a_passed_epoch_is_ignored() {
    let (world, node) = World::with_session();
    let events = vec![event(1, report(&node, "daemon.started"))];
    let none = Handlers::default();
    let other = EventBatch { journal_id: JournalId::new("journal-2"), events: events.clone() };
    assert_eq!(world.run(|tx| events::ingest_events(tx, &none, &node, 1, &other)), None);
    world.connect(&node, "boot-1", "journal-1");
    assert_eq!(ingest(&world, &none, &node, 1, events.clone()), None);
    assert_eq!(world.count("node.event"), 0);
    assert_eq!(ingest(&world, &none, &node, 2, events), Some(1));
}

#[test]
fn a_failed_commit_acknowledges_nothing() {
    let (world, node) = World::with_session();
    let batch =
        EventBatch { journal_id: JournalId::new("journal-1"), events: vec![event(1, report(&node, "daemon.started"))] };
    let none = Handlers::default();
    assert!(world.store.run_failing_commit(|tx| events::ingest_events(tx, &none, &node, 1, &batch)).is_err());
    assert_eq!((acked(&world, &node), world.count("node.event")), (0, 0));
}

#[test]
fn a_gap_is_stored_and_published_and_does_not_stop_the_stream() {
    let (world, node) = World::with_session();
    let events = [2, 5].map(|seq| event(seq, report(&node, "daemon.started"))).to_vec();
    assert_eq!(ingest(&world, &Handlers::default(), &node, 1, events), Some(5));
    let gaps: Vec<(u64, u64)> = world.run(|tx| {
        tx.query("SELECT first_seq, last_seq FROM node_event_gaps ORDER BY n", args![], |row| {
            Ok((row.take()?, row.take()?))
        })
    });
    assert_eq!(gaps, [(1, 1), (3, 4)]);
    assert_eq!(world.count("node.events-gap"), 2);
    assert_eq!(world.count("node.event"), 2);
}

#[test]
fn a_sequence_number_above_2_to_the_53_is_refused() {
    let (world, node) = World::with_session();
    let events = [1, COUNTER_MAX + 1].map(|seq| event(seq, report(&node, "daemon.started"))).to_vec();
    assert_eq!(ingest(&world, &Handlers::default(), &node, 1, events), Some(1));
    assert_eq!(world.count("node.event"), 1);
}

/// Writes a setting, then fails, panics or succeeds.
struct Marker(&'static str);

impl ReportHandler for Marker {
    fn kind(&self) -> &str {
        "test.report"
    }

    fn handle(
        &self,
        tx: &mut Tx<'_>,
        node: &NodeId,
        report: &Report,
        signed: Option<&Signed>,
    ) -> Result<(), ReportError> {
        assert_eq!(report.node_id, *node);
        crate::settings::put(tx, self.0, &[u8::from(signed.is_some())])?;
        let tenant = tenant();
        let event = EventRow { topic: "handled", tenant: &tenant, key: self.0, payload: json!({}) };
        outbox::publish(tx, &event)?;
        match self.0 {
            "fails" => Err(ReportError::Refused("no such allocation".into())),
            "panics" => panic!("a defect"),
            _ => Ok(()),
        }
    }
}

#[test]
fn a_failing_handler_undoes_only_its_own_writes_and_its_event_is_acknowledged() {
    let (world, node) = World::with_session();
    let handlers =
        Handlers::new(vec![Box::new(Marker("fails")), Box::new(Marker("panics")), Box::new(Marker("works"))]);
    let signed = Event { node_sig: Some(Signed::default()), ..event(1, report(&node, "test.report")) };
    let plain = event(2, report(&node, "daemon.started"));
    assert_eq!(ingest(&world, &handlers, &node, 1, vec![signed, plain]), Some(2));
    let setting = |name: &'static str| world.run(move |tx| crate::settings::get(tx, name));
    assert_eq!((setting("fails"), setting("panics"), setting("works")), (None, None, Some(vec![1])));
    assert_eq!((world.count("node.report-failed"), world.count("handled"), world.count("node.event")), (2, 1, 2));
    let failed = world.published().into_iter().find(|event| event.topic == "node.report-failed").unwrap();
    assert_eq!(failed.payload["message"], "no such allocation");
}

#[test]
fn a_handler_commits_or_vanishes_with_the_ingest_transaction() {
    let (world, node) = World::with_session();
    let handlers = Handlers::new(vec![Box::new(Marker("works"))]);
    let batch =
        EventBatch { journal_id: JournalId::new("journal-1"), events: vec![event(1, report(&node, "test.report"))] };
    assert!(world.store.run_failing_commit(|tx| events::ingest_events(tx, &handlers, &node, 1, &batch)).is_err());
    assert_eq!(world.run(|tx| crate::settings::get(tx, "works")), None);
}

#[test]
fn a_report_that_names_another_node_reaches_no_handler() {
    let (world, node) = World::with_session();
    let handlers = Handlers::new(vec![Box::new(Marker("works"))]);
    let foreign = event(1, report(&NodeId::new("node_other"), "test.report"));
    assert_eq!(ingest(&world, &handlers, &node, 1, vec![foreign]), Some(1));
    assert_eq!(world.run(|tx| crate::settings::get(tx, "works")), None);
    assert_eq!((world.count("security.node-mismatch"), world.count("node.event")), (1, 0));
    let payload = world.published().into_iter().find(|event| event.topic.starts_with("security")).unwrap().payload;
    assert_eq!((&payload["nodeId"], &payload["claimedNodeId"]), (&json!(node.as_str()), &json!("node_other")));
}

#[test]
fn a_report_that_does_not_decode_is_published_and_acknowledged() {
    let (world, node) = World::with_session();
    let handlers = Handlers::new(vec![Box::new(Marker("works"))]);
    assert_eq!(ingest(&world, &handlers, &node, 1, vec![event(1, vec![0xff; 7])]), Some(1));
    assert_eq!((world.count("security.invalid-report"), world.count("node.event")), (1, 0));
}

#[test]
fn a_defect_of_the_store_inside_a_handler_is_a_failed_report() {
    struct Broken;
    impl ReportHandler for Broken {
        fn kind(&self) -> &str {
            "test.report"
        }
        fn handle(&self, tx: &mut Tx<'_>, _: &NodeId, _: &Report, _: Option<&Signed>) -> Result<(), ReportError> {
            tx.execute("INSERT INTO no_such_table VALUES (1)", args![])?;
            Err(StoreError::Closed.into())
        }
    }
    let (world, node) = World::with_session();
    let handlers = Handlers::new(vec![Box::new(Broken)]);
    assert_eq!(ingest(&world, &handlers, &node, 1, vec![event(1, report(&node, "test.report"))]), Some(1));
    assert_eq!(world.count("node.report-failed"), 1);
}
