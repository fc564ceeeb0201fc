//! Who may act: tenants as a tree, principals with hashed tokens, requests that were made before, and
//! what was decided about each.
//!
//! Not here: deciding what a principal may do, and making or parsing tokens.

mod audit;
mod idempotency;
mod tenants;
mod tokens;

pub use audit::{AuditEntry, AuditRow, audit, audit_list};
pub use idempotency::{Earlier, Request, earlier, record};
pub use tenants::{TenantRow, create_principal, create_tenant, get_tenant, is_within, list_tenants};
pub use tokens::{
    ApiTokenRow, Identity, NewApiToken, authenticate, create_api_token, get_api_token, list_api_tokens,
    revoke_api_token,
};
