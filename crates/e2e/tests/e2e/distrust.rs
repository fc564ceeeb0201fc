//! What one node may not do to another, what a result must carry to be believed, and what becomes of a node whose
//! journal is damaged. All of it over the real wire, against a real control plane.

use crate::wire::{Stage, live};
use e2e::fleet::id_of;
use e2e::fleet::process::Process;
use e2e::fleet::raw_node::{RawSession, hello};
use e2e::wait;
use model::frame::{AgentFrame, CommandUpdate, Delivery, GatewayFrame, InventoryReport, Settled, UpdateState};
use model::{BootId, CommandId, Outcome};
use proto::{Message, v1};
use serde_json::{Value, json};
use std::os::unix::fs::FileExt;

fn done(command: &CommandId) -> AgentFrame {
    let settled = Settled { outcome: Outcome::Succeeded, result: Vec::new(), node_sig: None };
    let state = UpdateState::Done(settled);
    let boot_id = BootId::new("11111111-2222-3333-4444-555555555555");
    AgentFrame::Updates(vec![CommandUpdate { command_id: command.clone(), state, boot_id }])
}

/// Reads until the gateway acknowledges the command.
async fn acked(session: &mut RawSession, command: &CommandId) {
    loop {
        if let GatewayFrame::Ack(ack) = session.next().await.expect("a frame")
            && ack.command_ids.contains(command)
        {
            return;
        }
    }
}

async fn delivered(session: &mut RawSession) -> Delivery {
    loop {
        if let GatewayFrame::Command(delivery) = session.next().await.expect("a frame") {
            return delivery;
        }
    }
}

fn send(stage: &Stage, node: &str, kind: &str) -> CommandId {
    let command = stage.fleet.api.run(node, kind, Value::Null, kind).expect("sent");
    CommandId::parse(&id_of(&command).expect("an id")).expect("an id")
}

#[tokio::test]
async fn a_node_never_moves_another_nodes_command_and_is_acknowledged_all_the_same() {
    let stage = Stage::new();
    let (victim, liar) = (stage.joined("victim").await, stage.joined("liar").await);
    let command = send(&stage, victim.node_id.as_str(), "inventory.refresh");
    let mut session = stage.session(&liar).await;
    live(&mut session).await;
    session.send(done(&command).into()).await.expect("sent");
    acked(&mut session, &command).await;
    assert_eq!(stage.fleet.api.command(command.as_str()).expect("it is there")["state"], "pending");
}

#[tokio::test]
async fn an_attested_result_without_the_nodes_signature_is_bad_attestation() {
    let stage = Stage::new();
    let node = stage.joined("unsigned").await;
    let mut session = stage.session(&node).await;
    live(&mut session).await;
    let command = send(&stage, node.node_id.as_str(), "diag.nvml");
    let delivery = delivered(&mut session).await;
    assert_eq!(proto::decode_body(&delivery.signed.body).expect("a body").id, command);
    session.send(done(&command).into()).await.expect("sent");
    acked(&mut session, &command).await;
    let settled = stage.fleet.api.settled(command.as_str()).expect("it ends");
    let facts = (&settled["state"], &settled["code"], &settled["attested"]);
    assert_eq!(facts, (&json!("failed"), &json!("bad-attestation"), &json!("forged")), "{settled}");
}

#[tokio::test]
async fn an_unanswered_command_is_sent_again_byte_for_byte_in_the_next_session() {
    let stage = Stage::new();
    let node = stage.joined("forgetful").await;
    let command = send(&stage, node.node_id.as_str(), "inventory.refresh");
    let mut first = stage.session(&node).await;
    live_frames(&mut first).await;
    let once = delivered(&mut first).await;
    drop(first);
    let mut second = stage.session(&node).await;
    live_frames(&mut second).await;
    let twice = delivered(&mut second).await;
    assert_eq!(twice.signed, once.signed);
    assert_eq!((once.attempt, twice.attempt), (1, 2));
    second.send(done(&command).into()).await.expect("sent");
    acked(&mut second, &command).await;
    assert_eq!(stage.fleet.api.settled(command.as_str()).expect("it ends")["attempts"], 2);
}

/// As [`live`], but leaves the frames behind `Welcome` to the caller.
async fn live_frames(session: &mut RawSession) {
    session.hello(hello("journal_1")).await.expect("sent");
    while !matches!(session.next().await.expect("a frame"), GatewayFrame::Welcome(_)) {}
    session.send(AgentFrame::ResumeDone.into()).await.expect("sent");
}

// Two threads: one waits for the API, the other one sends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_adopting_from_its_join_and_ready_from_its_first_inventory() {
    let stage = Stage::new();
    let node = stage.joined("newcomer").await;
    let lifecycle = || stage.fleet.api.nodes().expect("nodes")[0]["lifecycle"].clone();
    assert_eq!(lifecycle(), "adopting");
    let mut session = stage.session(&node).await;
    live(&mut session).await;
    assert_eq!(lifecycle(), "adopting");
    let inventory = v1::Inventory { schema: 1, hostname: "newcomer".to_owned(), ..v1::Inventory::default() };
    let inventory = inventory.encode_to_vec();
    let report = InventoryReport { digest: stdx::hex::sha256_hex(&inventory), inventory };
    session.send(AgentFrame::Inventory(report).into()).await.expect("sent");
    wait::until("ready", wait::LONG, || Ok((lifecycle() == "ready").then_some(()))).expect("it is adopted");
}

#[test]
fn a_flipped_byte_in_the_journal_moves_it_aside_and_the_node_says_so_and_goes_on() {
    let stage = Stage::new();
    let fleet = &stage.fleet;
    let sim = fleet.start_sim(&stage.place, 1).expect("a node");
    let node = id_of(&fleet.api.nodes().expect("nodes")[0]).expect("an id");
    let command = fleet.api.run(&node, "inventory.refresh", Value::Null, "before").expect("sent");
    fleet.api.settled(&id_of(&command).expect("an id")).expect("it ends");
    sim.stop().expect("it ends");

    let data = fleet.dir().join("sim/1/data");
    let file = std::fs::File::options().read(true).write(true).open(data.join("journal.db")).expect("a journal");
    // In the first sector behind the header's: long acknowledged.
    let mut byte = [0];
    file.read_exact_at(&mut byte, 600).expect("read");
    file.write_all_at(&[byte[0] ^ 1], 600).expect("written");
    drop(file);

    let sim = Process::spawn(fleet.sim(&stage.place, 1).expect("a command"), &fleet.sim_log()).expect("it starts");
    let moved = wait::until("the event of the moved journal", wait::LONG, || {
        let events = fleet.api.list("events.list", json!({ "topic": "node.event" }))?;
        Ok(events.into_iter().find(|event| event.to_string().contains("journal.moved-aside")))
    })
    .expect("the node says so");
    assert_eq!(moved["nodeId"], node, "{moved}");
    let names = std::fs::read_dir(&data).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let kept = names.filter(|name| name.to_string_lossy().starts_with("journal.db.corrupt-")).count();
    assert_eq!(kept, 1, "the damaged journal is kept");
    fleet.wait_ready(1, || Ok(())).expect("it is back");
    let command = fleet.api.run(&node, "diag.nvml", Value::Null, "after").expect("sent");
    let settled = fleet.api.settled(&id_of(&command).expect("an id")).expect("it ends");
    assert_eq!(settled["attested"], "verified", "{settled}");
    sim.stop().expect("it ends");
}
