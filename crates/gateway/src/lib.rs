//! The gateway: holds the sessions of nodes and moves frames between them and the store. It decides
//! nothing about commands and judges no signature; a compromised one can delay and drop, not forge.
//!
//! [`core`] is the pure half: one [`core::Gateway`] machine over all connections, whose store
//! operations go out as values. [`serve`] is the shell: TLS, gRPC, the store and the hints.

pub mod core;
mod metrics;
mod relay;
mod shell;
mod stream;
mod tls;

pub use metrics::GatewayMetrics;
pub use shell::{GatewayHandle, GatewayKeys, GatewayOptions, ServeError, serve};
