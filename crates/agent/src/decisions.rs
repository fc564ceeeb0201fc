//! One log line for each decision of the session machine: a constant message, ids as fields.

use model::NodeId;
use node_core::Decision;

/// Logs `decision` of node `node_id`.
pub fn log(node_id: &NodeId, decision: &Decision) {
    macro_rules! line {
        ($level:ident, $message:literal $(, $($field:tt)+)?) => {
            tracing::$level!(%node_id, $($($field)+,)? $message)
        };
    }
    match decision {
        Decision::Accepted { id, again } => line!(info, "command accepted", command_id = %id, again),
        Decision::Rejected { id, reason } => line!(warn, "command rejected", command_id = %id, reason = reason.name()),
        Decision::Busy { id: Some(id), why } => line!(warn, "command answered busy", command_id = %id, ?why),
        Decision::Busy { id: None, why } => line!(warn, "command answered busy", ?why),
        Decision::Deferred { id } => line!(info, "command deferred", command_id = %id),
        Decision::Reattached { id } => line!(info, "command is already here", command_id = %id),
        Decision::Resent { id } => line!(info, "result sent again", command_id = %id),
        Decision::Rebooted { id } => line!(info, "the reboot completed the command", command_id = %id),
        Decision::Interrupted { id } => line!(warn, "command was interrupted", command_id = %id),
        Decision::JournalLost { id } => line!(warn, "command is older than this journal", command_id = %id),
        Decision::Cancelled { id } => line!(info, "command cancelled", command_id = %id),
        Decision::CancelTooLate { id } => line!(info, "cancel came too late", command_id = %id),
        Decision::Started { id } => line!(info, "command started", command_id = %id),
        Decision::Settled { id } => line!(info, "command settled", command_id = %id),
        Decision::SessionUp { epoch } => line!(info, "session is up", epoch),
        Decision::SessionDown { code } => line!(warn, "session is down", code = code.map_or("lost", |c| c.name())),
        Decision::Draining { delay_ms } => line!(info, "the gateway drains", delay_ms),
        Decision::TimeRefused => line!(error, "server time refused"),
        Decision::TimeIgnored => line!(warn, "server time ignored"),
        Decision::BundleAdopted => line!(info, "trust bundle adopted"),
        Decision::BundleRefused => line!(error, "trust bundle refused"),
        Decision::SpecApplied { generation } => line!(info, "spec applied", generation),
        Decision::SpecRefused { why } => line!(error, "spec refused", why),
        Decision::EventsDropped { count } => line!(warn, "metric events dropped", count),
        Decision::Swept { count } => line!(info, "old commands swept", count),
        Decision::Ticket { verdict } => line!(info, "exec ticket judged", verdict = ?verdict),
    }
}
