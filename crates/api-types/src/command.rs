//! Commands: one-shot actions of a node, and what became of each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Sends a command to a node. It is stored before this returns, and delivered when the node is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandsRun {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// An id or a unique name.
    pub node_id: String,
    /// As `diag.nvml`.
    pub kind: String,
    /// The kind's request; absent for an empty one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// Seconds from now after which it must not start; 300 when absent, at most 604,800.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after_seconds: Option<i64>,
    /// The spec generation it presupposes; none when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_generation: Option<u64>,
    pub idempotency_key: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandsGet {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    pub command_id: String,
}

/// Lists commands, newest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandsList {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// An id or a unique name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<CommandState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Asks for a command to be given up. One whose side effect has started reports its real outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandsCancel {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    pub command_id: String,
    /// For people; reaches the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub idempotency_key: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CommandState {
    Pending,
    Dispatched,
    Acked,
    Running,
    Succeeded,
    Failed,
    Rejected,
    Cancelled,
    Expired,
}

impl CommandState {
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Rejected | Self::Cancelled | Self::Expired)
    }
}

/// Whether the node's signature over the result holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Attested {
    /// The kind is not attested, or there is no result yet.
    None,
    /// A result is here; the control plane has not checked its signature yet.
    Unverified,
    Verified,
    Forged,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    pub id: String,
    pub tenant_id: String,
    pub node_id: String,
    /// Per node, in the order of enqueueing.
    pub seq: u64,
    pub kind: String,
    pub lane: String,
    pub state: CommandState,
    /// What the node reported, once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Why it failed, was rejected or cancelled; `rebooted` for a reboot that happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The kind's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    pub attested: Attested,
    /// Deliveries so far.
    pub attempts: u32,
    pub min_generation: u64,
    pub cancel_requested: bool,
    /// The boot that produced the latest report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    pub created_at: String,
    pub not_after: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatched_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandPage {
    pub items: Vec<Command>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
