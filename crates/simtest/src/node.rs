//! A simulated machine and the daemon on it: a host that boots and counts its GPU resets, a disk that
//! outlives both, and a process that can die between any two things it does.

use crate::keys::{JOINED_AT, LEAP_MS, NodeKeys, T0, pool};
use crate::outside::SimOutside;
use crate::plan::Plan;
use crate::world::{Event, World};
use journal::log::OpenError;
use journal::sim::SimStorage;
use journal::{Birth, Journal, JournalError};
use model::frame::{GatewayFrame, InventoryReport, Signed, StatusReport};
use model::{BootId, CommandId, EventClass, IncarnationId, JournalId, Lane, NodeId, Role, ServerTimeMs};
use node_core::{Engine, EngineConfig, Input, JournalLimits, JournalState, Mutation, Output, Ticket, Work};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stdx::clock::Instant;

/// Commits one sync covers at most.
const COMMITS_TOGETHER_MAX: usize = 16;
/// How far the mark beside the journal may be behind what the node was told.
const MARK_BEHIND_MOST_MS: i64 = 6 * 60_000;

/// What a running process is doing for a command.
#[derive(Debug)]
pub(crate) struct Running {
    pub work: Work,
    pub step: usize,
    pub is_cancelled: bool,
}

pub(crate) struct Process {
    pub pid: u64,
    pub incarnation: IncarnationId,
    pub engine: Engine<SimOutside>,
    pub journal: Journal<SimStorage>,
    pub commits: VecDeque<(Ticket, Vec<Mutation>)>,
    pub disk_is_busy: bool,
    pub last_durable: u64,
    pub works: BTreeMap<CommandId, Running>,
    pub link: Option<u64>,
    pub wake_at: Option<u64>,
    /// The newest genuine time this process was told, and when on its own clock.
    pub told: Option<(i64, Instant)>,
    /// What the newest `Welcome` genuinely stated; it counts once the session is up.
    pub welcomed: Option<i64>,
    /// Accepted by this process and not settled durably.
    pub open: BTreeMap<CommandId, Lane>,
    pub deferred: BTreeSet<CommandId>,
    /// Settled without having run, on the way to disk.
    pub refused: BTreeSet<CommandId>,
    pub upgrade_only: bool,
    /// Swept by this process.
    pub forgotten: BTreeSet<CommandId>,
}

pub(crate) struct Node {
    pub slot: usize,
    pub keys: &'static NodeKeys,
    pub limits: JournalLimits,
    pub awaits_approvers: bool,
    pub is_up: bool,
    pub boot: u64,
    booted_at: u64,
    clock_base: u64,
    drift_ppm: i64,
    /// How wrong the host's wall clock is, milliseconds.
    pub wall_offset_ms: i64,
    pub disk: SimStorage,
    /// The disk was damaged behind the journal's back since it was last opened.
    pub damage: bool,
    /// What must be on disk, and what was being written when the process died.
    pub durable: Option<JournalState>,
    pub in_doubt: Vec<Mutation>,
    /// Beside the journal.
    pub bundle: Signed,
    pub mark: ServerTimeMs,
    pub has_journal: bool,
    pub journals: Vec<JournalId>,
    pub process: Option<Process>,
    pub starts: u64,
    /// GPU resets, in a place the daemon cannot touch.
    pub resets: Vec<(CommandId, String)>,
    pub applied_specs: u64,
    /// Genuine and forged deliveries that reached a process of this node.
    pub genuine: BTreeSet<CommandId>,
    pub forged: BTreeSet<CommandId>,
    pub cancels: BTreeSet<CommandId>,
    pub epoch: u64,
}

impl Node {
    pub fn new(slot: usize, plan: &Plan, rng: &mut SmallRng) -> Self {
        let drift = if plan.drift_ppm == 0 { 0 } else { rng.random_range(-plan.drift_ppm..=plan.drift_ppm) };
        Self {
            slot,
            keys: &pool().nodes[slot],
            limits: JournalLimits { bytes_max: plan.journal_bytes, events_max: plan.journal_events },
            awaits_approvers: plan.awaits_approvers,
            is_up: false,
            boot: 0,
            booted_at: 0,
            clock_base: 0,
            drift_ppm: drift,
            wall_offset_ms: 0,
            disk: SimStorage::new(rng.random()),
            damage: false,
            durable: None,
            in_doubt: Vec::new(),
            bundle: pool().bundles[0].clone(),
            mark: ServerTimeMs(JOINED_AT),
            has_journal: false,
            journals: Vec::new(),
            process: None,
            starts: 0,
            resets: Vec::new(),
            applied_specs: 0,
            genuine: BTreeSet::new(),
            forged: BTreeSet::new(),
            cancels: BTreeSet::new(),
            epoch: 0,
        }
    }

    pub fn id(&self) -> &'static NodeId {
        &self.keys.node_id
    }

    /// The certificate the node holds: it renews within the day.
    pub fn leaf(&self, server_now: i64) -> &'static [u8] {
        &self.keys.leaves[usize::from(self.renewed_at(server_now))]
    }

    fn renewed_at(&self, server_now: i64) -> bool {
        // A while after the leap, so that the expired one is tried first.
        server_now > T0 + LEAP_MS + 60_000
    }

    pub fn boot_id(&self) -> BootId {
        BootId::new(format!("boot-{}-{}", self.slot, self.boot))
    }

    /// The host's boot clock, which runs a little wrong.
    pub fn local(&self, now: u64) -> Instant {
        let passed = now.saturating_sub(self.booted_at) as i64;
        Instant(self.clock_base + (passed + passed * self.drift_ppm / 1_000_000) as u64)
    }

    /// When the boot clock will read `at`, rounded up.
    fn world_time(&self, at: Instant) -> u64 {
        let passed = at.0.saturating_sub(self.clock_base) as i64;
        self.booted_at + (passed - passed * self.drift_ppm / 1_000_000 + 2).max(0) as u64
    }

    /// Much time passes at once; what is planned keeps its distance.
    pub fn leap(&mut self, leap_ms: u64) {
        if let Some(process) = &mut self.process {
            process.last_durable += leap_ms;
            process.wake_at = process.wake_at.map(|at| at + leap_ms);
        }
    }

    pub fn is_linked(&self, pid: u64, conn: u64) -> bool {
        self.process.as_ref().is_some_and(|process| process.pid == pid && process.link == Some(conn))
    }

    /// F-Q13: what a new journal is born with.
    fn birth(&self, replaces_lost: bool, id: JournalId, server_now: i64) -> Birth {
        let mark = self.mark.0;
        let birth = match replaces_lost || self.has_journal {
            false => ServerTimeMs(JOINED_AT),
            true => {
                let (wall, latest) = (server_now + self.wall_offset_ms, mark + MARK_BEHIND_MOST_MS);
                // A clock before the mark is wrong, and says nothing about when.
                ServerTimeMs(if wall < mark { latest } else { wall.min(latest) })
            }
        };
        Birth { node_id: self.id().clone(), journal_id: id, birth, time_mark: self.mark }
    }

    fn engine_config(&self, incarnation: IncarnationId) -> EngineConfig {
        EngineConfig {
            node_id: self.id().clone(),
            role: Role::Node,
            daemon_version: "0.1.0".into(),
            hostname: format!("host-{}", self.slot),
            boot_id: self.boot_id(),
            incarnation,
            capabilities: Vec::new(),
            limits: self.limits,
            awaits_approvers: self.awaits_approvers,
        }
    }
}

impl World {
    pub(crate) fn node_of(&self, pid: u64) -> Option<usize> {
        self.nodes.iter().position(|node| node.process.as_ref().is_some_and(|process| process.pid == pid))
    }

    pub(crate) fn host_up(&mut self, n: usize) {
        let clock_base = self.rng.random_range(1_000..50_000);
        let now = self.now;
        let node = &mut self.nodes[n];
        if node.is_up {
            return;
        }
        node.is_up = true;
        node.boot += 1;
        node.booted_at = now;
        node.clock_base = clock_base;
        let boot = node.boot;
        self.note(format_args!("n{n} boots {boot}"));
        self.node_start(n);
    }

    /// The machine goes off: what was not synced is up to the disk.
    pub(crate) fn host_down(&mut self, n: usize, boot: u64, by: &'static str) {
        if self.nodes[n].is_up && self.nodes[n].boot == boot {
            if let Some(process) = self.nodes[n].process.take() {
                self.buried(process);
            }
            self.power_lost(n, by);
        }
    }

    fn buried(&mut self, process: Process) {
        if let Some(conn) = process.link {
            self.agent_closes(conn);
        }
    }

    fn power_lost(&mut self, n: usize, by: &'static str) {
        self.coverage.hit("crash", by);
        self.note(format_args!("n{n} {by}"));
        let misdirect = match self.rng.random_range(0..8) {
            0 | 1 => journal::sim::Misdirect::Acknowledged,
            2 | 3 => journal::sim::Misdirect::Unsynced,
            _ => journal::sim::Misdirect::Never,
        };
        let mut rng = SmallRng::seed_from_u64(self.rng.random());
        let report = self.nodes[n].disk.crash(&mut rng, misdirect);
        for (count, what) in [
            (report.lost, "unsynced sector lost"),
            (report.kept, "unsynced sector kept"),
            (report.misdirected, "misdirected"),
            (report.misdirected_onto_acknowledged, "misdirected onto acknowledged"),
        ] {
            if count > 0 {
                self.coverage.hit("disk", what);
            }
        }
        self.nodes[n].damage |= report.misdirected_onto_acknowledged > 0;
        self.nodes[n].is_up = false;
        let delay = 1_000 + self.around(8_000);
        self.after(delay, Event::HostUp { node: n });
    }

    /// The process ends here; the machine goes on.
    fn killed(&mut self, n: usize, by: &'static str) {
        self.coverage.hit("crash", by);
        self.note(format_args!("n{n} {by}"));
        self.nodes[n].disk.kill();
        let delay = 200 + self.around(3_000);
        self.after(delay, Event::NodeStart { node: n });
    }

    /// Whoever runs the process kills it, or the machine loses power.
    pub(crate) fn node_dies(&mut self, n: usize, loses_power: bool) {
        let Some(process) = self.nodes[n].process.take() else { return };
        let is_between = process.works.values().any(|running| running.step > 0);
        self.buried(process);
        match (loses_power, is_between) {
            (false, false) => self.killed(n, "killed at random"),
            (false, true) => self.killed(n, "killed between effect and result"),
            (true, false) => self.power_lost(n, "power lost at random"),
            (true, true) => self.power_lost(n, "power lost between effect and result"),
        }
    }

    /// The service manager stops the daemon, which says goodbye, and starts it again.
    pub(crate) fn node_stops(&mut self, n: usize) {
        let Some(pid) = self.nodes[n].process.as_ref().map(|process| process.pid) else { return };
        self.node_input(n, pid, Input::Stop);
        if let Some(process) = self.nodes[n].process.take() {
            self.buried(process);
            self.killed(n, "stopped");
        }
    }

    pub(crate) fn node_start(&mut self, n: usize) {
        if !self.nodes[n].is_up || self.nodes[n].process.is_some() {
            return;
        }
        if self.faulty(1, 40) {
            match self.rng.random_range(0..3) {
                0 => self.nodes[n].disk.fail_next_sync(),
                1 => self.nodes[n].disk.fail_next_write(),
                _ => self.nodes[n].disk.fail_next_grow(),
            }
        }
        let Some((journal, moved_aside)) = self.open_journal(n) else { return };
        let pid = self.next_pid;
        self.next_pid += 1;
        let server_now = self.server_now();
        let seed = self.rng.random();
        let now = self.now;
        let node = &mut self.nodes[n];
        node.starts += 1;
        let incarnation = IncarnationId::new(format!("i-{n}-{}", node.starts));
        let outside = SimOutside::new(node.keys, node.leaf(server_now).to_vec(), &node.bundle, seed);
        let state = journal.state().clone();
        let engine = Engine::new(node.engine_config(incarnation.clone()), state.clone(), outside, node.local(now));
        node.has_journal = true;
        node.durable = Some(state);
        node.in_doubt.clear();
        node.process = Some(Process {
            pid,
            incarnation,
            engine,
            journal,
            commits: VecDeque::new(),
            disk_is_busy: false,
            last_durable: 0,
            works: BTreeMap::new(),
            link: None,
            wake_at: None,
            told: None,
            welcomed: None,
            open: BTreeMap::new(),
            deferred: BTreeSet::new(),
            refused: BTreeSet::new(),
            upgrade_only: false,
            forgotten: BTreeSet::new(),
        });
        self.note(format_args!("n{n} process {pid} starts"));
        let inventory = format!("inventory of {n}").into_bytes();
        let report = InventoryReport { digest: stdx::hex::sha256_hex(&inventory), inventory };
        self.node_input(n, pid, Input::Inventory(report));
        self.node_input(n, pid, Input::Start);
        self.node_input(n, pid, transition("daemon.started"));
        if moved_aside {
            self.node_input(n, pid, transition("journal.moved-aside"));
        }
        let delay = self.around(8_000);
        self.after(delay, Event::Observe { node: n });
    }

    /// Opens the journal as the daemon does: a damaged one is moved aside.
    fn open_journal(&mut self, n: usize) -> Option<(Journal<SimStorage>, bool)> {
        let opened = self.try_open_journal(n);
        self.nodes[n].disk.kill();
        opened
    }

    fn try_open_journal(&mut self, n: usize) -> Option<(Journal<SimStorage>, bool)> {
        let server_now = self.server_now();
        let id = JournalId::new(format!("journal-{n}-{}", self.nodes[n].journals.len() + 1));
        let node = &mut self.nodes[n];
        let opened = Journal::open(node.disk.clone(), &node.birth(false, id.clone(), server_now));
        match opened {
            Ok(journal) => {
                self.opened_as_left(n, journal.state());
                Some((journal, false))
            }
            Err(error) if is_damage(&error) => {
                self.coverage.hit("disk", "journal moved aside");
                self.note(format_args!("n{n} journal moved aside"));
                let node = &mut self.nodes[n];
                let may_be_damaged = std::mem::take(&mut node.damage);
                node.disk.move_aside();
                node.durable = None;
                let opened = Journal::open(node.disk.clone(), &node.birth(true, id, server_now));
                self.require(may_be_damaged, || format!("n{n}: a crash was taken for damage: {error:?}"));
                match opened {
                    Ok(journal) => {
                        self.opened_as_left(n, journal.state());
                        Some((journal, true))
                    }
                    Err(_) => self.open_failed(n),
                }
            }
            Err(_) => self.open_failed(n),
        }
    }

    fn open_failed<T>(&mut self, n: usize) -> Option<T> {
        self.killed(n, "opening the journal failed");
        None
    }

    pub(crate) fn node_tick(&mut self, pid: u64) {
        let Some(n) = self.node_of(pid) else { return };
        let now = self.now;
        if let Some(process) = &mut self.nodes[n].process
            && process.wake_at.is_some_and(|at| at <= now)
        {
            process.wake_at = None;
            self.node_input(n, pid, Input::Tick);
        }
    }

    pub(crate) fn observe(&mut self, n: usize) {
        let delay = self.around(8_000);
        let Some(pid) = self.nodes[n].process.as_ref().map(|process| process.pid) else { return };
        let input = match self.rng.random_range(0..6) {
            0 => transition("something.happened"),
            1 => {
                let gauges = vec![("load".to_owned(), self.rng.random_range(0..100))];
                Input::Status(StatusReport { gauges, ..StatusReport::default() })
            }
            2 => observed(EventClass::Result, "something.ended"),
            _ => observed(EventClass::Metric, "daemon.metrics"),
        };
        self.node_input(n, pid, input);
        // One chain of observations for each process.
        if self.nodes[n].process.as_ref().is_some_and(|process| process.pid == pid) && self.is_active {
            self.after(delay, Event::Observe { node: n });
        }
    }

    /// One input, and everything that follows from it at once, unless the process dies on the way.
    pub(crate) fn node_input(&mut self, n: usize, pid: u64, input: Input) {
        let now = self.nodes[n].local(self.now);
        let Some(mut process) = self.nodes[n].process.take_if(|process| process.pid == pid) else { return };
        let outputs = process.engine.step(now, input);
        for output in outputs {
            if let Some((by, loses_power)) = self.dies_before(&output) {
                self.buried(process);
                return if loses_power { self.power_lost(n, by) } else { self.killed(n, by) };
            }
            self.node_output(n, &mut process, output, now);
            if self.violation.is_some() {
                return;
            }
        }
        self.wake_when_due(n, &mut process);
        self.nodes[n].process = Some(process);
    }

    fn dies_before(&mut self, output: &Output) -> Option<(&'static str, bool)> {
        let (killed, off) = match output {
            Output::Send(_) => ("killed before send", "power lost before send"),
            Output::Commit(..) => ("killed before commit", "power lost before commit"),
            Output::Start(_) => ("killed before start", "power lost before start"),
            _ => return None,
        };
        if !self.faulty(self.plan.die_per_10k, 10_000) {
            return None;
        }
        let loses_power = self.rng.random_ratio(1, 3);
        Some((if loses_power { off } else { killed }, loses_power))
    }

    fn wake_when_due(&mut self, n: usize, process: &mut Process) {
        let Some(at) = process.engine.next_wake() else { return };
        let at = self.nodes[n].world_time(at).max(self.now + 1);
        if process.wake_at.is_none_or(|planned| at < planned || planned < self.now) {
            process.wake_at = Some(at);
            let pid = process.pid;
            self.at(at, Event::NodeTick { pid });
        }
    }

    fn node_output(&mut self, n: usize, process: &mut Process, output: Output, now: Instant) {
        match output {
            Output::Connect => process.link = self.connect(n, process.pid),
            Output::Disconnect(code) => {
                self.note(format_args!("n{n} disconnects {code}"));
                if let Some(conn) = process.link.take() {
                    self.agent_closes(conn);
                }
            }
            Output::Send(frame) => {
                self.node_says(n, process, &frame);
                if let Some(conn) = process.link {
                    self.send_to_gateway(conn, frame);
                }
            }
            Output::Commit(ticket, mutations) => {
                process.commits.push_back((ticket, mutations));
                self.write_soon(process);
            }
            Output::Start(work) => self.start_work(n, process, work, now),
            Output::Cancel(id) => {
                if let Some(running) = process.works.get_mut(&id) {
                    running.is_cancelled = true;
                }
            }
            Output::StoreBundle(signed) => self.nodes[n].bundle = signed,
            Output::Ticket { .. } => {}
            Output::MirrorMark(mark) => {
                let node = &mut self.nodes[n];
                node.mark = node.mark.max(mark);
                self.mark_is_stated(n, mark);
            }
            Output::Decided(decision) => self.node_decides(n, process, &decision, now),
        }
    }

    fn write_soon(&mut self, process: &mut Process) {
        if !process.disk_is_busy && !process.commits.is_empty() {
            process.disk_is_busy = true;
            let delay = self.around(self.plan.disk_ms);
            let pid = process.pid;
            self.after(delay, Event::Disk { pid });
        }
    }

    /// The disk takes what waits, with one sync, or fails and takes the process with it.
    pub(crate) fn disk_commits(&mut self, pid: u64) {
        let Some(n) = self.node_of(pid) else { return };
        let together = self.rng.random_range(1..=COMMITS_TOGETHER_MAX);
        let (fault, calls) = self.disk_fault(n);
        let Some(mut process) = self.nodes[n].process.take() else { return };
        let count = process.commits.len().min(together);
        let batch: Vec<(Ticket, Vec<Mutation>)> = process.commits.drain(..count).collect();
        let mutations: Vec<Mutation> = batch.iter().flat_map(|(_, mutations)| mutations).cloned().collect();
        let before = process.journal.state().clone();
        let outcome = process.journal.commit(&mutations);
        if outcome.is_err() || fault == Some(DiskFault::DiesAfter) {
            self.nodes[n].durable = Some(before);
            self.nodes[n].in_doubt = mutations;
            self.buried(process);
            return match fault {
                Some(DiskFault::PowerLost) => self.power_lost(n, "power lost in a commit"),
                Some(DiskFault::Killed) => self.killed(n, "killed in a commit"),
                Some(DiskFault::Sync) => self.killed(n, "sync failed"),
                Some(DiskFault::Full) => self.killed(n, "disk full"),
                Some(DiskFault::DiesAfter) => self.killed(n, "killed between commit and its answer"),
                None => self.fail(format!("n{n}: a commit failed on a sound disk after {calls} calls: {outcome:?}")),
            };
        }
        self.nodes[n].disk.kill();
        self.committed(n, &mut process, &before, &mutations);
        process.disk_is_busy = false;
        self.write_soon(&mut process);
        for (ticket, _) in batch {
            let delay = if self.faulty(1, 10) { self.around(200) } else { 0 };
            process.last_durable = process.last_durable.max(self.now + delay);
            let at = process.last_durable;
            self.at(at, Event::Durable { pid, ticket });
        }
        self.nodes[n].process = Some(process);
    }

    fn disk_fault(&mut self, n: usize) -> (Option<DiskFault>, u64) {
        if !self.faulty(self.plan.die_per_10k * 2, 10_000) {
            return (None, 0);
        }
        let calls = self.rng.random_range(0..3);
        let disk = &mut self.nodes[n].disk;
        let fault = match self.rng.random_range(0..8) {
            0 => {
                disk.fail_next_sync();
                DiskFault::Sync
            }
            1 => {
                disk.fail_next_write();
                DiskFault::Full
            }
            2 | 3 => {
                disk.fail_after(calls);
                DiskFault::Killed
            }
            4 => DiskFault::DiesAfter,
            _ => {
                disk.fail_after(calls);
                DiskFault::PowerLost
            }
        };
        (Some(fault), calls)
    }

    pub(crate) fn durable(&mut self, pid: u64, ticket: Ticket) {
        if let Some(n) = self.node_of(pid) {
            self.node_input(n, pid, Input::Committed(ticket));
        }
    }

    /// The node hears no more faults: whatever failed works again.
    pub(crate) fn heal_node(&mut self, n: usize) {
        self.nodes[n].disk.kill();
        self.nodes[n].wall_offset_ms = 0;
        if !self.nodes[n].is_up {
            self.after(1_000, Event::HostUp { node: n });
        } else if self.nodes[n].process.is_none() {
            self.after(1_000, Event::NodeStart { node: n });
        }
    }

    /// What a process was told, for the checks of its decisions.
    pub(crate) fn node_hears(&mut self, n: usize, pid: u64, frame: &GatewayFrame) {
        let genuine = match frame {
            GatewayFrame::Command(delivery) => self.known.is_genuine(delivery),
            _ => None,
        };
        let now = self.nodes[n].local(self.now);
        let node = &mut self.nodes[n];
        let Some(process) = node.process.as_mut().filter(|process| process.pid == pid) else { return };
        match frame {
            GatewayFrame::Command(_) => {
                if let Some((id, is_genuine)) = genuine {
                    if is_genuine {
                        node.genuine.insert(id)
                    } else {
                        node.forged.insert(id)
                    };
                }
            }
            GatewayFrame::Cancel { command_id, .. } => {
                node.cancels.insert(command_id.clone());
            }
            GatewayFrame::Welcome(welcome) => {
                process.upgrade_only |= welcome.upgrade_required;
                let signed = welcome.server_time.signed.as_ref();
                process.welcomed = signed.and_then(|signed| genuine_time(&self.statements, signed));
            }
            GatewayFrame::HeartbeatAck { server_time, .. } if process.engine.session_epoch().is_some() => {
                if let Some(stated) =
                    server_time.signed.as_ref().and_then(|signed| genuine_time(&self.statements, signed))
                {
                    process.hears_time(stated, now);
                }
            }
            _ => {}
        }
    }
}

/// The time a genuine statement states.
pub(crate) fn genuine_time(statements: &BTreeMap<i64, Signed>, signed: &Signed) -> Option<i64> {
    statements.iter().rev().find(|(_, known)| *known == signed).map(|(at, _)| *at)
}

impl Process {
    /// What the time is at least, by what this process was told.
    pub(crate) fn time_at_least(&self, now: Instant) -> Option<i64> {
        self.told.map(|(stated, at)| stated + now.since(at) as i64)
    }

    pub(crate) fn hears_time(&mut self, stated: i64, now: Instant) {
        let estimate = self.time_at_least(now).unwrap_or(i64::MIN);
        self.told = Some((stated.max(estimate), now));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiskFault {
    Sync,
    Full,
    Killed,
    PowerLost,
    DiesAfter,
}

fn is_damage(error: &JournalError) -> bool {
    matches!(
        error,
        JournalError::Open(OpenError::Corrupt { .. } | OpenError::TooLarge { .. })
            | JournalError::Record { .. }
            | JournalError::NoBirth
    )
}

fn observed(class: EventClass, kind: &str) -> Input {
    Input::Observed { class, kind: kind.to_owned(), attributes: Vec::new(), body: None }
}

fn transition(kind: &str) -> Input {
    observed(EventClass::Transition, kind)
}
