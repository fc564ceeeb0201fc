//! A small fleet for tests: one site, one pool, nodes that join by token, and the reports they send.

use crate::commands::{CommandRow, NewCommand};
use crate::db::{Clock, Hint, MemoryStore, StoreError, Tx};
use crate::join::{JoinFacts, Redeemed};
use crate::outbox::{Event, Filter};
use crate::places::{NewJoinToken, NewPool, NewSite};
use crate::sessions::{CertFacts, Outgoing, SessionAnswer};
use crate::{access, commands, join, outbox, places, sessions, updates};
use model::frame::{Any, CommandBody, CommandResult, CommandUpdate, Hello, Settled, Signed, UpdateState};
use model::{
    BootId, CommandId, CommandState, GatewayId, IncarnationId, JournalId, Kind, NodeId, Outcome, PoolId, PrincipalId,
    Role, ServerTimeMs, SiteId, TenantId, TokenId,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// When tests begin, Unix milliseconds.
pub const START: i64 = 1_700_000_000_000;
pub const TOKEN_SECRET: [u8; 32] = [7; 32];
const DAY_MS: i64 = 86_400_000;

/// A clock that stands until it is moved.
#[derive(Clone, Default)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    pub fn at(ms: i64) -> Self {
        Self(Arc::new(AtomicI64::new(ms)))
    }

    pub fn advance(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub struct World {
    pub store: MemoryStore,
    pub clock: ManualClock,
    pub gateway: GatewayId,
}

pub fn tenant() -> TenantId {
    TenantId::new("tenant_root")
}

pub fn pool() -> PoolId {
    PoolId::new("pool_dev")
}

pub fn site() -> SiteId {
    SiteId::new("site_dev")
}

impl World {
    /// A fleet without nodes.
    pub fn new() -> Self {
        let clock = ManualClock::at(START);
        let store = MemoryStore::new(Arc::new(clock.clone())).unwrap();
        store.run(|tx| populate(tx, false)).unwrap();
        Self { store, clock, gateway: GatewayId::new("gw-1") }
    }

    /// A fleet with one node.
    pub fn with_node() -> (Self, NodeId) {
        let world = Self::new();
        let node = world.join("host-a");
        (world, node)
    }

    /// A fleet with one node whose session is ready under epoch 1.
    pub fn with_session() -> (Self, NodeId) {
        let (world, node) = Self::with_node();
        assert_eq!(world.connect(&node, "boot-1", "journal-1"), 1);
        (world, node)
    }

    pub fn run<T>(&self, op: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError>) -> T {
        self.store.run(op).unwrap().0
    }

    pub fn hints<T>(&self, op: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError>) -> Vec<Hint> {
        self.store.run(op).unwrap().1
    }

    pub fn now(&self) -> ServerTimeMs {
        ServerTimeMs(self.clock.now_ms())
    }

    pub fn join(&self, hostname: &str) -> NodeId {
        let csr = stdx::hex::sha256(hostname.as_bytes());
        let token = TokenId::new("jt_dev");
        match self.run(|tx| join::redeem_token(tx, &token, &TOKEN_SECRET, &csr, &facts(hostname))) {
            Redeemed::New(node) => node,
            other => panic!("{other:?}"),
        }
    }

    pub fn accept(&self, node: &NodeId, hello: &Hello) -> SessionAnswer {
        self.run(|tx| sessions::accept_session(tx, &self.gateway, &cert(node), hello))
    }

    /// Accepts and resumes a session with nothing in flight; returns its epoch.
    pub fn connect(&self, node: &NodeId, boot: &str, journal: &str) -> u64 {
        let (epoch, _) = self.resume(node, boot, journal, &[]);
        epoch
    }

    /// Accepts and resumes a session; returns its epoch and what is sent again.
    pub fn resume(&self, node: &NodeId, boot: &str, journal: &str, in_flight: &[CommandId]) -> (u64, Vec<Outgoing>) {
        let epoch = epoch_of(&self.accept(node, &hello(boot, journal)));
        let outgoing = self.store.run(|tx| sessions::resume_done(tx, &self.gateway, node, epoch, in_flight));
        (epoch, outgoing.unwrap().0)
    }

    pub fn enqueue(&self, node: &NodeId, key: &str, kind: &str) -> CommandRow {
        self.store.run(|tx| commands::enqueue(tx, &seal, &new_command(node, key, kind))).unwrap().0
    }

    pub fn dispatch(&self, epochs: &[(&NodeId, u64)]) -> Vec<Outgoing> {
        let epochs: BTreeMap<NodeId, u64> = epochs.iter().map(|(node, epoch)| ((*node).clone(), *epoch)).collect();
        self.run(|tx| sessions::dispatch(tx, &self.gateway, &epochs))
    }

    /// Enqueues a command and dispatches it under `epoch`.
    pub fn dispatched(&self, node: &NodeId, epoch: u64, key: &str, kind: &str) -> CommandId {
        let id = self.enqueue(node, key, kind).id;
        self.resign();
        let sent = self.dispatch(&[(node, epoch)]);
        assert_eq!(ids(&sent), std::slice::from_ref(&id));
        id
    }

    pub fn resign(&self) -> usize {
        self.run(|tx| commands::resign(tx, &seal, 1000))
    }

    pub fn report(&self, node: &NodeId, id: &CommandId, state: UpdateState) -> Vec<CommandId> {
        let update = CommandUpdate { command_id: id.clone(), state, boot_id: BootId::new("boot-1") };
        self.run(|tx| updates::ingest_updates(tx, node, &[update])).acks
    }

    pub fn row(&self, id: &CommandId) -> CommandRow {
        self.run(|tx| commands::get(tx, id)).unwrap()
    }

    /// State and code.
    pub fn state(&self, id: &CommandId) -> (CommandState, String) {
        let row = self.row(id);
        (row.state, row.code)
    }

    /// Every published row, sequenced.
    pub fn published(&self) -> Vec<Event> {
        while self.run(|tx| outbox::sequence(tx, 1000)) > 0 {}
        let (page, _) = self.store.run(|tx| outbox::read(tx, 0, u32::MAX, &Filter::default())).unwrap();
        page.events
    }

    pub fn topics(&self) -> Vec<String> {
        self.published().into_iter().map(|event| event.topic).collect()
    }

    pub fn count(&self, topic: &str) -> usize {
        self.topics().iter().filter(|found| *found == topic).count()
    }
}

/// Tenant, site, pool `pool_dev` and a join token.
pub fn populate(tx: &mut Tx<'_>, tenant_controlled: bool) -> Result<(), StoreError> {
    access::create_tenant(tx, &tenant(), None, "root")?;
    access::create_principal(tx, &PrincipalId::new("principal_dev"), &tenant(), "dev")?;
    let site = NewSite {
        id: site(),
        tenant: tenant(),
        name: Some("dev".into()),
        kind: "shared".into(),
        region: "here".into(),
        iam_region: None,
        dedicated_tenant: None,
    };
    places::create_site(tx, &site).unwrap();
    let pool = NewPool {
        id: pool(),
        tenant: tenant(),
        site: site.id,
        name: "dev".into(),
        policy: serde_json::json!({}),
        tenant_controlled,
    };
    places::create_pool(tx, &pool).unwrap();
    places::create_join_token(tx, &token("jt_dev", 1000)).unwrap();
    Ok(())
}

pub fn token(id: &str, uses_max: u32) -> NewJoinToken {
    NewJoinToken {
        id: TokenId::new(id),
        tenant: tenant(),
        pool: pool(),
        role: Role::Node,
        secret_sha256: TOKEN_SECRET,
        uses_max,
        expires_at: ServerTimeMs(START + DAY_MS),
        expect_mac: None,
        allow_reclaim: false,
    }
}

pub fn facts(hostname: &str) -> JoinFacts {
    JoinFacts {
        site: site(),
        role: Role::Node,
        hostname: hostname.into(),
        daemon_version: "1.0.0".into(),
        product_uuid: String::new(),
        product_serial: String::new(),
        macs: vec!["02:00:00:00:00:01".into()],
        hardware_key: None,
    }
}

pub fn cert(node: &NodeId) -> CertFacts {
    CertFacts {
        node_id: node.clone(),
        serial: format!("serial-{node}"),
        role: Role::Node,
        allowed_kinds: Kind::allowed_for(Role::Node).map(str::to_owned).collect(),
        not_after_ms: START + 365 * DAY_MS,
    }
}

pub fn hello(boot: &str, journal: &str) -> Hello {
    Hello {
        protocol_min: 1,
        protocol_max: 1,
        daemon_version: "1.0.0".into(),
        role: Role::Node,
        boot_id: BootId::new(boot),
        incarnation: IncarnationId::new("incarnation"),
        journal_id: JournalId::new(journal),
        last_epoch: 0,
        applied_generation: 0,
        applied_spec_hash: String::new(),
        in_flight: Vec::new(),
        unacked_results: Vec::new(),
        more_results: false,
        capabilities: Vec::new(),
        inventory_digest: String::new(),
        hostname: "host".into(),
    }
}

#[track_caller]
pub fn epoch_of(answer: &SessionAnswer) -> u64 {
    match answer {
        SessionAnswer::Accepted { epoch, .. } => *epoch,
        SessionAnswer::Refused(end, message) => panic!("refused: {end} {message}"),
    }
}

pub fn new_command(node: &NodeId, key: &str, kind: &str) -> NewCommand {
    NewCommand {
        id: CommandId::new(stdx::id::derive(&[node.as_str(), key])),
        node: node.clone(),
        principal: PrincipalId::new("principal_dev"),
        kind: kind.into(),
        payload: Any { type_url: "type.example/Request".into(), value: key.as_bytes().to_vec() },
        not_after_in_ms: 300_000,
        min_generation: 0,
        idempotency_key: key.into(),
        workflow_id: String::new(),
        step_id: String::new(),
        traceparent: String::new(),
        batch_id: String::new(),
    }
}

/// A signer that leaves a mark of what it signed.
pub fn seal(body: &CommandBody) -> Signed {
    let body = proto::encode_body(body);
    let signature = stdx::hex::sha256(&body).to_vec();
    Signed { body, kid: "kid-1".into(), chain: vec![vec![1, 2], vec![3]], signature }
}

pub fn done(outcome: Outcome, code: &str) -> UpdateState {
    let result = CommandResult { code: code.into(), message: String::new(), value: None };
    UpdateState::Done(Settled { outcome, result: proto::encode_result(&result), node_sig: None })
}

pub fn ids(outgoing: &[Outgoing]) -> Vec<CommandId> {
    outgoing.iter().map(|command| command.command_id.clone()).collect()
}
