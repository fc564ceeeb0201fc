//! What the end-to-end tests and measurements stand on: real processes, started, watched and killed.
//!
//! - [`supervisor`] runs a process under ptrace, counts its durable calls and kills it at one of them.
//! - [`fleet`] is a control plane and its nodes, as processes in a folder of their own.
//! - [`bench`] measures.
//!
//! Not here: any part of the product. These tests would survive replacing the programs they start.

pub mod bench;
pub mod fleet;
pub mod supervisor;
pub mod wait;
