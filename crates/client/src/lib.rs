//! The API from Rust: one typed call for every verb, a watch that resumes by itself, blobs whose
//! digest was checked.
//!
//! Every call may be repeated, because a mutation carries its idempotency key: what a lost answer
//! or a restarting control plane interrupts is tried again with the same key, a bounded number of
//! times. What the API refuses is not tried again, except `UNAVAILABLE`.
//!
//! Not here: where the URL and the token come from, and how anything is shown.

mod blob;
mod call;
mod endpoint;
mod error;
mod retry;
mod sse;
mod watch;

pub use endpoint::{Client, ClientConfig};
pub use error::ClientError;
pub use retry::RetryPolicy;
pub use watch::{Watch, WatchFilter, WatchItem};

#[cfg(test)]
mod tests;
