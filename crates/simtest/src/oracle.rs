//! What must hold, always: judged from outside, by what the world itself did, and never by asking the
//! code that is judged.
//!
//! - [`node`]: what a daemon decides, says and starts, against what is on its disk
//! - [`store`]: what the gateways say, against what is stored
//! - [`end`]: what is settled, and what is left when everything is quiet

mod end;
mod node;
mod store;

use kernel::commands::{CommandRow, NewCommand};
use model::frame::{Delivery, Signed};
use model::{CommandId, CommandState, EventClass, JournalId, Kind, KindSpec, Lane, NodeId, Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// A command as its maker knows it, and what became of it.
#[derive(Debug)]
pub(crate) struct Command {
    pub node: usize,
    pub new: NewCommand,
    pub lane: Lane,
    pub not_after: i64,
    pub attested: bool,
    /// Its stored body is not a command.
    pub is_invalid: bool,
    /// Every genuine signature of it.
    pub signed: Vec<Signed>,
    pub cancel_asked: bool,
    /// A gateway repeated it, or sent it before its turn: the store may think it never went out.
    pub replayed: bool,
    /// A gateway sent it before the store gave it out. If its node then loses its journal, the store
    /// signs it anew in good faith, and it may run twice: the one thing a lying gateway can do (F-Q13).
    pub early: bool,
    /// Interrupted, and then refused for want of a credit that a lying gateway had filled.
    pub crowded_out: bool,
    /// A gateway sent it when the store said so.
    pub was_sent: bool,
    /// A gateway changed its result.
    pub result_changed: bool,
    /// How often a daemon began its work.
    pub started: u32,
    /// What its nodes made durable.
    pub outcomes: Vec<Durable>,
    /// How its row ended.
    pub ended: Option<(CommandState, String, i64)>,
}

/// One durable outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Durable {
    pub journal: JournalId,
    pub outcome: Outcome,
    pub result: Vec<u8>,
}

impl Command {
    pub fn of(node: usize, new: &NewCommand, row: &CommandRow, is_invalid: bool) -> Self {
        Self {
            node,
            new: new.clone(),
            lane: row.lane,
            not_after: row.not_after.0,
            attested: Kind::parse(&new.kind).is_some_and(|kind| kind.spec().attested),
            is_invalid,
            signed: Vec::new(),
            cancel_asked: false,
            replayed: false,
            early: false,
            crowded_out: false,
            was_sent: false,
            result_changed: false,
            started: 0,
            outcomes: Vec::new(),
            ended: None,
        }
    }

    pub fn kind(&self) -> Option<&'static KindSpec> {
        Kind::parse(&self.new.kind).map(Kind::spec)
    }

    pub fn retry_safe(&self) -> bool {
        self.kind().is_some_and(|kind| kind.retry_safe)
    }

    pub fn self_terminating(&self) -> bool {
        self.kind().is_some_and(|kind| kind.self_terminating)
    }

    pub fn destructive(&self) -> bool {
        self.kind().is_some_and(|kind| kind.destructive)
    }
}

/// Events of one journal as its node made them durable.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub written: BTreeMap<u64, EventClass>,
    pub dropped: BTreeSet<u64>,
    /// The highest that the store acknowledged.
    pub stored: u64,
}

/// What the world knows.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub commands: BTreeMap<CommandId, Command>,
    /// What gateways sent, in order.
    pub sent: Vec<CommandId>,
    pub epochs: BTreeMap<NodeId, u64>,
    pub events: BTreeMap<JournalId, Events>,
    /// Uses of join tokens.
    pub joins: BTreeMap<(String, [u8; 32]), NodeId>,
    /// Nodes that are revoked, or whose certificate is.
    pub distrusted: BTreeSet<usize>,
}

impl Known {
    /// The command a delivery carries, and whether it carries it as it was signed.
    pub fn is_genuine(&self, delivery: &Delivery) -> Option<(CommandId, bool)> {
        let body = proto::decode_body(&delivery.signed.body).ok()?;
        let command = self.commands.get(&body.id)?;
        Some((body.id, command.signed.contains(&delivery.signed)))
    }
}
