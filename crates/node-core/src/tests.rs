//! The machine against the page, line by line, on a harness that plays disk, gateway and workers.

mod cancel;
mod delivery;
mod harness;
mod journaling;
mod recovery;
mod session;
mod tickets;
