//! The messages that travel as bytes because a signature or a digest covers exactly those bytes.
//! Nobody encodes one again after it was signed: it is kept as the bytes that arrived.

use crate::update::{outcome_from_wire, outcome_to_wire};
use crate::{WireError, any, check, v1};
use model::frame::{CommandBody, CommandResult, DesiredStateBody, Report, ResultStatement};
use model::limits::{COMMAND_BODY_BYTES_MAX, EVENT_BYTES_MAX, FRAME_BYTES_MAX, RESULT_BYTES_MAX, TEXT_BYTES_MAX};
use model::{CommandId, Lane, NodeId};
use prost::Message;

/// A command's body of at most `COMMAND_BODY_BYTES_MAX` bytes.
pub fn decode_body(bytes: &[u8]) -> Result<CommandBody, WireError> {
    let wire: v1::CommandBody = check::decode("CommandBody", bytes, COMMAND_BODY_BYTES_MAX)?;
    let not_after = wire.not_after_ms.map(|at| check::time("CommandBody.not_after_ms", at)).transpose()?;
    Ok(CommandBody {
        id: check::id("CommandBody.id", &wire.id, CommandId::parse)?,
        node_id: check::id("CommandBody.node_id", &wire.node_id, NodeId::parse)?,
        seq: check::counter_from_one("CommandBody.seq", wire.seq)?,
        kind: check::text("CommandBody.kind", wire.kind)?,
        payload: any::from_wire("CommandBody.payload", check::required("CommandBody.payload", wire.payload)?)?,
        lane: check::known("CommandBody.lane", wire.lane, lane_from_wire)?,
        not_after,
        min_generation: check::counter("CommandBody.min_generation", wire.min_generation)?,
        retry_safe: wire.retry_safe,
        idempotency_key: check::text("CommandBody.idempotency_key", wire.idempotency_key)?,
        self_terminating: wire.self_terminating,
        attested: wire.attested,
        workflow_id: check::text("CommandBody.workflow_id", wire.workflow_id)?,
        step_id: check::text("CommandBody.step_id", wire.step_id)?,
        traceparent: check::text("CommandBody.traceparent", wire.traceparent)?,
        batch_id: check::text("CommandBody.batch_id", wire.batch_id)?,
        issued_at: check::time("CommandBody.issued_at_ms", wire.issued_at_ms)?,
    })
}

pub fn encode_body(body: &CommandBody) -> Vec<u8> {
    v1::CommandBody {
        id: body.id.as_str().to_owned(),
        node_id: body.node_id.as_str().to_owned(),
        seq: body.seq,
        kind: body.kind.clone(),
        payload: Some(any::to_wire(body.payload.clone())),
        lane: lane_to_wire(body.lane) as i32,
        not_after_ms: body.not_after.map(|at| at.0),
        min_generation: body.min_generation,
        retry_safe: body.retry_safe,
        idempotency_key: body.idempotency_key.clone(),
        self_terminating: body.self_terminating,
        attested: body.attested,
        workflow_id: body.workflow_id.clone(),
        step_id: body.step_id.clone(),
        traceparent: body.traceparent.clone(),
        batch_id: body.batch_id.clone(),
        issued_at_ms: body.issued_at.0,
    }
    .encode_to_vec()
}

fn lane_from_wire(value: i32) -> Option<Lane> {
    match v1::Lane::try_from(value).ok()? {
        v1::Lane::Unspecified => None,
        v1::Lane::Control => Some(Lane::Control),
        v1::Lane::Provision => Some(Lane::Provision),
        v1::Lane::Bulk => Some(Lane::Bulk),
    }
}

const fn lane_to_wire(lane: Lane) -> v1::Lane {
    match lane {
        Lane::Control => v1::Lane::Control,
        Lane::Provision => v1::Lane::Provision,
        Lane::Bulk => v1::Lane::Bulk,
    }
}

/// The body of a desired state; it fits one frame.
pub fn decode_desired_state(bytes: &[u8]) -> Result<DesiredStateBody, WireError> {
    let wire: v1::DesiredStateBody = check::decode("DesiredStateBody", bytes, FRAME_BYTES_MAX)?;
    Ok(DesiredStateBody {
        node_id: check::id("DesiredStateBody.node_id", &wire.node_id, NodeId::parse)?,
        generation: check::counter("DesiredStateBody.generation", wire.generation)?,
        spec_hash: check::digest("DesiredStateBody.spec_hash", wire.spec_hash)?,
        full: wire.full,
    })
}

pub fn encode_desired_state(body: &DesiredStateBody) -> Vec<u8> {
    v1::DesiredStateBody {
        node_id: body.node_id.as_str().to_owned(),
        generation: body.generation,
        spec_hash: body.spec_hash.clone(),
        full: body.full.clone(),
    }
    .encode_to_vec()
}

/// The content of an event, at most `EVENT_BYTES_MAX` bytes.
pub fn decode_report(bytes: &[u8]) -> Result<Report, WireError> {
    let wire: v1::Report = check::decode("Report", bytes, EVENT_BYTES_MAX)?;
    // Bounded by the message's bytes.
    let attributes = check::list("Report.attributes", wire.attributes, EVENT_BYTES_MAX, |attribute| {
        Ok((check::text("Attribute.name", attribute.name)?, check::text("Attribute.value", attribute.value)?))
    })?;
    Ok(Report {
        node_id: check::id("Report.node_id", &wire.node_id, NodeId::parse)?,
        kind: check::text("Report.kind", wire.kind)?,
        attributes,
        body: wire.body.map(|body| any::from_wire("Report.body", body)).transpose()?,
        observed_at: check::time("Report.observed_at_ms", wire.observed_at_ms)?,
    })
}

pub fn encode_report(report: &Report) -> Vec<u8> {
    let attributes = report.attributes.iter().cloned().map(|(name, value)| v1::Attribute { name, value }).collect();
    v1::Report {
        node_id: report.node_id.as_str().to_owned(),
        kind: report.kind.clone(),
        attributes,
        body: report.body.clone().map(any::to_wire),
        observed_at_ms: report.observed_at.0,
    }
    .encode_to_vec()
}

/// The content of a settled command, at most `RESULT_BYTES_MAX` bytes.
pub fn decode_result(bytes: &[u8]) -> Result<CommandResult, WireError> {
    let wire: v1::CommandResult = check::decode("CommandResult", bytes, RESULT_BYTES_MAX)?;
    Ok(CommandResult {
        code: check::text("CommandResult.code", wire.code)?,
        message: check::text("CommandResult.message", wire.message)?,
        value: wire.value.map(|value| any::from_wire("CommandResult.value", value)).transpose()?,
    })
}

/// A message over its bound is cut: it is for people, and the result must arrive. The caller checks the
/// whole against `RESULT_BYTES_MAX` before it journals it.
pub fn encode_result(result: &CommandResult) -> Vec<u8> {
    v1::CommandResult {
        code: result.code.clone(),
        message: check::cut(result.message.clone(), TEXT_BYTES_MAX),
        value: result.value.clone().map(any::to_wire),
    }
    .encode_to_vec()
}

/// What a node signed about a result.
pub fn decode_statement(bytes: &[u8]) -> Result<ResultStatement, WireError> {
    let wire: v1::ResultStatement = check::decode("ResultStatement", bytes, TEXT_BYTES_MAX)?;
    let have = wire.result_sha256.len();
    let field = "ResultStatement.result_sha256";
    Ok(ResultStatement {
        command_id: check::id("ResultStatement.command_id", &wire.command_id, CommandId::parse)?,
        outcome: check::known("ResultStatement.state", wire.state, outcome_from_wire)?,
        result_sha256: wire.result_sha256.try_into().map_err(|_| WireError::BadLength { field, have, want: 32 })?,
    })
}

pub fn encode_statement(statement: &ResultStatement) -> Vec<u8> {
    v1::ResultStatement {
        command_id: statement.command_id.as_str().to_owned(),
        state: outcome_to_wire(statement.outcome) as i32,
        result_sha256: statement.result_sha256.to_vec(),
    }
    .encode_to_vec()
}
