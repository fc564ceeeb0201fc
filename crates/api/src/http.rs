//! HTTP around the verbs: routes, bodies within their bound, request ids, what is counted.

use crate::auth;
use crate::blobs;
use crate::metrics::{CallLabels, VerbLabels};
use crate::refusal::Refusal;
use crate::service::{Api, Invocation, Shared, check_ready};
use crate::trace;
use crate::verbs;
use crate::watch::{self, WatchQuery};
use api_types::{ErrorCode, REQUEST_BYTES_MAX};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http_body_util::{BodyExt, Limited};
use prometheus_client::registry::Registry;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A body that does not arrive by then is given up.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const REQUEST_ID: &str = "x-request-id";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the API speaks HTTP without TLS, and {0} can be reached from other machines, so tokens would cross the network in the clear; listen on 127.0.0.1 behind a TLS proxy, or pass --insecure-listen"
)]
pub struct ListenError(pub SocketAddr);

/// Whether the API may listen there.
pub fn check_listen(address: SocketAddr, insecure: bool) -> Result<(), ListenError> {
    if insecure || address.ip().is_loopback() { Ok(()) } else { Err(ListenError(address)) }
}

impl Api {
    /// Every route, for a server or for a test.
    pub fn router(&self, registry: Arc<Registry>) -> Router {
        let base = &self.shared.base_path;
        let health = Router::new().route("/metrics", get(metrics)).with_state(registry);
        Router::new()
            .route(&format!("{base}/openapi.json"), get(openapi))
            .route(&format!("{base}/watch"), get(open_watch))
            .route(&format!("{base}/blobs/{{sha256}}"), get(blob))
            .route(&format!("{base}/{{verb}}"), post(call))
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz))
            .fallback(not_here)
            .method_not_allowed_fallback(not_here)
            .with_state(self.shared.clone())
            .merge(health)
    }
}

fn new_request_id() -> String {
    format!("req_{}", stdx::id::random(&mut rand::rng()))
}

/// The answer with its request id, refused or not.
fn answer(request_id: &str, outcome: Result<Response, Refusal>) -> Response {
    let mut response = match outcome {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(request_id),
    };
    if let Ok(value) = HeaderValue::from_str(request_id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

async fn call(State(shared): State<Arc<Shared>>, Path(verb): Path<String>, request: Request) -> Response {
    let request_id = new_request_id();
    let started = Instant::now();
    let outcome = invoke(&shared, &verb, request, &request_id).await;
    // Only names of the table become labels.
    let label = api_types::verb(&verb).map_or("unknown", |verb| verb.name);
    let code = outcome.as_ref().err().map_or("OK", |refusal| refusal.code.name());
    let labels = CallLabels { verb: label.to_owned(), code: code.to_owned() };
    shared.metrics.requests.get_or_create(&labels).inc();
    let seconds = started.elapsed().as_secs_f64();
    shared.metrics.seconds.get_or_create(&VerbLabels { verb: label.to_owned() }).observe(seconds);
    tracing::debug!(request_id, verb = label, code, seconds, "a call was answered");
    answer(&request_id, outcome.map(|value| axum::Json(value).into_response()))
}

async fn invoke(shared: &Arc<Shared>, verb: &str, request: Request, request_id: &str) -> Result<Value, Refusal> {
    let (parts, body) = request.into_parts();
    let caller = auth::caller(&shared.store, &parts.headers).await?;
    let body = read_body(body).await?;
    let traceparent = trace::of(&parts.headers);
    let invocation =
        Invocation { shared: shared.clone(), caller, body, request_id: request_id.to_owned(), traceparent };
    let answer = verbs::dispatch(verb, invocation).ok_or_else(|| Refusal::not_found("verb", verb))?;
    answer.await
}

async fn read_body(body: Body) -> Result<Vec<u8>, Refusal> {
    let whole = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, REQUEST_BYTES_MAX).collect()).await;
    let whole = whole.map_err(|_| Refusal::invalid("the body did not arrive in time"))?;
    let whole = whole.map_err(|error| {
        let too_long = error.downcast_ref::<http_body_util::LengthLimitError>().is_some();
        let text =
            if too_long { format!("the body is longer than {REQUEST_BYTES_MAX} bytes") } else { error.to_string() };
        Refusal::invalid(text)
    })?;
    Ok(whole.to_bytes().into())
}

async fn open_watch(
    State(shared): State<Arc<Shared>>,
    query: Result<Query<WatchQuery>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let request_id = new_request_id();
    let outcome = async {
        let caller = auth::caller(&shared.store, &headers).await?;
        let Query(query) = query.map_err(|error| Refusal::invalid(error.body_text()))?;
        watch::open(&shared, caller, query, &headers).await
    };
    answer(&request_id, outcome.await)
}

async fn blob(State(shared): State<Arc<Shared>>, Path(sha256): Path<String>, headers: HeaderMap) -> Response {
    let request_id = new_request_id();
    let outcome = async {
        let caller = auth::caller(&shared.store, &headers).await?;
        blobs::open(&shared, &caller, &sha256).await
    };
    answer(&request_id, outcome.await)
}

async fn openapi(State(shared): State<Arc<Shared>>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], shared.openapi.clone()).into_response()
}

async fn readyz(State(shared): State<Arc<Shared>>) -> Response {
    let request_id = new_request_id();
    answer(&request_id, check_ready(&shared).await.map(|()| "ready\n".into_response()))
}

async fn metrics(State(registry): State<Arc<Registry>>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn not_here(request: Request) -> Response {
    let request_id = new_request_id();
    let (method, path) = (request.method(), request.uri().path());
    let message = format!("there is no {method} {path}; verbs are called as POST {{basePath}}/<resource>.<verb>");
    answer(&request_id, Err(Refusal::new(ErrorCode::NotFound, message)))
}
