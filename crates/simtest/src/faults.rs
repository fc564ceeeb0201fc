//! What goes wrong by itself, now and then.

use crate::keys::pool;
use crate::world::{Event, World};
use gateway::core::{ConnId, Input};
use model::limits::FRAME_BYTES_MAX;
use rand::Rng;

const DAY_MS: i64 = 24 * 3_600_000;
/// Longest a gateway stands still: past the silence after which another takes its sessions, milliseconds.
const PAUSE_MOST_MS: u64 = 45_000;

impl World {
    pub(crate) fn fault(&mut self) {
        if !self.is_active {
            return;
        }
        let delay = self.around(self.plan.fault_every_ms);
        self.after(delay, Event::Fault);
        let n = self.rng.random_range(0..self.nodes.len());
        let gate = self.rng.random_range(0..self.gates.len());
        match self.rng.random_range(0..21) {
            0..=3 => self.node_dies(n, false),
            4 | 5 => self.node_dies(n, true),
            6 => self.node_stops(n),
            7..=9 => self.break_connection(n),
            10 => self.gate_dies(gate, "gateway"),
            11 => self.pause(gate),
            12 => self.drain(gate),
            13 | 14 => self.wall_clock_jumps(n),
            15 => self.flip(n),
            16 => self.journal_vanishes(n),
            17 => self.controllers_paused_until = self.now + self.rng.random_range(1_000..40_000),
            18 => self.stranger(gate),
            19 => self.goes_mad(n),
            _ => self.kill_at_work(),
        }
    }

    fn live_conn(&self, n: usize) -> Option<u64> {
        self.nodes[n].process.as_ref()?.link.filter(|conn| self.conns.contains_key(conn))
    }

    fn break_connection(&mut self, n: usize) {
        if let Some(conn) = self.live_conn(n) {
            self.cut(conn);
        }
    }

    fn pause(&mut self, gate: usize) {
        let pause = self.rng.random_range(500..PAUSE_MOST_MS);
        self.coverage.hit("fault", "gateway paused");
        self.note(format_args!("g{gate} stands still for {pause}"));
        self.gates[gate].paused_until = self.now + pause;
    }

    fn drain(&mut self, gate: usize) {
        let life = self.gates[gate].life;
        self.note(format_args!("g{gate} drains"));
        self.gates[gate].is_draining = true;
        self.gate_input(gate, life, Input::Drain { window_ms: 4_000 });
        if self.rng.random() {
            self.gates[gate].is_draining = false;
            let delay = self.around(6_000);
            self.after(delay, Event::GateStop { gate, life });
        }
    }

    pub(crate) fn gate_stop(&mut self, gate: usize, life: u64) {
        if self.gates[gate].is_alive(life) {
            self.gate_dies(gate, "gateway");
        }
    }

    fn wall_clock_jumps(&mut self, n: usize) {
        self.coverage.hit("fault", "wall clock jumped");
        let days = self.rng.random_range(-400..400);
        self.nodes[n].wall_offset_ms = if self.rng.random() { days * DAY_MS } else { 0 };
    }

    /// The disk loses a bit of the journal while nobody looks.
    fn flip(&mut self, n: usize) {
        self.node_dies(n, false);
        let Some(bytes) = self.nodes[n].disk.journal_bytes() else { return };
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) as u64;
        if used == 0 {
            return;
        }
        let offset = self.rng.random_range(0..=used);
        let mask = 1 << self.rng.random_range(0..8);
        self.coverage.hit("disk", "journal flipped");
        self.note(format_args!("n{n} journal flipped"));
        self.nodes[n].disk.flip(offset, mask);
        self.nodes[n].damage = true;
    }

    fn journal_vanishes(&mut self, n: usize) {
        if self.rng.random() {
            return;
        }
        self.node_dies(n, false);
        self.coverage.hit("disk", "journal missing");
        self.note(format_args!("n{n} journal is gone"));
        self.nodes[n].disk.move_aside();
        self.nodes[n].durable = None;
        self.nodes[n].in_doubt.clear();
    }

    /// Somebody with a certificate of another fleet.
    fn stranger(&mut self, gate: usize) {
        let leaf = &pool().nodes[0].foreign_leaf;
        let certificate = self.certificate_facts(leaf);
        let conn = ConnId(self.next_conn);
        self.next_conn += 1;
        let life = self.gates[gate].life;
        self.gate_input(gate, life, Input::Opened { conn, certificate });
    }

    /// A daemon sends what is no frame, or one that is too long, or one at the wrong time.
    fn goes_mad(&mut self, n: usize) {
        let Some(conn) = self.live_conn(n) else { return };
        let bytes = match self.rng.random_range(0..3) {
            0 => vec![0; FRAME_BYTES_MAX + 1],
            1 => vec![0xff; 8],
            _ => proto::encode_agent_frame(model::frame::AgentFrame::ResumeDone).unwrap_or_default(),
        };
        self.send_bytes_to_gateway(conn, bytes, 1);
    }

    /// A process in the middle of a side effect, if there is one, dies.
    fn kill_at_work(&mut self) {
        let at_work = |node: &crate::node::Node| {
            node.process.as_ref().is_some_and(|process| process.works.values().any(|running| running.step > 0))
        };
        if let Some(n) = self.nodes.iter().position(at_work) {
            let loses_power = self.rng.random();
            self.node_dies(n, loses_power);
        }
    }
}
