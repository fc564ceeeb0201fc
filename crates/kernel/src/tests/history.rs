//! Random histories of a small fleet, against a reference that knows the rules and no SQL: after each
//! step every row is what the reference says, and the invariants hold.

mod reference;

use super::world::*;
use crate::commands::{self, CommandRow};
use crate::sessions::{self, CertFacts, Outgoing};
use crate::updates;
use crate::verifier::{self, Verdict};
use model::frame::{CommandUpdate, UpdateState};
use model::{BootId, CommandId, CommandState, Kind, Lane, NodeId, Outcome};
use proptest::prelude::*;
use reference::{Reference, Report};
use std::collections::BTreeMap;

/// What a history enqueues: every mix of lane, retry-safe, attested and self-terminating, and a kind
/// that the certificate does not allow.
const KINDS: [&str; 8] = [
    "inventory.refresh",
    "diag.nvml",
    "gpu.reset",
    "node.reboot",
    "boot.kexec",
    "logs.collect",
    "instance.snapshot",
    "bmc.power",
];
const NODES: usize = 2;

#[derive(Clone, Debug)]
enum Step {
    Enqueue { node: usize, kind: usize },
    Accept { node: usize, new_boot: bool, new_journal: bool },
    Resume { node: usize, in_flight: u8 },
    Dispatch { commit: bool },
    Report { command: usize, report: Report, foreign: bool },
    Verify { command: usize, genuine: bool },
    Cancel { command: usize },
    Cancels,
    Sweep,
    Resign,
    Close { node: usize },
    Advance { ms: i64 },
}

fn step() -> impl Strategy<Value = Step> {
    let node = 0..NODES;
    let report = prop_oneof![
        Just(Report::Acked),
        Just(Report::Running),
        Just(Report::Busy),
        prop::sample::select(Outcome::ALL).prop_map(Report::Done),
    ];
    let ms = prop_oneof![Just(1), Just(1_000), Just(2_000), Just(60_000), Just(400_000), Just(1_200_000)];
    prop_oneof![
        6 => (node.clone(), 0..KINDS.len()).prop_map(|(node, kind)| Step::Enqueue { node, kind }),
        2 => (node.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(node, new_boot, new_journal)| Step::Accept { node, new_boot, new_journal }),
        4 => (node.clone(), any::<u8>()).prop_map(|(node, in_flight)| Step::Resume { node, in_flight }),
        6 => any::<bool>().prop_map(|commit| Step::Dispatch { commit }),
        8 => (any::<usize>(), report, prop::bool::weighted(0.1))
            .prop_map(|(command, report, foreign)| Step::Report { command, report, foreign }),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(command, genuine)| Step::Verify { command, genuine }),
        1 => any::<usize>().prop_map(|command| Step::Cancel { command }),
        1 => Just(Step::Cancels),
        1 => Just(Step::Sweep),
        2 => Just(Step::Resign),
        1 => node.prop_map(|node| Step::Close { node }),
        3 => ms.prop_map(|ms| Step::Advance { ms }),
    ]
}

struct Run {
    world: World,
    nodes: Vec<NodeId>,
    commands: Vec<CommandId>,
    reference: Reference,
    terminal: BTreeMap<CommandId, CommandRow>,
    epochs: Vec<u64>,
}

impl Run {
    fn new() -> Self {
        let world = World::new();
        let mut nodes: Vec<NodeId> = (0..NODES).map(|number| world.join(&format!("host-{number}"))).collect();
        nodes.sort();
        let reference = Reference::new(NODES, START);
        Self { world, nodes, commands: Vec::new(), reference, terminal: BTreeMap::new(), epochs: vec![0; NODES] }
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Enqueue { node, kind } => {
                let key = self.commands.len().to_string();
                self.commands.push(self.world.enqueue(&self.nodes[node], &key, KINDS[kind]).id);
                self.reference.enqueue(node, KINDS[kind]);
            }
            Step::Accept { node, new_boot, new_journal } => self.accept(node, new_boot, new_journal),
            Step::Resume { node, in_flight } => self.resume(node, in_flight),
            Step::Dispatch { commit } => self.dispatch(commit),
            Step::Report { command, report, foreign } => self.report(command, report, foreign),
            Step::Verify { command, genuine } => self.verify(command, genuine),
            Step::Cancel { command } => {
                if let Some(index) = self.pick(command) {
                    self.world.run(|tx| commands::request_cancel(tx, &self.commands[index], "stop"));
                    self.reference.cancel(index);
                }
            }
            Step::Cancels => {
                let sent = self.world.run(|tx| sessions::pending_cancels(tx, &self.world.gateway));
                let sent: Vec<usize> = sent.iter().map(|(_, _, id, _)| self.index(id)).collect();
                assert_eq!(sent, self.reference.pending_cancels());
            }
            Step::Sweep => {
                self.world.run(|tx| commands::sweep(tx, 1000));
                self.reference.sweep();
            }
            Step::Resign => assert_eq!(self.world.resign(), self.reference.resign()),
            Step::Close { node } => {
                let (id, epoch) = (&self.nodes[node], self.epochs[node]);
                self.world.run(|tx| sessions::close_session(tx, id, epoch, model::SessionEnd::Shutdown));
                self.reference.close(node);
            }
            Step::Advance { ms } => {
                self.world.clock.advance(ms);
                self.reference.now += ms;
            }
        }
    }

    fn pick(&self, command: usize) -> Option<usize> {
        (!self.commands.is_empty()).then(|| command % self.commands.len())
    }

    fn index(&self, id: &CommandId) -> usize {
        self.commands.iter().position(|known| known == id).unwrap()
    }

    fn accept(&mut self, node: usize, new_boot: bool, new_journal: bool) {
        let (boot, journal) = self.reference.accept(node, new_boot, new_journal);
        let mut cert: CertFacts = cert(&self.nodes[node]);
        cert.allowed_kinds.push("boot.kexec".into());
        let hello = hello(&boot, &journal);
        let answer = self.world.run(|tx| sessions::accept_session(tx, &self.world.gateway, &cert, &hello));
        let epoch = epoch_of(&answer);
        assert!(epoch > self.epochs[node], "epochs only rise");
        self.epochs[node] = epoch;
    }

    fn resume(&mut self, node: usize, in_flight: u8) {
        let reported: Vec<usize> = (0..self.commands.len()).filter(|index| in_flight >> (index % 8) & 1 == 1).collect();
        let ids: Vec<CommandId> = reported.iter().map(|index| self.commands[*index].clone()).collect();
        let (gateway, epoch) = (&self.world.gateway, self.epochs[node]);
        let outcome = self.world.store.run(|tx| sessions::resume_done(tx, gateway, &self.nodes[node], epoch, &ids));
        let sent = outcome.ok().map(|(sent, _)| self.indices(&sent));
        assert_eq!(sent, self.reference.resume(node, &reported));
    }

    fn dispatch(&mut self, commit: bool) {
        let epochs: BTreeMap<NodeId, u64> = self.nodes.iter().cloned().zip(self.epochs.iter().copied()).collect();
        if !commit {
            let lost = self.world.store.run_failing_commit(|tx| sessions::dispatch(tx, &self.world.gateway, &epochs));
            assert!(lost.is_err());
            return;
        }
        let sent = self.world.run(|tx| sessions::dispatch(tx, &self.world.gateway, &epochs));
        assert_eq!(self.indices(&sent), self.reference.dispatch());
    }

    fn report(&mut self, command: usize, report: Report, foreign: bool) {
        let Some(index) = self.pick(command) else { return };
        let owner = self.reference.node_of(index);
        let reporter = if foreign { (owner + 1) % NODES } else { owner };
        let state = match report {
            Report::Acked => UpdateState::Acked,
            Report::Running => UpdateState::Running,
            Report::Busy => UpdateState::Busy,
            Report::Done(outcome) => done(outcome, outcome.name()),
        };
        let boot_id = BootId::new(self.reference.boot_of(reporter));
        let update = CommandUpdate { command_id: self.commands[index].clone(), state, boot_id };
        let updates = std::slice::from_ref(&update);
        let acks = self.world.run(|tx| updates::ingest_updates(tx, &self.nodes[reporter], updates)).acks;
        assert_eq!(acks.len(), usize::from(matches!(report, Report::Done(_))), "every outcome is acknowledged");
        if !foreign {
            self.reference.report(index, report);
        }
    }

    fn verify(&mut self, command: usize, genuine: bool) {
        let Some(index) = self.pick(command) else { return };
        let verdict = if genuine { Verdict::Genuine } else { Verdict::Forged("forged".into()) };
        let settled = self.world.run(|tx| verifier::settle_verified(tx, &self.commands[index], &verdict));
        assert_eq!(settled, self.reference.verify(index, genuine));
    }

    fn indices(&self, sent: &[Outgoing]) -> Vec<usize> {
        sent.iter()
            .map(|out| {
                let index = self.index(&out.command_id);
                assert_eq!(out.node, self.nodes[self.reference.node_of(index)]);
                assert_eq!(out.epoch, self.epochs[self.reference.node_of(index)]);
                let body = proto::decode_body(&out.delivery.signed.body).unwrap();
                assert_eq!(out.delivery.signed, seal(&body), "byte for byte");
                index
            })
            .collect()
    }

    /// Every row against the reference, and the invariants that need none.
    fn check(&mut self) {
        let mut in_flight: BTreeMap<(NodeId, Lane), u32> = BTreeMap::new();
        for (index, id) in self.commands.iter().enumerate() {
            let row = self.world.row(id);
            let code = row.code.clone();
            assert_eq!(self.reference.seen(index), (row.state, code, row.attempt, row.awaits_verification), "{id}");
            if row.state.is_in_flight() && !row.awaits_verification {
                *in_flight.entry((row.node.clone(), row.lane)).or_default() += 1;
            }
            if row.state.is_terminal() {
                let first = self.terminal.entry(id.clone()).or_insert_with(|| row.clone());
                assert_eq!(*first, row, "a terminal row never changes");
            }
        }
        // A report for a row whose dispatch was lost puts it in flight beside the credits.
        for ((node, lane), count) in in_flight {
            assert!(count <= lane.credits() + self.reference.unsent_reports(lane), "{node} {lane}: {count}");
        }
    }

    /// Each settled command has exactly one event, and no other has any.
    fn check_events(&self) {
        let mut settled: Vec<String> = self
            .world
            .published()
            .into_iter()
            .filter(|event| event.topic == "command.settled")
            .map(|event| event.key)
            .collect();
        settled.sort();
        let mut terminal: Vec<String> = self.terminal.keys().map(|id| id.as_str().to_owned()).collect();
        terminal.sort();
        assert_eq!(settled, terminal);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_matches_the_reference(steps in prop::collection::vec(step(), 1..90)) {
        let mut run = Run::new();
        for step in &steps {
            run.apply(step);
            run.check();
        }
        run.check_events();
    }
}

#[test]
fn the_reference_reads_the_same_table_of_kinds() {
    for kind in KINDS {
        assert!(Kind::parse(kind).is_some());
    }
    assert!(CommandState::ALL.len() == 9);
}
