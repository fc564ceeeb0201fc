//! The operations on a store in memory, with nodes that behave as the daemon does.

mod history;
mod holds;
mod inventory;
mod node;
mod reports;
mod reservations;
mod specs;
pub(crate) mod world;
