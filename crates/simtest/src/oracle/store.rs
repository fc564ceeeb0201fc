//! What gateways may say and store.

use crate::world::World;
use gateway::core::{StoreOp, StoreReply};
use kernel::commands::{self, CommandRow, ListFilter};
use kernel::nodes;
use kernel::sessions::{Outgoing, SessionAnswer};
use model::frame::{Ack, GatewayFrame};
use model::{CommandId, CommandState, Lane, NodeId};
use std::collections::BTreeMap;

/// Commands of a node looked at together.
const ROWS_MAX: u32 = 1000;

impl World {
    /// Before a gateway's frame goes out.
    pub(crate) fn gateway_says(&mut self, gate: usize, conn: u64, frame: &GatewayFrame) {
        let Some(link) = self.conns.get(&conn) else { return };
        let node = link.node;
        match frame {
            GatewayFrame::Command(delivery) => {
                let (is_resumed, body) = (link.resume_done, proto::decode_body(&delivery.signed.body));
                let Ok(body) = body else { return self.fail("a gateway sends a body that does not decode") };
                let id = body.id;
                let has_result = link.results.contains(&id);
                let is_own = body.node_id == *self.nodes[node].id();
                self.require(is_resumed, || format!("g{gate} sends {id} before ResumeDone"));
                self.require(!has_result, || format!("g{gate} sends {id} again, and was told its result before"));
                self.require(is_own, || format!("g{gate} sends {id} to another node"));
                if let Some(command) = self.known.commands.get_mut(&id) {
                    command.was_sent = true;
                }
                self.known.sent.push(id);
            }
            GatewayFrame::Cancel { command_id, .. } => {
                let is_asked = self.known.commands.get(command_id).is_some_and(|command| command.cancel_asked);
                self.require(is_asked, || format!("g{gate} cancels {command_id}, and nobody asked for it"));
            }
            GatewayFrame::Welcome(welcome) => {
                let accepted = self.known.epochs.get(self.nodes[node].id()).copied().unwrap_or(0);
                let epoch = welcome.session_epoch;
                self.require(epoch <= accepted, || {
                    format!("g{gate} welcomes n{node} to {epoch}, stored is {accepted}")
                });
            }
            GatewayFrame::Ack(ack) => self.is_stored(gate, node, ack),
            _ => {}
        }
    }

    /// Only what is stored is acknowledged.
    fn is_stored(&mut self, gate: usize, node: usize, ack: &Ack) {
        for id in &ack.command_ids {
            let Some(row) = self.read(|tx| commands::get(tx, id)) else { continue };
            let is_stored = row.state.is_terminal() || row.awaits_verification || row.node != *self.nodes[node].id();
            self.require(is_stored, || format!("g{gate} acknowledges {id}, which is {}", row.state));
        }
        if let Some((journal, seq)) = &ack.events {
            let stored = self.known.events.get(journal).map_or(0, |events| events.stored);
            self.require(*seq <= stored, || {
                format!("g{gate} acknowledges event {seq} of {journal}, stored is {stored}")
            });
        }
    }

    /// After an operation of a gateway is committed.
    pub(crate) fn after_op(&mut self, gate: usize, what: &StoreOp, reply: &StoreReply) {
        match (what, reply) {
            (StoreOp::Accept { hello, certificate }, StoreReply::Answer(SessionAnswer::Accepted { epoch, .. })) => {
                let node = &certificate.node_id;
                let last = self.known.epochs.insert(node.clone(), *epoch).unwrap_or(0).max(hello.last_epoch);
                let is_gone = self.revoked.contains(node);
                self.require(*epoch > last, || format!("{node} gets epoch {epoch} after {last}"));
                self.require(!is_gone, || format!("{node} is revoked and has a session"));
            }
            (StoreOp::Events { .. }, StoreReply::EventsStored(Some((journal, seq)))) => {
                let events = self.known.events.entry(journal.clone()).or_default();
                events.stored = events.stored.max(*seq);
            }
            (StoreOp::ResumeDone { node, epoch, in_flight }, StoreReply::Resumed(Some(outgoing))) => {
                self.goes_to_current_session(gate, outgoing);
                let is_wrong = outgoing.iter().any(|command| in_flight.contains(&command.command_id));
                self.require(!is_wrong, || format!("{node} is sent what it has in flight"));
                let is_other = outgoing.iter().any(|command| command.epoch != *epoch);
                self.require(!is_other, || format!("{node} is sent commands of another session"));
            }
            (StoreOp::Dispatch { .. }, StoreReply::Outgoing(outgoing)) => self.dispatched(gate, outgoing),
            _ => {}
        }
    }

    fn goes_to_current_session(&mut self, gate: usize, outgoing: &[Outgoing]) {
        let mut sessions: BTreeMap<&NodeId, u64> = BTreeMap::new();
        for command in outgoing {
            sessions.insert(&command.node, command.epoch);
        }
        for (node, epoch) in sessions {
            let holder = self.gates[gate].id.clone();
            let row = self.read(|tx| nodes::get_node(tx, node));
            let session = row.and_then(|row| row.session);
            let is_current =
                session.is_some_and(|session| session.epoch == epoch && session.gateway == holder && session.connected);
            self.require(is_current, || format!("g{gate} dispatches to {node} under epoch {epoch}, which has passed"));
        }
    }

    /// Credits and order of each lane that was sent something.
    fn dispatched(&mut self, gate: usize, outgoing: &[Outgoing]) {
        if outgoing.is_empty() {
            return;
        }
        self.goes_to_current_session(gate, outgoing);
        let mut by_node: BTreeMap<&NodeId, Vec<&CommandId>> = BTreeMap::new();
        for command in outgoing {
            by_node.entry(&command.node).or_default().push(&command.command_id);
        }
        for (node, sent) in by_node {
            let filter = ListFilter { node: Some(node.clone()), ..ListFilter::default() };
            let rows = self.read(|tx| commands::list(tx, &filter, None, ROWS_MAX));
            for lane in Lane::ALL {
                let rows: Vec<&CommandRow> = rows.iter().filter(|row| row.lane == lane).collect();
                self.lane_is_in_order(node, lane, &rows, &sent);
            }
        }
    }

    fn lane_is_in_order(&mut self, node: &NodeId, lane: Lane, rows: &[&CommandRow], sent: &[&CommandId]) {
        let mine = |row: &&&CommandRow| sent.contains(&&row.id);
        let Some(last) = rows.iter().filter(mine).map(|row| row.seq).max() else { return };
        let used = rows.iter().filter(|row| row.state.is_in_flight() && !row.awaits_verification).count();
        let now = self.server_now();
        let overtaken = rows
            .iter()
            .find(|row| row.state == CommandState::Pending && row.seq < last && row.not_after.0 > now)
            .map(|row| row.id.clone());
        self.require(used <= lane.credits() as usize, || format!("{node} has {used} commands in flight in {lane:?}"));
        self.require(overtaken.is_none(), || format!("{node}: {overtaken:?} waits and is overtaken in {lane:?}"));
    }
}
