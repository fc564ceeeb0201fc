//! A value that was sent is the value that arrives.

use super::strategies;
use crate::*;
use model::frame::{AgentFrame, GatewayFrame};
use proptest::prelude::*;

proptest! {
    #[test]
    fn an_agent_frame_arrives_as_it_was_sent(frame in strategies::agent_frame()) {
        let bytes = encode_agent_frame(frame.clone()).expect("within the bound");
        prop_assert_eq!(decode_agent_frame(&bytes), Ok(frame));
    }

    #[test]
    fn a_gateway_frame_arrives_as_it_was_sent(frame in strategies::gateway_frame()) {
        let bytes = encode_gateway_frame(frame.clone()).expect("within the bound");
        prop_assert_eq!(decode_gateway_frame(&bytes), Ok(frame));
    }

    #[test]
    fn a_command_body_arrives_as_it_was_signed(body in strategies::body()) {
        prop_assert_eq!(decode_body(&encode_body(&body)), Ok(body));
    }

    #[test]
    fn a_desired_state_arrives_as_it_was_signed(body in strategies::desired_state()) {
        prop_assert_eq!(decode_desired_state(&encode_desired_state(&body)), Ok(body));
    }

    #[test]
    fn a_report_arrives_as_it_was_journaled(report in strategies::report()) {
        prop_assert_eq!(decode_report(&encode_report(&report)), Ok(report));
    }

    #[test]
    fn a_result_arrives_as_it_was_journaled(result in strategies::result()) {
        prop_assert_eq!(decode_result(&encode_result(&result)), Ok(result));
    }

    #[test]
    fn a_statement_arrives_as_it_was_signed(statement in strategies::statement()) {
        prop_assert_eq!(decode_statement(&encode_statement(&statement)), Ok(statement));
    }
}

#[test]
fn credits_keep_their_lanes() {
    let wire = v1::Welcome {
        session_epoch: 1,
        server_time: Some(v1::TimeStatement::default()),
        credits_control: 8,
        credits_provision: 4,
        credits_bulk: 2,
        ..Default::default()
    };
    let welcome = model::frame::Welcome::try_from(wire).expect("a welcome");
    let named: Vec<_> = model::Lane::ALL.iter().zip(welcome.lane_credits).map(|(lane, n)| (lane.name(), n)).collect();
    assert_eq!(named, [("control", 8), ("provision", 4), ("bulk", 2)]);
}

#[test]
fn a_long_text_for_people_is_cut_and_the_code_arrives() {
    let code = model::SessionEnd::Draining;
    let message = "ü".repeat(600);
    let bytes = encode_agent_frame(AgentFrame::End { code, message: message.clone() }).expect("small");
    let cut = "ü".repeat(512);
    assert_eq!(decode_agent_frame(&bytes), Ok(AgentFrame::End { code, message: cut.clone() }));
    let bytes = encode_gateway_frame(GatewayFrame::End { code, message }).expect("small");
    assert_eq!(decode_gateway_frame(&bytes), Ok(GatewayFrame::End { code, message: cut }));

    let result = model::frame::CommandResult { code: "internal".into(), message: "x".repeat(5000), value: None };
    let arrived = decode_result(&encode_result(&result)).expect("a result");
    assert_eq!((arrived.code.as_str(), arrived.message.len()), ("internal", 4096));
}

#[test]
fn a_packed_message_unpacks_only_as_its_own_type() {
    let request = v1::NodeRebootRequest { reason: "kernel".into() };
    let any = pack(&request);
    assert_eq!(any.type_url, "type.googleapis.com/bettercompute.node.v1.NodeRebootRequest");
    assert_eq!(unpack::<v1::NodeRebootRequest>(&any), Ok(request));
    let wrong = unpack::<v1::LogsCollectRequest>(&any).expect_err("another type");
    assert_eq!(
        wrong,
        WireError::WrongType {
            expected: "type.googleapis.com/bettercompute.node.v1.LogsCollectRequest".into(),
            found: any.type_url.clone(),
        }
    );
    let broken = model::frame::Any { value: vec![0xff], ..any };
    assert!(matches!(
        unpack::<v1::NodeRebootRequest>(&broken),
        Err(WireError::Decode { message: "NodeRebootRequest", .. })
    ));
}

#[test]
fn the_attempt_is_outside_the_signed_bytes() {
    let body = v1::CommandBody { id: "01J".into(), ..Default::default() }.encode_to_vec();
    let signed = model::frame::Signed { body, kid: "k".into(), chain: vec![], signature: vec![7; 64] };
    let arrived = [1, 2].map(|attempt| {
        let delivery = model::frame::Delivery { signed: signed.clone(), attempt };
        let bytes = encode_gateway_frame(GatewayFrame::Command(delivery)).expect("small");
        match decode_gateway_frame(&bytes).expect("a frame") {
            GatewayFrame::Command(delivery) => delivery,
            other => panic!("{other:?}"),
        }
    });
    assert_eq!((arrived[0].attempt, arrived[1].attempt), (1, 2));
    assert!(arrived.iter().all(|delivery| delivery.signed == signed), "a resend carries the stored bytes");
}
