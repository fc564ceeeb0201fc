//! `serve`: any subset of the roles in one process. Roles meet in the store and on the hint bus, never in
//! each other; each is given its own keys and no others.
//!
//! Once everything listens, one JSON line on standard output says where. SIGTERM and SIGINT drain: the
//! gateway asks agents to reconnect, event streams end, open requests finish; a second signal ends at once.

use crate::args::{Role, ServeArgs};
use crate::bootstrap::{blob_dir, open_store};
use crate::keys::{self, RoleKeys};
use crate::logging;
use anyhow::{Context, bail, ensure};
use api::{Api, ApiOptions};
use controllers::{Controllers, ControllersOptions};
use gateway::{GatewayHandle, GatewayMetrics, GatewayOptions};
use kernel::db::{HintBus, Store};
use kernel::events::Handlers;
use model::GatewayId;
use prometheus_client::registry::Registry;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Who this process is to leases and sessions. The store admits one process at a time, so the process
/// before this one is gone, and going on under its name loses no time.
const PROCESS_NAME: &str = "local";
/// Between looks at whether sessions have ended while draining.
const DRAIN_POLL: Duration = Duration::from_millis(50);

pub(crate) fn run(args: ServeArgs) -> anyhow::Result<()> {
    logging::start(args.log_format, &args.log_level)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?;
    let outcome = runtime.block_on(serve(args));
    runtime.shutdown_timeout(Duration::from_secs(2));
    outcome
}

/// The running roles.
struct Roles {
    gateway: Option<GatewayHandle>,
    gateway_metrics: GatewayMetrics,
    api: Option<(Api, JoinHandle<std::io::Result<()>>)>,
    controllers: Option<Controllers>,
}

async fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let roles = check_roles(&args.roles)?;
    if roles.contains(&Role::Api) {
        api::check_listen(args.listen, args.insecure_listen)?;
    }
    check_base_path(&args.base_path)?;
    let paths: Vec<PathBuf> = if args.keys.is_empty() { vec![args.data_dir.join("keys")] } else { args.keys.clone() };
    let role_keys = keys::load(&paths, &roles, &keys::sealing_key(&args.unseal)?)?;
    // Signals count from here on, so that none is lost while the roles start.
    let (mut terminate, mut interrupt) = (listen_for(SignalKind::terminate())?, listen_for(SignalKind::interrupt())?);
    let hints = HintBus::new();
    let store = open_store(&args.data_dir, hints.clone())?;
    let mut running = start(&args, role_keys, &store, hints).await?;
    let outcome = tokio::select! {
        // Cancel-safe, both: a signal stays noticed.
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        failure = running.failed() => Err(failure),
    };
    let window = Duration::from_secs(args.drain_seconds);
    tracing::info!(window_s = args.drain_seconds, "draining");
    tokio::select! {
        () = running.drain(window) => {}
        _ = terminate.recv() => tracing::warn!("ended at once by a second signal"),
        _ = interrupt.recv() => tracing::warn!("ended at once by a second signal"),
    }
    outcome
}

async fn start(args: &ServeArgs, keys: RoleKeys, store: &Store, hints: HintBus) -> anyhow::Result<Roles> {
    let mut registry = Registry::default();
    let blobs = blob_dir(&args.data_dir);
    stdx::durable::create_directory(&blobs, 0o700)?;
    let gateway_metrics = GatewayMetrics::default();
    let mut running = Roles { gateway: None, gateway_metrics: gateway_metrics.clone(), api: None, controllers: None };
    // The controllers first: they write what a gateway relays in its first Welcome.
    if let Some((join, worker)) = keys.controllers {
        let options = ControllersOptions { holder: PROCESS_NAME.to_owned(), blobs: blobs.clone() };
        let started = Controllers::start(join, worker, store.clone(), options, &mut registry).await;
        running.controllers = Some(started.context("cannot start the controllers")?);
    }
    let mut ready = serde_json::Map::new();
    if let Some(keys) = keys.gateway {
        gateway_metrics.register(registry.sub_registry_with_prefix("better_compute"));
        let options = GatewayOptions {
            keys,
            id: GatewayId::new(PROCESS_NAME),
            store: store.clone(),
            hints,
            handlers: Arc::new(Handlers::default()),
            listen: args.gateway_listen,
            blob_dir: blobs.clone(),
            metrics: gateway_metrics,
        };
        let handle = gateway::serve(options).await.context("cannot start the gateway")?;
        ready.insert("gateway".to_owned(), json!(handle.address.to_string()));
        running.gateway = Some(handle);
    }
    if let Some(keys) = keys.api {
        let options = ApiOptions { base_path: args.base_path.clone(), blobs, version: env!("CARGO_PKG_VERSION") };
        let api = Api::new(keys, store.clone(), options, &mut registry);
        let listener = TcpListener::bind(args.listen).await;
        let listener = listener.with_context(|| format!("cannot listen on {}", args.listen))?;
        let address = listener.local_addr().context("cannot tell the API's address")?;
        ready.insert("api".to_owned(), json!(address.to_string()));
        let (serving, registry) = (api.clone(), Arc::new(registry));
        let task = tokio::spawn(async move { serving.serve(listener, registry).await });
        tracing::info!(%address, "API listening");
        running.api = Some((api, task));
    }
    say_ready(&serde_json::Value::Object(ready))?;
    Ok(running)
}

/// Data for whoever started this process; it may have no reader.
fn say_ready(ready: &serde_json::Value) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = writeln!(stdout, "{ready}").and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot say where it listens")
        }
        _ => Ok(()),
    }
}

impl Roles {
    /// Returns when a role ends by itself, which none does without a defect or a broken listener.
    async fn failed(&mut self) -> anyhow::Error {
        let api = async {
            match &mut self.api {
                Some((_, task)) => match task.await {
                    Ok(Ok(())) => anyhow::anyhow!("the API ended by itself"),
                    Ok(Err(error)) => anyhow::Error::new(error).context("the API cannot serve"),
                    Err(error) => anyhow::anyhow!("the API panicked: {error}"),
                },
                None => std::future::pending().await,
            }
        };
        let controllers = async {
            match &mut self.controllers {
                Some(controllers) => anyhow::anyhow!(controllers.failed().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Neither is polled again once one has ended.
            error = api => error,
            error = controllers => error,
        }
    }

    async fn drain(&mut self, window: Duration) {
        let deadline = Instant::now() + window;
        if let Some(gateway) = &self.gateway {
            gateway.drain(window);
        }
        if let Some((api, task)) = self.api.take() {
            api.drain();
            if !task.is_finished() && tokio::time::timeout_at(deadline, task).await.is_err() {
                tracing::warn!("open requests did not finish in time");
            }
        }
        if let Some(gateway) = self.gateway.take() {
            // Agents leave at a random time within the window.
            while self.gateway_metrics.sessions.get() > 0 && Instant::now() < deadline {
                tokio::time::sleep(DRAIN_POLL).await;
            }
            gateway.stop().await;
        }
        if let Some(controllers) = self.controllers.take() {
            controllers.drain().await;
        }
        tracing::info!("drained");
    }
}

fn check_roles(given: &[Role]) -> anyhow::Result<Vec<Role>> {
    let mut roles = given.to_vec();
    roles.sort_unstable();
    roles.dedup();
    if roles.contains(&Role::Console) {
        bail!("the console role comes in a later version; the roles of this one are api, gateway and controllers");
    }
    ensure!(!roles.is_empty(), "name at least one role: --roles api,gateway,controllers");
    Ok(roles)
}

fn check_base_path(path: &str) -> anyhow::Result<()> {
    let ok = path.starts_with('/')
        && !path.ends_with('/')
        && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._".contains(&byte));
    ensure!(ok, "--base-path is {path:?}; it looks like {}", api_types::BASE_PATH);
    Ok(())
}

fn listen_for(kind: SignalKind) -> anyhow::Result<Signal> {
    signal(kind).context("cannot listen for signals")
}
