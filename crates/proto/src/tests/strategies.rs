//! Any value that the bounds of the wire allow.

use model::frame::*;
use model::limits::COUNTER_MAX;
use model::{
    BootId, CommandId, EventClass, IncarnationId, JournalId, Lane, NodeId, Outcome, Role, ServerTimeMs, SessionEnd,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

fn id<T: std::fmt::Debug>(parse: fn(&str) -> Result<T, model::ids::IdError>) -> impl Strategy<Value = T> {
    "[A-Za-z0-9][A-Za-z0-9_-]{0,79}".prop_map(move |text| parse(&text).expect("the pattern makes ids"))
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,40}"
}

fn counter() -> impl Strategy<Value = u64> {
    prop_oneof![0..100u64, 0..=COUNTER_MAX, Just(COUNTER_MAX)]
}

fn from_one() -> impl Strategy<Value = u64> {
    counter().prop_map(|value| value.max(1))
}

fn number() -> impl Strategy<Value = i64> {
    let most = COUNTER_MAX as i64;
    prop_oneof![-100..100i64, -most..=most]
}

fn time() -> impl Strategy<Value = ServerTimeMs> {
    number().prop_map(ServerTimeMs)
}

fn blob() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..60)
}

fn digest() -> impl Strategy<Value = String> {
    "[0-9a-f]{64}"
}

fn digest_or_none() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), digest()]
}

pub fn message() -> impl Strategy<Value = Any> {
    (text(), blob()).prop_map(|(type_url, value)| Any { type_url, value })
}

fn signed() -> impl Strategy<Value = Signed> {
    let signature = prop_oneof![Just(Vec::new()), vec(any::<u8>(), 64)];
    (blob(), "[0-9a-f]{32}", vec(blob(), 0..=4), signature).prop_map(|(body, kid, chain, signature)| Signed {
        body,
        kid,
        chain,
        signature,
    })
}

fn settled() -> impl Strategy<Value = Settled> {
    (select(Outcome::ALL), blob(), option::of(signed())).prop_map(|(outcome, result, node_sig)| Settled {
        outcome,
        result,
        node_sig,
    })
}

fn update() -> impl Strategy<Value = CommandUpdate> {
    let state = prop_oneof![
        Just(UpdateState::Acked),
        Just(UpdateState::Running),
        Just(UpdateState::Busy),
        settled().prop_map(UpdateState::Done),
    ];
    (id(CommandId::parse), state, id(BootId::parse)).prop_map(|(command_id, state, boot_id)| CommandUpdate {
        command_id,
        state,
        boot_id,
    })
}

fn hello() -> impl Strategy<Value = Hello> {
    let who = (any::<u32>(), any::<u32>(), text(), select(&Role::ALL[..]), text());
    let ids = (id(BootId::parse), id(IncarnationId::parse), id(JournalId::parse));
    let state = (counter(), counter(), digest_or_none(), digest_or_none(), any::<bool>());
    let lists = (vec(id(CommandId::parse), 0..5), vec(update(), 0..5), vec(text(), 0..5));
    (who, ids, state, lists).prop_map(|(who, ids, state, lists)| Hello {
        protocol_min: who.0,
        protocol_max: who.1,
        daemon_version: who.2,
        role: who.3,
        boot_id: ids.0,
        incarnation: ids.1,
        journal_id: ids.2,
        last_epoch: state.0,
        applied_generation: state.1,
        applied_spec_hash: state.2,
        in_flight: lists.0,
        unacked_results: lists.1,
        more_results: state.4,
        capabilities: lists.2,
        inventory_digest: state.3,
        hostname: who.4,
    })
}

fn event() -> impl Strategy<Value = Event> {
    (from_one(), select(EventClass::ALL), blob(), option::of(signed()))
        .prop_map(|(seq, class, report, node_sig)| Event { seq, class, report, node_sig })
}

fn status() -> impl Strategy<Value = StatusReport> {
    let condition = (text(), text(), text(), counter()).prop_map(|(kind, reason, message, age_ms)| Condition {
        kind,
        reason,
        message,
        age_ms,
    });
    (counter(), counter(), digest_or_none(), vec(condition, 0..4), vec((text(), number()), 0..4)).prop_map(
        |(applied_generation, observed_generation, applied_spec_hash, conditions, gauges)| StatusReport {
            applied_generation,
            observed_generation,
            applied_spec_hash,
            conditions,
            gauges,
        },
    )
}

fn end() -> impl Strategy<Value = (SessionEnd, String)> {
    (select(SessionEnd::ALL), text())
}

pub fn agent_frame() -> impl Strategy<Value = AgentFrame> {
    let reasons =
        vec![SpecRequestReason::PatchBaseMismatch, SpecRequestReason::MinGeneration, SpecRequestReason::NoSpec];
    prop_oneof![
        hello().prop_map(|hello| AgentFrame::Hello(Box::new(hello))),
        vec(update(), 0..6).prop_map(AgentFrame::Updates),
        Just(AgentFrame::ResumeDone),
        (from_one(), counter()).prop_map(|(sequence, applied_generation)| {
            AgentFrame::Heartbeat(Heartbeat { sequence, applied_generation })
        }),
        (id(JournalId::parse), vec(event(), 0..6))
            .prop_map(|(journal_id, events)| AgentFrame::Events(EventBatch { journal_id, events })),
        status().prop_map(AgentFrame::Status),
        (digest(), blob()).prop_map(|(digest, inventory)| AgentFrame::Inventory(InventoryReport { digest, inventory })),
        (counter(), select(reasons))
            .prop_map(|(have_generation, reason)| AgentFrame::SpecRequest { have_generation, reason }),
        end().prop_map(|(code, message)| AgentFrame::End { code, message }),
    ]
}

fn time_statement() -> impl Strategy<Value = TimeStatement> {
    (option::of(signed()), time()).prop_map(|(signed, unsigned_ms)| TimeStatement { signed, unsigned_ms })
}

fn welcome() -> impl Strategy<Value = Welcome> {
    let numbers = (from_one(), any::<u32>(), any::<u32>(), any::<[u32; 3]>(), counter());
    (numbers, time_statement(), option::of(signed()), any::<bool>()).prop_map(
        |(numbers, server_time, trust_bundle, upgrade_required)| Welcome {
            session_epoch: numbers.0,
            protocol: numbers.1,
            server_time,
            heartbeat_interval_ms: numbers.2,
            lane_credits: numbers.3,
            trust_bundle,
            acked_event_seq: numbers.4,
            upgrade_required,
        },
    )
}

pub fn gateway_frame() -> impl Strategy<Value = GatewayFrame> {
    prop_oneof![
        welcome().prop_map(|welcome| GatewayFrame::Welcome(Box::new(welcome))),
        (signed(), 1..=u32::MAX).prop_map(|(signed, attempt)| GatewayFrame::Command(Delivery { signed, attempt })),
        (id(CommandId::parse), text()).prop_map(|(command_id, reason)| GatewayFrame::Cancel { command_id, reason }),
        (vec(id(CommandId::parse), 0..6), option::of((id(JournalId::parse), counter())))
            .prop_map(|(command_ids, events)| GatewayFrame::Ack(Ack { command_ids, events })),
        (from_one(), time_statement())
            .prop_map(|(sequence, server_time)| GatewayFrame::HeartbeatAck { sequence, server_time }),
        any::<u32>().prop_map(|window_ms| GatewayFrame::Drain { window_ms }),
        Just(GatewayFrame::InventoryRequest),
        signed().prop_map(GatewayFrame::DesiredState),
        end().prop_map(|(code, message)| GatewayFrame::End { code, message }),
    ]
}

pub fn body() -> impl Strategy<Value = CommandBody> {
    let ids = (id(CommandId::parse), id(NodeId::parse), from_one(), counter());
    let times = (option::of(time()), time());
    let texts = (text(), text(), text(), text(), text(), text());
    let flags = any::<[bool; 3]>();
    (ids, times, texts, flags, message(), select(&Lane::ALL[..])).prop_map(
        |(ids, times, texts, flags, payload, lane)| CommandBody {
            id: ids.0,
            node_id: ids.1,
            seq: ids.2,
            kind: texts.0,
            payload,
            lane,
            not_after: times.0,
            min_generation: ids.3,
            retry_safe: flags[0],
            idempotency_key: texts.1,
            self_terminating: flags[1],
            attested: flags[2],
            workflow_id: texts.2,
            step_id: texts.3,
            traceparent: texts.4,
            batch_id: texts.5,
            issued_at: times.1,
        },
    )
}

pub fn desired_state() -> impl Strategy<Value = DesiredStateBody> {
    (id(NodeId::parse), counter(), digest(), blob())
        .prop_map(|(node_id, generation, spec_hash, full)| DesiredStateBody { node_id, generation, spec_hash, full })
}

pub fn report() -> impl Strategy<Value = Report> {
    (id(NodeId::parse), text(), vec((text(), text()), 0..4), option::of(message()), time()).prop_map(
        |(node_id, kind, attributes, body, observed_at)| Report { node_id, kind, attributes, body, observed_at },
    )
}

pub fn result() -> impl Strategy<Value = CommandResult> {
    (text(), text(), option::of(message())).prop_map(|(code, message, value)| CommandResult { code, message, value })
}

pub fn statement() -> impl Strategy<Value = ResultStatement> {
    (id(CommandId::parse), select(Outcome::ALL), any::<[u8; 32]>())
        .prop_map(|(command_id, outcome, result_sha256)| ResultStatement { command_id, outcome, result_sha256 })
}
