//! One connection to the gateway: TCP, TLS pinned to the serving CA, HTTP/2. A connection is used for one
//! session or one request and never comes back by itself, so that the next one shows the newest certificate.
//!
//! Sizes are small on purpose: a node waits most of its life.

use crate::clock::AgentClock;
use crate::config::Config;
use hyper_util::rt::TokioIo;
use model::limits::FRAME_BYTES_MAX;
use pki::tls::{self, TlsIdentity};
use pki::{CertificateDer, KeyPair, Pin};
use proto::v1::node_service_client::NodeServiceClient;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls;
use tonic::transport::{Channel, Endpoint};

/// TCP, TLS and HTTP/2 together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Notices a gateway that is gone although TCP says nothing; heartbeats notice one that hangs.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(15);
/// HTTP/2 windows: what a gateway may send before it is read. A frame of 4 MiB takes several.
const WINDOW_BYTES: u32 = 64 << 10;
const REQUEST_BUFFER: usize = 4;

pub type Client = NodeServiceClient<Channel>;

/// Where the gateway is and what it must prove.
#[derive(Clone, Debug)]
pub struct Gateway {
    pub host: String,
    pub port: u16,
    /// Cleartext HTTP/2, in development builds.
    pub is_cleartext: bool,
    /// The name its certificate must carry, when it is not the host.
    pub server_name: Option<String>,
    pub serving_ca_pin: Pin,
}

impl Gateway {
    pub fn of(config: &Config) -> Self {
        Self {
            host: config.gateway_url.host.clone(),
            port: config.gateway_url.port,
            is_cleartext: config.gateway_url.scheme == "http",
            server_name: config.gateway_server_name.clone(),
            serving_ca_pin: config.serving_ca_pin,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot connect to {host}:{port}")]
    Tcp {
        host: String,
        port: u16,
        #[source]
        source: io::Error,
    },
    #[error("{host}:{port} did not answer within {} seconds", CONNECT_TIMEOUT.as_secs())]
    Timeout { host: String, port: u16 },
    #[error("the TLS configuration is refused")]
    Configuration(#[from] tls::TlsError),
    #[error("TLS with {host}:{port} failed")]
    Tls {
        host: String,
        port: u16,
        #[source]
        source: io::Error,
    },
    #[error("{host}:{port} does not speak HTTP/2")]
    Http {
        host: String,
        port: u16,
        #[source]
        source: tonic::transport::Error,
    },
}

impl ConnectError {
    /// The gateway showed a certificate that is not the pinned fleet's: trying again does not help.
    pub fn is_distrust(&self) -> bool {
        let Self::Tls { source, .. } = self else { return matches!(self, Self::Configuration(_)) };
        let fault = source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        matches!(fault, Some(rustls::Error::InvalidCertificate(_)))
    }
}

/// What the client proves to hold.
pub fn tls_identity(chain: &[Vec<u8>], key: &KeyPair) -> TlsIdentity {
    TlsIdentity { chain: chain.iter().cloned().map(CertificateDer::from).collect(), key: key.clone() }
}

/// Connects once. `identity` is the node's certificate; a machine that joins has none.
pub async fn connect(
    gateway: &Gateway,
    identity: Option<&TlsIdentity>,
    clock: &AgentClock,
) -> Result<Client, ConnectError> {
    let Gateway { host, port, .. } = gateway.clone();
    match tokio::time::timeout(CONNECT_TIMEOUT, connect_now(gateway, identity, clock)).await {
        Ok(result) => result,
        Err(_) => Err(ConnectError::Timeout { host, port }),
    }
}

async fn connect_now(
    gateway: &Gateway,
    identity: Option<&TlsIdentity>,
    clock: &AgentClock,
) -> Result<Client, ConnectError> {
    let Gateway { host, port, .. } = gateway.clone();
    let tcp = async {
        let stream = TcpStream::connect((host.as_str(), port)).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    let tcp = tcp.await.map_err(|source| ConnectError::Tcp { host: host.clone(), port, source })?;
    let channel = if gateway.is_cleartext {
        over(tcp, gateway).await
    } else {
        let name = tls::server_name(&host, gateway.server_name.as_deref())?;
        let clock = clock.clone();
        let certificate_clock: tls::Clock = Arc::new(move || clock.certificate_time_ms());
        let config = tls::client_config(vec![gateway.serving_ca_pin], identity, certificate_clock)?;
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, tcp)
            .await
            .map_err(|source| ConnectError::Tls { host: host.clone(), port, source })?;
        over(stream, gateway).await
    };
    let channel = channel.map_err(|source| ConnectError::Http { host, port, source })?;
    Ok(NodeServiceClient::new(channel)
        .max_decoding_message_size(FRAME_BYTES_MAX)
        .max_encoding_message_size(FRAME_BYTES_MAX))
}

/// HTTP/2 over a stream that is already there, and over no other.
async fn over<S>(stream: S, gateway: &Gateway) -> Result<Channel, tonic::transport::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let once = Arc::new(Mutex::new(Some(TokioIo::new(stream))));
    let connector = tower::service_fn(move |_: http::Uri| {
        let taken = once.lock().unwrap_or_else(PoisonError::into_inner).take();
        async move { taken.ok_or_else(|| io::Error::other("the connection to the gateway is gone")) }
    });
    let bracketed = if gateway.host.contains(':') { format!("[{}]", gateway.host) } else { gateway.host.clone() };
    Endpoint::from_shared(format!("http://{bracketed}:{}", gateway.port))?
        .buffer_size(REQUEST_BUFFER)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .connect_with_connector(connector)
        .await
}

/// Whether the same call may succeed later.
pub fn is_retryable(code: tonic::Code) -> bool {
    use tonic::Code;
    matches!(
        code,
        Code::Unavailable
            | Code::Unknown
            | Code::Internal
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Aborted
            | Code::ResourceExhausted
    )
}
