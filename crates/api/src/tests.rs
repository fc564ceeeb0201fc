//! The API over a real store, called as HTTP without a network.

mod calls;
mod commands;
mod places;
mod streams;

use crate::{Api, ApiOptions, ApiSecret, ensure_first_token};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use kernel::access::{self, NewApiToken};
use kernel::db::{Clock, HintBus, Store, StoreError, StoreOptions, Tx};
use kernel::join::{JoinFacts, Redeemed, redeem_token};
use model::{NodeId, PrincipalId, Role, SiteId, TenantId};
use pki::{Bundle, FleetId};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tower::ServiceExt;

/// 2026-12-01T12:00:00Z.
pub(crate) const START_MS: i64 = 1_796_126_400_000;

pub(crate) struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) struct Fleet {
    pub api: Api,
    pub store: Store,
    pub clock: Arc<TestClock>,
    pub bundle: Bundle,
    pub directory: tempfile::TempDir,
    registry: Arc<Registry>,
    bearer: String,
}

pub(crate) struct Answer {
    pub status: StatusCode,
    pub body: Value,
}

impl Answer {
    #[track_caller]
    pub fn ok(self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.body);
        self.body
    }

    #[track_caller]
    pub fn refused(self, code: &str) -> Value {
        assert_eq!(self.body["error"]["code"], code, "{}", self.body);
        let expected = api_types::ErrorCode::ALL.iter().find(|known| known.name() == code).expect("a code").status();
        assert_eq!(self.status.as_u16(), expected);
        assert!(self.body["error"]["requestId"].as_str().is_some_and(|id| id.starts_with("req_")), "{}", self.body);
        self.body["error"].clone()
    }
}

impl Fleet {
    pub async fn new() -> Self {
        let directory = tempfile::tempdir().expect("tempdir");
        let clock = Arc::new(TestClock(AtomicI64::new(START_MS)));
        let store = Store::open(StoreOptions {
            path: directory.path().join("store.db"),
            clock: clock.clone(),
            hints: HintBus::new(),
            readers: 1,
        })
        .expect("store");
        let bundle = Bundle::create(FleetId::random(), &["localhost".into()], START_MS).expect("pki");
        let secret = ApiSecret::generate();
        let bearer = secret.reveal("at_first");
        store.write(move |tx| ensure_first_token(tx, "at_first", &secret)).await.expect("token");
        let mut registry = Registry::default();
        let options =
            ApiOptions { base_path: "/api/compute".into(), blobs: directory.path().join("blobs"), version: "0.1.0" };
        let api = Api::new(bundle.split().api, store.clone(), options, &mut registry);
        Self { api, store, clock, bundle, directory, registry: Arc::new(registry), bearer }
    }

    pub async fn write<T: Send + 'static>(
        &self,
        op: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> T {
        self.store.write(op).await.expect("written")
    }

    pub async fn send(&self, request: Request<Body>) -> axum::response::Response {
        self.api.router(self.registry.clone()).oneshot(request).await.expect("an answer")
    }

    pub fn request(&self, method: &str, path: &str) -> axum::http::request::Builder {
        let builder = Request::builder().method(method).uri(path);
        builder.header("authorization", format!("Bearer {}", self.bearer))
    }

    pub async fn call(&self, verb: &str, body: Value) -> Answer {
        self.call_as(&self.bearer, verb, body.to_string()).await
    }

    pub async fn call_as(&self, bearer: &str, verb: &str, body: String) -> Answer {
        let request = Request::builder()
            .method("POST")
            .uri(format!("/api/compute/{verb}"))
            .header("authorization", format!("Bearer {bearer}"))
            .header("content-type", "application/json")
            .body(Body::from(body))
            .expect("request");
        answer(self.send(request).await).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        let request = self.request("GET", path).body(Body::empty()).expect("request");
        answer(self.send(request).await).await
    }

    /// A principal of a tenant below the root, and its bearer.
    pub async fn tenant(&self, id: &str) -> String {
        let secret = ApiSecret::generate();
        let bearer = secret.reveal(&format!("at_{id}"));
        let id = id.to_owned();
        self.write(move |tx| {
            let (root, tenant) = (TenantId::new(crate::ROOT_TENANT), TenantId::new(id.as_str()));
            access::create_tenant(tx, &tenant, Some(&root), &id)?;
            let principal = PrincipalId::new(format!("principal_{id}"));
            access::create_principal(tx, &principal, &tenant, "someone")?;
            let token = NewApiToken {
                id: format!("at_{id}"),
                tenant,
                principal,
                name: "test".into(),
                secret_sha256: secret.sha256(),
                expires_at: None,
            };
            access::create_api_token(tx, &token)
        })
        .await;
        bearer
    }

    /// The site `lab` and the pool `dev` on it; their ids.
    pub async fn places(&self) -> (String, String) {
        let site = json!({"name": "lab", "kind": "shared", "region": "eu", "idempotencyKey": "site"});
        let site = self.call("sites.create", site).await.ok()["id"].as_str().expect("id").to_owned();
        let pool = json!({"siteId": site, "name": "dev", "idempotencyKey": "pool"});
        let pool = self.call("pools.create", pool).await.ok()["id"].as_str().expect("id").to_owned();
        (site, pool)
    }

    /// A node that joined the pool `dev`.
    pub async fn node(&self, hostname: &str) -> NodeId {
        let (site, pool) = self.places().await;
        let token = json!({"poolId": pool, "ttlSeconds": 600, "maxUses": 9, "idempotencyKey": hostname});
        let token = self.call("joinTokens.create", token).await.ok();
        let token = pki::JoinToken::parse(token["token"].as_str().expect("a bearer")).expect("parses");
        let hostname = hostname.to_owned();
        self.write(move |tx| {
            let facts = JoinFacts {
                site: SiteId::new(site),
                role: Role::Node,
                hostname: hostname.clone(),
                daemon_version: "0.1.0".into(),
                product_uuid: String::new(),
                product_serial: String::new(),
                macs: Vec::new(),
                hardware_key: None,
            };
            let csr = stdx::hex::sha256(hostname.as_bytes());
            match redeem_token(tx, &token.id, &token.secret.hash(), &csr, &facts)? {
                Redeemed::New(node) => Ok(node),
                other => panic!("{other:?}"),
            }
        })
        .await
    }
}

async fn answer(response: axum::response::Response) -> Answer {
    let status = response.status();
    assert!(response.headers().contains_key("x-request-id") || status == StatusCode::OK, "{status}");
    let bytes = response.into_body().collect().await.expect("body").to_bytes();
    let text = || json!(String::from_utf8_lossy(&bytes));
    Answer { status, body: serde_json::from_slice(&bytes).unwrap_or_else(|_| text()) }
}
