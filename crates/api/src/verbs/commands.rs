//! `commands.*`. A command is checked against the table of kinds here, signed here, and stored; what
//! happens to it afterwards is the gateway's and the node's affair.

use crate::call::{Call, Handle};
use crate::page;
use crate::refusal::Refusal;
use crate::{kinds, shape};
use api_types::*;
use kernel::commands::{self, CancelOutcome, CommandRow, EnqueueError, ListFilter, NewCommand};
use kernel::db::Tx;
use model::frame::{CommandBody, Signed};
use model::limits::{NOT_AFTER_DEFAULT_S, NOT_AFTER_MAX_S};
use model::{CommandId, Kind, Role};
use pki::{Purpose, SigningIdentity};
use serde_json::json;

/// A reason for people and for the node, characters.
const REASON_CHARS_MAX: usize = 500;

impl Handle for CommandsRun {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<Command, Refusal> {
        let node = shape::find_node(tx, &call.tenant, &self.node_id)?;
        let kind = kind(&self.kind, node.role)?;
        let payload =
            kinds::payload(kind, self.payload.clone()).map_err(|error| Refusal::invalid(error.to_string()))?;
        let not_after_s = self.not_after_seconds.unwrap_or(NOT_AFTER_DEFAULT_S);
        if !(1..=NOT_AFTER_MAX_S).contains(&not_after_s) {
            let message = format!("notAfterSeconds is {not_after_s}; 1 to {NOT_AFTER_MAX_S} are possible");
            return Err(Refusal::invalid(message));
        }
        let id = call.object_id();
        let new = NewCommand {
            id: CommandId::new(id.as_str()),
            node: node.id,
            principal: call.caller.principal.clone(),
            kind: kind.name().to_owned(),
            payload,
            not_after_in_ms: not_after_s * 1000,
            min_generation: self.min_generation.unwrap_or(0),
            // Keys are unique per node there, and per tenant and principal here.
            idempotency_key: format!("api:{id}"),
            workflow_id: String::new(),
            step_id: String::new(),
            traceparent: call.traceparent.to_owned(),
            batch_id: String::new(),
        };
        let row = commands::enqueue(tx, &|body| seal(call.worker, body), &new).map_err(enqueued)?;
        Ok(shape::command(row, None))
    }

    fn resource(&self) -> String {
        format!("compute-node/{}", self.node_id)
    }
}

/// A registered kind that a node of `role` runs; anything else is refused with the kinds there are.
fn kind(name: &str, role: Role) -> Result<Kind, Refusal> {
    let kinds = || json!({ "kinds": kinds::names(role) });
    let kind = Kind::parse(name)
        .ok_or_else(|| Refusal::invalid(format!("there is no command kind {name:?}")).with(kinds()))?;
    if kind.runs_on(role) {
        return Ok(kind);
    }
    Err(Refusal::invalid(format!("a node of role {role} does not run {kind}")).with(kinds()))
}

/// The bytes that are stored, signed and sent.
fn seal(worker: &SigningIdentity, body: &CommandBody) -> Signed {
    let signed = worker
        .sign(Purpose::Command, proto::encode_body(body))
        .expect("an API worker's certificate allows `command`: checked when it was issued");
    Signed { body: signed.body, kid: signed.kid, chain: signed.chain, signature: signed.signature }
}

fn enqueued(error: EnqueueError) -> Refusal {
    let text = error.to_string();
    match error {
        EnqueueError::UnknownNode(_) => Refusal::new(ErrorCode::NotFound, text),
        EnqueueError::NodeGone(_) => Refusal::new(ErrorCode::InvalidState, text),
        EnqueueError::Conflict(id) => Refusal::new(ErrorCode::Conflict, text).with(json!({ "commandId": id.as_str() })),
        EnqueueError::QueueFull => Refusal::new(ErrorCode::Unavailable, text),
        EnqueueError::BadDeadline | EnqueueError::BadKey | EnqueueError::BadGeneration | EnqueueError::TooLarge(_) => {
            Refusal::invalid(text)
        }
        EnqueueError::Store(error) => error.into(),
    }
}

/// A command of the tenant.
fn find(tx: &mut Tx<'_>, call: &Call<'_>, given: &str) -> Result<CommandRow, Refusal> {
    let missing = || Refusal::not_found("command", given);
    let id = CommandId::parse(given).map_err(|_| missing())?;
    commands::get(tx, &id)?.filter(|row| row.tenant == call.tenant).ok_or_else(missing)
}

fn show(tx: &mut Tx<'_>, row: CommandRow) -> Result<Command, Refusal> {
    let result = commands::result(tx, &row.id)?;
    Ok(shape::command(row, result))
}

impl Handle for CommandsGet {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<Command, Refusal> {
        let row = find(tx, call, &self.command_id)?;
        show(tx, row)
    }

    fn resource(&self) -> String {
        format!("compute-command/{}", self.command_id)
    }
}

impl Handle for CommandsList {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<CommandPage, Refusal> {
        let limit = page::limit(self.limit)?;
        let cursor = page::number(self.cursor.as_deref())?;
        let node = match &self.node_id {
            Some(given) => Some(shape::find_node(tx, &call.tenant, given)?.id),
            None => None,
        };
        let state = self.state.map(shape::stored_state);
        let filter = ListFilter { tenant: Some(call.tenant.clone()), node, state };
        let rows = commands::list(tx, &filter, cursor, limit + 1)?;
        let (rows, next_cursor) = page::cut(rows, limit, |row| row.n.to_string());
        let items = rows.into_iter().map(|row| show(tx, row)).collect::<Result<_, _>>()?;
        Ok(CommandPage { items, next_cursor })
    }

    fn resource(&self) -> String {
        "compute-command/*".to_owned()
    }
}

impl Handle for CommandsCancel {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<Command, Refusal> {
        if let Some(reason) = &self.reason {
            super::check_text("reason", reason, REASON_CHARS_MAX)?;
        }
        let row = find(tx, call, &self.command_id)?;
        let reason = self.reason.as_deref().unwrap_or("cancelled through the API");
        match commands::request_cancel(tx, &row.id, reason)? {
            CancelOutcome::Cancelled | CancelOutcome::Requested => {}
            CancelOutcome::Settled(state) => {
                return Err(Refusal::new(ErrorCode::InvalidState, format!("the command has settled already: {state}")));
            }
            CancelOutcome::Unknown => return Err(Refusal::not_found("command", &self.command_id)),
        }
        let row = find(tx, call, &self.command_id)?;
        show(tx, row)
    }

    fn resource(&self) -> String {
        format!("compute-command/{}", self.command_id)
    }
}
