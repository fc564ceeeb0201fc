//! `bcd node`: the runtime, the signals, and the daemon.

use crate::args::ConfigArgs;
use crate::failed;
use agent::config::{self, Build};
use agent::node;
use host::RealHost;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Blocking work of one daemon at a time: seven workers, the identity, the inventory, the journal's end.
const BLOCKING_THREADS_MAX: usize = 12;
/// Idle blocking threads go after this long, and their memory with them.
const BLOCKING_KEPT: Duration = Duration::from_secs(2);
/// Work on the host that is still running gets this long at the end.
const END_WITHIN: Duration = Duration::from_secs(2);

pub fn run(args: &ConfigArgs, build: Build) -> ExitCode {
    let config = match config::load(&args.config, build) {
        Ok(config) => config,
        Err(error) => return failed("bcd node", &error),
    };
    agent::logging::start(config.log);
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return failed("bcd node", &error),
    };
    let ended = runtime.block_on(async {
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        tokio::spawn(async move {
            stop_signal().await;
            tracing::info!("a signal asks the daemon to end");
            stopping.cancel();
        });
        node::run(&config, Arc::new(RealHost::default()), stop).await
    });
    runtime.shutdown_timeout(END_WITHIN);
    match ended {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = stdx::error::chain(&error), "bcd node ends");
            failed("bcd node", &error)
        }
    }
}

/// One thread runs everything that waits; a daemon waits most of its life.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_keep_alive(BLOCKING_KEPT)
        .build()
}

/// Returns at the first SIGTERM or SIGINT.
pub async fn stop_signal() {
    let listen = |kind| signal(kind).expect("a process may listen for its own signals");
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate()), listen(SignalKind::interrupt()));
    tokio::select! {
        // Cancel-safe, both: a signal stays noticed.
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
