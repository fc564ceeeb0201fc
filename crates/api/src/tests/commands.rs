//! Commands: what is accepted, that it is signed, what becomes visible when.

use super::{Fleet, START_MS, answer};
use axum::body::Body;
use kernel::commands::{self, Attestation, StoredResult};
use kernel::db::Value as Column;
use model::frame::{Any, CommandResult, Signed};
use model::{BootId, CommandId, CommandState, FailCode, Outcome};
use pki::Purpose;
use serde_json::{Value, json};

fn run(node: &str, kind: &str, key: &str) -> Value {
    json!({"nodeId": node, "kind": kind, "idempotencyKey": key})
}

/// The stored body and signature of a command, as a gateway would send them.
async fn stored(fleet: &Fleet, id: &str) -> Signed {
    let id = id.to_owned();
    let (body, kid, chain, signature) = fleet
        .write(move |tx| {
            let sql = "SELECT body, kid, chain, signature FROM commands WHERE id = ?1";
            tx.query_one(sql, &[Column::Text(&id)], |row| {
                Ok((row.take()?, row.take()?, row.take::<Vec<u8>>()?, row.take()?))
            })
        })
        .await;
    // Each certificate of a stored chain follows its length, four bytes.
    Signed { body, kid, chain: vec![chain[4..].to_vec()], signature }
}

#[tokio::test]
async fn a_command_is_stored_pending_and_signed_under_the_command_root() {
    let fleet = Fleet::new().await;
    let node = fleet.node("gpu-a").await;
    for (kind, payload) in
        [("diag.nvml", Value::Null), ("gpu.reset", json!({"gpuUuids": ["GPU-1"]})), ("inventory.refresh", json!({}))]
    {
        let mut body = run("gpu-a", kind, kind);
        if !payload.is_null() {
            body["payload"] = payload;
        }
        let command = fleet.call("commands.run", body).await.ok();
        assert_eq!(command["state"], "pending", "{command}");
        assert_eq!(command["notAfter"], "2026-12-01T12:05:00.000Z", "300 s when absent");
        let signed = stored(&fleet, command["id"].as_str().expect("id")).await;
        let signed =
            pki::Signed { body: signed.body, kid: signed.kid, chain: signed.chain, signature: signed.signature };
        let roots = [fleet.bundle.public.command_root.clone()];
        let body =
            signed.verify_chain(Purpose::Command, &roots, START_MS).expect("every kind is signed, whatever its flags");
        let body = proto::decode_body(body).expect("a body");
        assert_eq!((body.node_id.as_str(), body.kind.as_str()), (node.as_str(), kind));
        assert_eq!(body.issued_at.0, START_MS);
    }
}

#[tokio::test]
async fn an_unregistered_kind_and_a_kind_of_another_role_are_refused_with_the_kinds_there_are() {
    let fleet = Fleet::new().await;
    fleet.node("gpu-a").await;
    for kind in ["diag.frob", "", "bmc.power", "disk.wipe"] {
        let error = fleet.call("commands.run", run("gpu-a", kind, "k")).await.refused("INVALID_INPUT");
        let kinds = error["details"]["kinds"].as_array().expect("kinds");
        assert!(kinds.contains(&json!("diag.nvml")) && !kinds.contains(&json!("bmc.power")), "{error}");
    }
    fleet.call("commands.run", run("gpu-z", "diag.nvml", "k")).await.refused("NOT_FOUND");
    for (name, value) in [
        ("notAfterSeconds", json!(0)),
        ("notAfterSeconds", json!(604_801)),
        ("minGeneration", json!(9_007_199_254_740_993_u64)),
        ("payload", json!({"level": 1})),
    ] {
        let mut body = run("gpu-a", "diag.nvml", "k");
        body[name] = value;
        fleet.call("commands.run", body).await.refused("INVALID_INPUT");
    }
}

#[tokio::test]
async fn a_command_is_listed_cancelled_and_then_settled() {
    let fleet = Fleet::new().await;
    fleet.node("gpu-a").await;
    let first = fleet.call("commands.run", run("gpu-a", "diag.nvml", "1")).await.ok();
    let second = fleet.call("commands.run", run("gpu-a", "node.reboot", "2")).await.ok();
    assert_eq!((&first["seq"], &second["seq"]), (&json!(1), &json!(2)));
    let listed = fleet.call("commands.list", json!({"nodeId": "gpu-a", "limit": 1})).await.ok();
    assert_eq!(listed["items"][0]["id"], second["id"], "newest first");
    let rest = fleet.call("commands.list", json!({"nodeId": "gpu-a", "cursor": listed["nextCursor"]})).await.ok();
    assert_eq!((&rest["items"][0]["id"], rest.get("nextCursor")), (&first["id"], None));
    let cancel = |key: &str| json!({"commandId": first["id"], "reason": "no need", "idempotencyKey": key});
    let cancelled = fleet.call("commands.cancel", cancel("c")).await.ok();
    assert_eq!((&cancelled["state"], &cancelled["code"]), (&json!("cancelled"), &json!("cancel-requested")));
    assert_eq!(fleet.call("commands.cancel", cancel("c")).await.ok(), cancelled, "a replay is the first answer");
    fleet.call("commands.cancel", cancel("d")).await.refused("INVALID_STATE");
    let pending = fleet.call("commands.list", json!({"state": "pending"})).await.ok();
    assert_eq!(pending["items"].as_array().expect("items").len(), 1);
    assert_eq!(fleet.call("fleet.get", json!({})).await.ok()["commandsOpen"], 1);
    let stranger = fleet.tenant("tenant_a").await;
    let get = json!({"commandId": first["id"]}).to_string();
    fleet.call_as(&stranger, "commands.get", get).await.refused("NOT_FOUND");
    fleet.call("commands.get", json!({"commandId": "../x"})).await.refused("NOT_FOUND");
}

#[tokio::test]
async fn two_callers_may_use_the_same_key_for_the_same_node() {
    let fleet = Fleet::new().await;
    fleet.node("gpu-a").await;
    let made = fleet.call("apiTokens.create", json!({"name": "x", "idempotencyKey": "t"})).await.ok();
    let one = fleet.call("commands.run", run("gpu-a", "diag.nvml", "same")).await.ok();
    let again = made["token"].as_str().expect("bearer");
    let again = fleet.call_as(again, "commands.run", run("gpu-a", "diag.nvml", "same").to_string()).await.ok();
    assert_eq!(one["id"], again["id"], "the same principal under another token repeats itself");
}

#[tokio::test]
async fn what_an_attested_kind_reports_is_shown_only_once_it_is_verified() {
    let fleet = Fleet::new().await;
    fleet.node("gpu-a").await;
    let id = fleet.call("commands.run", run("gpu-a", "diag.nvml", "1")).await.ok();
    let id = CommandId::new(id["id"].as_str().expect("id"));
    let row = fleet.write(move |tx| commands::get(tx, &id)).await.expect("row");
    assert_eq!(row.attestation, Attestation::Unverified);
    let value = proto::pack(&proto::v1::DiagNvmlResult { driver_version: "580".into(), ..Default::default() });
    let result = CommandResult { code: String::new(), message: "fine".into(), value: Some(value) };
    let stored = StoredResult {
        outcome: Outcome::Succeeded,
        result: proto::encode_result(&result),
        boot: BootId::new("b1"),
        node_sig: None,
    };
    let mut waiting = row.clone();
    (waiting.state, waiting.awaits_verification) = (CommandState::Running, true);
    let shown = crate::shape::command(waiting, Some(stored.clone()));
    assert_eq!((shown.attested, shown.result, shown.message), (api_types::Attested::Unverified, None, None));
    let mut forged = row.clone();
    (forged.state, forged.attestation) = (CommandState::Failed, Attestation::Forged);
    forged.code = FailCode::BadAttestation.name().into();
    let shown = crate::shape::command(forged, Some(stored.clone()));
    assert!(shown.result.is_none() && shown.message.expect("why").contains("signature"));
    let mut verified = row;
    (verified.state, verified.attestation) = (CommandState::Succeeded, Attestation::Verified);
    let shown = crate::shape::command(verified, Some(stored));
    assert_eq!(shown.result.expect("result")["driverVersion"], "580");
    assert_eq!(shown.message.as_deref(), Some("fine"));
}

#[test]
fn an_empty_payload_of_a_later_kind_is_an_empty_message() {
    assert_eq!(crate::kinds::payload(model::Kind::DriverInvoke, None), Ok(Any::default()));
}

#[tokio::test]
async fn the_callers_trace_goes_into_the_signed_body_and_a_retry_keeps_the_first() {
    let fleet = Fleet::new().await;
    fleet.node("gpu-a").await;
    let trace = |digit: &str| format!("00-{}-00f067aa0ba902b7-01", digit.repeat(32));
    let mut ids = Vec::new();
    for digit in ["a", "b"] {
        let body = run("gpu-a", "diag.nvml", "same").to_string();
        let request = fleet.request("POST", "/api/compute/commands.run").header("content-type", "application/json");
        let request = request.header("traceparent", trace(digit));
        let response = fleet.send(request.body(Body::from(body)).expect("request")).await;
        ids.push(answer(response).await.ok()["id"].as_str().expect("id").to_owned());
    }
    assert_eq!(ids[0], ids[1]);
    assert!(stdx::id::decode(&ids[0]).is_some(), "{} has the form of a ULID", ids[0]);
    let body = proto::decode_body(&stored(&fleet, &ids[0]).await.body).expect("a body");
    assert_eq!(body.traceparent, trace("a"));
}
