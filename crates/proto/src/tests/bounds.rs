//! Each bound of the `.proto` files: what lies on it passes, what lies beyond is refused by its name.

use crate::v1::{agent_frame, gateway_frame};
use crate::*;
use model::frame::{AgentFrame, GatewayFrame};
use model::limits::*;

const ID: &str = "01JZZZZZZZZZZZZZZZZZZZZZZZ";
const BEYOND: u64 = COUNTER_MAX + 1;

fn hello() -> v1::Hello {
    v1::Hello {
        role: v1::Role::Node as i32,
        boot_id: "boot".into(),
        incarnation: "start".into(),
        journal_id: "journal".into(),
        ..Default::default()
    }
}

fn update() -> v1::CommandUpdate {
    v1::CommandUpdate {
        command_id: ID.into(),
        state: v1::UpdateState::Succeeded as i32,
        boot_id: "boot".into(),
        ..Default::default()
    }
}

fn event() -> v1::Event {
    v1::Event { seq: 1, class: v1::EventClass::Metric as i32, ..Default::default() }
}

fn welcome() -> v1::Welcome {
    v1::Welcome { session_epoch: 1, server_time: Some(v1::TimeStatement::default()), ..Default::default() }
}

fn body() -> v1::CommandBody {
    v1::CommandBody {
        id: ID.into(),
        node_id: "node_1".into(),
        seq: 1,
        payload: Some(prost_types::Any::default()),
        lane: v1::Lane::Control as i32,
        ..Default::default()
    }
}

fn agent(frame: agent_frame::Frame) -> Result<AgentFrame, WireError> {
    decode_agent_frame(&v1::AgentFrame { frame: Some(frame) }.encode_to_vec())
}

fn gateway(frame: gateway_frame::Frame) -> Result<GatewayFrame, WireError> {
    decode_gateway_frame(&v1::GatewayFrame { frame: Some(frame) }.encode_to_vec())
}

/// Changes a valid value and translates it.
fn with<W: Default, T>(
    make: fn() -> W,
    translate: impl Fn(W) -> Result<T, WireError>,
    change: impl FnOnce(&mut W),
) -> Result<(), WireError> {
    translate(make()).expect("valid before the change");
    let mut wire = make();
    change(&mut wire);
    translate(wire).map(drop)
}

fn with_hello(change: impl FnOnce(&mut v1::Hello)) -> Result<(), WireError> {
    with(hello, |wire| agent(agent_frame::Frame::Hello(wire)), change)
}

fn with_updates(change: impl FnOnce(&mut Vec<v1::CommandUpdate>)) -> Result<(), WireError> {
    let translate = |updates| agent(agent_frame::Frame::Updates(v1::CommandUpdates { updates }));
    with(|| vec![update()], translate, change)
}

fn with_update(change: impl FnOnce(&mut v1::CommandUpdate)) -> Result<(), WireError> {
    with_updates(|updates| change(&mut updates[0]))
}

fn with_signed(change: impl FnOnce(&mut v1::Signed)) -> Result<(), WireError> {
    with_update(|update| change(update.node_sig.get_or_insert_default()))
}

fn with_events(change: impl FnOnce(&mut v1::EventBatch)) -> Result<(), WireError> {
    let batch = || v1::EventBatch { journal_id: "journal".into(), events: vec![event()] };
    with(batch, |wire| agent(agent_frame::Frame::Events(wire)), change)
}

fn with_status(change: impl FnOnce(&mut v1::StatusReport)) -> Result<(), WireError> {
    with(v1::StatusReport::default, |wire| agent(agent_frame::Frame::Status(wire)), change)
}

fn with_welcome(change: impl FnOnce(&mut v1::Welcome)) -> Result<(), WireError> {
    with(welcome, |wire| gateway(gateway_frame::Frame::Welcome(wire)), change)
}

fn with_command(change: impl FnOnce(&mut v1::Command)) -> Result<(), WireError> {
    let command = || v1::Command { signed: Some(v1::Signed::default()), attempt: 1 };
    with(command, |wire| gateway(gateway_frame::Frame::Command(wire)), change)
}

fn with_ack(change: impl FnOnce(&mut v1::Ack)) -> Result<(), WireError> {
    with(v1::Ack::default, |wire| gateway(gateway_frame::Frame::Ack(wire)), change)
}

fn with_body(change: impl FnOnce(&mut v1::CommandBody)) -> Result<(), WireError> {
    with(body, |wire| decode_body(&wire.encode_to_vec()), change)
}

fn too_long(field: &'static str, have: usize, max: usize) -> Result<(), WireError> {
    Err(WireError::TooLong { field, have, max })
}

fn out_of_range(field: &'static str, value: impl Into<i128>) -> Result<(), WireError> {
    Err(WireError::OutOfRange { field, value: value.into() })
}

fn bad_id(field: &'static str) -> Result<(), WireError> {
    Err(WireError::BadId { field })
}

#[test]
fn a_frame_of_4_mib_passes_and_one_byte_more_is_too_large_both_ways() {
    let report = |bytes: usize| v1::InventoryReport { digest: "0".repeat(64), inventory: vec![7; bytes] };
    let frame = |bytes| v1::AgentFrame { frame: Some(agent_frame::Frame::Inventory(report(bytes))) };
    let around = frame(FRAME_BYTES_MAX).encoded_len() - FRAME_BYTES_MAX;
    let most = frame(FRAME_BYTES_MAX - around).encode_to_vec();
    assert_eq!(most.len(), FRAME_BYTES_MAX);
    let arrived = decode_agent_frame(&most).expect("on the bound");
    assert_eq!(encode_agent_frame(arrived).expect("on the bound"), most);

    let wire = frame(FRAME_BYTES_MAX - around + 1);
    let error = decode_agent_frame(&wire.encode_to_vec()).expect_err("beyond");
    let have = FRAME_BYTES_MAX + 1;
    assert_eq!(error, WireError::TooLong { field: "AgentFrame", have, max: FRAME_BYTES_MAX });
    assert!(error.is_frame_too_large());
    let value = AgentFrame::try_from(wire).expect("its fields are fine");
    assert_eq!(encode_agent_frame(value), Err(error));

    let signed = model::frame::Signed { body: vec![0; FRAME_BYTES_MAX], ..Default::default() };
    let error = encode_gateway_frame(GatewayFrame::DesiredState(signed)).expect_err("beyond");
    assert!(error.is_frame_too_large());
    let error = decode_gateway_frame(&vec![0; FRAME_BYTES_MAX + 1]).expect_err("beyond");
    assert!(error.is_frame_too_large(), "refused before it is read");
    assert!(!decode_gateway_frame(&[0xff]).expect_err("no message").is_frame_too_large());
}

#[test]
fn a_frame_without_a_known_member_is_refused() {
    assert_eq!(decode_agent_frame(&[]), Err(WireError::Missing { field: "AgentFrame.frame" }));
    assert_eq!(decode_gateway_frame(&[]), Err(WireError::Missing { field: "GatewayFrame.frame" }));
    assert!(matches!(decode_agent_frame(&[0xff]), Err(WireError::Decode { message: "AgentFrame", .. })));
}

#[test]
fn a_hello_beyond_a_bound_is_refused_by_name() {
    assert_eq!(with_hello(|h| h.boot_id = "a b".into()), bad_id("Hello.boot_id"));
    assert_eq!(with_hello(|h| h.incarnation.clear()), bad_id("Hello.incarnation"));
    assert_eq!(with_hello(|h| h.journal_id = "j".repeat(81)), bad_id("Hello.journal_id"));
    assert_eq!(with_hello(|h| h.in_flight = vec!["a/b".into()]), bad_id("Hello.in_flight"));
    assert_eq!(with_hello(|h| h.role = 0), out_of_range("Hello.role", 0));
    assert_eq!(with_hello(|h| h.role = -4), out_of_range("Hello.role", -4));
    assert_eq!(with_hello(|h| h.last_epoch = COUNTER_MAX), Ok(()));
    assert_eq!(with_hello(|h| h.last_epoch = BEYOND), out_of_range("Hello.last_epoch", BEYOND));
    assert_eq!(with_hello(|h| h.applied_generation = BEYOND), out_of_range("Hello.applied_generation", BEYOND));
    assert_eq!(with_hello(|h| h.in_flight = vec![ID.into(); 128]), Ok(()));
    assert_eq!(with_hello(|h| h.in_flight = vec![ID.into(); 129]), too_long("Hello.in_flight", 129, 128));
    assert_eq!(with_hello(|h| h.capabilities = vec!["devices.limits".into(); 64]), Ok(()));
    assert_eq!(with_hello(|h| h.capabilities = vec![String::new(); 65]), too_long("Hello.capabilities", 65, 64));
    let long = || "x".repeat(4097);
    assert_eq!(with_hello(|h| h.hostname = "x".repeat(4096)), Ok(()));
    assert_eq!(with_hello(|h| h.hostname = long()), too_long("Hello.hostname", 4097, 4096));
    assert_eq!(with_hello(|h| h.daemon_version = long()), too_long("Hello.daemon_version", 4097, 4096));
    assert_eq!(with_hello(|h| h.capabilities = vec![long()]), too_long("Hello.capabilities", 4097, 4096));
    for bad in ["A".repeat(64), "0".repeat(63), "0".repeat(65), "g".repeat(64)] {
        let field = "Hello.inventory_digest";
        assert_eq!(with_hello(|h| h.inventory_digest = bad.clone()), Err(WireError::BadHex { field }));
        let field = "Hello.applied_spec_hash";
        assert_eq!(with_hello(|h| h.applied_spec_hash = bad), Err(WireError::BadHex { field }));
    }
    let results = |bytes: usize| {
        let quarter = |bytes: usize| v1::CommandUpdate { result: vec![1; bytes], ..update() };
        vec![quarter(256 << 10), quarter(256 << 10), quarter(256 << 10), quarter(bytes), update()]
    };
    assert_eq!(with_hello(|h| h.unacked_results = results(256 << 10)), Ok(()));
    let beyond = v1::CommandUpdate { result: vec![1], ..update() };
    let have = HELLO_RESULTS_BYTES_MAX + 1;
    assert_eq!(
        with_hello(|h| h.unacked_results = [results(256 << 10), vec![beyond]].concat()),
        too_long("Hello.unacked_results", have, HELLO_RESULTS_BYTES_MAX)
    );
}

#[test]
fn an_update_beyond_a_bound_is_refused_by_name() {
    assert_eq!(with_updates(|u| *u = vec![update(); 256]), Ok(()));
    assert_eq!(with_updates(|u| *u = vec![update(); 257]), too_long("CommandUpdates.updates", 257, 256));
    let quarter = v1::CommandUpdate { result: vec![1; RESULT_BYTES_MAX], ..update() };
    assert_eq!(with_updates(|u| *u = vec![quarter.clone(); 4]), Ok(()));
    assert_eq!(
        with_updates(|u| *u = vec![quarter; 5]),
        too_long("CommandUpdates.updates", 5 * RESULT_BYTES_MAX, UPDATES_BYTES_MAX)
    );
    assert_eq!(
        with_update(|u| u.result = vec![1; RESULT_BYTES_MAX + 1]),
        too_long("CommandUpdate.result", RESULT_BYTES_MAX + 1, RESULT_BYTES_MAX)
    );
    assert_eq!(with_update(|u| u.command_id.clear()), bad_id("CommandUpdate.command_id"));
    assert_eq!(with_update(|u| u.boot_id.clear()), bad_id("CommandUpdate.boot_id"));
    assert_eq!(with_update(|u| u.state = 0), out_of_range("CommandUpdate.state", 0));
    assert_eq!(with_update(|u| u.state = 8), out_of_range("CommandUpdate.state", 8));
    for state in [v1::UpdateState::Acked, v1::UpdateState::Running, v1::UpdateState::Busy] {
        assert_eq!(with_update(|u| u.state = state as i32), Ok(()));
        let with_result = with_update(|u| (u.state, u.result) = (state as i32, vec![1]));
        assert_eq!(with_result, Err(WireError::Unexpected { field: "CommandUpdate.result" }));
        let with_signature = with_update(|u| (u.state, u.node_sig) = (state as i32, Some(v1::Signed::default())));
        assert_eq!(with_signature, Err(WireError::Unexpected { field: "CommandUpdate.node_sig" }));
    }
}

#[test]
fn a_signature_beyond_a_bound_is_refused_by_name() {
    assert_eq!(with_signed(|s| s.signature = vec![0; 64]), Ok(()));
    for have in [1, 63, 65, 72] {
        let field = "Signed.signature";
        assert_eq!(with_signed(|s| s.signature = vec![0; have]), Err(WireError::BadLength { field, have, want: 64 }));
    }
    assert_eq!(with_signed(|s| s.chain = vec![vec![0; 8192]; 4]), Ok(()));
    assert_eq!(with_signed(|s| s.chain = vec![vec![]; 5]), too_long("Signed.chain", 5, 4));
    assert_eq!(with_signed(|s| s.chain = vec![vec![0; 8193]]), too_long("Signed.chain", 8193, 8192));
    assert_eq!(with_signed(|s| s.kid = "k".repeat(4097)), too_long("Signed.kid", 4097, 4096));
}

#[test]
fn an_event_beyond_a_bound_is_refused_by_name() {
    assert_eq!(with_events(|b| b.journal_id.clear()), bad_id("EventBatch.journal_id"));
    assert_eq!(with_events(|b| b.events = vec![event(); 256]), Ok(()));
    assert_eq!(with_events(|b| b.events = vec![event(); 257]), too_long("EventBatch.events", 257, 256));
    let big = v1::Event { report: vec![1; EVENT_BYTES_MAX], ..event() };
    assert_eq!(with_events(|b| b.events = vec![big.clone(); 16]), Ok(()));
    assert_eq!(
        with_events(|b| b.events = vec![big; 17]),
        too_long("EventBatch.events", 17 * EVENT_BYTES_MAX, EVENT_BATCH_BYTES_MAX)
    );
    assert_eq!(with_events(|b| b.events[0].seq = 0), out_of_range("Event.seq", 0));
    assert_eq!(with_events(|b| b.events[0].seq = BEYOND), out_of_range("Event.seq", BEYOND));
    assert_eq!(with_events(|b| b.events[0].class = 0), out_of_range("Event.class", 0));
    assert_eq!(
        with_events(|b| b.events[0].report = vec![1; EVENT_BYTES_MAX + 1]),
        too_long("Event.report", EVENT_BYTES_MAX + 1, EVENT_BYTES_MAX)
    );
}

#[test]
fn a_status_beyond_a_bound_is_refused_by_name() {
    let gauge = |value| v1::Gauge { name: "g".into(), value };
    let condition = |age_ms| v1::Condition { age_ms, ..Default::default() };
    assert_eq!(with_status(|s| s.conditions = vec![condition(0); 256]), Ok(()));
    assert_eq!(with_status(|s| s.conditions = vec![condition(0); 257]), too_long("StatusReport.conditions", 257, 256));
    assert_eq!(with_status(|s| s.gauges = vec![gauge(-(COUNTER_MAX as i64)); 1024]), Ok(()));
    assert_eq!(with_status(|s| s.gauges = vec![gauge(0); 1025]), too_long("StatusReport.gauges", 1025, 1024));
    assert_eq!(with_status(|s| s.gauges = vec![gauge(i64::MIN)]), out_of_range("Gauge.value", i64::MIN));
    assert_eq!(with_status(|s| s.conditions = vec![condition(BEYOND)]), out_of_range("Condition.age_ms", BEYOND));
    let field = "StatusReport.observed_generation";
    assert_eq!(with_status(|s| s.observed_generation = BEYOND), out_of_range(field, BEYOND));
    let field = "StatusReport.applied_generation";
    assert_eq!(with_status(|s| s.applied_generation = BEYOND), out_of_range(field, BEYOND));
    let field = "StatusReport.applied_spec_hash";
    assert_eq!(with_status(|s| s.applied_spec_hash = "no".into()), Err(WireError::BadHex { field }));
}

#[test]
fn the_small_frames_of_an_agent_are_checked() {
    use agent_frame::Frame;
    let refused = |frame| agent(frame).expect_err("beyond its bound");
    let heartbeat = |sequence, applied_generation| Frame::Heartbeat(v1::Heartbeat { sequence, applied_generation });
    assert!(agent(heartbeat(1, 0)).is_ok());
    assert_eq!(refused(heartbeat(0, 0)), WireError::OutOfRange { field: "Heartbeat.sequence", value: 0 });
    let value = BEYOND.into();
    assert_eq!(refused(heartbeat(1, BEYOND)), WireError::OutOfRange { field: "Heartbeat.applied_generation", value });
    let request = |have_generation, reason| Frame::SpecRequest(v1::SpecRequest { have_generation, reason });
    assert_eq!(refused(request(BEYOND, 1)), WireError::OutOfRange { field: "SpecRequest.have_generation", value });
    assert_eq!(refused(request(0, 0)), WireError::OutOfRange { field: "SpecRequest.reason", value: 0 });
    assert_eq!(
        refused(Frame::Inventory(v1::InventoryReport::default())),
        WireError::BadHex { field: "InventoryReport.digest" }
    );
    let end = |code, bytes: usize| Frame::End(v1::SessionEnd { code, message: "x".repeat(bytes) });
    assert!(agent(end(11, 1024)).is_ok());
    assert_eq!(refused(end(0, 0)), WireError::OutOfRange { field: "SessionEnd.code", value: 0 });
    assert_eq!(refused(end(12, 0)), WireError::OutOfRange { field: "SessionEnd.code", value: 12 });
    assert_eq!(refused(end(1, 1025)), WireError::TooLong { field: "SessionEnd.message", have: 1025, max: 1024 });
}

#[test]
fn a_gateway_frame_beyond_a_bound_is_refused_by_name() {
    use gateway_frame::Frame;
    let missing = |field| Err(WireError::Missing { field });
    assert_eq!(with_welcome(|w| w.session_epoch = 0), out_of_range("Welcome.session_epoch", 0));
    assert_eq!(with_welcome(|w| w.session_epoch = BEYOND), out_of_range("Welcome.session_epoch", BEYOND));
    assert_eq!(with_welcome(|w| w.acked_event_seq = BEYOND), out_of_range("Welcome.acked_event_seq", BEYOND));
    assert_eq!(with_welcome(|w| w.server_time = None), missing("Welcome.server_time"));
    let statement = v1::TimeStatement { signed: None, unsigned_ms: i64::MAX };
    let field = "TimeStatement.unsigned_ms";
    assert_eq!(with_welcome(|w| w.server_time = Some(statement)), out_of_range(field, i64::MAX));
    let bundle = v1::Signed { signature: vec![0; 3], ..Default::default() };
    let field = "Signed.signature";
    assert_eq!(with_welcome(|w| w.trust_bundle = Some(bundle)), Err(WireError::BadLength { field, have: 3, want: 64 }));

    assert_eq!(with_command(|c| c.attempt = 0), out_of_range("Command.attempt", 0));
    assert_eq!(with_command(|c| c.signed = None), missing("Command.signed"));
    let of = |bytes| Some(v1::Signed { body: vec![0; bytes], ..Default::default() });
    assert_eq!(with_command(|c| c.signed = of(COMMAND_BODY_BYTES_MAX)), Ok(()));
    let have = COMMAND_BODY_BYTES_MAX + 1;
    assert_eq!(with_command(|c| c.signed = of(have)), too_long("Command.signed", have, COMMAND_BODY_BYTES_MAX));

    assert_eq!(with_ack(|a| a.command_ids = vec![String::new()]), bad_id("Ack.command_ids"));
    assert_eq!(with_ack(|a| a.event_seq = 1), Err(WireError::Unexpected { field: "Ack.event_seq" }));
    assert_eq!(with_ack(|a| a.journal_id = "a b".into()), bad_id("Ack.journal_id"));
    assert_eq!(with_ack(|a| (a.journal_id, a.event_seq) = ("j".into(), BEYOND)), out_of_range("Ack.event_seq", BEYOND));

    let refused = |frame| gateway(frame).map(drop);
    let cancel = |id: &str, bytes: usize| v1::Cancel { command_id: id.into(), reason: "x".repeat(bytes) };
    assert_eq!(refused(Frame::Cancel(cancel(ID, 4096))), Ok(()));
    assert_eq!(refused(Frame::Cancel(cancel("", 0))), bad_id("Cancel.command_id"));
    assert_eq!(refused(Frame::Cancel(cancel(ID, 4097))), too_long("Cancel.reason", 4097, 4096));
    let ack = |sequence, server_time| Frame::HeartbeatAck(v1::HeartbeatAck { sequence, server_time });
    assert_eq!(refused(ack(0, Some(Default::default()))), out_of_range("HeartbeatAck.sequence", 0));
    assert_eq!(refused(ack(1, None)), missing("HeartbeatAck.server_time"));
    assert_eq!(refused(Frame::DesiredState(v1::DesiredState { signed: None })), missing("DesiredState.signed"));
    let end = v1::SessionEnd { code: 0, message: String::new() };
    assert_eq!(refused(Frame::End(end)), out_of_range("SessionEnd.code", 0));
}

#[test]
fn a_command_body_beyond_a_bound_is_refused_by_name() {
    assert_eq!(with_body(|b| b.id.clear()), bad_id("CommandBody.id"));
    assert_eq!(with_body(|b| b.node_id = "a b".into()), bad_id("CommandBody.node_id"));
    assert_eq!(with_body(|b| b.seq = 0), out_of_range("CommandBody.seq", 0));
    assert_eq!(with_body(|b| b.seq = BEYOND), out_of_range("CommandBody.seq", BEYOND));
    assert_eq!(with_body(|b| b.min_generation = BEYOND), out_of_range("CommandBody.min_generation", BEYOND));
    assert_eq!(with_body(|b| b.lane = 0), out_of_range("CommandBody.lane", 0));
    assert_eq!(with_body(|b| b.lane = 4), out_of_range("CommandBody.lane", 4));
    assert_eq!(with_body(|b| b.not_after_ms = None), Ok(()), "the acceptance checks refuse it, with a code");
    assert_eq!(with_body(|b| b.not_after_ms = Some(i64::MAX)), out_of_range("CommandBody.not_after_ms", i64::MAX));
    assert_eq!(with_body(|b| b.issued_at_ms = i64::MIN), out_of_range("CommandBody.issued_at_ms", i64::MIN));
    assert_eq!(with_body(|b| b.payload = None), Err(WireError::Missing { field: "CommandBody.payload" }));
    let long = || "x".repeat(4097);
    let typed = prost_types::Any { type_url: long(), value: vec![] };
    assert_eq!(with_body(|b| b.payload = Some(typed)), too_long("CommandBody.payload", 4097, 4096));
    assert_eq!(with_body(|b| b.kind = long()), too_long("CommandBody.kind", 4097, 4096));
    assert_eq!(with_body(|b| b.idempotency_key = long()), too_long("CommandBody.idempotency_key", 4097, 4096));
    assert_eq!(with_body(|b| b.workflow_id = long()), too_long("CommandBody.workflow_id", 4097, 4096));
    assert_eq!(with_body(|b| b.step_id = long()), too_long("CommandBody.step_id", 4097, 4096));
    assert_eq!(with_body(|b| b.traceparent = long()), too_long("CommandBody.traceparent", 4097, 4096));
    assert_eq!(with_body(|b| b.batch_id = long()), too_long("CommandBody.batch_id", 4097, 4096));
    let have = COMMAND_BODY_BYTES_MAX + 1;
    let error = decode_body(&vec![0; have]).expect_err("beyond");
    assert_eq!(error, WireError::TooLong { field: "CommandBody", have, max: COMMAND_BODY_BYTES_MAX });
}

#[test]
fn the_other_signed_messages_are_checked() {
    let statement = |state, bytes: usize| {
        let wire = v1::ResultStatement { command_id: ID.into(), state, result_sha256: vec![0; bytes] };
        decode_statement(&wire.encode_to_vec()).map(drop)
    };
    let succeeded = v1::UpdateState::Succeeded as i32;
    assert_eq!(statement(succeeded, 32), Ok(()));
    let field = "ResultStatement.result_sha256";
    assert_eq!(statement(succeeded, 31), Err(WireError::BadLength { field, have: 31, want: 32 }));
    let acked = v1::UpdateState::Acked as i32;
    assert_eq!(statement(acked, 32), out_of_range("ResultStatement.state", acked));

    let state = |node: &str, generation, hash: &str| {
        let (node_id, spec_hash) = (node.into(), hash.into());
        let wire = v1::DesiredStateBody { node_id, generation, spec_hash, full: vec![] };
        decode_desired_state(&wire.encode_to_vec()).map(drop)
    };
    let hash = "0".repeat(64);
    assert_eq!(state("n", COUNTER_MAX, &hash), Ok(()));
    assert_eq!(state("", 1, &hash), bad_id("DesiredStateBody.node_id"));
    assert_eq!(state("n", BEYOND, &hash), out_of_range("DesiredStateBody.generation", BEYOND));
    assert_eq!(state("n", 1, ""), Err(WireError::BadHex { field: "DesiredStateBody.spec_hash" }));

    let report = |change: fn(&mut v1::Report)| {
        let mut wire = v1::Report { node_id: "n".into(), ..Default::default() };
        change(&mut wire);
        decode_report(&wire.encode_to_vec()).map(drop)
    };
    assert_eq!(report(|_| ()), Ok(()));
    assert_eq!(report(|r| r.node_id.clear()), bad_id("Report.node_id"));
    assert_eq!(report(|r| r.kind = "x".repeat(4097)), too_long("Report.kind", 4097, 4096));
    assert_eq!(report(|r| r.observed_at_ms = i64::MAX), out_of_range("Report.observed_at_ms", i64::MAX));
    let long = |name: usize, value: usize| v1::Attribute { name: "n".repeat(name), value: "v".repeat(value) };
    let with_attribute = |attribute| {
        let wire = v1::Report { node_id: "n".into(), attributes: vec![attribute], ..Default::default() };
        decode_report(&wire.encode_to_vec()).map(drop)
    };
    assert_eq!(with_attribute(long(4097, 0)), too_long("Attribute.name", 4097, 4096));
    assert_eq!(with_attribute(long(0, 4097)), too_long("Attribute.value", 4097, 4096));
    let have = EVENT_BYTES_MAX + 1;
    assert_eq!(decode_report(&vec![0; have]).map(drop), too_long("Report", have, EVENT_BYTES_MAX));

    let result = v1::CommandResult { message: "x".repeat(4097), ..Default::default() };
    assert_eq!(decode_result(&result.encode_to_vec()).map(drop), too_long("CommandResult.message", 4097, 4096));
    let result = v1::CommandResult { code: "x".repeat(4097), ..Default::default() };
    assert_eq!(decode_result(&result.encode_to_vec()).map(drop), too_long("CommandResult.code", 4097, 4096));
    let have = RESULT_BYTES_MAX + 1;
    assert_eq!(decode_result(&vec![0; have]).map(drop), too_long("CommandResult", have, RESULT_BYTES_MAX));
}
