//! What both directions share: signatures, roles, the end of a session, and one step of a command.

use crate::{WireError, check, v1};
use model::frame::{CommandUpdate, Settled, Signed, UpdateState};
use model::limits::{
    CERTIFICATE_BYTES_MAX, RESULT_BYTES_MAX, SESSION_END_MESSAGE_BYTES_MAX, SIGNATURE_BYTES, SIGNATURE_CHAIN_MAX,
};
use model::{BootId, CommandId, Outcome, Role, SessionEnd};

impl TryFrom<v1::Signed> for Signed {
    type Error = WireError;

    fn try_from(wire: v1::Signed) -> Result<Self, WireError> {
        let signature = wire.signature;
        if !signature.is_empty() && signature.len() != SIGNATURE_BYTES {
            let have = signature.len();
            return Err(WireError::BadLength { field: "Signed.signature", have, want: SIGNATURE_BYTES });
        }
        Ok(Self {
            body: wire.body,
            kid: check::text("Signed.kid", wire.kid)?,
            chain: check::list("Signed.chain", wire.chain, SIGNATURE_CHAIN_MAX, |certificate| {
                check::bytes("Signed.chain", certificate, CERTIFICATE_BYTES_MAX)
            })?,
            signature,
        })
    }
}

impl From<Signed> for v1::Signed {
    fn from(signed: Signed) -> Self {
        Self { body: signed.body, kid: signed.kid, chain: signed.chain, signature: signed.signature }
    }
}

pub(crate) fn signed_or_none(wire: Option<v1::Signed>) -> Result<Option<Signed>, WireError> {
    wire.map(Signed::try_from).transpose()
}

pub(crate) fn role_from_wire(field: &'static str, value: i32) -> Result<Role, WireError> {
    check::known(field, value, |value| match v1::Role::try_from(value).ok()? {
        v1::Role::Unspecified => None,
        v1::Role::Node => Some(Role::Node),
        v1::Role::Site => Some(Role::Site),
        v1::Role::Ramdisk => Some(Role::Ramdisk),
    })
}

impl From<Role> for v1::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::Node => Self::Node,
            Role::Site => Self::Site,
            Role::Ramdisk => Self::Ramdisk,
        }
    }
}

/// The wire's number of each ending, in one table for both ways.
const ENDS: [(v1::SessionEndCode, SessionEnd); 11] = [
    (v1::SessionEndCode::SessionEndSuperseded, SessionEnd::Superseded),
    (v1::SessionEndCode::SessionEndRevoked, SessionEnd::Revoked),
    (v1::SessionEndCode::SessionEndCertificateExpired, SessionEnd::CertificateExpired),
    (v1::SessionEndCode::SessionEndWrongFleet, SessionEnd::WrongFleet),
    (v1::SessionEndCode::SessionEndFrameTooLarge, SessionEnd::FrameTooLarge),
    (v1::SessionEndCode::SessionEndProtocolError, SessionEnd::ProtocolError),
    (v1::SessionEndCode::SessionEndHeartbeatLost, SessionEnd::HeartbeatLost),
    (v1::SessionEndCode::SessionEndEpochLost, SessionEnd::EpochLost),
    (v1::SessionEndCode::SessionEndDraining, SessionEnd::Draining),
    (v1::SessionEndCode::SessionEndTimeRefused, SessionEnd::TimeRefused),
    (v1::SessionEndCode::SessionEndShutdown, SessionEnd::Shutdown),
];

pub(crate) fn end_from_wire(wire: v1::SessionEnd) -> Result<(SessionEnd, String), WireError> {
    let code = check::known("SessionEnd.code", wire.code, |value| {
        ENDS.iter().find(|(number, _)| *number as i32 == value).map(|(_, code)| *code)
    })?;
    Ok((code, check::bytes("SessionEnd.message", wire.message, SESSION_END_MESSAGE_BYTES_MAX)?))
}

/// A message over its bound is cut: it is for people, and the code must arrive.
pub(crate) fn end_to_wire(code: SessionEnd, message: String) -> v1::SessionEnd {
    let number = ENDS.iter().find(|(_, known)| *known == code).map(|(number, _)| *number);
    v1::SessionEnd {
        code: number.unwrap_or_default() as i32,
        message: check::cut(message, SESSION_END_MESSAGE_BYTES_MAX),
    }
}

pub(crate) const fn outcome_to_wire(outcome: Outcome) -> v1::UpdateState {
    match outcome {
        Outcome::Succeeded => v1::UpdateState::Succeeded,
        Outcome::Failed => v1::UpdateState::Failed,
        Outcome::Rejected => v1::UpdateState::Rejected,
        Outcome::Cancelled => v1::UpdateState::Cancelled,
    }
}

/// The outcome of a terminal state, `None` for the others.
pub(crate) fn outcome_from_wire(value: i32) -> Option<Outcome> {
    Outcome::ALL.iter().copied().find(|outcome| outcome_to_wire(*outcome) as i32 == value)
}

impl TryFrom<v1::CommandUpdate> for CommandUpdate {
    type Error = WireError;

    fn try_from(wire: v1::CommandUpdate) -> Result<Self, WireError> {
        let command_id = check::id("CommandUpdate.command_id", &wire.command_id, CommandId::parse)?;
        let boot_id = check::id("CommandUpdate.boot_id", &wire.boot_id, BootId::parse)?;
        if let Some(outcome) = outcome_from_wire(wire.state) {
            let result = check::bytes("CommandUpdate.result", wire.result, RESULT_BYTES_MAX)?;
            let settled = Settled { outcome, result, node_sig: signed_or_none(wire.node_sig)? };
            return Ok(Self { command_id, state: UpdateState::Done(settled), boot_id });
        }
        let state = check::known("CommandUpdate.state", wire.state, |value| match v1::UpdateState::try_from(value) {
            Ok(v1::UpdateState::Acked) => Some(UpdateState::Acked),
            Ok(v1::UpdateState::Running) => Some(UpdateState::Running),
            Ok(v1::UpdateState::Busy) => Some(UpdateState::Busy),
            _ => None,
        })?;
        if !wire.result.is_empty() {
            return Err(WireError::Unexpected { field: "CommandUpdate.result" });
        }
        if wire.node_sig.is_some() {
            return Err(WireError::Unexpected { field: "CommandUpdate.node_sig" });
        }
        Ok(Self { command_id, state, boot_id })
    }
}

impl From<CommandUpdate> for v1::CommandUpdate {
    fn from(update: CommandUpdate) -> Self {
        let (state, settled) = match update.state {
            UpdateState::Acked => (v1::UpdateState::Acked, None),
            UpdateState::Running => (v1::UpdateState::Running, None),
            UpdateState::Busy => (v1::UpdateState::Busy, None),
            UpdateState::Done(settled) => (outcome_to_wire(settled.outcome), Some(settled)),
        };
        let (result, node_sig) = match settled {
            Some(settled) => (settled.result, settled.node_sig.map(v1::Signed::from)),
            None => (Vec::new(), None),
        };
        Self {
            command_id: update.command_id.as_str().to_owned(),
            state: state as i32,
            boot_id: update.boot_id.as_str().to_owned(),
            result,
            node_sig,
        }
    }
}

/// Translates updates of which at most `bytes_max` bytes are results.
pub(crate) fn updates(
    field: &'static str,
    wire: Vec<v1::CommandUpdate>,
    count_max: usize,
    bytes_max: usize,
) -> Result<Vec<CommandUpdate>, WireError> {
    check::at_most(field, wire.iter().map(|update| update.result.len()).sum(), bytes_max)?;
    check::list(field, wire, count_max, CommandUpdate::try_from)
}
