//! The rules of delivery on plain vectors: what each step must do, written down a second time.

use model::limits::{BUSY_DELAY_FIRST_MS, BUSY_DELAY_MOST_MS};
use model::{CommandState, Kind, Lane, Outcome, Role};

#[derive(Clone, Copy, Debug)]
pub enum Report {
    Acked,
    Running,
    Busy,
    Done(Outcome),
}

#[derive(Default)]
struct Node {
    /// Open session, and whether it is ready.
    session: Option<bool>,
    accepted: u64,
    boot: u32,
    journal: u32,
    journal_since: i64,
    seen: bool,
    resign_due: bool,
}

struct Command {
    node: usize,
    kind: Kind,
    state: CommandState,
    code: String,
    attempt: u32,
    busy: u32,
    issued_at: i64,
    not_before: i64,
    not_after: i64,
    times_out_at: i64,
    /// Boot and journal it was sent to.
    sent_to: Option<(u32, u32)>,
    cancel: bool,
    cancel_sent: u64,
    reported: Option<Outcome>,
    awaiting: bool,
    unsent_report: bool,
}

pub struct Reference {
    pub now: i64,
    nodes: Vec<Node>,
    commands: Vec<Command>,
}

impl Command {
    fn settle(&mut self, state: CommandState, code: &str) {
        self.state = state;
        self.code = code.to_owned();
        self.awaiting = false;
    }

    fn flies(&self) -> bool {
        self.state.is_in_flight() && !self.awaiting
    }
}

impl Reference {
    pub fn new(nodes: usize, now: i64) -> Self {
        let nodes = (0..nodes).map(|_| Node { boot: 1, journal: 1, ..Node::default() }).collect();
        Self { now, nodes, commands: Vec::new() }
    }

    pub fn node_of(&self, index: usize) -> usize {
        self.commands[index].node
    }

    pub fn boot_of(&self, node: usize) -> String {
        format!("boot-{}", self.nodes[node].boot)
    }

    pub fn seen(&self, index: usize) -> (CommandState, String, u32, bool) {
        let command = &self.commands[index];
        (command.state, command.code.clone(), command.attempt, command.awaiting)
    }

    pub fn unsent_reports(&self, lane: Lane) -> u32 {
        let counts = |command: &&Command| command.unsent_report && command.kind.spec().lane == lane;
        self.commands.iter().filter(counts).count() as u32
    }

    pub fn enqueue(&mut self, node: usize, kind: &str) {
        let kind = Kind::parse(kind).unwrap();
        let not_after = self.now + 300_000;
        self.commands.push(Command {
            node,
            kind,
            state: CommandState::Pending,
            code: String::new(),
            attempt: 0,
            busy: 0,
            issued_at: self.now,
            not_before: self.now,
            not_after,
            times_out_at: not_after + i64::from(kind.spec().timeout_s) * 1000,
            sent_to: None,
            cancel: false,
            cancel_sent: 0,
            reported: None,
            awaiting: false,
            unsent_report: false,
        });
    }

    pub fn accept(&mut self, node: usize, new_boot: bool, new_journal: bool) -> (String, String) {
        let node = &mut self.nodes[node];
        node.boot += u32::from(new_boot);
        node.journal += u32::from(new_journal);
        if new_journal || !node.seen {
            node.journal_since = self.now;
            node.resign_due = true;
            node.seen = true;
        }
        node.session = Some(false);
        node.accepted += 1;
        (format!("boot-{}", node.boot), format!("journal-{}", node.journal))
    }

    pub fn close(&mut self, node: usize) {
        self.nodes[node].session = None;
    }

    /// Which commands are sent again, in order; `None` when there is no session to resume.
    pub fn resume(&mut self, node: usize, reported: &[usize]) -> Option<Vec<usize>> {
        let (boot, journal) = (self.nodes[node].boot, self.nodes[node].journal);
        self.nodes[node].session.as_mut().map(|ready| *ready = true)?;
        let mut again = Vec::new();
        for (index, command) in self.commands.iter_mut().enumerate() {
            if command.node != node || !command.flies() || reported.contains(&index) {
                continue;
            }
            let spec = command.kind.spec();
            if spec.self_terminating && command.sent_to.map(|(boot, _)| boot) != Some(boot) {
                command.settle(CommandState::Succeeded, "rebooted");
            } else if !spec.retry_safe && command.sent_to.map(|(_, journal)| journal) != Some(journal) {
                command.settle(CommandState::Failed, "journal-lost");
            } else {
                command.attempt += 1;
                command.sent_to = Some((boot, journal));
                again.push(index);
            }
        }
        Some(again)
    }

    pub fn dispatch(&mut self) -> Vec<usize> {
        let mut sent = Vec::new();
        let ready = self.nodes.iter().enumerate().filter(|(_, node)| node.session == Some(true));
        let ready: Vec<usize> = ready.map(|(number, _)| number).collect();
        for node in ready {
            let mut of_node: Vec<usize> = Lane::ALL.iter().flat_map(|lane| self.dispatch_lane(node, *lane)).collect();
            of_node.sort_unstable();
            sent.extend(of_node);
        }
        sent
    }

    fn dispatch_lane(&mut self, node: usize, lane: Lane) -> Vec<usize> {
        let (now, Node { boot, journal, journal_since, .. }) = (self.now, &self.nodes[node]);
        let (sent_to, journal_since) = ((*boot, *journal), *journal_since);
        let of_lane = |command: &Command| command.node == node && command.kind.spec().lane == lane;
        let flying = self.commands.iter().filter(|command| of_lane(command) && command.flies()).count();
        let mut free = (lane.credits() as usize).saturating_sub(flying);
        let mut sent = Vec::new();
        for (index, command) in self.commands.iter_mut().enumerate() {
            if !of_lane(command) || command.state != CommandState::Pending || command.not_after <= now {
                continue;
            }
            if command.cancel {
                command.settle(CommandState::Cancelled, "cancel-requested");
                continue;
            }
            if !command.kind.runs_on(Role::Node) && command.kind != Kind::BootKexec {
                command.settle(CommandState::Cancelled, "kind-not-allowed");
                continue;
            }
            let unsigned = command.attempt == 0 && !command.kind.spec().retry_safe && command.issued_at < journal_since;
            if free == 0 || command.not_before > now || unsigned {
                break;
            }
            free -= 1;
            command.state = CommandState::Dispatched;
            command.attempt += 1;
            command.sent_to = Some(sent_to);
            command.unsent_report = false;
            sent.push(index);
        }
        sent
    }

    pub fn report(&mut self, index: usize, report: Report) {
        let (now, node) = (self.now, self.commands[index].node);
        let here = (self.nodes[node].boot, self.nodes[node].journal);
        let seen = self.nodes[node].seen;
        let command = &mut self.commands[index];
        if command.awaiting || command.state.is_terminal() {
            return;
        }
        let was_pending = command.state == CommandState::Pending;
        match report {
            Report::Acked | Report::Running => {
                let is_ack = matches!(report, Report::Acked);
                let to = if is_ack { CommandState::Acked } else { CommandState::Running };
                if command.state.accepts(to) {
                    command.state = to;
                    command.unsent_report |= was_pending;
                    // Without any session there is no journal to note; a later report notes it.
                    let journal = if seen { here.1 } else { 0 };
                    command.sent_to = match command.sent_to {
                        Some((boot, 0)) => Some((boot, journal)),
                        Some(noted) => Some(noted),
                        None => Some((here.0, journal)),
                    };
                }
            }
            Report::Busy if command.state == CommandState::Dispatched => {
                command.state = CommandState::Pending;
                command.busy += 1;
                let delay = (BUSY_DELAY_FIRST_MS << (command.busy - 1).min(20)).min(BUSY_DELAY_MOST_MS);
                command.not_before = now + delay;
                command.sent_to = None;
            }
            Report::Busy => {}
            Report::Done(outcome) if command.kind.spec().attested => {
                command.reported = Some(outcome);
                command.awaiting = true;
                if was_pending {
                    command.state = CommandState::Dispatched;
                }
            }
            Report::Done(outcome) => command.settle(outcome.state(), outcome.name()),
        }
    }

    pub fn verify(&mut self, index: usize, genuine: bool) -> bool {
        let command = &mut self.commands[index];
        if !command.awaiting {
            return false;
        }
        let outcome = command.reported.unwrap();
        if genuine {
            command.settle(outcome.state(), outcome.name());
        } else {
            command.settle(CommandState::Failed, "bad-attestation");
        }
        true
    }

    pub fn cancel(&mut self, index: usize) {
        let command = &mut self.commands[index];
        if command.state.is_terminal() {
            return;
        }
        command.cancel = true;
        if command.state == CommandState::Pending {
            command.settle(CommandState::Cancelled, "cancel-requested");
        }
    }

    pub fn pending_cancels(&mut self) -> Vec<usize> {
        let mut sent: Vec<usize> = Vec::new();
        for node in 0..self.nodes.len() {
            for (index, command) in self.commands.iter_mut().enumerate() {
                let session = &self.nodes[node];
                let due = command.node == node && command.flies() && command.cancel;
                if due && session.session == Some(true) && command.cancel_sent < session.accepted {
                    command.cancel_sent = session.accepted;
                    sent.push(index);
                }
            }
        }
        sent
    }

    pub fn sweep(&mut self) {
        for command in &mut self.commands {
            if command.state == CommandState::Pending && command.not_after <= self.now {
                command.settle(CommandState::Expired, "");
            } else if command.flies() && command.times_out_at <= self.now {
                command.settle(CommandState::Failed, "timeout");
            }
        }
    }

    pub fn resign(&mut self) -> usize {
        let mut signed = 0;
        for (number, node) in self.nodes.iter_mut().enumerate().filter(|(_, node)| node.resign_due) {
            node.resign_due = false;
            for command in self.commands.iter_mut().filter(|command| command.node == number) {
                let fresh = command.state == CommandState::Pending && command.attempt == 0;
                if fresh && command.issued_at < node.journal_since {
                    command.issued_at = self.now;
                    signed += 1;
                }
            }
        }
        signed
    }
}
