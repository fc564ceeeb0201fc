//! What travels on a session, as plain values. `proto` turns each into bytes and back; the cores of
//! both sides work on these and never see protobuf.
//!
//! Units: `_ms` fields are milliseconds; server time is Unix milliseconds of the control plane's
//! clock. `Vec<u8>` fields named `body`, `result`, `report` are serialized messages kept as bytes,
//! because a signature covers exactly those bytes.

use crate::{
    BootId, CommandId, EventClass, IncarnationId, JournalId, Lane, NodeId, Outcome, RejectReason, Role, ServerTimeMs,
    SessionEnd,
};

/// Bytes with a signature under one purpose (`completion.md`, PKI; F-Q10).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Signed {
    /// The signed bytes, as sent.
    pub body: Vec<u8>,
    /// Which key signed: 32 lower-case hex digits of its SPKI's SHA-256.
    pub kid: String,
    /// Certificates from the signer's leaf towards a root, DER; empty for a pinned key.
    pub chain: Vec<Vec<u8>>,
    /// ES256, P1363 form, 64 bytes.
    pub signature: Vec<u8>,
}

/// A frame from the agent to its gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentFrame {
    /// First frame of a session, once.
    Hello(Box<Hello>),
    /// Progress and results, in the order they became durable.
    Updates(Vec<CommandUpdate>),
    /// Every unacknowledged result was sent; the gateway may dispatch.
    ResumeDone,
    Heartbeat(Heartbeat),
    Events(EventBatch),
    Status(StatusReport),
    Inventory(InventoryReport),
    SpecRequest {
        have_generation: u64,
        reason: SpecRequestReason,
    },
    End {
        code: SessionEnd,
        message: String,
    },
}

/// A frame from the gateway to its agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatewayFrame {
    Welcome(Box<Welcome>),
    Command(Delivery),
    Cancel {
        command_id: CommandId,
        reason: String,
    },
    Ack(Ack),
    HeartbeatAck {
        sequence: u64,
        server_time: TimeStatement,
    },
    /// Reconnect elsewhere within the window.
    Drain {
        window_ms: u32,
    },
    InventoryRequest,
    DesiredState(Signed),
    End {
        code: SessionEnd,
        message: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    pub protocol_min: u32,
    pub protocol_max: u32,
    pub daemon_version: String,
    pub role: Role,
    pub boot_id: BootId,
    pub incarnation: IncarnationId,
    pub journal_id: JournalId,
    /// The last session epoch this journal saw; 0 for none.
    pub last_epoch: u64,
    pub applied_generation: u64,
    /// Lower-case hex, empty for none; echoed, never computed by the daemon.
    pub applied_spec_hash: String,
    /// Commands this process has accepted and not settled.
    pub in_flight: Vec<CommandId>,
    /// At most `HELLO_RESULTS_BYTES_MAX` of unacknowledged terminal updates.
    pub unacked_results: Vec<CommandUpdate>,
    /// More of them follow in `Updates` before `ResumeDone`.
    pub more_results: bool,
    pub capabilities: Vec<String>,
    /// Lower-case hex SHA-256 of the inventory message; empty before the first collection.
    pub inventory_digest: String,
    pub hostname: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    pub session_epoch: u64,
    pub protocol: u32,
    pub server_time: TimeStatement,
    pub heartbeat_interval_ms: u32,
    /// Commands admitted at once, by lane in the order of `Lane::ALL`.
    pub lane_credits: [u32; 3],
    /// Purpose `trust-bundle`, by the join signing key.
    pub trust_bundle: Option<Signed>,
    /// The highest event of this journal that the control plane has stored.
    pub acked_event_seq: u64,
    /// Only `daemon.upgrade` is accepted on this session.
    pub upgrade_required: bool,
}

/// What the gateway says the time is: a statement signed by a worker key where the fleet signs,
/// and the gateway's own reading, which counts only for a daemon without command-signing roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeStatement {
    /// Purpose `server-time`.
    pub signed: Option<Signed>,
    pub unsigned_ms: ServerTimeMs,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// From 1 within a session.
    pub sequence: u64,
    pub applied_generation: u64,
}

/// A command as delivered: the body's bytes and its signature as stored at enqueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// `signed.body` is a serialized `CommandBody`; an unsigned fleet leaves `signature` empty.
    pub signed: Signed,
    /// Deliveries so far, from 1. Informational, outside the signature.
    pub attempt: u32,
}

/// The decoded body of a command (`delivery.md`, The command body).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandBody {
    pub id: CommandId,
    pub node_id: NodeId,
    /// Per node, from 1, in enqueue order.
    pub seq: u64,
    /// The wire name; it may be one this build does not know.
    pub kind: String,
    /// Type URL and value of the kind's request message.
    pub payload: Any,
    pub lane: Lane,
    /// Mandatory; `None` only for a body that breaks the rule.
    pub not_after: Option<ServerTimeMs>,
    /// 0 for none.
    pub min_generation: u64,
    pub retry_safe: bool,
    pub idempotency_key: String,
    pub self_terminating: bool,
    pub attested: bool,
    pub workflow_id: String,
    pub step_id: String,
    pub traceparent: String,
    /// Empty for an unbatched command.
    pub batch_id: String,
    /// When it was signed (F-Q13).
    pub issued_at: ServerTimeMs,
}

/// A message with its type, as `google.protobuf.Any`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Any {
    pub type_url: String,
    pub value: Vec<u8>,
}

/// One step of a command on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandUpdate {
    pub command_id: CommandId,
    pub state: UpdateState,
    /// The boot that produced it.
    pub boot_id: BootId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateState {
    /// `accepted` is durable.
    Acked,
    /// The side effect starts.
    Running,
    /// `BUSY`: not accepted, nothing journaled; send it again later.
    Busy,
    /// Settled, durable, replayed until acknowledged.
    Done(Settled),
}

/// A terminal outcome as the node journals it, byte for byte what the control plane stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    pub outcome: Outcome,
    /// A serialized `CommandResult` (`code`, `message`, `value`), at most `RESULT_BYTES_MAX`.
    pub result: Vec<u8>,
    /// Purpose `command-result`, by the node's key, for attested kinds: its body is a serialized
    /// `ResultStatement` of the command id, the outcome and the SHA-256 of `result`.
    pub node_sig: Option<Signed>,
}

/// The decoded content of [`Settled::result`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CommandResult {
    /// A `FailCode`, a `RejectReason`, a kind's own code, `rebooted`, or empty.
    pub code: String,
    /// For people.
    pub message: String,
    /// The kind's result message.
    pub value: Option<Any>,
}

/// What a node signs about a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultStatement {
    pub command_id: CommandId,
    pub outcome: Outcome,
    /// SHA-256 of [`Settled::result`].
    pub result_sha256: [u8; 32],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventBatch {
    pub journal_id: JournalId,
    /// Rising in `seq`; a gap means that metric events were dropped.
    pub events: Vec<Event>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// From 1 within a journal.
    pub seq: u64,
    pub class: EventClass,
    /// A serialized `Report`, at most `EVENT_BYTES_MAX`.
    pub report: Vec<u8>,
    /// Purpose `event-report`, by the node's key, where the report is attested.
    pub node_sig: Option<Signed>,
}

/// The decoded content of [`Event::report`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub node_id: NodeId,
    /// As `daemon.started`, `journal.moved-aside`.
    pub kind: String,
    /// Names and values, sorted by name.
    pub attributes: Vec<(String, String)>,
    pub body: Option<Any>,
    /// How long ago it happened when it was journaled is not known across restarts, so the age is
    /// milliseconds of server time where the daemon knew it, else 0.
    pub observed_at: ServerTimeMs,
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct StatusReport {
    pub applied_generation: u64,
    pub observed_generation: u64,
    pub applied_spec_hash: String,
    pub conditions: Vec<Condition>,
    /// Names and values that change all the time and are not news: they stay out of `statusKey`.
    pub gauges: Vec<(String, i64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// As `JournalFull`.
    pub kind: String,
    pub reason: String,
    pub message: String,
    /// Since when, as an age on the daemon's monotonic clock.
    pub age_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventoryReport {
    /// Lower-case hex SHA-256 of `inventory`.
    pub digest: String,
    /// A serialized `Inventory`.
    pub inventory: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecRequestReason {
    PatchBaseMismatch,
    MinGeneration,
    NoSpec,
}

/// What the gateway acknowledges. Cumulative for events of one journal.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Ack {
    pub command_ids: Vec<CommandId>,
    /// `None` when only commands are acknowledged.
    pub events: Option<(JournalId, u64)>,
}

/// The decoded body of a desired state (`delivery.md`, How a spec reaches the node).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredStateBody {
    pub node_id: NodeId,
    pub generation: u64,
    pub spec_hash: String,
    /// A serialized `NodeSpec`.
    pub full: Vec<u8>,
}

/// How a terminal rejection is written into [`CommandResult::code`].
pub fn reject_code(reason: RejectReason) -> String {
    reason.name().to_owned()
}
