//! A fleet of fake daemons around a store in memory, and a spec reconciler in six lines.

use super::node::FakeNode;
use crate::Capacity;
use crate::placement::{DeviceClass, DeviceRequest, HostRequest, Request};
use crate::sql::{self, NewReservation, Release, ReservationRow};
use crate::state::ReservationState;
use kernel::db::{Clock, Hint, MemoryStore, StoreError, Tx, args};
use kernel::events::{Handlers, ingest_events};
use kernel::join::{JoinFacts, Redeemed};
use kernel::module::Module;
use kernel::places::{NewJoinToken, NewPool, NewSite};
use kernel::sessions::{CertFacts, SessionAnswer};
use kernel::standing::{self, CordonOwner};
use kernel::verifier::Verdict;
use kernel::{access, join, outbox, places, sessions, status};
use model::frame::{EventBatch, Hello, InventoryReport, StatusReport};
use model::spec::DeviceAssignment;
use model::{
    BootId, GatewayId, IncarnationId, NodeId, PoolId, PrincipalId, ReservationId, Role, ServerTimeMs, SessionEnd,
    SiteId, TenantId, TokenId,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

pub const START: i64 = 1_700_000_000_000;
const SECRET: [u8; 32] = [7; 32];
pub const SLOTS_PER_GPU: u8 = 2;
pub const VCPU: u32 = 8;

#[derive(Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A node's spec as the control plane last wrote it.
#[derive(Clone, Default)]
pub struct Spec {
    pub generation: u64,
    pub devices: Vec<DeviceAssignment>,
}

pub struct World {
    pub store: MemoryStore,
    pub clock: Arc<dyn Clock>,
    now: Arc<AtomicI64>,
    handlers: Handlers,
    gateway: GatewayId,
    pub nodes: Vec<FakeNode>,
    /// By index of the node.
    pub specs: Vec<Spec>,
}

pub fn tenant() -> TenantId {
    TenantId::new("tenant_root")
}

pub fn pool() -> PoolId {
    PoolId::new("pool_dev")
}

impl World {
    /// `nodes` connected nodes with inventories, bindings attested.
    pub fn new(nodes: usize) -> Self {
        Self::with(nodes, true)
    }

    pub fn with(nodes: usize, attested_bindings: bool) -> Self {
        let now = Arc::new(AtomicI64::new(START));
        let clock: Arc<dyn Clock> = Arc::new(ManualClock(now.clone()));
        let module = Capacity { attested_bindings };
        let store = MemoryStore::with_modules(clock.clone(), &[&module]).unwrap();
        let handlers = Handlers::new(module.report_handlers());
        let gateway = GatewayId::new("gw-1");
        let mut world = Self { store, clock, now, handlers, gateway, nodes: vec![], specs: vec![] };
        world.run(populate);
        for number in 0..nodes {
            world.join(number);
        }
        world
    }

    /// Another world that is as this one is now, on a clock of its own.
    pub fn twin(&self) -> Self {
        let now = Arc::new(AtomicI64::new(self.now()));
        let clock: Arc<dyn Clock> = Arc::new(ManualClock(now.clone()));
        Self {
            store: self.store.copy(&clock).unwrap(),
            clock,
            now,
            handlers: Handlers::new(Capacity { attested_bindings: true }.report_handlers()),
            gateway: self.gateway.clone(),
            nodes: self.nodes.clone(),
            specs: self.specs.clone(),
        }
    }

    fn join(&mut self, number: usize) {
        let hostname = format!("host-{number}");
        let csr = stdx::hex::sha256(hostname.as_bytes());
        let token = TokenId::new("jt_dev");
        let Redeemed::New(id) = self.run(|tx| join::redeem_token(tx, &token, &SECRET, &csr, &facts(&hostname))) else {
            panic!("refused")
        };
        self.nodes.push(FakeNode::new(id, number));
        self.specs.push(Spec::default());
        self.connect(number);
        self.inventory(number);
    }

    #[track_caller]
    pub fn run<T>(&self, op: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError>) -> T {
        self.store.run(op).unwrap().0
    }

    pub fn hints<T>(&self, op: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError>) -> Vec<Hint> {
        self.store.run(op).unwrap().1
    }

    pub fn now(&self) -> i64 {
        self.clock.now_ms()
    }

    pub fn advance(&self, ms: i64) {
        self.now.fetch_add(ms, Ordering::Relaxed);
    }

    pub fn id(&self, node: usize) -> NodeId {
        self.nodes[node].id.clone()
    }

    // Sessions.

    pub fn connect(&mut self, node: usize) {
        let hello = self.nodes[node].hello();
        let cert = cert(&self.nodes[node].id);
        let answer = self.run(|tx| sessions::accept_session(tx, &self.gateway, &cert, &hello));
        let SessionAnswer::Accepted { epoch, acked_event_seq, .. } = answer else { panic!("{answer:?}") };
        self.nodes[node].accepted(epoch, acked_event_seq);
        self.wake();
    }

    pub fn disconnect(&mut self, node: usize) {
        let (id, epoch) = (self.id(node), self.nodes[node].epoch);
        self.run(|tx| sessions::close_session(tx, &id, epoch, SessionEnd::Shutdown));
        self.nodes[node].connected = false;
        self.wake();
    }

    pub fn cordon(&self, node: usize, on: bool) {
        let id = self.id(node);
        self.run(|tx| match on {
            true => standing::cordon(tx, &id, CordonOwner::Operator, "test"),
            false => standing::uncordon(tx, &id, CordonOwner::Operator, None),
        });
        self.wake();
    }

    /// As a controller does after a node's standing changed.
    fn wake(&self) {
        self.run(|tx| sql::wake_pool(tx, &pool()));
    }

    /// The node reports its inventory, and the books follow.
    pub fn inventory(&mut self, node: usize) {
        let (id, epoch) = (self.id(node), self.nodes[node].epoch);
        let inventory = self.nodes[node].inventory();
        let report = InventoryReport { digest: stdx::hex::sha256_hex(&inventory), inventory };
        self.run(|tx| status::write_inventory(tx, &id, epoch, &report));
        self.run(|tx| sql::sync_due(tx, 1000));
    }

    // Reservations.

    pub fn create(&self, name: &str, request: Request) -> ReservationId {
        self.try_create(name, request, true).unwrap().id
    }

    pub fn try_create(
        &self,
        name: &str,
        request: Request,
        may_wait: bool,
    ) -> Result<ReservationRow, sql::ReserveError> {
        let new = NewReservation {
            id: ReservationId::new(format!("res_{name}")),
            tenant: tenant(),
            principal: PrincipalId::new("principal_dev"),
            pool: pool(),
            request,
            may_wait,
        };
        self.store.run(|tx| sql::create_reservation(tx, &new)).map(|(row, _)| row)
    }

    pub fn place(&self) -> sql::PlaceSummary {
        self.run(|tx| sql::place_next(tx, 1000))
    }

    #[track_caller]
    pub fn row(&self, id: &ReservationId) -> ReservationRow {
        self.run(|tx| sql::get_reservation(tx, id)).unwrap()
    }

    #[track_caller]
    pub fn state(&self, id: &ReservationId) -> ReservationState {
        self.row(id).state
    }

    pub fn release(&self, id: &ReservationId, node_lost: bool) -> ReservationRow {
        let release = Release { node_lost, version: None };
        self.store.run(|tx| sql::release(tx, id, &release)).unwrap().0
    }

    /// Where a reservation is.
    #[track_caller]
    pub fn node_of(&self, id: &ReservationId) -> usize {
        let allocation = self.row(id).allocation.expect("it is placed");
        self.nodes.iter().position(|node| node.id == allocation.node).unwrap()
    }

    // Specs.

    /// What the spec reconciler does: a new generation only for a change, or above a node that is ahead.
    pub fn reconcile(&mut self, node: usize) {
        let (id, written) = (self.id(node), self.specs[node].clone());
        let spec = self.run(|tx| {
            let devices = sql::device_assignments(tx, &id)?;
            let sql = "SELECT applied_generation, observed_generation FROM nodes WHERE id = ?1";
            let (applied, observed) =
                tx.query_one(sql, args![id], |row| Ok((row.take::<u64>()?, row.take::<u64>()?)))?;
            let ahead = applied.max(observed);
            let generation = match written.generation {
                current if ahead > current => ahead + 1,
                current if current == 0 || devices != written.devices => current + 1,
                current => current,
            };
            sql::spec_written(tx, &id, generation)?;
            Ok(Spec { generation, devices })
        });
        self.specs[node] = spec;
    }

    /// The node gets the newest spec, if it is connected and behind.
    pub fn deliver(&mut self, node: usize) {
        if self.nodes[node].connected {
            let Spec { generation, devices } = self.specs[node].clone();
            self.nodes[node].take_spec(generation, devices);
        }
    }

    pub fn report_status(&mut self, node: usize) {
        let (id, fake) = (self.id(node), &self.nodes[node]);
        if !fake.connected {
            return;
        }
        let report = StatusReport {
            applied_generation: fake.applied,
            observed_generation: fake.observed,
            ..StatusReport::default()
        };
        self.run(|tx| status::write_status(tx, &id, fake.epoch, &report, false));
    }

    /// Up to `count` events of the node arrive and are acknowledged.
    pub fn report_events(&mut self, node: usize, count: usize) {
        let (id, fake) = (self.id(node), &self.nodes[node]);
        if !fake.connected {
            return;
        }
        let events = fake.events.iter().take(count).cloned().collect();
        let batch = EventBatch { journal_id: fake.journal.clone(), events };
        let acked = self.run(|tx| ingest_events(tx, &self.handlers, &id, fake.epoch, &batch));
        if let Some(acked) = acked {
            self.nodes[node].acked(acked);
        }
    }

    /// The verifier looks at up to `count` reports.
    pub fn verify(&self, count: u32, verdict: &Verdict) -> Vec<sql::SettledReport> {
        let waiting = self.run(|tx| sql::take_unverified_reports(tx, count));
        waiting.iter().map(|report| self.run(|tx| sql::settle_report(tx, report.n, verdict))).collect()
    }

    /// One node goes through everything once: spec, binding, reports, verdicts.
    pub fn settle(&mut self, node: usize) {
        self.reconcile(node);
        self.deliver(node);
        self.nodes[node].converge(false);
        self.report_status(node);
        self.report_events(node, usize::MAX);
        self.verify(1000, &Verdict::Genuine);
        self.run(|tx| sql::end_dropped(tx, 1000));
    }

    /// Places and settles everything once.
    pub fn settle_all(&mut self) {
        self.place();
        (0..self.nodes.len()).for_each(|node| self.settle(node));
    }

    /// A reservation that is active.
    pub fn active(&mut self, name: &str, request: Request) -> ReservationId {
        let id = self.create(name, request);
        self.settle_all();
        assert_eq!(self.state(&id), ReservationState::Active);
        id
    }

    #[track_caller]
    pub fn check_books(&self) {
        assert_eq!(self.run(sql::check_books), Vec::<String>::new());
    }

    pub fn published(&self) -> Vec<outbox::Event> {
        while self.run(|tx| outbox::sequence(tx, 1000)) > 0 {}
        let filter = outbox::Filter::default();
        self.store.run(|tx| outbox::read(tx, 0, u32::MAX, &filter)).unwrap().0.events
    }

    /// Topics of what was published about one object.
    pub fn topics(&self, key: &str) -> Vec<String> {
        self.published().into_iter().filter(|event| event.key == key).map(|event| event.topic).collect()
    }
}

pub fn host(request: Request, vcpu: u32) -> Request {
    Request { host: HostRequest { vcpu, ..HostRequest::default() }, ..request }
}

pub fn slots(count: u32) -> Request {
    let device = DeviceRequest { class: DeviceClass::Slot, profile: None, count };
    Request { devices: vec![device], ..Request::default() }
}

pub fn mig(count: u32) -> Request {
    let device = DeviceRequest { class: DeviceClass::Mig, profile: Some(super::node::PROFILE.into()), count };
    Request { devices: vec![device], ..Request::default() }
}

fn populate(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    access::create_tenant(tx, &tenant(), None, "root")?;
    access::create_principal(tx, &PrincipalId::new("principal_dev"), &tenant(), "dev")?;
    let site = NewSite {
        id: SiteId::new("site_dev"),
        tenant: tenant(),
        name: Some("dev".into()),
        kind: "shared".into(),
        region: "here".into(),
        iam_region: None,
        dedicated_tenant: None,
    };
    places::create_site(tx, &site).unwrap();
    let new = NewPool {
        id: pool(),
        tenant: tenant(),
        site: site.id,
        name: "dev".into(),
        policy: serde_json::json!({ "slotsPerGpu": SLOTS_PER_GPU }),
        tenant_controlled: false,
    };
    places::create_pool(tx, &new).unwrap();
    let token = NewJoinToken {
        id: TokenId::new("jt_dev"),
        tenant: tenant(),
        pool: pool(),
        role: Role::Node,
        secret_sha256: SECRET,
        uses_max: 1000,
        expires_at: ServerTimeMs(START + 86_400_000),
        expect_mac: None,
        allow_reclaim: false,
    };
    places::create_join_token(tx, &token).unwrap();
    Ok(())
}

fn facts(hostname: &str) -> JoinFacts {
    JoinFacts {
        site: SiteId::new("site_dev"),
        role: Role::Node,
        hostname: hostname.into(),
        daemon_version: "1.0.0".into(),
        product_uuid: String::new(),
        product_serial: String::new(),
        macs: vec![],
        hardware_key: None,
    }
}

fn cert(node: &NodeId) -> CertFacts {
    CertFacts {
        node_id: node.clone(),
        serial: format!("serial-{node}"),
        role: Role::Node,
        allowed_kinds: vec![],
        not_after_ms: i64::MAX,
    }
}

pub fn hello(fake: &FakeNode) -> Hello {
    Hello {
        protocol_min: 1,
        protocol_max: 1,
        daemon_version: "1.0.0".into(),
        role: Role::Node,
        boot_id: BootId::new("boot-1"),
        incarnation: IncarnationId::new("incarnation"),
        journal_id: fake.journal.clone(),
        last_epoch: fake.epoch,
        applied_generation: fake.applied,
        applied_spec_hash: String::new(),
        in_flight: Vec::new(),
        unacked_results: Vec::new(),
        more_results: false,
        capabilities: vec!["devices.limits".into(), "binding.kubernetes".into()],
        inventory_digest: String::new(),
        hostname: "host".into(),
    }
}
