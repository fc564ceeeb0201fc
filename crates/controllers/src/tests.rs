//! The controllers' steps over a store in memory, with a clock that the test moves.

mod attestation;
mod joins;
mod periodic;
mod renewals;
mod roles;

use crate::join;
use kernel::access::{create_principal, create_tenant};
use kernel::db::{Clock, MemoryStore, StoreError, Tx};
use kernel::join::{JoinKind, JoinRequest, join_answer_get, join_request_put};
use kernel::places::{NewJoinToken, NewPool, NewSite, create_join_token, create_pool, create_site};
use model::{NodeId, PoolId, PrincipalId, Role, ServerTimeMs, SiteId, TenantId, TokenId};
use pki::roles::JoinKeys;
use pki::{Bundle, FleetId, JoinToken, KeyPair, Purpose, csr, token};
use proto::{Message, v1};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// 2026-12-01T12:00:00Z.
const START_MS: i64 = 1_796_126_400_000;
const HOUR_MS: i64 = 3_600_000;
const SITE: &str = "site_1";

struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

struct Bed {
    store: MemoryStore,
    clock: Arc<TestClock>,
    bundle: Bundle,
    keys: JoinKeys,
}

/// A machine that asks: its key, its request, what it says of itself.
#[derive(Clone)]
struct Machine {
    key: KeyPair,
    csr: Vec<u8>,
    claims: v1::JoinClaims,
}

impl Machine {
    fn new(hostname: &str) -> Self {
        let key = KeyPair::generate();
        let claims = v1::JoinClaims {
            site: SITE.into(),
            role: v1::Role::Node as i32,
            hostname: hostname.into(),
            daemon_version: "0.1.0".into(),
            macs: vec!["02:00:5e:10:00:01".into()],
            ..Default::default()
        };
        Self { csr: csr::create(&key), key, claims }
    }

    fn request(&self, bed: &Bed, token: &JoinToken) -> v1::JoinRequest {
        let claims = self.claims.encode_to_vec();
        let sealed = token::seal(token, bed.keys.encryption.public(), &self.csr, &claims).expect("seal");
        v1::JoinRequest {
            csr: self.csr.clone(),
            claims,
            attestor: "join-token".into(),
            sealed_enc: sealed.enc,
            sealed_token: sealed.ciphertext,
            encryption_kid: bed.keys.encryption.kid(),
        }
    }
}

/// What an answer says, once its signature was checked as a daemon would.
#[derive(Debug)]
enum Answer {
    Granted(Box<v1::JoinResponse>),
    Refused(String),
}

impl Answer {
    #[track_caller]
    fn granted(self) -> v1::JoinResponse {
        match self {
            Self::Granted(response) => *response,
            Self::Refused(code) => panic!("refused: {code}"),
        }
    }

    #[track_caller]
    fn refused(self) -> String {
        match self {
            Self::Refused(code) => code,
            Self::Granted(response) => panic!("granted: {}", response.node_id),
        }
    }
}

impl Bed {
    fn new() -> Self {
        let clock = Arc::new(TestClock(AtomicI64::new(START_MS)));
        let store = MemoryStore::new(clock.clone()).expect("store");
        let bundle = Bundle::create(FleetId::random(), &["localhost".into()], START_MS).expect("pki");
        let keys = bundle.split().join;
        let bed = Self { store, clock, bundle, keys };
        bed.run(|tx| {
            let tenant = TenantId::new("root");
            create_tenant(tx, &tenant, None, "root")?;
            create_principal(tx, &PrincipalId::new("p"), &tenant, "p")?;
            for id in [SITE, "site_2"] {
                let site = NewSite {
                    id: SiteId::new(id),
                    tenant: tenant.clone(),
                    name: None,
                    kind: "shared".into(),
                    region: "eu".into(),
                    iam_region: None,
                    dedicated_tenant: None,
                };
                create_site(tx, &site).expect("site");
            }
            let pool = NewPool {
                id: PoolId::new("pool_1"),
                tenant,
                site: SiteId::new(SITE),
                name: "dev".into(),
                policy: serde_json::json!({"adoption": "auto"}),
                tenant_controlled: false,
            };
            create_pool(tx, &pool).expect("pool");
            Ok(())
        });
        bed.store.run(|tx| join::prepare_in(tx, &bed.keys)).expect("prepared");
        bed
    }

    fn run<T>(&self, op: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError>) -> T {
        self.store.run(op).expect("committed").0
    }

    fn at(&self, ms: i64) {
        self.clock.0.store(START_MS + ms, Ordering::SeqCst);
    }

    /// A join token for an hour.
    fn token(&self, uses_max: u32, expect_mac: Option<&str>) -> JoinToken {
        let id = TokenId::new(format!("jt_{}", stdx::id::random(&mut rand::rng())));
        let token = JoinToken::generate(id.clone()).expect("token");
        let new = NewJoinToken {
            id,
            tenant: TenantId::new("root"),
            pool: PoolId::new("pool_1"),
            role: Role::Node,
            secret_sha256: token.secret.hash(),
            uses_max,
            expires_at: ServerTimeMs(self.clock.now_ms() + HOUR_MS),
            expect_mac: expect_mac.map(str::to_owned),
            allow_reclaim: false,
        };
        self.run(|tx| {
            create_join_token(tx, &new).expect("join token");
            Ok(())
        });
        token
    }

    /// Leaves a request as a gateway does, serves it, and reads the answer as a daemon does.
    fn ask(&self, kind: JoinKind, request: &impl Message) -> Answer {
        let bytes = request.encode_to_vec();
        let id = self.run(|tx| {
            join_request_put(tx, kind, &[0; 32], &bytes).map_err(|error| StoreError::Statement(error.to_string()))
        });
        self.serve(id, kind, bytes);
        self.answer(id)
    }

    fn serve(&self, id: u64, kind: JoinKind, request: Vec<u8>) {
        let request = JoinRequest { id, kind, csr_sha256: [0; 32], request };
        self.store.run(|tx| join::serve(tx, &self.keys, &request)).expect("served");
    }

    fn answer(&self, id: u64) -> Answer {
        let bytes = self.run(|tx| join_answer_get(tx, id)).expect("an answer");
        match v1::JoinReply::decode(bytes.as_slice()).expect("a reply").reply.expect("set") {
            v1::join_reply::Reply::Response(signed) => {
                let signed = join::from_frame(signed.try_into().expect("signed"));
                let pin = self.bundle.pins().join_signing_key_pin;
                let body = signed.verify_pinned(Purpose::JoinResponse, &pin).expect("signed by the pinned key");
                Answer::Granted(Box::new(v1::JoinResponse::decode(body).expect("a response")))
            }
            v1::join_reply::Reply::Refused(refused) => Answer::Refused(refused.code),
            v1::join_reply::Reply::Deferred(_) => panic!("nothing is deferred yet"),
        }
    }

    fn join(&self, machine: &Machine, token: &JoinToken) -> Answer {
        self.ask(JoinKind::Join, &machine.request(self, token))
    }

    /// A node that has joined.
    fn node(&self, hostname: &str) -> (Machine, v1::JoinResponse) {
        let machine = Machine::new(hostname);
        let response = self.join(&machine, &self.token(1, None)).granted();
        (machine, response)
    }

    fn node_id(response: &v1::JoinResponse) -> NodeId {
        NodeId::new(response.node_id.as_str())
    }
}
