//! One simulated world: nodes, gateways, a store, a network, and the queue of what happens next. One
//! seed decides everything. There is one thread and no clock but [`World::now`].
//!
//! ```text
//!   client, controllers ──▶ store ◀──▶ gateways ◀── network ──▶ daemons ──▶ journals on disks
//!                                                                  └──▶ hosts (boots, GPU resets)
//! ```
//!
//! First faults and new work go on for a while; then everything heals, and whatever waits must end.

use crate::coverage::Coverage;
use crate::gate::Gate;
use crate::keys::{JOINED_AT, T0};
use crate::net::{Conn, Side};
use crate::node::Node;
use crate::oracle::Known;
use crate::plan::Plan;
use crate::trace::Trace;
use gateway::core::OpId;
use kernel::db::{Clock, Hint, MemoryStore, StoreError, Tx};
use kernel::events::Handlers;
use model::frame::Signed;
use model::{CommandId, NodeId};
use node_core::Ticket;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Longest wait for everything to end once all is well: the longest `not_after`, the longest timeout
/// of a kind that runs here, and room for retries, milliseconds.
const QUIET_MOST_MS: u64 = 25 * 60_000;
/// Shortest quiet phase: sessions whose other end is gone are noticed within it, milliseconds.
const QUIET_LEAST_MS: u64 = 45_000;
/// From here on nothing may be in flight that its node does not know, milliseconds.
const QUIET_SETTLED_MS: u64 = 150_000;
/// How often everything stored is checked, milliseconds.
const CHECK_EVERY_MS: u64 = 10_000;

#[derive(Clone)]
pub(crate) struct StoreClock(Arc<AtomicI64>);

impl Clock for StoreClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Something that happens at a time.
#[derive(Debug)]
pub(crate) enum Event {
    HostUp { node: usize },
    HostDown { node: usize, boot: u64, by: &'static str },
    NodeStart { node: usize },
    NodeTick { pid: u64 },
    Disk { pid: u64 },
    Durable { pid: u64, ticket: Ticket },
    Work { pid: u64, id: CommandId },
    Observe { node: usize },
    Connected { conn: u64 },
    Unreachable { pid: u64, conn: Option<u64> },
    Opened { conn: u64 },
    Read { conn: u64 },
    ToGateway { conn: u64, bytes: Vec<u8> },
    ToAgent { conn: u64, bytes: Vec<u8> },
    Closed { conn: u64, side: Side },
    GateStart { gate: usize },
    GateTick { gate: usize, life: u64 },
    GateStop { gate: usize, life: u64 },
    Store { gate: usize, life: u64, op: OpId },
    Reply { gate: usize, life: u64, op: OpId },
    Hint { gate: usize, hint: Hint },
    Controllers,
    SignTime,
    Client,
    Fault,
    Lie,
    Leap,
    Quiet,
    Check,
}

/// Why a run was stopped, and where.
pub type Violation = String;

pub struct World {
    pub seed: u64,
    pub(crate) rng: SmallRng,
    pub(crate) plan: Plan,
    /// Milliseconds since the world began.
    pub(crate) now: u64,
    pub(crate) clock: StoreClock,
    pub(crate) store: MemoryStore,
    pub(crate) handlers: Handlers,
    pub(crate) nodes: Vec<Node>,
    pub(crate) gates: Vec<Gate>,
    pub(crate) conns: BTreeMap<u64, Conn>,
    pub(crate) next_conn: u64,
    pub(crate) next_pid: u64,
    pub(crate) known: Known,
    /// Genuine statements of the server time by their value, newest last.
    pub(crate) statements: BTreeMap<i64, Signed>,
    pub(crate) has_leapt: bool,
    pub(crate) revoked: BTreeSet<NodeId>,
    pub(crate) controllers_paused_until: u64,
    /// Faults, lies and new work still happen.
    pub(crate) is_active: bool,
    queue: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    pub trace: Trace,
    pub coverage: Coverage,
    pub violation: Option<Violation>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let plan = Plan::of(&mut rng);
        let clock = StoreClock(Arc::new(AtomicI64::new(JOINED_AT)));
        let store = MemoryStore::new(Arc::new(clock.clone())).expect("an empty store in memory");
        let nodes = (0..plan.nodes).map(|slot| Node::new(slot, &plan, &mut rng)).collect();
        let gates = (0..plan.gateways).map(Gate::new).collect();
        Self {
            seed,
            rng,
            plan,
            now: 0,
            clock,
            store,
            handlers: Handlers::default(),
            nodes,
            gates,
            conns: BTreeMap::new(),
            next_conn: 1,
            next_pid: 1,
            known: Known::default(),
            statements: BTreeMap::new(),
            has_leapt: false,
            revoked: BTreeSet::new(),
            controllers_paused_until: 0,
            is_active: true,
            queue: BTreeMap::new(),
            sequence: 0,
            trace: Trace::new(),
            coverage: Coverage::default(),
            violation: None,
        }
    }

    /// From the first join to the end, or to the first thing that must not be.
    pub fn live(&mut self) {
        self.begin();
        self.run();
    }

    fn begin(&mut self) {
        self.note(format_args!("plan {:?}", self.plan.clone()));
        self.found_fleet();
        self.clock.0.store(T0, Ordering::Relaxed);
        self.sign_time();
        for gate in 0..self.gates.len() {
            self.after(0, Event::GateStart { gate });
        }
        for node in 0..self.nodes.len() {
            let delay = self.rng.random_range(0..3_000);
            self.after(delay, Event::HostUp { node });
        }
        self.after(500, Event::Controllers);
        self.after(2_000, Event::Client);
        self.after(5_000, Event::Fault);
        if let Some(every) = self.plan.lie_every_ms {
            self.after(2_000 + every, Event::Lie);
        }
        self.after(30_000, Event::SignTime);
        self.after(CHECK_EVERY_MS, Event::Check);
        if self.plan.leaps {
            let at = self.rng.random_range(20_000..self.plan.active_ms);
            self.after(at, Event::Leap);
        }
        self.after(self.plan.active_ms, Event::Quiet);
    }

    fn run(&mut self) {
        while self.violation.is_none() {
            let Some(((at, _), event)) = self.queue.pop_first() else {
                return self.fail("nothing happens any more");
            };
            self.now = self.now.max(at);
            self.clock.0.store(T0 + self.now as i64, Ordering::Relaxed);
            if matches!(event, Event::Check) && self.check() {
                return;
            }
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::HostUp { node } => self.host_up(node),
            Event::HostDown { node, boot, by } => self.host_down(node, boot, by),
            Event::NodeStart { node } => self.node_start(node),
            Event::NodeTick { pid } => self.node_tick(pid),
            Event::Disk { pid } => self.disk_commits(pid),
            Event::Durable { pid, ticket } => self.durable(pid, ticket),
            Event::Work { pid, id } => self.work(pid, &id),
            Event::Observe { node } => self.observe(node),
            Event::Connected { conn } => self.connected(conn),
            Event::Unreachable { pid, conn } => self.unreachable(pid, conn),
            Event::Opened { conn } => self.opened(conn),
            Event::Read { conn } => self.may_read(conn),
            Event::ToGateway { conn, bytes } => self.arrive_at_gateway(conn, bytes),
            Event::ToAgent { conn, bytes } => self.arrive_at_agent(conn, &bytes),
            Event::Closed { conn, side } => self.closed(conn, side),
            Event::GateStart { gate } => self.gate_start(gate),
            Event::GateTick { gate, life } => self.gate_tick(gate, life),
            Event::GateStop { gate, life } => self.gate_stop(gate, life),
            Event::Store { gate, life, op } => self.store_op(gate, life, op),
            Event::Reply { gate, life, op } => self.store_reply(gate, life, op),
            Event::Hint { gate, hint } => self.gate_hint(gate, hint),
            Event::Controllers => self.controllers(),
            Event::SignTime => self.time_signer(),
            Event::Client => self.client(),
            Event::Fault => self.fault(),
            Event::Lie => self.lie(),
            Event::Leap => self.leap(),
            Event::Quiet => self.quiet(),
            Event::Check => self.after(CHECK_EVERY_MS, Event::Check),
        }
    }

    /// Everything heals. What was lost stays lost; what waits must end.
    fn quiet(&mut self) {
        self.note(format_args!("quiet"));
        self.is_active = false;
        self.controllers_paused_until = 0;
        for node in 0..self.nodes.len() {
            self.heal_node(node);
        }
        for gate in 0..self.gates.len() {
            self.heal_gate(gate);
        }
    }

    /// Checks what is stored; true once the world has ended well.
    fn check(&mut self) -> bool {
        self.check_rows();
        if self.is_active || self.violation.is_some() {
            return false;
        }
        let quiet_ms = self.now - self.plan.active_ms.min(self.now);
        let waiting = self.what_waits();
        if quiet_ms >= QUIET_LEAST_MS && waiting.is_empty() {
            self.check_end();
            return self.violation.is_none();
        }
        if quiet_ms > QUIET_SETTLED_MS {
            self.check_in_flight();
        }
        if quiet_ms > QUIET_MOST_MS {
            self.fail(format!("a wait does not end: {}", waiting.join("; ")));
        }
        false
    }

    /// Seven days pass at once, for everybody.
    fn leap(&mut self) {
        self.coverage.hit("fault", "leap of seven days");
        self.note(format_args!("leap"));
        let leap = crate::keys::LEAP_MS as u64;
        self.has_leapt = true;
        self.now += leap;
        self.clock.0.store(T0 + self.now as i64, Ordering::Relaxed);
        // What was due within the leap happens after it; what was due after it keeps its distance.
        let later: Vec<(u64, u64)> = self.queue.keys().copied().collect();
        for (at, sequence) in later {
            if let Some(event) = self.queue.remove(&(at, sequence)) {
                self.queue.insert((at + leap, sequence), event);
            }
        }
        self.plan.active_ms += leap;
        self.controllers_paused_until += leap;
        self.nodes.iter_mut().for_each(|node| node.leap(leap));
        self.gates.iter_mut().for_each(|gate| gate.paused_until += leap);
        self.conns.values_mut().for_each(|conn| conn.leap(leap));
        self.sign_time();
    }

    pub(crate) fn after(&mut self, delay_ms: u64, event: Event) {
        self.at(self.now + delay_ms, event);
    }

    pub(crate) fn at(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.queue.insert((at.max(self.now), self.sequence), event);
    }

    /// Uniform around `mean_ms`, from nearly nothing to twice as much.
    pub(crate) fn around(&mut self, mean_ms: u64) -> u64 {
        self.rng.random_range(1..=mean_ms.max(1) * 2)
    }

    /// With a probability, while faults happen.
    pub(crate) fn faulty(&mut self, part: u32, of: u32) -> bool {
        self.is_active && part > 0 && self.rng.random_ratio(part.min(of), of)
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.rng.random_range(0..from.len())].clone()) }
    }

    pub(crate) fn server_now(&self) -> i64 {
        T0 + self.now as i64
    }

    /// One operation of the store that nothing disturbs.
    pub(crate) fn read<T>(&self, op: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError>) -> T {
        self.store.run(op).expect("a store in memory answers").0
    }

    pub(crate) fn note(&mut self, what: std::fmt::Arguments<'_>) {
        self.trace.add(self.now, what);
    }

    /// Records the first thing that must not be.
    pub(crate) fn fail(&mut self, what: impl Into<String>) {
        if self.violation.is_none() {
            let what = what.into();
            self.note(format_args!("VIOLATION {what}"));
            self.violation = Some(what);
        }
    }

    pub(crate) fn require(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.fail(what());
        }
    }
}
