//! Join tokens: what a machine shows once to become a node of a pool.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a join token expects of the machine that shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinExpect {
    /// One of the machine's MAC addresses, lower case with colons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
}

/// Makes a join token. Its bearer is in the first answer and nowhere else: only its hash is stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinTokensCreate {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// An id or a unique name. The pool's site is the token's.
    pub pool_id: String,
    /// Seconds until it expires, 60 to 86,400.
    pub ttl_seconds: u64,
    /// How many machines may join with it, 1 to 10,000; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_uses: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<JoinExpect>,
    /// A machine that is a node already may come back as the same node.
    #[serde(default)]
    pub allow_reclaim: bool,
    pub idempotency_key: String,
}

/// Lists join tokens, used and revoked ones included, never a bearer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinTokensList {
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

/// Ends a join token at once. Revoking a revoked one succeeds and changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinTokensRevoke {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// The id, `jt_…`; never the bearer.
    pub token_id: String,
    pub idempotency_key: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinToken {
    pub id: String,
    pub tenant_id: String,
    pub site_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_id: Option<String>,
    /// `node`.
    pub role: String,
    pub uses_left: u32,
    pub max_uses: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<JoinExpect>,
    pub allow_reclaim: bool,
    pub created_at: String,
    pub expires_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
    /// `bcjt_<id>.<secret>`, in the answer that made it only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinTokenPage {
    pub items: Vec<JoinToken>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
