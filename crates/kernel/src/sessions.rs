//! Sessions: which gateway holds a node, under which epoch, and what that session may be sent.
//!
//! ```text
//!            accept_session            resume_done            close_session
//! (closed) ─────────────────▶ resuming ────────────▶ ready ─────────────────▶ closed
//!                    ▲                                  │ a newer session: epoch + 1
//!                    └──────────────────────────────────┘
//! ```
//!
//! The row of `node_sessions` is the truth: a gateway that holds another epoch holds nothing. After
//! an outcome it does not know (a lost reply of [`dispatch`], [`resume_done`] or
//! [`pending_cancels`]) a gateway ends the sessions concerned, and their next resume sends again.

mod accept;
mod cancels;
mod close;
mod dispatch;
mod gateways;
mod plan;
mod resume;

pub use accept::{CertFacts, SessionAnswer, accept_session};
pub use cancels::pending_cancels;
pub use close::{close_session, sessions_to_close, touch_sessions};
pub use dispatch::{Outgoing, dispatch};
pub use gateways::{GATEWAY_SILENT_MS, gateway_heartbeat, gateway_started};
pub use resume::{ResumeError, resume_done};

use crate::db::{StoreError, Tx, args};
use model::{BootId, JournalId, NodeId};

/// The stored session of a node, as far as it decides what it may be sent.
pub(crate) struct Current {
    pub epoch: u64,
    pub boot: BootId,
    pub journal: JournalId,
    pub upgrade_required: bool,
}

/// The session of `node` if it is open, held by `gateway` and has `epoch`.
pub(crate) fn current(
    tx: &mut Tx<'_>,
    gateway: &str,
    node: &NodeId,
    epoch: u64,
) -> Result<Option<Current>, StoreError> {
    tx.query_opt(
        "SELECT session_epoch, boot_id, journal_id, upgrade_required FROM node_sessions
         WHERE node_id = ?1 AND session_epoch = ?2 AND gateway_id = ?3 AND state <> 'closed'",
        args![node, epoch, gateway],
        |row| {
            Ok(Current { epoch: row.take()?, boot: row.take()?, journal: row.take()?, upgrade_required: row.take()? })
        },
    )
}

/// Whether `epoch` is the node's current one and its session is open.
pub(crate) fn is_current(tx: &mut Tx<'_>, node: &NodeId, epoch: u64) -> Result<bool, StoreError> {
    tx.exists(
        "SELECT 1 FROM node_sessions WHERE node_id = ?1 AND session_epoch = ?2 AND state <> 'closed'",
        args![node, epoch],
    )
}

/// The statements whose plans are tested.
#[cfg(test)]
pub(crate) mod testing {
    pub(crate) use super::cancels::CANCELLING;
    pub(crate) use super::dispatch::{IN_FLIGHT, SESSIONS_WITH_WORK, WAITING};
}
