//! A gateway process: the real machine over the shared store, whose operations take time, fail, or
//! lose their answers. It can stand still for a while, and it can die.

use crate::world::{Event, World};
use gateway::core::{ConnId, Gateway, Input, OpFailure, OpId, Output, StoreOp, StoreReply, execute};
use kernel::db::Hint;
use kernel::sessions::gateway_started;
use model::GatewayId;
use rand::Rng;
use std::collections::BTreeMap;
use stdx::clock::Instant;

/// Time between looks of an idle machine, and of one that waits, milliseconds.
const TICK_IDLE_MS: u64 = 500;
const TICK_BUSY_MS: u64 = 60;

pub(crate) struct Gate {
    pub id: GatewayId,
    pub machine: Option<Gateway>,
    /// Rises with each process.
    pub life: u64,
    pub paused_until: u64,
    pub is_draining: bool,
    ops: BTreeMap<OpId, StoreOp>,
    replies: BTreeMap<OpId, Result<StoreReply, OpFailure>>,
}

impl Gate {
    pub fn new(index: usize) -> Self {
        Self {
            id: GatewayId::new(format!("gateway-{index}")),
            machine: None,
            life: 0,
            paused_until: 0,
            is_draining: false,
            ops: BTreeMap::new(),
            replies: BTreeMap::new(),
        }
    }

    pub fn is_paused(&self, now: u64) -> bool {
        self.paused_until > now
    }

    pub fn is_alive(&self, life: u64) -> bool {
        self.machine.is_some() && self.life == life
    }
}

impl World {
    /// Puts something off until the gateway stands still no more. Order is kept.
    pub(crate) fn when_resumed(&mut self, gate: usize, event: Event) {
        let at = self.gates[gate].paused_until;
        self.at(at, event);
    }

    pub(crate) fn gate_start(&mut self, gate: usize) {
        if self.gates[gate].machine.is_some() {
            return;
        }
        if self.faulty(self.plan.store_fails_per_1k, 1000) {
            // It cannot record itself, so it ends, and is started again.
            return self.after(500, Event::GateStart { gate });
        }
        let id = self.gates[gate].id.clone();
        self.read(|tx| gateway_started(tx, &id));
        let now = self.now;
        let state = &mut self.gates[gate];
        state.machine = Some(Gateway::new(Instant(now)));
        state.life += 1;
        state.is_draining = false;
        state.paused_until = 0;
        let life = state.life;
        self.note(format_args!("g{gate} starts"));
        self.after(0, Event::GateTick { gate, life });
    }

    /// The process is gone. Operations under way are stored or not; nobody hears.
    pub(crate) fn gate_dies(&mut self, gate: usize, by: &'static str) {
        if self.gates[gate].machine.is_none() {
            return;
        }
        self.coverage.hit("crash", by);
        self.note(format_args!("g{gate} dies"));
        let state = &mut self.gates[gate];
        state.machine = None;
        let life = state.life;
        state.life += 1;
        let under_way = std::mem::take(&mut state.ops);
        state.replies.clear();
        for (_, what) in under_way {
            if self.rng.random() {
                self.stored(gate, what);
            }
        }
        self.gateway_died(gate, life);
        let delay = 300 + self.around(2_000);
        self.after(delay, Event::GateStart { gate });
    }

    pub(crate) fn gate_tick(&mut self, gate: usize, life: u64) {
        if !self.gates[gate].is_alive(life) {
            return;
        }
        if self.gates[gate].is_paused(self.now) {
            return self.when_resumed(gate, Event::GateTick { gate, life });
        }
        self.gate_input(gate, life, Input::Tick);
        let is_busy = self.gates[gate].machine.as_ref().is_some_and(Gateway::is_waiting);
        let idle = if self.is_active { TICK_IDLE_MS } else { 2 * TICK_IDLE_MS };
        self.after(if is_busy { TICK_BUSY_MS } else { idle }, Event::GateTick { gate, life });
    }

    pub(crate) fn gate_hint(&mut self, gate: usize, hint: Hint) {
        if self.gates[gate].is_paused(self.now) {
            return self.when_resumed(gate, Event::Hint { gate, hint });
        }
        let life = self.gates[gate].life;
        match hint {
            Hint::Node(node) => self.gate_input(gate, life, Input::NodeHint(node)),
            Hint::Session(node) => self.gate_input(gate, life, Input::SessionHint(node)),
            Hint::Join | Hint::Outbox | Hint::Verify | Hint::Resign => {}
        }
    }

    pub(crate) fn gate_input(&mut self, gate: usize, life: u64, input: Input) {
        let state = &mut self.gates[gate];
        if !state.is_alive(life) {
            return;
        }
        let Some(machine) = &mut state.machine else { return };
        let outputs = machine.step(Instant(self.now), input);
        for output in outputs {
            match output {
                Output::Send { conn: ConnId(conn), frame } => {
                    self.gateway_says(gate, conn, &frame);
                    self.send_to_agent(conn, frame);
                }
                Output::Read { conn: ConnId(conn) } => self.after(0, Event::Read { conn }),
                Output::Close { conn: ConnId(conn), .. } => self.gateway_closes(conn),
                Output::Store { op, what } => {
                    self.gates[gate].ops.insert(op, what);
                    let delay = self.around(self.plan.store_ms);
                    self.after(delay, Event::Store { gate, life, op });
                }
                Output::Ended { node, code } => {
                    self.coverage.hit("gateway ended", code.name());
                    self.note(format_args!("g{gate} ended {node:?} {code}"));
                }
            }
        }
    }

    /// The store does one operation of a gateway, or fails, or does it and the answer is lost.
    pub(crate) fn store_op(&mut self, gate: usize, life: u64, op: OpId) {
        if !self.gates[gate].is_alive(life) {
            return;
        }
        let Some(what) = self.gates[gate].ops.remove(&op) else { return };
        let group = group_of(&what);
        let fails = self.faulty(self.plan.store_fails_per_1k, 1000);
        let loses_answer = self.faulty(self.plan.store_unknown_per_1k, 1000);
        let is_stored = !fails && (!loses_answer || self.rng.random_ratio(2, 3));
        let reply = match (fails, loses_answer) {
            (true, _) => {
                self.coverage.hit(group, "failed");
                self.not_stored(gate, what);
                Err(OpFailure::NotStored)
            }
            (false, true) => {
                self.coverage.hit(group, if is_stored { "answer lost, stored" } else { "answer lost, not stored" });
                self.note(format_args!("g{gate} {group} answer lost"));
                if is_stored {
                    self.stored(gate, what);
                }
                Err(OpFailure::Unknown)
            }
            (false, false) => {
                self.coverage.hit(group, "stored");
                match self.stored(gate, what) {
                    Some(reply) => Ok(reply),
                    None => return,
                }
            }
        };
        self.gates[gate].replies.insert(op, reply);
        let delay = self.around(self.plan.store_ms);
        self.after(delay, Event::Reply { gate, life, op });
    }

    fn not_stored(&mut self, gate: usize, what: StoreOp) {
        let id = self.gates[gate].id.clone();
        let outcome = self.store.run_failing_commit(|tx| execute(tx, &id, &self.handlers, what));
        self.require(outcome.is_err(), || "a commit that failed has an answer".to_owned());
    }

    /// Runs the operation and commits it. Its hints go to every gateway, if they get there.
    fn stored(&mut self, gate: usize, what: StoreOp) -> Option<StoreReply> {
        let id = self.gates[gate].id.clone();
        let outcome = self.store.run(|tx| execute(tx, &id, &self.handlers, what.clone()));
        match outcome {
            Ok((reply, hints)) => {
                self.send_hints(hints);
                self.after_op(gate, &what, &reply);
                Some(reply)
            }
            Err(error) => {
                self.fail(format!("a store operation fails by itself: {error}: {what:?}"));
                None
            }
        }
    }

    pub(crate) fn send_hints(&mut self, hints: Vec<Hint>) {
        for hint in hints {
            for gate in 0..self.gates.len() {
                if !self.faulty(self.plan.hints_lost_per_100, 100) {
                    let delay = self.around(5);
                    self.after(delay, Event::Hint { gate, hint: hint.clone() });
                }
            }
        }
    }

    pub(crate) fn store_reply(&mut self, gate: usize, life: u64, op: OpId) {
        if !self.gates[gate].is_alive(life) {
            return;
        }
        if self.gates[gate].is_paused(self.now) {
            return self.when_resumed(gate, Event::Reply { gate, life, op });
        }
        if let Some(reply) = self.gates[gate].replies.remove(&op) {
            self.gate_input(gate, life, Input::Stored { op, reply });
        }
    }

    pub(crate) fn heal_gate(&mut self, gate: usize) {
        let now = self.now;
        let state = &mut self.gates[gate];
        state.paused_until = state.paused_until.min(now);
        if state.is_draining {
            self.gate_dies(gate, "gateway");
        }
    }
}

fn group_of(what: &StoreOp) -> &'static str {
    match what {
        StoreOp::Accept { .. } => "store accept",
        StoreOp::Updates { .. } => "store updates",
        StoreOp::ResumeDone { .. } => "store resume-done",
        StoreOp::Events { .. } => "store events",
        StoreOp::Status { .. } => "store status",
        StoreOp::Inventory { .. } => "store inventory",
        StoreOp::Close { .. } => "store close",
        StoreOp::Touch { .. } => "store touch",
        StoreOp::Dispatch { .. } => "store dispatch",
        StoreOp::Cancels => "store cancels",
        StoreOp::Closings { .. } => "store closings",
        StoreOp::Facts => "store facts",
    }
}
