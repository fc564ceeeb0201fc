//! The wire: generated messages and services (`v1`), and their translation into the plain values of
//! `model::frame`. A message that does not translate is an error that names the field; nothing is
//! guessed. Bounds of the `.proto` files are checked here, at the one place where outside bytes
//! become values.
//!
//! Not here: any rule about what a value means, and any check of a signature or a digest.

/// Generated from `proto/bettercompute/node/v1/*.proto`.
#[allow(clippy::all, missing_docs)]
pub mod v1 {
    tonic::include_proto!("bettercompute.node.v1");
}

mod agent;
mod any;
mod body;
mod check;
mod error;
mod gateway;
mod spec;
mod update;

pub use agent::{decode_agent_frame, encode_agent_frame};
pub use any::{pack, scan_tags, unpack};
pub use body::{
    decode_body, decode_desired_state, decode_report, decode_result, decode_statement, encode_body,
    encode_desired_state, encode_report, encode_result, encode_statement,
};
pub use error::WireError;
pub use gateway::{decode_gateway_frame, encode_gateway_frame};
pub use prost::{Message, Name};
pub use spec::{
    RawSection, Sections, decode_sections, encode_devices, encode_section, encode_spec, encode_telemetry,
    pack_allocation_report, patched, unpack_allocation_report,
};

#[cfg(test)]
mod tests;
