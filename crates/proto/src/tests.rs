//! The translation both ways, each bound by its name, and the numbers on the wire.

mod bounds;
mod bytes;
mod numbers;
mod round_trips;
mod spec;
mod strategies;
