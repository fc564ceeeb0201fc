//! Nodes: what each is, whether it is there, and what it is made of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodesList {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// An id or a unique name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodesGet {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// An id or a unique name.
    pub node_id: String,
}

/// Revokes a node and its certificates for good: its session ends at once and it never comes back
/// under this id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodesRevoke {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// An id or a unique name.
    pub node_id: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub idempotency_key: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    pub id: String,
    pub name: String,
    pub tenant_id: String,
    pub site_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_id: Option<String>,
    pub role: String,
    /// `adopting`, `ready`, `draining`, `retired`.
    pub lifecycle: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
    pub connection: Connection,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    pub generations: Generations,
    pub conditions: Vec<NodeCondition>,
    /// Absent until the first report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inventory: Option<InventorySummary>,
    pub created_at: String,
}

/// Whether the node has a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// `connected`, `lost`, or `never` for a node that has had no session yet.
    pub state: ConnectionState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected_since: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_since: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ConnectionState {
    Connected,
    Lost,
    Never,
}

/// Where the node stands with its desired state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Generations {
    /// The newest spec written.
    pub desired: u64,
    /// The newest one the daemon holds.
    pub applied: u64,
    /// The newest one at which every section settled.
    pub observed: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeCondition {
    pub kind: String,
    pub reason: String,
    pub message: String,
    pub since: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InventorySummary {
    /// SHA-256 of the inventory as reported.
    pub digest: String,
    pub hostname: String,
    pub os: OsSummary,
    pub firmware: FirmwareSummary,
    pub cpus: CpuSummary,
    pub memory_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_version: Option<String>,
    pub gpus: Vec<GpuSummary>,
    pub nics: Vec<NicSummary>,
    pub disks: Vec<DiskSummary>,
    /// What the node could not read, as `subject: reason`.
    pub problems: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OsSummary {
    pub name: String,
    pub kernel: String,
    pub architecture: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FirmwareSummary {
    pub vendor: String,
    pub product: String,
    pub product_uuid: String,
    pub product_serial: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuSummary {
    pub model: String,
    pub sockets: u32,
    pub cores: u32,
    pub threads: u32,
    pub numa_nodes: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuSummary {
    pub uuid: String,
    pub name: String,
    pub pci_address: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig_enabled: Option<bool>,
    pub mig_instances: Vec<MigSummary>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigSummary {
    pub uuid: String,
    pub profile: String,
    pub gpu_instance_id: u32,
    pub compute_instance_id: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NicSummary {
    pub name: String,
    pub mac: String,
    pub state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_mbps: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskSummary {
    pub name: String,
    pub model: String,
    pub serial: String,
    pub size_bytes: u64,
    pub transport: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePage {
    pub items: Vec<Node>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
