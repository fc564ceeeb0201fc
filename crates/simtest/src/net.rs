//! The network between daemons and gateways: connections that keep their order, delay, break, or look
//! alive from one end. Frames travel as their encoded bytes.

use crate::world::{Event, World};
use gateway::core::{ConnId, Input};
use model::frame::{AgentFrame, GatewayFrame, UpdateState};
use model::{CommandId, SessionEnd};
use node_core::Input as NodeInput;
use pki::verify::{NodeVerifyError, RENEW_GRACE_MS, Standing, verify_node_chain};
use std::collections::{BTreeSet, VecDeque};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Agent,
    Gateway,
}

/// What waits at a gateway for its machine to take it.
#[derive(Debug)]
enum Waiting {
    Bytes(Vec<u8>),
    Closed,
}

#[derive(Debug)]
pub(crate) struct Conn {
    pub node: usize,
    pub pid: u64,
    pub gate: usize,
    pub life: u64,
    /// Nothing gets through any more.
    pub is_cut: bool,
    pub agent_open: bool,
    pub gateway_open: bool,
    /// Times of the last arrivals, so that order is kept.
    last_to_gateway: u64,
    last_to_agent: u64,
    inbox: VecDeque<Waiting>,
    may_read: bool,
    /// What the gateway's machine was given on this connection before `ResumeDone`.
    pub results: BTreeSet<CommandId>,
    pub resume_done: bool,
}

impl Conn {
    /// Much time passes at once; what is on its way keeps its order.
    pub fn leap(&mut self, leap_ms: u64) {
        self.last_to_gateway += leap_ms;
        self.last_to_agent += leap_ms;
    }
}

impl World {
    pub(crate) fn connect(&mut self, node: usize, pid: u64) -> Option<u64> {
        let gate = self.pick(&(0..self.gates.len()).collect::<Vec<_>>())?;
        let delay = self.latency();
        if self.gates[gate].machine.is_none() || self.faulty(self.plan.cut_per_1k, 1000) {
            self.after(delay, Event::Unreachable { pid, conn: None });
            return None;
        }
        let id = self.next_conn;
        self.next_conn += 1;
        let opens = self.now + delay;
        let conn = Conn {
            node,
            pid,
            gate,
            life: self.gates[gate].life,
            is_cut: false,
            agent_open: true,
            gateway_open: true,
            last_to_gateway: opens,
            last_to_agent: opens,
            inbox: VecDeque::new(),
            may_read: false,
            results: BTreeSet::new(),
            resume_done: false,
        };
        self.conns.insert(id, conn);
        self.note(format_args!("n{node} connects c{id} to g{gate}"));
        self.at(opens, Event::Opened { conn: id });
        let answer = self.latency();
        self.at(opens + answer, Event::Connected { conn: id });
        Some(id)
    }

    fn latency(&mut self) -> u64 {
        let latency = self.around(self.plan.latency_ms);
        if self.faulty(1, 60) { latency + self.around(6_000) } else { latency }
    }

    /// The transport is up at the daemon.
    pub(crate) fn connected(&mut self, conn: u64) {
        let Some(link) = self.conns.get(&conn) else { return };
        let (node, pid, is_up) = (link.node, link.pid, !link.is_cut && link.agent_open);
        if !self.nodes[node].is_linked(pid, conn) {
            return;
        }
        if is_up {
            self.node_input(node, pid, NodeInput::LinkUp);
        } else {
            // Whoever connects gives up after a while.
            let delay = self.around(10_000);
            self.after(delay, Event::Unreachable { pid, conn: Some(conn) });
        }
    }

    pub(crate) fn unreachable(&mut self, pid: u64, conn: Option<u64>) {
        let Some(node) = self.node_of(pid) else { return };
        if conn.is_none_or(|conn| self.nodes[node].is_linked(pid, conn)) {
            self.node_input(node, pid, NodeInput::LinkDown);
        }
    }

    /// The connection reaches its gateway, which looks at the certificate as its shell does.
    pub(crate) fn opened(&mut self, conn: u64) {
        let Some(link) = self.conns.get(&conn).filter(|link| !link.is_cut) else { return };
        let (gate, life, node) = (link.gate, link.life, link.node);
        if self.gates[gate].is_paused(self.now) {
            return self.when_resumed(gate, Event::Opened { conn });
        }
        let leaf = self.nodes[node].leaf(self.server_now()).to_vec();
        let certificate = self.certificate_facts(&leaf);
        self.gate_input(gate, life, Input::Opened { conn: ConnId(conn), certificate });
    }

    /// What a gateway's shell makes of a client's certificate.
    pub(crate) fn certificate_facts(&self, leaf: &[u8]) -> Result<kernel::sessions::CertFacts, SessionEnd> {
        let trust = crate::keys::pool().fleet.public.node_trust();
        let leaf = pki::CertificateDer::from(leaf.to_vec());
        let verified = verify_node_chain(&leaf, &trust, self.server_now(), RENEW_GRACE_MS);
        let verified = verified.map_err(|error| match error {
            NodeVerifyError::WrongFleet => SessionEnd::WrongFleet,
            NodeVerifyError::Expired { .. } => SessionEnd::CertificateExpired,
            _ => SessionEnd::ProtocolError,
        })?;
        if verified.standing == Standing::InGrace {
            return Err(SessionEnd::CertificateExpired);
        }
        let certificate = verified.certificate;
        Ok(kernel::sessions::CertFacts {
            node_id: certificate.node_id,
            serial: certificate.serial_hex,
            role: certificate.role,
            allowed_kinds: certificate.allowed_kinds,
            not_after_ms: certificate.not_after_ms,
        })
    }

    /// A daemon's frame on its way. The connection may break under it.
    pub(crate) fn send_to_gateway(&mut self, conn: u64, frame: AgentFrame) {
        if self.faulty(self.plan.cut_per_1k, 1000) {
            self.cut(conn);
        }
        let delay = self.latency();
        let Ok(bytes) = proto::encode_agent_frame(frame) else {
            return self.fail("a daemon made a frame that breaks a bound of the wire");
        };
        self.send_bytes_to_gateway(conn, bytes, delay);
    }

    /// Bytes a daemon sends, in order behind what it sent before.
    pub(crate) fn send_bytes_to_gateway(&mut self, conn: u64, bytes: Vec<u8>, delay: u64) {
        let now = self.now;
        let Some(link) = self.conns.get_mut(&conn).filter(|link| link.agent_open && !link.is_cut) else { return };
        link.last_to_gateway = link.last_to_gateway.max(now + delay);
        let at = link.last_to_gateway;
        self.at(at, Event::ToGateway { conn, bytes });
    }

    /// A gateway's frame on its way, or what a lying gateway makes of it.
    pub(crate) fn send_to_agent(&mut self, conn: u64, frame: GatewayFrame) {
        if self.faulty(self.plan.cut_per_1k, 1000) {
            self.cut(conn);
        }
        for frame in self.told(conn, frame) {
            self.send_as_is(conn, frame);
        }
    }

    pub(crate) fn send_as_is(&mut self, conn: u64, frame: GatewayFrame) {
        let delay = self.latency();
        let Ok(bytes) = proto::encode_gateway_frame(frame) else {
            return self.fail("a gateway made a frame that breaks a bound of the wire");
        };
        let now = self.now;
        let Some(link) = self.conns.get_mut(&conn).filter(|link| !link.is_cut) else { return };
        link.last_to_agent = link.last_to_agent.max(now + delay);
        let at = link.last_to_agent;
        self.at(at, Event::ToAgent { conn, bytes });
    }

    pub(crate) fn arrive_at_gateway(&mut self, conn: u64, bytes: Vec<u8>) {
        let Some(link) = self.conns.get(&conn).filter(|link| !link.is_cut) else { return };
        let (gate, life) = (link.gate, link.life);
        if self.gates[gate].is_paused(self.now) {
            return self.when_resumed(gate, Event::ToGateway { conn, bytes });
        }
        if self.gates[gate].life == life {
            self.arrived(conn, Waiting::Bytes(bytes));
        }
    }

    fn arrived(&mut self, conn: u64, what: Waiting) {
        if let Some(link) = self.conns.get_mut(&conn) {
            link.inbox.push_back(what);
            self.pump(conn);
        }
    }

    /// The machine can take its next frame of this connection.
    pub(crate) fn may_read(&mut self, conn: u64) {
        if let Some(link) = self.conns.get_mut(&conn) {
            link.may_read = true;
            self.pump(conn);
        }
    }

    fn pump(&mut self, conn: u64) {
        let Some(link) = self.conns.get_mut(&conn).filter(|link| link.may_read) else { return };
        let Some(next) = link.inbox.pop_front() else { return };
        link.may_read = false;
        let (gate, life, node) = (link.gate, link.life, link.node);
        let id = ConnId(conn);
        let input = match next {
            Waiting::Closed => Input::Closed { conn: id },
            Waiting::Bytes(bytes) => match proto::decode_agent_frame(&bytes) {
                Ok(frame) => Input::Frame { conn: id, frame: self.heard(conn, node, frame) },
                Err(error) if error.is_frame_too_large() => {
                    Input::BadFrame { conn: id, code: SessionEnd::FrameTooLarge }
                }
                Err(_) => Input::BadFrame { conn: id, code: SessionEnd::ProtocolError },
            },
        };
        self.gate_input(gate, life, input);
    }

    /// Remembers what the gateway's machine knows of a session before its `ResumeDone`.
    fn heard(&mut self, conn: u64, node: usize, frame: AgentFrame) -> AgentFrame {
        let frame = self.passed_on(node, frame);
        let Some(link) = self.conns.get_mut(&conn) else { return frame };
        match &frame {
            AgentFrame::ResumeDone => link.resume_done = true,
            AgentFrame::Hello(hello) => link.results.extend(results(&hello.unacked_results)),
            AgentFrame::Updates(updates) if !link.resume_done => link.results.extend(results(updates)),
            _ => {}
        }
        self.note(format_args!("c{conn} g<- {}", crate::describe::agent_frame(&frame)));
        frame
    }

    pub(crate) fn arrive_at_agent(&mut self, conn: u64, bytes: &[u8]) {
        let Some(link) = self.conns.get(&conn).filter(|link| !link.is_cut && link.agent_open) else { return };
        let (node, pid) = (link.node, link.pid);
        let input = match proto::decode_gateway_frame(bytes) {
            Ok(frame) => {
                self.note(format_args!("c{conn} n{node}<- {}", crate::describe::gateway_frame(&frame)));
                self.node_hears(node, pid, &frame);
                NodeInput::Frame(frame)
            }
            Err(error) if error.is_frame_too_large() => NodeInput::BadFrame(SessionEnd::FrameTooLarge),
            Err(_) => NodeInput::BadFrame(SessionEnd::ProtocolError),
        };
        self.node_input(node, pid, input);
    }

    /// One side learns that the other is gone.
    pub(crate) fn closed(&mut self, conn: u64, side: Side) {
        let Some(link) = self.conns.get_mut(&conn) else { return };
        let (node, pid, gate, life) = (link.node, link.pid, link.gate, link.life);
        match side {
            Side::Agent if link.agent_open => {
                link.agent_open = false;
                if self.nodes[node].is_linked(pid, conn) {
                    if let Some(process) = &mut self.nodes[node].process {
                        process.link = None;
                    }
                    self.node_input(node, pid, NodeInput::LinkDown);
                }
            }
            Side::Agent => {}
            Side::Gateway => {
                if self.gates[gate].is_paused(self.now) {
                    return self.when_resumed(gate, Event::Closed { conn, side });
                }
                if self.gates[gate].life == life {
                    self.arrived(conn, Waiting::Closed);
                }
            }
        }
    }

    /// The daemon lets go: the gateway hears of it after what was sent before, or never.
    pub(crate) fn agent_closes(&mut self, conn: u64) {
        let half_open = self.faulty(1, 8);
        let delay = self.latency();
        let now = self.now;
        let Some(link) = self.conns.get_mut(&conn) else { return };
        link.agent_open = false;
        if half_open {
            return self.coverage.hit("fault", "half-open");
        }
        if !link.is_cut {
            let at = link.last_to_gateway.max(now + delay);
            self.at(at, Event::Closed { conn, side: Side::Gateway });
        }
    }

    pub(crate) fn gateway_closes(&mut self, conn: u64) {
        let half_open = self.faulty(1, 8);
        let delay = self.latency();
        let now = self.now;
        let Some(link) = self.conns.get_mut(&conn) else { return };
        link.gateway_open = false;
        if half_open {
            return self.coverage.hit("fault", "half-open");
        }
        if !link.is_cut {
            let at = link.last_to_agent.max(now + delay);
            self.at(at, Event::Closed { conn, side: Side::Agent });
        }
    }

    /// Nothing gets through any more; each side notices soon, or only by silence.
    pub(crate) fn cut(&mut self, conn: u64) {
        let Some(link) = self.conns.get_mut(&conn).filter(|link| !link.is_cut) else { return };
        link.is_cut = true;
        self.coverage.hit("fault", "cut");
        self.note(format_args!("c{conn} cut"));
        for side in [Side::Agent, Side::Gateway] {
            if self.faulty(2, 3) {
                let delay = self.around(2_000);
                self.after(delay, Event::Closed { conn, side });
            } else {
                self.coverage.hit("fault", "half-open");
            }
        }
    }

    /// Connections of a gateway process that is gone.
    pub(crate) fn gateway_died(&mut self, gate: usize, life: u64) {
        let conns: Vec<u64> =
            self.conns.iter().filter(|(_, link)| link.gate == gate && link.life == life).map(|(id, _)| *id).collect();
        conns.into_iter().for_each(|conn| self.gateway_closes(conn));
    }
}

fn results(updates: &[model::frame::CommandUpdate]) -> impl Iterator<Item = CommandId> {
    updates.iter().filter(|update| matches!(update.state, UpdateState::Done(_))).map(|update| update.command_id.clone())
}
