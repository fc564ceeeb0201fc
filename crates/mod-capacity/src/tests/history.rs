//! Random histories of a small fleet against a reference that knows the rules and no SQL: after each
//! step every reservation and every booking is what the reference says, the books agree with
//! themselves, and no node holds an atom twice. At the end everything is played out: what can be
//! satisfied is active, and nothing is held or booked that nobody wants.

mod reference;

use super::node::GPUS;
use super::world::*;
use crate::placement::Request;
use crate::sql;
use crate::state::ReservationState;
use kernel::db::MemoryStore;
use kernel::verifier::Verdict;
use model::{AllocationId, ReservationId};
use proptest::prelude::*;
use reference::Reference;
use std::collections::{BTreeMap, BTreeSet};

const NODES: usize = 2;

thread_local! {
    /// What every history begins with, made once.
    static FIRST: World = World::new(NODES);
}

/// Longer than any backoff and any time a node is avoided.
const LONG_MS: i64 = 700_000;
/// Rounds after which a history has come to rest: each failed, silent or moved binding costs a few.
const ROUNDS: usize = 12;
/// Rounds without a change after which nothing changes any more: silence is noticed in one and acted on
/// in the next.
const QUIET_ROUNDS: usize = 2;

#[derive(Clone, Debug)]
enum Step {
    Create { whole: u32, slots: u32, migs: u32, vcpu: u32, may_wait: bool },
    Place { commit: bool },
    Reconcile { node: usize },
    Deliver { node: usize },
    Converge { node: usize, refuse: bool },
    Status { node: usize },
    Events { node: usize, count: usize },
    Verify { count: u32, genuine: bool },
    Settle { node: usize },
    EndDropped,
    ReplaceSilent,
    Release { reservation: usize, node_lost: bool },
    Connect { node: usize, on: bool },
    Cordon { node: usize, on: bool },
    Gpu { node: usize, gpu: usize, there: bool },
    LoseJournal { node: usize },
    Backup,
    Restore,
    Advance { ms: i64 },
}

fn step() -> impl Strategy<Value = Step> {
    let node = || 0..NODES;
    let ms = prop_oneof![Just(1), Just(1_000), Just(10_000), Just(60_000), Just(LONG_MS)];
    let counts = prop_oneof![
        3 => (1u32..4, Just(0u32), Just(0u32)),
        3 => (Just(0u32), 1u32..4, Just(0u32)),
        2 => (Just(0u32), Just(0u32), 1u32..3),
        1 => (0u32..2, 0u32..2, 1u32..2),
    ];
    let vcpu = prop_oneof![2 => Just(0u32), 1 => 1u32..6];
    prop_oneof![
        8 => (counts, vcpu, prop::bool::weighted(0.85)).prop_map(|((whole, slots, migs), vcpu, may_wait)| Step::Create {
            whole, slots, migs, vcpu, may_wait
        }),
        8 => prop::bool::weighted(0.9).prop_map(|commit| Step::Place { commit }),
        5 => node().prop_map(|node| Step::Reconcile { node }),
        5 => node().prop_map(|node| Step::Deliver { node }),
        6 => (node(), prop::bool::weighted(0.2)).prop_map(|(node, refuse)| Step::Converge { node, refuse }),
        5 => node().prop_map(|node| Step::Status { node }),
        5 => (node(), 1usize..5).prop_map(|(node, count)| Step::Events { node, count }),
        5 => (1u32..5, prop::bool::weighted(0.93)).prop_map(|(count, genuine)| Step::Verify { count, genuine }),
        8 => node().prop_map(|node| Step::Settle { node }),
        3 => Just(Step::EndDropped),
        2 => Just(Step::ReplaceSilent),
        6 => (any::<usize>(), prop::bool::weighted(0.15))
            .prop_map(|(reservation, node_lost)| Step::Release { reservation, node_lost }),
        3 => (node(), prop::bool::weighted(0.6)).prop_map(|(node, on)| Step::Connect { node, on }),
        2 => (node(), any::<bool>()).prop_map(|(node, on)| Step::Cordon { node, on }),
        2 => (node(), 0..GPUS, any::<bool>()).prop_map(|(node, gpu, there)| Step::Gpu { node, gpu, there }),
        1 => node().prop_map(|node| Step::LoseJournal { node }),
        2 => Just(Step::Backup),
        1 => Just(Step::Restore),
        4 => ms.prop_map(|ms| Step::Advance { ms }),
    ]
}

/// An older copy of the control plane.
struct Backup {
    store: MemoryStore,
    specs: Vec<Spec>,
    reference: Reference,
    reservations: Vec<ReservationId>,
}

struct Run {
    world: World,
    reference: Reference,
    reservations: Vec<ReservationId>,
    created: usize,
    backup: Option<Backup>,
    /// Whether words of nodes were lost for good: then a person may be needed.
    lossy: bool,
}

impl Run {
    fn new() -> Self {
        let world = FIRST.with(World::twin);
        let ids = (0..NODES).map(|node| world.id(node)).collect();
        let reference = Reference::new(ids);
        Self { world, reference, reservations: vec![], created: 0, backup: None, lossy: false }
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Create { whole, slots, migs, vcpu, may_wait } => self.create(whole, slots, migs, vcpu, may_wait),
            Step::Place { commit } => self.place(commit),
            Step::Reconcile { node } => self.reconcile(node),
            Step::Deliver { node } => self.world.deliver(node),
            Step::Converge { node, refuse } => self.world.nodes[node].converge(refuse),
            Step::Status { node } => self.status(node),
            Step::Events { node, count } => self.events(node, count),
            Step::Verify { count, genuine } => self.verify(count, genuine),
            Step::Settle { node } => self.settle(node),
            Step::EndDropped => self.end_dropped(),
            Step::ReplaceSilent => {
                self.world.run(|tx| sql::replace_silent(tx, 1000));
                self.reference.replace_silent(self.world.now());
            }
            Step::Release { reservation, node_lost } => self.release(reservation, node_lost),
            Step::Connect { node, on } => self.connect(node, on),
            Step::Cordon { node, on } => {
                self.world.cordon(node, on);
                self.reference.nodes[node].cordoned = on;
            }
            Step::Gpu { node, gpu, there } => self.gpu(node, gpu, there),
            Step::LoseJournal { node } => {
                self.world.nodes[node].lose_journal();
                self.lossy = true;
                if self.world.nodes[node].connected {
                    self.world.connect(node);
                }
            }
            Step::Backup => self.back_up(),
            Step::Restore => self.restore(),
            Step::Advance { ms } => self.world.advance(ms),
        }
    }

    fn create(&mut self, whole: u32, slots: u32, migs: u32, vcpu: u32, may_wait: bool) {
        let mut devices = Vec::new();
        let parts = [(whole, Request::gpus(whole)), (slots, super::world::slots(slots)), (migs, mig(migs))];
        for (count, request) in parts {
            if count > 0 {
                devices.extend(request.devices);
            }
        }
        let request = host(Request { devices, ..Request::default() }, vcpu);
        self.created += 1;
        let made = self.world.try_create(&format!("{:03}", self.created), request.clone(), may_wait);
        match made {
            Ok(row) => {
                self.reservations.push(row.id.clone());
                self.reference.create(&row.id, &request, may_wait, self.world.now());
                if let Some(allocation) = row.allocation {
                    self.reference.book(&row.id, &allocation);
                }
            }
            Err(sql::ReserveError::NoCapacity(_)) => {
                assert!(!may_wait && !self.reference.fits(&request, None, self.world.now()), "refused what fits");
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn place(&mut self, commit: bool) {
        if !commit {
            assert!(self.world.store.run_failing_commit(|tx| sql::place_next(tx, 1000)).is_err());
            return;
        }
        let summary = self.world.place();
        let placed: BTreeMap<ReservationId, _> = summary.placed.into_iter().collect();
        for id in self.reservations.clone() {
            let now = self.world.now();
            if !self.reference.may_be_placed(&id, now) {
                assert!(!placed.contains_key(&id), "{id} was not to be placed");
                continue;
            }
            if placed.contains_key(&id) {
                // It may have been released or failed since, but not within this step.
                let allocation = self.world.row(&id).allocation.expect("it was placed");
                self.reference.check_choice(&id, &allocation, now);
                self.reference.book(&id, &allocation);
            } else {
                self.reference.refused(&id, now);
            }
        }
    }

    fn reconcile(&mut self, node: usize) {
        self.world.reconcile(node);
        self.reference.spec_written(node, self.world.specs[node].generation);
    }

    fn status(&mut self, node: usize) {
        self.world.report_status(node);
        let fake = &self.world.nodes[node];
        if fake.connected {
            self.reference.status(node, fake.applied, fake.observed);
        }
    }

    fn events(&mut self, node: usize, count: usize) {
        if self.world.nodes[node].connected {
            let sent: Vec<_> = self.world.nodes[node].events.iter().take(count).cloned().collect();
            self.reference.arrived(node, &sent);
        }
        self.world.report_events(node, count);
    }

    fn verify(&mut self, count: u32, genuine: bool) {
        let verdict = if genuine { Verdict::Genuine } else { Verdict::Forged("test".into()) };
        let settled = self.world.verify(count, &verdict).len();
        self.lossy |= !genuine && settled > 0;
        self.reference.verify(settled, genuine, self.world.now());
    }

    fn end_dropped(&mut self) {
        self.world.run(|tx| sql::end_dropped(tx, 1000));
        self.reference.end_dropped();
    }

    fn settle(&mut self, node: usize) {
        self.reconcile(node);
        self.world.deliver(node);
        self.world.nodes[node].converge(false);
        self.status(node);
        self.events(node, usize::MAX);
        self.verify(1000, true);
        self.end_dropped();
    }

    fn release(&mut self, reservation: usize, node_lost: bool) {
        let Some(id) = self.reservations.get(reservation % self.reservations.len().max(1)).cloned() else { return };
        self.world.release(&id, node_lost);
        self.reference.release(&id, node_lost);
    }

    fn connect(&mut self, node: usize, on: bool) {
        match on {
            true => self.world.connect(node),
            false if self.world.nodes[node].connected => self.world.disconnect(node),
            false => {}
        }
        let fake = &self.world.nodes[node];
        self.reference.nodes[node].connected = fake.connected;
        if fake.connected {
            self.reference.hello(node, fake.applied);
        }
    }

    fn gpu(&mut self, node: usize, gpu: usize, there: bool) {
        let fake = &mut self.world.nodes[node];
        match there {
            true => fake.missing.remove(&gpu),
            false => fake.missing.insert(gpu),
        };
        if fake.connected {
            self.world.inventory(node);
            self.reference.nodes[node].missing = self.world.nodes[node].missing.clone();
        }
    }

    fn back_up(&mut self) {
        self.backup = Some(Backup {
            store: self.world.store.copy(&self.world.clock).unwrap(),
            specs: self.world.specs.clone(),
            reference: self.reference.clone(),
            reservations: self.reservations.clone(),
        });
    }

    /// The older copy comes back; every node connects anew and says what it has.
    fn restore(&mut self) {
        let Some(backup) = self.backup.take() else { return };
        self.world.store = backup.store;
        self.world.specs = backup.specs;
        self.reference = backup.reference;
        self.reservations = backup.reservations;
        self.lossy = true;
        for node in 0..NODES {
            self.connect(node, true);
            self.world.inventory(node);
            self.reference.nodes[node].missing = self.world.nodes[node].missing.clone();
        }
    }

    /// Every row against the reference, and what needs none.
    fn check(&self) {
        self.world.check_books();
        for id in &self.reservations {
            let row = self.world.row(id);
            assert_eq!(self.reference.seen(id), (row.state, row.attempt), "{id}: {row:?}");
            let live = row.allocation.filter(|allocation| allocation.ended_at.is_none());
            assert_eq!(self.reference.live_allocation(id), live.map(|allocation| allocation.id), "{id}");
        }
        assert_eq!(self.reference.books(), self.booked());
        for node in &self.world.nodes {
            let held: Vec<&String> = node.holds.values().flatten().collect();
            let once: BTreeSet<&String> = held.iter().copied().collect();
            assert_eq!(held.len(), once.len(), "an atom is held twice on {}", node.id);
        }
    }

    /// What placement sees as taken, by node and GPU.
    fn booked(&self) -> BTreeMap<(usize, String), &'static str> {
        let mut booked = BTreeMap::new();
        for node in 0..NODES {
            let id = self.world.id(node);
            let fleet = self.world.run(|tx| sql::load_node(tx, &id));
            for gpu in fleet.nodes()[0].gpus.iter().filter(|gpu| gpu.guard.name() != "free") {
                booked.insert((node, gpu.uuid.clone()), gpu.guard.name());
            }
        }
        booked
    }

    /// Plays everything out: all nodes are well, all words arrive, nobody asks for more.
    fn rest(&mut self) {
        for node in 0..NODES {
            self.connect(node, true);
            self.world.cordon(node, false);
            self.reference.nodes[node].cordoned = false;
            (0..GPUS).for_each(|gpu| self.gpu(node, gpu, true));
        }
        let (mut before, mut quiet) = (vec![], 0);
        for _ in 0..ROUNDS {
            self.world.advance(LONG_MS);
            self.apply(&Step::ReplaceSilent);
            self.place(true);
            (0..NODES).for_each(|node| self.settle(node));
            self.check();
            let after: Vec<_> = self.reservations.iter().map(|id| self.reference.seen(id)).collect();
            quiet = if after == before { quiet + 1 } else { 0 };
            before = after;
            if quiet == QUIET_ROUNDS {
                break;
            }
        }
        assert_eq!(quiet, QUIET_ROUNDS, "it comes to rest");
        self.at_rest();
    }

    fn at_rest(&self) {
        for id in &self.reservations {
            let row = self.world.row(id);
            match row.state {
                ReservationState::Active | ReservationState::Released | ReservationState::Failed => {}
                ReservationState::Pending => {
                    let fits = self.reference.fits(&row.request, Some(id), self.world.now());
                    assert!(!fits, "{id} could be placed");
                }
                // The node's last word was lost, and a person has to say that it holds nothing.
                ReservationState::Releasing if self.lossy => {
                    assert!(row.allocation.is_some_and(|allocation| allocation.bound), "{id} ends by itself");
                }
                other => panic!("{id} is {other} at rest"),
            }
        }
        for (node, fake) in self.world.nodes.iter().enumerate() {
            let id = self.world.id(node);
            let wanted = self.world.run(|tx| sql::device_assignments(tx, &id));
            let wanted: BTreeSet<&AllocationId> = wanted.iter().map(|assignment| &assignment.allocation).collect();
            let held: BTreeSet<&AllocationId> = fake.holds.keys().collect();
            assert_eq!(held, wanted, "no hold is leaked or lost");
        }
    }
}

fn play(steps: &[Step]) {
    let mut run = Run::new();
    for step in steps {
        run.apply(step);
        run.check();
    }
    run.rest();
}

// Four tests of 300 histories each, so that they run beside each other.
macro_rules! histories {
    ($($name:ident),+) => { $(
        proptest! {
            #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

            #[test]
            fn $name(steps in prop::collection::vec(step(), 1..70)) {
                play(&steps);
            }
        }
    )+ };
}
histories!(
    every_history_matches_the_reference,
    every_other_history_matches_the_reference,
    a_third_lot_of_histories_matches_the_reference,
    a_fourth_lot_of_histories_matches_the_reference
);
