//! The acceptance checks, in the page's order (`delivery.md`, Acceptance checks; decisions D-Q1,
//! D-Q32). One decision tree, one place; each step carries its number.

use crate::outside::Outside;
use model::frame::{CommandBody, Signed};
use model::{Kind, NodeId, RejectReason, Role, ServerTimeMs};

/// What a check looks at besides the command.
pub struct CheckContext<'a> {
    pub node_id: &'a NodeId,
    pub role: Role,
    pub applied_generation: u64,
    pub now: ServerTimeMs,
    /// Only `daemon.upgrade` runs on this session.
    pub upgrade_only: bool,
    /// `approver_set_sha256` is pinned and that set has not arrived: nothing destructive runs.
    pub awaits_approvers: bool,
    pub has_credit: bool,
    pub has_journal_room: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accept(Kind),
    /// Wait for a newer spec, at most until `not_after`.
    Defer,
    /// Terminal and journaled, except `Busy`.
    Reject(RejectReason),
}

pub fn check(context: &CheckContext<'_>, outside: &impl Outside, body: &CommandBody, signed: &Signed) -> Verdict {
    // 1. UNSUPPORTED
    let supported = Kind::parse(&body.kind)
        .filter(|kind| body.node_id == *context.node_id && kind.runs_on(context.role) && outside.implements(*kind))
        .filter(|kind| !context.upgrade_only || *kind == Kind::DaemonUpgrade);
    let Some(kind) = supported else { return Verdict::Reject(RejectReason::Unsupported) };

    // 2. min_generation, then 3. EXPIRED: behind and past is stale, behind without a limit is expired.
    let is_behind = body.min_generation > context.applied_generation;
    match body.not_after {
        None => return Verdict::Reject(RejectReason::Expired),
        Some(not_after) if is_behind && context.now > not_after => {
            return Verdict::Reject(RejectReason::StaleGeneration);
        }
        Some(_) if is_behind => return Verdict::Defer,
        Some(not_after) if context.now > not_after => return Verdict::Reject(RejectReason::Expired),
        Some(_) => {}
    }

    // 4. BAD_SIGNATURE: what the body says of itself never matters.
    if outside.has_command_roots() && !outside.verify_command(signed, context.now) {
        return Verdict::Reject(RejectReason::BadSignature);
    }

    // 5. The quorum: until the pinned approver set has arrived, nothing destructive.
    if kind.spec().destructive && context.awaits_approvers {
        return Verdict::Reject(RejectReason::BatchUnapproved);
    }

    // 6. BUSY
    if context.has_credit && context.has_journal_room {
        Verdict::Accept(kind)
    } else {
        Verdict::Reject(RejectReason::Busy)
    }
}
