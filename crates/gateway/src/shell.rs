//! The shell of the gateway: one task that owns the [`core::Gateway`](crate::core::Gateway) machine, fed
//! by the connections, the store's replies, hints and a timer.

use crate::core::{ConnId, Gateway, Input, OpFailure, OpId, Output, StoreOp, StoreReply, execute};
use crate::metrics::GatewayMetrics;
use crate::relay::Relay;
use crate::stream::{Connection, NodeApi};
use crate::tls::Incoming;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use kernel::db::{Hint, HintBus, Store, StoreError};
use kernel::events::Handlers;
use model::frame::GatewayFrame;
use model::{GatewayId, limits};
use proto::v1::node_service_server::NodeServiceServer;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinHandle;

pub use pki::roles::GatewayKeys;

/// Things from connections waiting for the machine.
const INPUTS_MAX: usize = 1024;
/// Timer while nothing waits for it, and while progress waits for its result.
const TICK_IDLE: Duration = Duration::from_millis(250);
const TICK_BUSY: Duration = Duration::from_millis(50);
/// HTTP/2 windows: a node sends little, and thousands of them must fit.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 512 << 10;
const STREAMS_PER_CONNECTION_MAX: u32 = 8;

pub struct GatewayOptions {
    pub keys: GatewayKeys,
    pub id: GatewayId,
    pub store: Store,
    pub hints: HintBus,
    pub handlers: Arc<Handlers>,
    pub listen: SocketAddr,
    /// Where blobs are kept, by digest.
    pub blob_dir: PathBuf,
    pub metrics: GatewayMetrics,
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("the TLS keys cannot be used")]
    Tls(#[source] pki::tls::TlsError),
    #[error("cannot make the blob directory")]
    Blobs(#[source] stdx::durable::DurableError),
    #[error("cannot record this gateway")]
    Store(#[source] StoreError),
}

/// A running gateway.
pub struct GatewayHandle {
    pub address: SocketAddr,
    drain_tx: watch::Sender<Option<u32>>,
    stop_tx: watch::Sender<bool>,
    machine: JoinHandle<()>,
    server: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl GatewayHandle {
    /// Asks every agent to reconnect elsewhere within the window, and takes no new sessions.
    pub fn drain(&self, window: Duration) {
        self.drain_tx.send_replace(Some(window.as_millis().min(u128::from(u32::MAX)) as u32));
    }

    /// Ends every session and waits for the tasks.
    pub async fn stop(self) {
        self.stop_tx.send_replace(true);
        for (name, outcome) in [("machine", self.machine.await), ("server", self.server.await.map(|_| ()))] {
            if let Err(error) = outcome {
                tracing::error!(%error, name, "a gateway task failed");
            }
        }
    }
}

/// Listens and serves; returns once it does.
pub async fn serve(options: GatewayOptions) -> Result<GatewayHandle, ServeError> {
    stdx::durable::create_directory(&options.blob_dir, 0o700).map_err(ServeError::Blobs)?;
    let clock: pki::tls::Clock = Arc::new(stdx::clock::wall_unix_ms);
    let mut config = pki::tls::server_config(&options.keys.serving, clock).map_err(ServeError::Tls)?;
    config.max_early_data_size = 0;
    let failed = |source| ServeError::Listen { address: options.listen, source };
    let listener = TcpListener::bind(options.listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let id = options.id.clone();
    options.store.write(move |tx| kernel::sessions::gateway_started(tx, &id)).await.map_err(ServeError::Store)?;

    let (inputs_tx, inputs_rx) = mpsc::channel(INPUTS_MAX);
    let (drain_tx, drain_rx) = watch::channel(None);
    let (stop_tx, stop_rx) = watch::channel(false);
    let relay = Relay::new(options.store.clone(), options.hints.clone(), options.metrics.clone());
    let api = NodeApi::new(&options, inputs_tx, relay);
    let service = NodeServiceServer::new(api)
        .max_decoding_message_size(limits::FRAME_BYTES_MAX)
        .max_encoding_message_size(limits::FRAME_BYTES_MAX);
    let incoming = Incoming::spawn(listener, Arc::new(config), options.metrics.clone());
    let server = tonic::transport::Server::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .http2_keepalive_interval(None)
        .add_service(service);
    let mut stopping = stop_rx.clone();
    let server = tokio::spawn(server.serve_with_incoming_shutdown(incoming, async move {
        // The sender lives as long as the handle; when it is gone, so is the gateway.
        if stopping.wait_for(|stop| *stop).await.is_err() {
            tracing::debug!("the gateway's handle was dropped");
        }
    }));
    let machine = Machine::new(&options);
    let machine = tokio::spawn(machine.run(inputs_rx, options.hints.subscribe(), drain_rx, stop_rx));
    tracing::info!(%address, gateway_id = %options.id, "gateway listening");
    Ok(GatewayHandle { address, drain_tx, stop_tx, machine, server })
}

/// What a connection tells the machine.
pub(crate) enum FromConnection {
    Opened(Connection),
    Input(Input),
}

struct Machine {
    gateway: Gateway,
    id: GatewayId,
    store: Store,
    handlers: Arc<Handlers>,
    metrics: GatewayMetrics,
    connections: BTreeMap<ConnId, Connection>,
    replies: FuturesUnordered<futures_util::future::BoxFuture<'static, (OpId, Result<StoreReply, OpFailure>)>>,
}

impl Machine {
    fn new(options: &GatewayOptions) -> Self {
        Self {
            gateway: Gateway::new(stdx::clock::boottime()),
            id: options.id.clone(),
            store: options.store.clone(),
            handlers: options.handlers.clone(),
            metrics: options.metrics.clone(),
            connections: BTreeMap::new(),
            replies: FuturesUnordered::new(),
        }
    }

    async fn run(
        mut self,
        mut inputs_rx: mpsc::Receiver<FromConnection>,
        mut hints_rx: broadcast::Receiver<Hint>,
        mut drain_rx: watch::Receiver<Option<u32>>,
        mut stop_rx: watch::Receiver<bool>,
    ) {
        let mut draining = true;
        loop {
            let tick = if self.gateway.is_waiting() { TICK_BUSY } else { TICK_IDLE };
            tokio::select! {
                // Cancel-safe: a received value is handled in this very branch.
                received = inputs_rx.recv() => match received {
                    Some(FromConnection::Opened(connection)) => self.opened(connection),
                    Some(FromConnection::Input(input)) => self.step(input),
                    None => break,
                },
                // Cancel-safe: a finished operation stays in the set until it is taken.
                Some((op, reply)) = self.replies.next(), if !self.replies.is_empty() => {
                    self.step(Input::Stored { op, reply });
                }
                // Cancel-safe, and hints may be lost anyway.
                hint = hints_rx.recv() => self.hint(hint),
                // Cancel-safe: the value stays in the watch.
                changed = drain_rx.changed(), if draining => {
                    let window_ms = *drain_rx.borrow_and_update();
                    draining = changed.is_ok();
                    if let Some(window_ms) = window_ms {
                        self.step(Input::Drain { window_ms });
                    }
                }
                // Cancel-safe: the value stays in the watch.
                stopped = stop_rx.wait_for(|stop| *stop) => {
                    if stopped.is_err() {
                        tracing::debug!("the gateway's handle was dropped");
                    }
                    break;
                }
                // Losing a sleep only means another turn of the loop.
                () = tokio::time::sleep(tick) => self.step(Input::Tick),
            }
        }
        for connection in std::mem::take(&mut self.connections).into_values() {
            let end = GatewayFrame::End { code: model::SessionEnd::Shutdown, message: String::new() };
            connection.send(end);
        }
    }

    fn opened(&mut self, connection: Connection) {
        let (conn, certificate) = (connection.id, connection.certificate.clone());
        self.connections.insert(conn, connection);
        self.step(Input::Opened { conn, certificate });
    }

    fn hint(&mut self, hint: Result<Hint, broadcast::error::RecvError>) {
        match hint {
            Ok(Hint::Node(node)) => self.step(Input::NodeHint(node)),
            Ok(Hint::Session(node)) => self.step(Input::SessionHint(node)),
            Ok(Hint::Join | Hint::Outbox | Hint::Verify | Hint::Resign) => {}
            // Lost hints are made good by the timer.
            Err(_) => self.step(Input::Tick),
        }
    }

    fn step(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            for output in self.gateway.step(stdx::clock::boottime(), input) {
                match output {
                    Output::Send { conn, frame } => {
                        if matches!(frame, GatewayFrame::Command(_)) {
                            self.metrics.commands_sent.inc();
                        }
                        // An agent that does not read what it was sent is gone.
                        if self.connections.get(&conn).is_some_and(|connection| !connection.send(frame)) {
                            self.connections.remove(&conn);
                            inputs.push(Input::Closed { conn });
                        }
                    }
                    Output::Read { conn } => {
                        if let Some(connection) = self.connections.get(&conn) {
                            connection.read_one();
                        }
                    }
                    Output::Close { conn, .. } => {
                        self.connections.remove(&conn);
                    }
                    Output::Store { op, what } => self.replies.push(self.execute(op, what)),
                    Output::Ended { node, code } => {
                        self.metrics.ended(code);
                        let node_id = node.as_ref().map(tracing::field::display);
                        tracing::info!(node_id, code = code.name(), "session ended");
                    }
                }
            }
            self.metrics.sessions.set(self.gateway.session_count() as i64);
        }
    }

    fn execute(
        &self,
        op: OpId,
        what: StoreOp,
    ) -> futures_util::future::BoxFuture<'static, (OpId, Result<StoreReply, OpFailure>)> {
        let (store, id, handlers, metrics) =
            (self.store.clone(), self.id.clone(), self.handlers.clone(), self.metrics.clone());
        async move {
            let reply = store.write(move |tx| execute(tx, &id, &handlers, what)).await;
            let reply = reply.map_err(|error: StoreError| {
                metrics.store_failures.inc();
                tracing::warn!(%error, "a store operation failed");
                OpFailure::NotStored
            });
            (op, reply)
        }
        .boxed()
    }
}
