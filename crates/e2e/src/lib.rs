//! What the end-to-end tests and measurements stand on: real processes, started, watched and killed.
//!
//! - [`bench`] measures.
//! - [`supervisor`] runs a process under ptrace, counts its durable calls and kills it at one of them.
//!
//! Not here: any part of the product. These tests would survive replacing the programs they start.

pub mod bench;
pub mod supervisor;
