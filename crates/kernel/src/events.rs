//! Events of nodes: stored once each, in order, above the node's cumulative acknowledgement for its
//! current journal, and handed to the report handlers under a savepoint each.
//!
//! The published rows are the storage; the acknowledgement returned here may be sent only after the
//! commit.

use crate::db::{StoreError, Tx, args};
use crate::outbox::{self, EventRow};
use model::frame::{Any, Event, EventBatch, Report, Signed};
use model::limits::COUNTER_MAX;
use model::{JournalId, NodeId, TenantId};
use proto::v1;
use serde_json::{Value, json};

/// Why a handler could not do its work. Its writes are undone; the stream goes on.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// What is wrong with the report, for people.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A module's handling of one kind of report, in the ingest transaction.
pub trait ReportHandler: Send + Sync {
    /// The reports it handles, as `allocationBound`.
    fn kind(&self) -> &str;
    /// Acts on a report of `node`. A handler ignores what is not `node`'s. `signed` is the node's
    /// signature as received, judged by nobody yet.
    fn handle(
        &self,
        tx: &mut Tx<'_>,
        node: &NodeId,
        report: &Report,
        signed: Option<&Signed>,
    ) -> Result<(), ReportError>;
}

/// The handlers of all modules.
#[derive(Default)]
pub struct Handlers {
    handlers: Vec<Box<dyn ReportHandler>>,
}

impl Handlers {
    pub fn new(handlers: Vec<Box<dyn ReportHandler>>) -> Self {
        Self { handlers }
    }

    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &dyn ReportHandler> {
        self.handlers.iter().map(AsRef::as_ref).filter(move |handler| handler.kind() == kind)
    }
}

struct Source<'a> {
    node: &'a NodeId,
    journal: &'a JournalId,
    tenant: TenantId,
}

/// Stores what is new in `batch` and returns the highest sequence number stored so far, to be
/// acknowledged. `None` when the batch is ignored: another journal's, or an epoch that has passed.
pub fn ingest_events(
    tx: &mut Tx<'_>,
    handlers: &Handlers,
    node: &NodeId,
    epoch: u64,
    batch: &EventBatch,
) -> Result<Option<u64>, StoreError> {
    let found = tx.query_opt(
        "SELECT s.acked_event_seq, n.tenant_id FROM node_sessions s JOIN nodes n ON n.id = s.node_id
         WHERE s.node_id = ?1 AND s.session_epoch = ?2 AND s.journal_id = ?3 AND s.state <> 'closed'",
        args![node, epoch, batch.journal_id],
        |row| Ok((row.take::<u64>()?, row.take::<TenantId>()?)),
    )?;
    let Some((stored, tenant)) = found else { return Ok(None) };
    let source = Source { node, journal: &batch.journal_id, tenant };
    let mut acked = stored;
    for event in &batch.events {
        if event.seq > COUNTER_MAX {
            break;
        }
        if event.seq <= acked {
            continue;
        }
        if event.seq > acked + 1 {
            gap(tx, &source, acked + 1, event.seq - 1)?;
        }
        ingest(tx, handlers, &source, event)?;
        acked = event.seq;
    }
    if acked > stored {
        tx.execute("UPDATE node_sessions SET acked_event_seq = ?2 WHERE node_id = ?1", args![node, acked])?;
    }
    Ok(Some(acked))
}

/// Numbers that never arrived: dropped metrics, or a restored control plane.
fn gap(tx: &mut Tx<'_>, source: &Source<'_>, first: u64, last: u64) -> Result<(), StoreError> {
    let now = tx.now()?;
    tx.execute(
        "INSERT INTO node_event_gaps (node_id, journal_id, first_seq, last_seq, at) VALUES (?1, ?2, ?3, ?4, ?5)",
        args![source.node, source.journal, first, last, now],
    )?;
    publish(tx, source, "node.events-gap", json!({ "first": first, "last": last }))
}

fn ingest(tx: &mut Tx<'_>, handlers: &Handlers, source: &Source<'_>, event: &Event) -> Result<(), StoreError> {
    let report = match proto::decode_report(&event.report) {
        Ok(report) => report,
        Err(error) => {
            let digest = stdx::hex::sha256_hex(&event.report);
            let payload = json!({ "seq": event.seq, "reportSha256": digest, "message": error.to_string() });
            return publish(tx, source, "security.invalid-report", payload);
        }
    };
    if report.node_id != *source.node {
        let payload = json!({ "seq": event.seq, "kind": report.kind, "claimedNodeId": report.node_id.as_str() });
        return publish(tx, source, "security.node-mismatch", payload);
    }
    publish(tx, source, "node.event", describe(event, &report))?;
    for handler in handlers.of_kind(&report.kind) {
        let signed = event.node_sig.as_ref();
        let outcome = tx.savepoint(|tx| handler.handle(tx, source.node, &report, signed))?;
        if let Err(error) = outcome {
            let payload = json!({ "seq": event.seq, "kind": report.kind, "message": error.to_string() });
            publish(tx, source, "node.report-failed", payload)?;
        }
    }
    Ok(())
}

fn describe(event: &Event, report: &Report) -> Value {
    let attributes: serde_json::Map<String, Value> =
        report.attributes.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let mut payload = json!({
        "seq": event.seq, "class": event.class.name(), "kind": report.kind, "attributes": attributes,
        "bodyType": report.body.as_ref().map(|body| &body.type_url),
        "observedAtMs": report.observed_at.0, "signed": event.node_sig.is_some(),
    });
    if let Some(body) = report.body.as_ref().and_then(attested_body) {
        payload["body"] = body;
    }
    payload
}

/// What an attested report says, for readers; nothing is believed by being shown.
fn attested_body(body: &Any) -> Option<Value> {
    if let Ok(bound) = proto::unpack::<v1::AllocationBound>(body) {
        return Some(json!({
            "allocationId": bound.allocation_id, "reservationId": bound.reservation_id,
            "cdiDevices": bound.cdi_devices, "generation": bound.generation,
        }));
    }
    if let Ok(released) = proto::unpack::<v1::AllocationReleased>(body) {
        return Some(json!({
            "allocationId": released.allocation_id, "reservationId": released.reservation_id,
            "generation": released.generation,
        }));
    }
    let failed = proto::unpack::<v1::AllocationFailed>(body).ok()?;
    Some(json!({
        "allocationId": failed.allocation_id, "reservationId": failed.reservation_id, "reason": failed.reason,
        "message": failed.message, "generation": failed.generation,
    }))
}

fn publish(tx: &mut Tx<'_>, source: &Source<'_>, topic: &str, mut payload: Value) -> Result<(), StoreError> {
    payload["nodeId"] = json!(source.node.as_str());
    payload["journalId"] = json!(source.journal.as_str());
    outbox::publish(tx, &EventRow { topic, tenant: &source.tenant, key: source.node.as_str(), payload })
}
