//! The API as values: the request and the response of every verb, the error shape and its codes, and
//! the one table of verbs that the router, the OpenAPI document and the client are made from.
//!
//! Names on the wire are camelCase. A request with an unknown key is refused; a response may grow
//! keys, so readers ignore what they do not know. Times are RFC 3339 in UTC with milliseconds.
//!
//! Not here: what a verb does, HTTP, and any default that depends on the server.

mod access;
mod command;
mod error;
mod event;
mod fleet;
mod node;
mod place;
mod token;
mod verbs;

pub use access::*;
pub use command::*;
pub use error::*;
pub use event::*;
pub use fleet::*;
pub use node::*;
pub use place::*;
pub use token::*;
pub use verbs::*;

/// Where the API is served unless the host mounts it elsewhere.
pub const BASE_PATH: &str = "/api/compute";
/// Largest request body, bytes.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Items of a page when the request gives no `limit`, and the most it may ask for.
pub const PAGE_DEFAULT: u32 = 100;
pub const PAGE_MAX: u32 = 500;
/// Longest idempotency key, bytes; printable ASCII.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 200;

#[cfg(test)]
mod tests;
