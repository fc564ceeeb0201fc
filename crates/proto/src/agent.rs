//! Frames of the agent: bytes, generated messages, plain values.

use crate::update::{end_from_wire, end_to_wire, role_from_wire, signed_or_none, updates};
use crate::v1::agent_frame::Frame;
use crate::{WireError, check, v1};
use model::frame::{
    AgentFrame, CommandUpdate, Condition, Event, EventBatch, Heartbeat, Hello, InventoryReport, SpecRequestReason,
    StatusReport,
};
use model::limits::{
    CAPABILITIES_MAX, CONDITIONS_MAX, EVENT_BATCH_BYTES_MAX, EVENT_BATCH_MAX, EVENT_BYTES_MAX, FRAME_BYTES_MAX,
    GAUGES_MAX, HELLO_IN_FLIGHT_MAX, HELLO_RESULTS_BYTES_MAX, UPDATES_BYTES_MAX, UPDATES_MAX,
};
use model::{BootId, CommandId, EventClass, IncarnationId, JournalId};
use prost::Message;

/// One frame of at most `FRAME_BYTES_MAX` bytes.
pub fn decode_agent_frame(bytes: &[u8]) -> Result<AgentFrame, WireError> {
    check::decode::<v1::AgentFrame>("AgentFrame", bytes, FRAME_BYTES_MAX)?.try_into()
}

/// The frame's bytes, at most `FRAME_BYTES_MAX` of them.
pub fn encode_agent_frame(frame: AgentFrame) -> Result<Vec<u8>, WireError> {
    check::bytes("AgentFrame", v1::AgentFrame::from(frame).encode_to_vec(), FRAME_BYTES_MAX)
}

impl TryFrom<v1::AgentFrame> for AgentFrame {
    type Error = WireError;

    fn try_from(wire: v1::AgentFrame) -> Result<Self, WireError> {
        Ok(match check::required("AgentFrame.frame", wire.frame)? {
            Frame::Hello(hello) => Self::Hello(Box::new(hello.try_into()?)),
            Frame::Updates(wire) => {
                Self::Updates(updates("CommandUpdates.updates", wire.updates, UPDATES_MAX, UPDATES_BYTES_MAX)?)
            }
            Frame::ResumeDone(v1::ResumeDone {}) => Self::ResumeDone,
            Frame::Heartbeat(heartbeat) => Self::Heartbeat(heartbeat.try_into()?),
            Frame::Events(batch) => Self::Events(batch.try_into()?),
            Frame::Status(report) => Self::Status(report.try_into()?),
            Frame::Inventory(report) => Self::Inventory(report.try_into()?),
            Frame::SpecRequest(request) => Self::SpecRequest {
                have_generation: check::counter("SpecRequest.have_generation", request.have_generation)?,
                reason: check::known("SpecRequest.reason", request.reason, reason_from_wire)?,
            },
            Frame::End(end) => {
                let (code, message) = end_from_wire(end)?;
                Self::End { code, message }
            }
        })
    }
}

impl From<AgentFrame> for v1::AgentFrame {
    fn from(frame: AgentFrame) -> Self {
        let frame = match frame {
            AgentFrame::Hello(hello) => Frame::Hello((*hello).into()),
            AgentFrame::Updates(updates) => Frame::Updates(v1::CommandUpdates { updates: updates_to_wire(updates) }),
            AgentFrame::ResumeDone => Frame::ResumeDone(v1::ResumeDone {}),
            AgentFrame::Heartbeat(heartbeat) => Frame::Heartbeat(heartbeat.into()),
            AgentFrame::Events(batch) => Frame::Events(batch.into()),
            AgentFrame::Status(report) => Frame::Status(report.into()),
            AgentFrame::Inventory(report) => Frame::Inventory(report.into()),
            AgentFrame::SpecRequest { have_generation, reason } => {
                Frame::SpecRequest(v1::SpecRequest { have_generation, reason: reason_to_wire(reason) as i32 })
            }
            AgentFrame::End { code, message } => Frame::End(end_to_wire(code, message)),
        };
        Self { frame: Some(frame) }
    }
}

fn updates_to_wire(updates: Vec<CommandUpdate>) -> Vec<v1::CommandUpdate> {
    updates.into_iter().map(v1::CommandUpdate::from).collect()
}

impl TryFrom<v1::Hello> for Hello {
    type Error = WireError;

    fn try_from(wire: v1::Hello) -> Result<Self, WireError> {
        Ok(Self {
            protocol_min: wire.protocol_min,
            protocol_max: wire.protocol_max,
            daemon_version: check::text("Hello.daemon_version", wire.daemon_version)?,
            role: role_from_wire("Hello.role", wire.role)?,
            boot_id: check::id("Hello.boot_id", &wire.boot_id, BootId::parse)?,
            incarnation: check::id("Hello.incarnation", &wire.incarnation, IncarnationId::parse)?,
            journal_id: check::id("Hello.journal_id", &wire.journal_id, JournalId::parse)?,
            last_epoch: check::counter("Hello.last_epoch", wire.last_epoch)?,
            applied_generation: check::counter("Hello.applied_generation", wire.applied_generation)?,
            applied_spec_hash: check::digest_or_none("Hello.applied_spec_hash", wire.applied_spec_hash)?,
            in_flight: check::list("Hello.in_flight", wire.in_flight, HELLO_IN_FLIGHT_MAX, |id| {
                check::id("Hello.in_flight", &id, CommandId::parse)
            })?,
            // Their bytes are bounded, not their number: the rest of the journal follows in `Updates`.
            unacked_results: updates(
                "Hello.unacked_results",
                wire.unacked_results,
                FRAME_BYTES_MAX,
                HELLO_RESULTS_BYTES_MAX,
            )?,
            more_results: wire.more_results,
            capabilities: check::list("Hello.capabilities", wire.capabilities, CAPABILITIES_MAX, |capability| {
                check::text("Hello.capabilities", capability)
            })?,
            inventory_digest: check::digest_or_none("Hello.inventory_digest", wire.inventory_digest)?,
            hostname: check::text("Hello.hostname", wire.hostname)?,
        })
    }
}

impl From<Hello> for v1::Hello {
    fn from(hello: Hello) -> Self {
        Self {
            protocol_min: hello.protocol_min,
            protocol_max: hello.protocol_max,
            daemon_version: hello.daemon_version,
            role: v1::Role::from(hello.role) as i32,
            boot_id: hello.boot_id.as_str().to_owned(),
            incarnation: hello.incarnation.as_str().to_owned(),
            journal_id: hello.journal_id.as_str().to_owned(),
            last_epoch: hello.last_epoch,
            applied_generation: hello.applied_generation,
            applied_spec_hash: hello.applied_spec_hash,
            in_flight: hello.in_flight.iter().map(|id| id.as_str().to_owned()).collect(),
            unacked_results: updates_to_wire(hello.unacked_results),
            more_results: hello.more_results,
            capabilities: hello.capabilities,
            inventory_digest: hello.inventory_digest,
            hostname: hello.hostname,
        }
    }
}

impl TryFrom<v1::Heartbeat> for Heartbeat {
    type Error = WireError;

    fn try_from(wire: v1::Heartbeat) -> Result<Self, WireError> {
        Ok(Self {
            sequence: check::counter_from_one("Heartbeat.sequence", wire.sequence)?,
            applied_generation: check::counter("Heartbeat.applied_generation", wire.applied_generation)?,
        })
    }
}

impl From<Heartbeat> for v1::Heartbeat {
    fn from(heartbeat: Heartbeat) -> Self {
        Self { sequence: heartbeat.sequence, applied_generation: heartbeat.applied_generation }
    }
}

impl TryFrom<v1::EventBatch> for EventBatch {
    type Error = WireError;

    fn try_from(wire: v1::EventBatch) -> Result<Self, WireError> {
        let bytes = wire.events.iter().map(|event| event.report.len()).sum();
        check::at_most("EventBatch.events", bytes, EVENT_BATCH_BYTES_MAX)?;
        Ok(Self {
            journal_id: check::id("EventBatch.journal_id", &wire.journal_id, JournalId::parse)?,
            events: check::list("EventBatch.events", wire.events, EVENT_BATCH_MAX, Event::try_from)?,
        })
    }
}

impl From<EventBatch> for v1::EventBatch {
    fn from(batch: EventBatch) -> Self {
        Self {
            journal_id: batch.journal_id.as_str().to_owned(),
            events: batch.events.into_iter().map(v1::Event::from).collect(),
        }
    }
}

impl TryFrom<v1::Event> for Event {
    type Error = WireError;

    fn try_from(wire: v1::Event) -> Result<Self, WireError> {
        Ok(Self {
            seq: check::counter_from_one("Event.seq", wire.seq)?,
            class: check::known("Event.class", wire.class, |value| match v1::EventClass::try_from(value).ok()? {
                v1::EventClass::Unspecified => None,
                v1::EventClass::Metric => Some(EventClass::Metric),
                v1::EventClass::Transition => Some(EventClass::Transition),
                v1::EventClass::Result => Some(EventClass::Result),
            })?,
            report: check::bytes("Event.report", wire.report, EVENT_BYTES_MAX)?,
            node_sig: signed_or_none(wire.node_sig)?,
        })
    }
}

impl From<Event> for v1::Event {
    fn from(event: Event) -> Self {
        let class = match event.class {
            EventClass::Metric => v1::EventClass::Metric,
            EventClass::Transition => v1::EventClass::Transition,
            EventClass::Result => v1::EventClass::Result,
        };
        Self {
            seq: event.seq,
            class: class as i32,
            report: event.report,
            node_sig: event.node_sig.map(v1::Signed::from),
        }
    }
}

impl TryFrom<v1::StatusReport> for StatusReport {
    type Error = WireError;

    fn try_from(wire: v1::StatusReport) -> Result<Self, WireError> {
        Ok(Self {
            applied_generation: check::counter("StatusReport.applied_generation", wire.applied_generation)?,
            observed_generation: check::counter("StatusReport.observed_generation", wire.observed_generation)?,
            applied_spec_hash: check::digest_or_none("StatusReport.applied_spec_hash", wire.applied_spec_hash)?,
            conditions: check::list("StatusReport.conditions", wire.conditions, CONDITIONS_MAX, Condition::try_from)?,
            gauges: check::list("StatusReport.gauges", wire.gauges, GAUGES_MAX, |gauge| {
                Ok((check::text("Gauge.name", gauge.name)?, check::number("Gauge.value", gauge.value)?))
            })?,
        })
    }
}

impl From<StatusReport> for v1::StatusReport {
    fn from(report: StatusReport) -> Self {
        Self {
            applied_generation: report.applied_generation,
            observed_generation: report.observed_generation,
            applied_spec_hash: report.applied_spec_hash,
            conditions: report.conditions.into_iter().map(v1::Condition::from).collect(),
            gauges: report.gauges.into_iter().map(|(name, value)| v1::Gauge { name, value }).collect(),
        }
    }
}

impl TryFrom<v1::Condition> for Condition {
    type Error = WireError;

    fn try_from(wire: v1::Condition) -> Result<Self, WireError> {
        Ok(Self {
            kind: check::text("Condition.kind", wire.kind)?,
            reason: check::text("Condition.reason", wire.reason)?,
            message: check::text("Condition.message", wire.message)?,
            age_ms: check::counter("Condition.age_ms", wire.age_ms)?,
        })
    }
}

impl From<Condition> for v1::Condition {
    fn from(condition: Condition) -> Self {
        Self { kind: condition.kind, reason: condition.reason, message: condition.message, age_ms: condition.age_ms }
    }
}

impl TryFrom<v1::InventoryReport> for InventoryReport {
    type Error = WireError;

    fn try_from(wire: v1::InventoryReport) -> Result<Self, WireError> {
        Ok(Self { digest: check::digest("InventoryReport.digest", wire.digest)?, inventory: wire.inventory })
    }
}

impl From<InventoryReport> for v1::InventoryReport {
    fn from(report: InventoryReport) -> Self {
        Self { digest: report.digest, inventory: report.inventory }
    }
}

fn reason_from_wire(value: i32) -> Option<SpecRequestReason> {
    match v1::SpecRequestReason::try_from(value).ok()? {
        v1::SpecRequestReason::Unspecified => None,
        v1::SpecRequestReason::PatchBaseMismatch => Some(SpecRequestReason::PatchBaseMismatch),
        v1::SpecRequestReason::MinGeneration => Some(SpecRequestReason::MinGeneration),
        v1::SpecRequestReason::NoSpec => Some(SpecRequestReason::NoSpec),
    }
}

const fn reason_to_wire(reason: SpecRequestReason) -> v1::SpecRequestReason {
    match reason {
        SpecRequestReason::PatchBaseMismatch => v1::SpecRequestReason::PatchBaseMismatch,
        SpecRequestReason::MinGeneration => v1::SpecRequestReason::MinGeneration,
        SpecRequestReason::NoSpec => v1::SpecRequestReason::NoSpec,
    }
}
