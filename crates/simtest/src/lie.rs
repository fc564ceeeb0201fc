//! A lying gateway: it has seen every frame, holds no key, and adds, repeats, reorders and changes what
//! it relays. It may withhold and delay, which the network does already; it does not acknowledge what
//! was not stored, for nothing could help against that.

use crate::client::time_statement;
use crate::keys::pool;
use crate::outside::frame_signed;
use crate::world::{Event, World};
use model::frame::{
    Ack, AgentFrame, CommandUpdate, Delivery, DesiredStateBody, GatewayFrame, Signed, TimeStatement, UpdateState,
    Welcome,
};
use model::{CommandId, JournalId, Outcome, ServerTimeMs};
use pki::Purpose;
use rand::Rng;

const MINUTE_MS: i64 = 60_000;

impl World {
    fn lies(&mut self, part: u32, of: u32) -> bool {
        self.plan.lie_every_ms.is_some() && self.faulty(part, of)
    }

    /// What an agent is told where a gateway wanted to say `frame`.
    pub(crate) fn told(&mut self, conn: u64, frame: GatewayFrame) -> Vec<GatewayFrame> {
        match frame {
            GatewayFrame::Welcome(welcome) if self.lies(1, 6) => {
                vec![GatewayFrame::Welcome(Box::new(self.lying_welcome(*welcome)))]
            }
            GatewayFrame::HeartbeatAck { sequence, server_time } if self.lies(1, 4) => {
                let server_time = self.lying_time(server_time);
                vec![GatewayFrame::HeartbeatAck { sequence, server_time }]
            }
            GatewayFrame::Command(delivery) if self.lies(1, 8) => {
                self.coverage.hit("lie", "command again");
                vec![GatewayFrame::Command(delivery.clone()), GatewayFrame::Command(delivery)]
            }
            GatewayFrame::Cancel { command_id, reason } if self.lies(1, 3) => {
                self.coverage.hit("lie", "cancel again");
                let again = GatewayFrame::Cancel { command_id: command_id.clone(), reason: reason.clone() };
                vec![GatewayFrame::Cancel { command_id, reason }, again]
            }
            GatewayFrame::Ack(ack) if self.lies(1, 10) && ack.events.is_some() => {
                self.coverage.hit("lie", "events of another journal acknowledged");
                let node = self.conns.get(&conn).map_or(0, |link| link.node);
                let other = (JournalId::new(format!("journal-{node}-0")), 1 << 20);
                let lie = Ack { command_ids: Vec::new(), events: Some(other) };
                vec![GatewayFrame::Ack(lie), GatewayFrame::Ack(ack)]
            }
            other => vec![other],
        }
    }

    fn lying_welcome(&mut self, mut welcome: Welcome) -> Welcome {
        match self.rng.random_range(0..5) {
            0 => {
                self.coverage.hit("lie", "old epoch");
                welcome.session_epoch = self.rng.random_range(1..=welcome.session_epoch);
            }
            1 | 2 => welcome.server_time = self.lying_time(welcome.server_time),
            3 => {
                self.coverage.hit("lie", "forged bundle");
                welcome.trust_bundle = Some(pool().forged_bundle.clone());
            }
            _ => {
                self.coverage.hit("lie", "upgrade required");
                welcome.upgrade_required = true;
            }
        }
        welcome
    }

    fn lying_time(&mut self, mut statement: TimeStatement) -> TimeStatement {
        let far = ServerTimeMs(self.server_now() + 30 * MINUTE_MS);
        match self.rng.random_range(0..3) {
            0 => {
                self.coverage.hit("lie", "unsigned time");
                statement = TimeStatement { signed: None, unsigned_ms: far };
            }
            1 => {
                self.coverage.hit("lie", "old time");
                statement.signed = self.statements.values().next().cloned();
            }
            _ => {
                self.coverage.hit("lie", "forged time");
                let mut signed = time_statement(&pool().foreign.controllers, far.0);
                if let Some(genuine) = &statement.signed
                    && self.rng.random()
                {
                    // The right key and certificate over another time.
                    signed = Signed { body: signed.body, ..genuine.clone() };
                }
                statement.signed = Some(signed);
                statement.unsigned_ms = far;
            }
        }
        statement
    }

    /// What reaches the gateway's machine where a daemon said `frame`: results of attested kinds may be
    /// changed, for those alone the fleet can tell.
    pub(crate) fn passed_on(&mut self, node: usize, frame: AgentFrame) -> AgentFrame {
        match frame {
            AgentFrame::Updates(mut updates) if self.lies(1, 12) => {
                updates.iter_mut().for_each(|update| self.change_result(node, update));
                AgentFrame::Updates(updates)
            }
            other => other,
        }
    }

    fn change_result(&mut self, node: usize, update: &mut CommandUpdate) {
        let own = self.nodes[node].id();
        let is_attested = self
            .known
            .commands
            .get(&update.command_id)
            .is_some_and(|command| command.attested && command.new.node == *own);
        let UpdateState::Done(settled) = &mut update.state else { return };
        if !is_attested {
            return;
        }
        match self.rng.random_range(0..4) {
            0 => settled.node_sig = None,
            1 => settled.result.push(0x22),
            2 => {
                let is_success = settled.outcome == Outcome::Succeeded;
                settled.outcome = if is_success { Outcome::Failed } else { Outcome::Succeeded };
            }
            _ => {
                if let Some(signed) = &mut settled.node_sig {
                    signed.signature[7] ^= 1;
                }
            }
        }
        self.coverage.hit("lie", "result changed");
        if let Some(command) = self.known.commands.get_mut(&update.command_id) {
            command.result_changed = true;
        }
    }

    /// Something a lying gateway adds to a session that is up.
    pub(crate) fn lie(&mut self) {
        let Some(every) = self.plan.lie_every_ms.filter(|_| self.is_active) else { return };
        let delay = self.around(every);
        self.after(delay, Event::Lie);
        let n = self.rng.random_range(0..self.nodes.len());
        let conn = self.nodes[n].process.as_ref().filter(|process| process.engine.session_epoch().is_some());
        let Some(conn) = conn.and_then(|process| process.link) else { return };
        match self.rng.random_range(0..12) {
            0..=2 if self.plan.floods => self.lie_before_its_turn(n, conn),
            0..=3 => self.lie_again(n, conn),
            4 | 5 => self.lie_before_its_turn(n, conn),
            6 => self.lie_with_garbage(conn),
            7 | 8 => self.lie_forged(n, conn),
            9 | 10 => self.new_spec(n, conn),
            _ => self.send_as_is(conn, GatewayFrame::InventoryRequest),
        }
    }

    /// A genuine command of any node, sent before.
    fn lie_again(&mut self, n: usize, conn: u64) {
        let sent: Vec<CommandId> = self.known.sent.iter().rev().take(40).cloned().collect();
        let Some(id) = self.pick(&sent) else { return };
        let Some(command) = self.known.commands.get_mut(&id) else { return };
        let is_own = command.node == n;
        command.replayed |= is_own;
        let Some(signed) = command.signed.last().cloned() else { return };
        self.coverage.hit("lie", if is_own { "command again" } else { "command of another node" });
        self.send_as_is(conn, GatewayFrame::Command(Delivery { signed, attempt: 9 }));
    }

    /// A pending command of the node, or of a flood all of them, before the store gave it out.
    fn lie_before_its_turn(&mut self, n: usize, conn: u64) {
        let how_many = if self.plan.floods { 300 } else { 12 };
        let own = self.known.commands.values_mut().rev().filter(|command| command.node == n && !command.is_invalid);
        let mut deliveries = Vec::new();
        for command in own.take(how_many) {
            command.replayed = true;
            command.early |= !command.was_sent;
            deliveries.extend(command.signed.last().cloned());
        }
        for signed in deliveries.into_iter().rev() {
            self.coverage.hit("lie", "command before its turn");
            self.send_as_is(conn, GatewayFrame::Command(Delivery { signed, attempt: 1 }));
        }
    }

    fn lie_with_garbage(&mut self, conn: u64) {
        self.coverage.hit("lie", "garbage body");
        let signed = Signed { body: vec![0xff; 5], ..Signed::default() };
        self.send_as_is(conn, GatewayFrame::Command(Delivery { signed, attempt: 1 }));
    }

    /// A command with a signature that does not hold, or over other words.
    fn lie_forged(&mut self, n: usize, conn: u64) {
        let own: Vec<CommandId> = self
            .known
            .commands
            .values()
            .filter(|command| command.node == n)
            .map(|command| command.new.id.clone())
            .collect();
        let Some(id) = self.pick(&own) else { return };
        let Some(mut signed) = self.known.commands.get(&id).and_then(|command| command.signed.last().cloned()) else {
            return;
        };
        match proto::decode_body(&signed.body) {
            Ok(mut body) if self.rng.random() => {
                self.coverage.hit("lie", "changed body");
                body.not_after = body.not_after.map(|at| at.plus(10 * MINUTE_MS));
                body.payload.value = b"other words".to_vec();
                signed.body = proto::encode_body(&body);
            }
            _ => {
                self.coverage.hit("lie", "forged signature");
                signed = match self.rng.random_range(0..3) {
                    0 => Signed { body: signed.body, ..Signed::default() },
                    1 => {
                        signed.signature[3] ^= 1;
                        signed
                    }
                    _ => {
                        let foreign = pool().foreign.api.sign(Purpose::Command, signed.body);
                        frame_signed(foreign.expect("any fleet's API worker signs commands"))
                    }
                };
            }
        }
        self.send_as_is(conn, GatewayFrame::Command(Delivery { signed, attempt: 1 }));
    }

    /// A spec, as the fleet will send them: genuine ones let deferred commands go on, others are refused.
    fn new_spec(&mut self, n: usize, conn: u64) {
        let own = self.nodes[n].id().clone();
        let kind = self.rng.random_range(0..9);
        let generation = if kind == 1 { 0 } else { self.nodes[n].applied_specs + 1 };
        let node_id = if kind == 2 { pool().nodes[(n + 1) % pool().nodes.len()].node_id.clone() } else { own };
        let full = if kind == 3 { vec![8, 1] } else { Vec::new() };
        let spec_hash = stdx::hex::sha256_hex(format!("spec {generation}").as_bytes());
        let body = proto::encode_desired_state(&DesiredStateBody { node_id, generation, spec_hash, full });
        let body = if kind == 4 { vec![0xff; 4] } else { body };
        let worker = if kind == 0 { &pool().foreign.controllers } else { &pool().fleet.controllers };
        let signed = frame_signed(worker.sign(Purpose::DesiredState, body).expect("a controllers worker signs specs"));
        if kind > 4 {
            self.nodes[n].applied_specs += 1;
        }
        self.send_as_is(conn, GatewayFrame::DesiredState(signed));
    }
}
