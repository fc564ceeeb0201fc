//! Connections before they are sessions: accepted, shaken hands with off the accept loop, bounded.

use crate::metrics::GatewayMetrics;
use futures_util::Stream;
use rustls::ServerConfig;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A client has this long to finish its handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Handshakes under way at once; further connections wait in the kernel's queue.
const HANDSHAKES_MAX: usize = 256;
/// Connections ready and not yet taken by the server.
const READY_MAX: usize = 64;
/// How long the accept loop rests after an error such as too many open files.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// Connections whose client finished the handshake.
pub(crate) struct Incoming {
    ready_rx: mpsc::Receiver<io::Result<TlsStream<TcpStream>>>,
}

impl Incoming {
    /// Accepts until the returned value is dropped.
    pub(crate) fn spawn(listener: TcpListener, config: Arc<ServerConfig>, metrics: GatewayMetrics) -> Self {
        let (ready_tx, ready_rx) = mpsc::channel(READY_MAX);
        tokio::spawn(accept(listener, TlsAcceptor::from(config), ready_tx, metrics));
        Self { ready_rx }
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    ready_tx: mpsc::Sender<io::Result<TlsStream<TcpStream>>>,
    metrics: GatewayMetrics,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let Ok(permit) = handshakes.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            // Cancel-safe: an accepted connection is either returned or still in the kernel's queue.
            accepted = listener.accept() => accepted,
            () = ready_tx.closed() => return,
        };
        let socket = match accepted {
            Ok((socket, _)) => socket,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_REST).await;
                continue;
            }
        };
        let (acceptor, ready_tx, metrics) = (acceptor.clone(), ready_tx.clone(), metrics.clone());
        tokio::spawn(async move {
            let shaken = async {
                socket.set_nodelay(true)?;
                acceptor.accept(socket).await
            };
            match tokio::time::timeout(HANDSHAKE_WITHIN, shaken).await {
                Ok(Ok(stream)) => {
                    if ready_tx.send(Ok(stream)).await.is_err() {
                        tracing::debug!("a connection came while the gateway stopped");
                    }
                }
                Ok(Err(error)) => {
                    metrics.handshakes_failed.inc();
                    tracing::debug!(%error, "a TLS handshake failed");
                }
                Err(_) => {
                    metrics.handshakes_failed.inc();
                }
            }
            drop(permit);
        });
    }
}

impl Stream for Incoming {
    type Item = io::Result<TlsStream<TcpStream>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.ready_rx.poll_recv(context)
    }
}
