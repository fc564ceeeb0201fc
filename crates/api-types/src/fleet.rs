//! The fleet as a whole: what it is called, what its nodes must pin, how many there are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FleetGet {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fleet {
    pub fleet_id: String,
    /// The tenant of the caller.
    pub tenant_id: String,
    pub principal_id: String,
    /// Of the control plane that answered.
    pub version: String,
    pub server_time: String,
    pub nodes: NodeCounts,
    /// Commands that are not settled.
    pub commands_open: u64,
    /// The newest event's position.
    pub position: u64,
    /// What this control plane believes about commands: `required` once the fleet signs them.
    pub command_signatures: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeCounts {
    pub total: u64,
    pub connected: u64,
    pub adopting: u64,
    pub ready: u64,
}
