//! Operations on a store in memory: data in, data out, on a clock the test sets.

mod attested;
mod commands;
mod dispatch;
mod events;
mod fleet;
mod history;
mod join;
mod modules;
mod outbox;
mod people;
mod plans;
mod resume;
mod retention;
mod sessions;
mod status;
mod store;
mod sweep;
mod updates;
mod world;
