//! Sites and pools: where nodes are, and which nodes belong together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who may use a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SiteKind {
    /// The root tenant's, open to every tenant's pools.
    #[default]
    Shared,
    /// The root tenant's, for one tenant.
    Dedicated,
    /// A tenant's own.
    Owned,
}

/// Makes a site. `shared` and `dedicated` ones belong to the root tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SitesCreate {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// Unique in the tenant: 1 to 63 of a-z 0-9 -, starting with a letter. Absent for a site that only has its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub kind: SiteKind,
    /// A region label, as `eu-central-1`.
    pub region: String,
    /// The region's name in policies, when it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iam_region: Option<String>,
    /// Exactly for `dedicated`: the tenant the site is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedicated_tenant_id: Option<String>,
    pub idempotency_key: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SitesGet {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// An id or a unique name.
    pub site_id: String,
}

/// Lists the sites the tenant sees: its own, shared ones, and those dedicated to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SitesList {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Site {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub owner_tenant_id: String,
    pub kind: SiteKind,
    pub region: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iam_region: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedicated_tenant_id: Option<String>,
    pub version: u64,
    pub created_at: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SitePage {
    pub items: Vec<Site>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Whether a new node is ready by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Adoption {
    /// Ready at the first accepted inventory.
    #[default]
    Auto,
    /// Stays `adopting` until an operator says otherwise.
    Manual,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolPolicy {
    #[serde(default)]
    pub adoption: Adoption,
}

/// Makes a pool on a site.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolsCreate {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// An id or a unique name.
    pub site_id: String,
    /// Unique in the tenant: 1 to 63 of a-z 0-9 -, starting with a letter.
    pub name: String,
    #[serde(default)]
    pub policy: PoolPolicy,
    /// The tenant controls these machines itself: destructive commands are not sent to them.
    #[serde(default)]
    pub tenant_controlled: bool,
    pub idempotency_key: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolsGet {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// An id or a unique name.
    pub pool_id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolsList {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    pub id: String,
    pub name: String,
    pub tenant_id: String,
    pub site_id: String,
    pub policy: PoolPolicy,
    pub tenant_controlled: bool,
    pub version: u64,
    pub created_at: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolPage {
    pub items: Vec<Pool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
