//! Frames of the gateway: bytes, generated messages, plain values.

use crate::update::{end_from_wire, end_to_wire, signed_or_none};
use crate::v1::gateway_frame::Frame;
use crate::{WireError, check, v1};
use model::frame::{Ack, Delivery, GatewayFrame, Signed, TimeStatement, Welcome};
use model::limits::{COMMAND_BODY_BYTES_MAX, FRAME_BYTES_MAX};
use model::{CommandId, JournalId};
use prost::Message;

/// One frame of at most `FRAME_BYTES_MAX` bytes.
pub fn decode_gateway_frame(bytes: &[u8]) -> Result<GatewayFrame, WireError> {
    check::decode::<v1::GatewayFrame>("GatewayFrame", bytes, FRAME_BYTES_MAX)?.try_into()
}

/// The frame's bytes, at most `FRAME_BYTES_MAX` of them.
pub fn encode_gateway_frame(frame: GatewayFrame) -> Result<Vec<u8>, WireError> {
    check::bytes("GatewayFrame", v1::GatewayFrame::from(frame).encode_to_vec(), FRAME_BYTES_MAX)
}

impl TryFrom<v1::GatewayFrame> for GatewayFrame {
    type Error = WireError;

    fn try_from(wire: v1::GatewayFrame) -> Result<Self, WireError> {
        Ok(match check::required("GatewayFrame.frame", wire.frame)? {
            Frame::Welcome(welcome) => Self::Welcome(Box::new(welcome.try_into()?)),
            Frame::Command(command) => Self::Command(command.try_into()?),
            Frame::Cancel(cancel) => Self::Cancel {
                command_id: check::id("Cancel.command_id", &cancel.command_id, CommandId::parse)?,
                reason: check::text("Cancel.reason", cancel.reason)?,
            },
            Frame::Ack(ack) => Self::Ack(ack.try_into()?),
            Frame::HeartbeatAck(ack) => Self::HeartbeatAck {
                sequence: check::counter_from_one("HeartbeatAck.sequence", ack.sequence)?,
                server_time: check::required("HeartbeatAck.server_time", ack.server_time)?.try_into()?,
            },
            Frame::Drain(drain) => Self::Drain { window_ms: drain.window_ms },
            Frame::InventoryRequest(v1::InventoryRequest {}) => Self::InventoryRequest,
            Frame::DesiredState(state) => {
                Self::DesiredState(check::required("DesiredState.signed", state.signed)?.try_into()?)
            }
            Frame::End(end) => {
                let (code, message) = end_from_wire(end)?;
                Self::End { code, message }
            }
        })
    }
}

impl From<GatewayFrame> for v1::GatewayFrame {
    fn from(frame: GatewayFrame) -> Self {
        let frame = match frame {
            GatewayFrame::Welcome(welcome) => Frame::Welcome((*welcome).into()),
            GatewayFrame::Command(delivery) => Frame::Command(delivery.into()),
            GatewayFrame::Cancel { command_id, reason } => {
                Frame::Cancel(v1::Cancel { command_id: command_id.as_str().to_owned(), reason })
            }
            GatewayFrame::Ack(ack) => Frame::Ack(ack.into()),
            GatewayFrame::HeartbeatAck { sequence, server_time } => {
                Frame::HeartbeatAck(v1::HeartbeatAck { sequence, server_time: Some(server_time.into()) })
            }
            GatewayFrame::Drain { window_ms } => Frame::Drain(v1::Drain { window_ms }),
            GatewayFrame::InventoryRequest => Frame::InventoryRequest(v1::InventoryRequest {}),
            GatewayFrame::DesiredState(signed) => Frame::DesiredState(v1::DesiredState { signed: Some(signed.into()) }),
            GatewayFrame::End { code, message } => Frame::End(end_to_wire(code, message)),
        };
        Self { frame: Some(frame) }
    }
}

impl TryFrom<v1::Welcome> for Welcome {
    type Error = WireError;

    fn try_from(wire: v1::Welcome) -> Result<Self, WireError> {
        Ok(Self {
            session_epoch: check::counter_from_one("Welcome.session_epoch", wire.session_epoch)?,
            protocol: wire.protocol,
            server_time: check::required("Welcome.server_time", wire.server_time)?.try_into()?,
            heartbeat_interval_ms: wire.heartbeat_interval_ms,
            // In the order of `Lane::ALL`.
            lane_credits: [wire.credits_control, wire.credits_provision, wire.credits_bulk],
            trust_bundle: signed_or_none(wire.trust_bundle)?,
            acked_event_seq: check::counter("Welcome.acked_event_seq", wire.acked_event_seq)?,
            upgrade_required: wire.upgrade_required,
        })
    }
}

impl From<Welcome> for v1::Welcome {
    fn from(welcome: Welcome) -> Self {
        let [credits_control, credits_provision, credits_bulk] = welcome.lane_credits;
        Self {
            session_epoch: welcome.session_epoch,
            protocol: welcome.protocol,
            server_time: Some(welcome.server_time.into()),
            heartbeat_interval_ms: welcome.heartbeat_interval_ms,
            credits_control,
            credits_provision,
            credits_bulk,
            trust_bundle: welcome.trust_bundle.map(v1::Signed::from),
            acked_event_seq: welcome.acked_event_seq,
            upgrade_required: welcome.upgrade_required,
        }
    }
}

impl TryFrom<v1::TimeStatement> for TimeStatement {
    type Error = WireError;

    fn try_from(wire: v1::TimeStatement) -> Result<Self, WireError> {
        Ok(Self {
            signed: signed_or_none(wire.signed)?,
            unsigned_ms: check::time("TimeStatement.unsigned_ms", wire.unsigned_ms)?,
        })
    }
}

impl From<TimeStatement> for v1::TimeStatement {
    fn from(statement: TimeStatement) -> Self {
        Self { signed: statement.signed.map(v1::Signed::from), unsigned_ms: statement.unsigned_ms.0 }
    }
}

impl TryFrom<v1::Command> for Delivery {
    type Error = WireError;

    fn try_from(wire: v1::Command) -> Result<Self, WireError> {
        let signed = Signed::try_from(check::required("Command.signed", wire.signed)?)?;
        check::at_most("Command.signed", signed.body.len(), COMMAND_BODY_BYTES_MAX)?;
        if wire.attempt == 0 {
            return Err(WireError::OutOfRange { field: "Command.attempt", value: 0 });
        }
        Ok(Self { signed, attempt: wire.attempt })
    }
}

impl From<Delivery> for v1::Command {
    fn from(delivery: Delivery) -> Self {
        Self { signed: Some(delivery.signed.into()), attempt: delivery.attempt }
    }
}

impl TryFrom<v1::Ack> for Ack {
    type Error = WireError;

    fn try_from(wire: v1::Ack) -> Result<Self, WireError> {
        // As many as a frame holds: a `Hello` may have carried that many results.
        let command_ids = check::list("Ack.command_ids", wire.command_ids, FRAME_BYTES_MAX, |id| {
            check::id("Ack.command_ids", &id, CommandId::parse)
        })?;
        let events = match (wire.journal_id.as_str(), wire.event_seq) {
            ("", 0) => None,
            ("", _) => return Err(WireError::Unexpected { field: "Ack.event_seq" }),
            (journal_id, seq) => Some((
                check::id("Ack.journal_id", journal_id, JournalId::parse)?,
                check::counter("Ack.event_seq", seq)?,
            )),
        };
        Ok(Self { command_ids, events })
    }
}

impl From<Ack> for v1::Ack {
    fn from(ack: Ack) -> Self {
        let (journal_id, event_seq) = match ack.events {
            Some((journal_id, seq)) => (journal_id.as_str().to_owned(), seq),
            None => (String::new(), 0),
        };
        let command_ids = ack.command_ids.iter().map(|id| id.as_str().to_owned()).collect();
        Self { command_ids, journal_id, event_seq }
    }
}
