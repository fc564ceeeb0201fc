//! Log lines: JSON for machines, text for people, both to standard error and never to standard output.

use crate::config::{Level, Log};
use tracing::level_filters::LevelFilter;

/// Starts logging for the rest of the process. A second call changes nothing.
pub fn start(log: Log) {
    let level = match log.level {
        Level::Debug => LevelFilter::DEBUG,
        Level::Info => LevelFilter::INFO,
        Level::Warn => LevelFilter::WARN,
        Level::Error => LevelFilter::ERROR,
    };
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    let started = match log.json {
        true => builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init(),
        false => builder.with_ansi(false).try_init(),
    };
    if started.is_err() {
        tracing::debug!("logging had started already");
    }
}
