//! The role's life and what its requests share: keys, store, metrics, the drain.

use crate::auth::Caller;
use crate::call::{self, Frame, Handle};
use crate::metrics::Metrics;
use crate::refusal::Refusal;
use crate::verbs::Visitor;
use api_types::{Effect, ErrorCode};
use kernel::db::Store;
use pki::SigningIdentity;
use pki::roles::ApiKeys;
use prometheus_client::registry::Registry;
use serde_json::Value;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub struct ApiOptions {
    /// Where the API is mounted, as `/api/compute`.
    pub base_path: String,
    /// Where gateways put blobs, one file each, named by its SHA-256.
    pub blobs: PathBuf,
    pub version: &'static str,
}

pub(crate) struct Shared {
    pub store: Store,
    pub worker: Arc<SigningIdentity>,
    pub blobs: PathBuf,
    pub base_path: String,
    pub version: &'static str,
    pub metrics: Metrics,
    pub draining: watch::Sender<bool>,
    pub openapi: String,
}

impl Shared {
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }
}

/// The API over one store.
#[derive(Clone)]
pub struct Api {
    pub(crate) shared: Arc<Shared>,
}

impl Api {
    pub fn new(keys: ApiKeys, store: Store, options: ApiOptions, registry: &mut Registry) -> Self {
        let openapi = crate::openapi::document(&options.base_path, options.version).to_string();
        let shared = Shared {
            store,
            worker: Arc::new(keys.worker),
            blobs: options.blobs,
            base_path: options.base_path,
            version: options.version,
            metrics: Metrics::register(registry),
            draining: watch::Sender::new(false),
            openapi,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Serves until [`Api::drain`], then lets open requests finish; event streams end at once.
    pub async fn serve(&self, listener: TcpListener, registry: Arc<Registry>) -> std::io::Result<()> {
        let mut draining = self.shared.draining.subscribe();
        let drained = async move {
            // The sender lives as long as the API.
            draining.wait_for(|draining| *draining).await.map(|_| ()).unwrap_or_default();
        };
        axum::serve(listener, self.router(registry)).with_graceful_shutdown(drained).await
    }

    /// Takes no new connection and ends event streams, whose readers come back by themselves.
    pub fn drain(&self) {
        self.shared.draining.send_replace(true);
    }
}

/// The call of one verb with one body, waiting to be given its types.
pub(crate) struct Invocation {
    pub shared: Arc<Shared>,
    pub caller: Caller,
    pub body: Vec<u8>,
    pub request_id: String,
    /// W3C trace context of the call.
    pub traceparent: String,
}

type Answer = Pin<Box<dyn Future<Output = Result<Value, Refusal>> + Send>>;

impl Visitor for Invocation {
    type Output = Answer;

    fn visit<R: Handle + Send + Sync + 'static>(self) -> Answer
    where
        R::Response: Send,
    {
        Box::pin(async move {
            let request: R = parse(&self.body)?;
            let request = Arc::new(request);
            match self.run(request.clone()).await {
                Err(refusal) if refusal.denied && R::EFFECT == Effect::Mutation => {
                    self.audit_denied(request, &refusal).await;
                    Err(refusal)
                }
                outcome => outcome,
            }
        })
    }
}

/// A JSON object with the request's keys. An array of their values, which the parser would take, is none.
fn parse<R: Handle>(body: &[u8]) -> Result<R, Refusal> {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    if first != Some(&b'{') {
        return Err(Refusal::invalid(format!("the body is no {} request: it must be a JSON object", R::VERB)));
    }
    serde_json::from_slice(body)
        .map_err(|error| Refusal::invalid(format!("the body is no {} request: {error}", R::VERB)))
}

impl Invocation {
    async fn run<R: Handle + Send + Sync + 'static>(&self, request: Arc<R>) -> Result<Value, Refusal> {
        let (caller, worker) = (self.caller.clone(), self.shared.worker.clone());
        let (request_id, traceparent, version) =
            (self.request_id.clone(), self.traceparent.clone(), self.shared.version);
        let op = move |tx: &mut kernel::db::Tx<'_>| {
            let frame =
                Frame { caller: &caller, worker: &worker, version, request_id: &request_id, traceparent: &traceparent };
            call::run(tx, &frame, &*request)
        };
        match R::EFFECT {
            Effect::Read => self.shared.store.read(op).await,
            Effect::Mutation => self.shared.store.write(op).await,
        }
    }

    /// A denied mutation has nothing but its audit row; failing to write it does not change the answer.
    async fn audit_denied<R: Handle + Send + Sync + 'static>(&self, request: Arc<R>, refusal: &Refusal) {
        let (caller, worker) = (self.caller.clone(), self.shared.worker.clone());
        let (request_id, traceparent, version) =
            (self.request_id.clone(), self.traceparent.clone(), self.shared.version);
        let denied = format!("{}: {}", refusal.code, refusal.message);
        let audited = self.shared.store.write(move |tx| {
            let frame =
                Frame { caller: &caller, worker: &worker, version, request_id: &request_id, traceparent: &traceparent };
            call::audit(tx, &frame, &caller.tenant, &*request, Some(&denied))
        });
        if let Err(error) = audited.await {
            tracing::error!(request_id = %self.request_id, error = %error.message, "a denied mutation was not audited");
        }
    }
}

/// `UNAVAILABLE` when the store does not answer.
pub(crate) async fn check_ready(shared: &Shared) -> Result<(), Refusal> {
    if shared.is_draining() {
        return Err(Refusal::new(ErrorCode::Unavailable, "this process drains"));
    }
    shared.store.read(|tx| tx.now().map(|_| ())).await.map_err(Refusal::from)
}
