//! The API role: `POST {basePath}/<resource>.<verb>` over the store, `/watch` as server-sent events, blobs,
//! the OpenAPI document, health and metrics.
//!
//! ```text
//! bearer token ─▶ caller ─▶ parse (unknown keys refused) ─▶ one transaction:
//!     tenant and permission ─▶ idempotency ─▶ the verb ─▶ its record and its audit row
//! ```
//!
//! A mutation, its idempotency record and its audit row commit together, so a retry finds all of them
//! or none. A denied mutation leaves an audit row of its own.
//!
//! Not here: SQL, sessions with nodes, and whatever happens by itself (controllers).

mod auth;
mod blobs;
mod call;
mod http;
mod inventory;
mod kinds;
mod metrics;
mod openapi;
mod page;
mod refusal;
mod service;
mod shape;
mod time;
mod trace;
mod verbs;
mod watch;

pub use auth::{ApiSecret, FIRST_PRINCIPAL, ROOT_TENANT, ensure_first_token};
pub use http::{ListenError, check_listen};
pub use service::{Api, ApiOptions};

#[cfg(test)]
mod tests;
