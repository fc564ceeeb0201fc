//! Frames as one short line each, without signatures.

use model::frame::{AgentFrame, CommandUpdate, GatewayFrame, UpdateState};
use std::fmt::Write;

pub(crate) fn agent_frame(frame: &AgentFrame) -> String {
    match frame {
        AgentFrame::Hello(hello) => format!(
            "Hello {} {} last epoch {} in flight {:?} results{}{}",
            hello.boot_id,
            hello.journal_id,
            hello.last_epoch,
            hello.in_flight,
            updates(&hello.unacked_results),
            if hello.more_results { " and more" } else { "" },
        ),
        AgentFrame::Updates(list) => format!("Updates{}", updates(list)),
        AgentFrame::ResumeDone => "ResumeDone".to_owned(),
        AgentFrame::Heartbeat(heartbeat) => format!("Heartbeat {}", heartbeat.sequence),
        AgentFrame::Events(batch) => {
            let seqs: Vec<u64> = batch.events.iter().map(|event| event.seq).collect();
            format!("Events {} {seqs:?}", batch.journal_id)
        }
        AgentFrame::Status(_) => "Status".to_owned(),
        AgentFrame::Inventory(_) => "Inventory".to_owned(),
        AgentFrame::SpecRequest { have_generation, .. } => format!("SpecRequest {have_generation}"),
        AgentFrame::End { code, .. } => format!("End {code}"),
    }
}

pub(crate) fn gateway_frame(frame: &GatewayFrame) -> String {
    match frame {
        GatewayFrame::Welcome(welcome) => format!(
            "Welcome {} events {} {}",
            welcome.session_epoch,
            welcome.acked_event_seq,
            if welcome.server_time.signed.is_some() { "time signed" } else { "time unsigned" },
        ),
        GatewayFrame::Command(delivery) => match proto::decode_body(&delivery.signed.body) {
            Ok(body) => format!("Command {} {} for {} attempt {}", body.id, body.kind, body.node_id, delivery.attempt),
            Err(_) => "Command garbage".to_owned(),
        },
        GatewayFrame::Cancel { command_id, .. } => format!("Cancel {command_id}"),
        GatewayFrame::Ack(ack) => format!("Ack {:?} {:?}", ack.command_ids, ack.events),
        GatewayFrame::HeartbeatAck { sequence, .. } => format!("HeartbeatAck {sequence}"),
        GatewayFrame::Drain { window_ms } => format!("Drain {window_ms}"),
        GatewayFrame::InventoryRequest => "InventoryRequest".to_owned(),
        GatewayFrame::DesiredState(_) => "DesiredState".to_owned(),
        GatewayFrame::End { code, .. } => format!("End {code}"),
    }
}

fn updates(updates: &[CommandUpdate]) -> String {
    let mut text = String::new();
    for update in updates {
        let state = match &update.state {
            UpdateState::Acked => "ACKED",
            UpdateState::Running => "RUNNING",
            UpdateState::Busy => "BUSY",
            UpdateState::Done(settled) => settled.outcome.name(),
        };
        write!(text, " {}={state}", update.command_id).expect("writing to a string does not fail");
    }
    text
}
