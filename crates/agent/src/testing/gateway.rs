//! A gateway that speaks the real protocol over real TLS and answers what a test tells it to.

use super::Fleet;
use proto::v1;
use proto::v1::node_service_server::{NodeService, NodeServiceServer};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

type Script<T> = Arc<Mutex<dyn FnMut(T) -> Result<v1::JoinReply, Status> + Send>>;

/// What was uploaded: header and bytes.
pub type Blobs = Arc<Mutex<Vec<(v1::BlobHeader, Vec<u8>)>>>;

/// One open session as a test drives it.
pub struct FakeSession {
    pub from_agent: Streaming<v1::AgentFrame>,
    pub to_agent: mpsc::Sender<Result<v1::GatewayFrame, Status>>,
    /// DER of the client's leaf.
    pub client_leaf: Vec<u8>,
}

struct Service {
    join: Script<v1::JoinRequest>,
    renew: Script<v1::RenewRequest>,
    sessions: mpsc::Sender<FakeSession>,
    blobs: Blobs,
}

#[tonic::async_trait]
impl NodeService for Service {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<v1::GatewayFrame, Status>> + Send>>;

    async fn session(
        &self,
        request: Request<Streaming<v1::AgentFrame>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let certificates = request.peer_certs();
        let client_leaf = certificates.and_then(|list| list.first().map(|leaf| leaf.to_vec())).unwrap_or_default();
        let (to_agent, frames) = mpsc::channel(64);
        let session = FakeSession { from_agent: request.into_inner(), to_agent, client_leaf };
        self.sessions.send(session).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(frames))))
    }

    async fn put_blob(&self, request: Request<Streaming<v1::BlobChunk>>) -> Result<Response<v1::BlobReceipt>, Status> {
        let mut chunks = request.into_inner();
        let (mut header, mut data) = (None, Vec::new());
        while let Some(chunk) = chunks.message().await? {
            match chunk.part {
                Some(v1::blob_chunk::Part::Header(first)) => header = Some(first),
                Some(v1::blob_chunk::Part::Data(bytes)) => data.extend_from_slice(&bytes),
                None => return Err(Status::invalid_argument("an empty chunk")),
            }
        }
        let header = header.ok_or_else(|| Status::invalid_argument("no header"))?;
        let sha256 = header.sha256.clone();
        self.blobs.lock().expect("blobs").push((header, data));
        Ok(Response::new(v1::BlobReceipt { sha256 }))
    }

    async fn join(&self, request: Request<v1::JoinRequest>) -> Result<Response<v1::JoinReply>, Status> {
        let reply = (self.join.lock().expect("script"))(request.into_inner())?;
        Ok(Response::new(reply))
    }

    async fn renew(&self, request: Request<v1::RenewRequest>) -> Result<Response<v1::JoinReply>, Status> {
        let reply = (self.renew.lock().expect("script"))(request.into_inner())?;
        Ok(Response::new(reply))
    }
}

/// A running gateway; it ends with its value.
pub struct FakeGateway {
    pub port: u16,
    pub sessions: mpsc::Receiver<FakeSession>,
    pub blobs: Blobs,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for FakeGateway {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FakeGateway {
    pub async fn start(
        fleet: &Fleet,
        join: impl FnMut(v1::JoinRequest) -> Result<v1::JoinReply, Status> + Send + 'static,
        renew: impl FnMut(v1::RenewRequest) -> Result<v1::JoinReply, Status> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bind");
        let port = listener.local_addr().expect("address").port();
        let clock: pki::tls::Clock = Arc::new(stdx::clock::wall_unix_ms);
        let config = pki::tls::server_config(&fleet.keys.serving, clock).expect("server config");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (accepted_tx, accepted) = mpsc::channel(8);
        let (sessions_tx, sessions) = mpsc::channel(8);
        let blobs = Arc::new(Mutex::new(Vec::new()));
        let service = Service {
            join: Arc::new(Mutex::new(join)),
            renew: Arc::new(Mutex::new(renew)),
            sessions: sessions_tx,
            blobs: blobs.clone(),
        };
        let task = tokio::spawn(async move {
            let accept = async move {
                while let Ok((stream, _)) = listener.accept().await {
                    // A client that refuses the certificate ends its own connection and no other.
                    if let Ok(stream) = acceptor.accept(stream).await
                        && accepted_tx.send(Ok::<_, std::io::Error>(stream)).await.is_err()
                    {
                        return;
                    }
                }
            };
            let serve = tonic::transport::Server::builder()
                .add_service(
                    NodeServiceServer::new(service)
                        .max_decoding_message_size(8 << 20)
                        .max_encoding_message_size(8 << 20),
                )
                .serve_with_incoming(ReceiverStream::new(accepted));
            tokio::select! {
                () = accept => {}
                result = serve => result.expect("the server runs"),
            }
        });
        Self { port, sessions, blobs, task }
    }

    /// A gateway that is asked for joins only.
    pub async fn joins(
        fleet: &Fleet,
        join: impl FnMut(v1::JoinRequest) -> Result<v1::JoinReply, Status> + Send + 'static,
    ) -> Self {
        Self::start(fleet, join, |_| Err(Status::unimplemented("no renewals in this test"))).await
    }
}
