//! `/watch`, blobs, health, metrics.

use super::Fleet;
use axum::body::Body;
use http_body_util::BodyExt;
use kernel::outbox::{self, EventRow};
use model::{CommandId, NodeId, TenantId};
use serde_json::{Value, json};
use std::time::Duration;

/// A test that waits longer than this for a piece of a stream has failed.
const PATIENCE: Duration = Duration::from_secs(20);

async fn publish(fleet: &Fleet, topic: &'static str, count: u64) {
    fleet
        .write(move |tx| {
            for n in 0..count {
                let payload = json!({"n": n, "nodeId": "node_x"});
                outbox::publish(tx, &EventRow { topic, tenant: &TenantId::new("root"), key: "k", payload })?;
            }
            outbox::sequence(tx, 1000).map(|_| ())
        })
        .await;
}

/// A watch, read until it has `count` events. Returns their positions, and where the stream began.
async fn watch(fleet: &Fleet, query: &str, last_event_id: Option<u64>, count: usize) -> (u64, Vec<u64>, Body) {
    let mut request = fleet.request("GET", &format!("/api/compute/watch{query}"));
    if let Some(position) = last_event_id {
        request = request.header("last-event-id", position.to_string());
    }
    let response = fleet.send(request.body(Body::empty()).expect("request")).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    let mut text = String::new();
    loop {
        let (began, positions) = parse(&text);
        if let Some(began) = began.filter(|_| positions.len() >= count) {
            return (began, positions, body);
        }
        let frame =
            tokio::time::timeout(PATIENCE, body.frame()).await.expect("in time").expect("not ended").expect("read");
        text.push_str(std::str::from_utf8(frame.data_ref().expect("data")).expect("text"));
    }
}

fn parse(text: &str) -> (Option<u64>, Vec<u64>) {
    let (mut began, mut positions) = (None, Vec::new());
    for block in text.split("\n\n") {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let Some(id) = field("id: ").and_then(|id| id.parse().ok()) else { continue };
        if field("event: ").as_deref() == Some("position") {
            began = Some(id);
        } else {
            let event: Value = serde_json::from_str(&field("data: ").expect("data")).expect("json");
            assert_eq!(event["position"], id, "the id is the position");
            positions.push(id);
        }
    }
    (began, positions)
}

#[tokio::test]
async fn a_watch_begins_now_and_goes_on_from_where_a_reader_stopped() {
    let fleet = Fleet::new().await;
    publish(&fleet, "node.status", 3).await;
    let (began, none, mut body) = watch(&fleet, "", None, 0).await;
    assert_eq!((began, none.len()), (3, 0), "what was before is not sent");
    publish(&fleet, "node.status", 700).await;
    let mut text = String::new();
    while parse(&text).1.len() < 700 {
        let frame = tokio::time::timeout(PATIENCE, body.frame()).await.expect("in time").expect("open").expect("read");
        text.push_str(std::str::from_utf8(frame.data_ref().expect("data")).expect("text"));
    }
    assert_eq!(parse(&text).1, (4..=703).collect::<Vec<u64>>(), "every one once, in order");
    drop(body);
    let (began, positions, _) = watch(&fleet, "", Some(650), 53).await;
    assert_eq!((began, positions), (650, (651..=703).collect()));
    let (_, positions, _) = watch(&fleet, "?cursor=700", None, 3).await;
    assert_eq!(positions, [701, 702, 703]);
}

#[tokio::test]
async fn a_watch_is_filtered_by_topic_and_node_and_tenant() {
    let fleet = Fleet::new().await;
    let node = fleet.node("gpu-a").await;
    publish(&fleet, "command.settled", 2).await;
    publish(&fleet, "node.status", 1).await;
    let head = fleet.write(outbox::head).await;
    let (_, positions, _) = watch(&fleet, "?topic=command.settled&cursor=0", None, 2).await;
    assert_eq!(positions, [head - 2, head - 1]);
    let (_, positions, _) = watch(&fleet, "?topic=node.&nodeId=gpu-a&cursor=0", None, 1).await;
    let all = fleet.call("events.list", json!({"nodeId": node.as_str(), "topic": "node."})).await.ok();
    assert_eq!(json!(positions), json!([all["items"][0]["position"]]), "only node.joined names it: {all}");
    let stranger = fleet.tenant("tenant_a").await;
    let none = fleet.call_as(&stranger, "events.list", "{}".into()).await.ok();
    assert_eq!(none["items"], json!([]));
}

#[tokio::test]
async fn events_are_listed_in_pages_without_gap_or_double() {
    let fleet = Fleet::new().await;
    publish(&fleet, "a.b", 5).await;
    publish(&fleet, "c.d", 5).await;
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let mut body = json!({"limit": 3, "topic": "a."});
        if let Some(cursor) = &cursor {
            body["cursor"] = json!(cursor);
        }
        let page = fleet.call("events.list", body).await.ok();
        seen.extend(
            page["items"].as_array().expect("items").iter().map(|event| event["position"].as_u64().expect("n")),
        );
        cursor = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn a_cursor_that_is_no_longer_kept_is_gone_and_says_where_to_go_on() {
    let fleet = Fleet::new().await;
    publish(&fleet, "a.b", 5).await;
    let month = model::limits::OUTBOX_KEPT_MS;
    fleet.clock.0.store(super::START_MS + month + 1, std::sync::atomic::Ordering::SeqCst);
    fleet.write(|tx| outbox::prune(tx, 100)).await;
    publish(&fleet, "a.b", 1).await;
    for path in ["/api/compute/watch?cursor=2", "/api/compute/watch?cursor=99"] {
        let error = fleet.get(path).await.refused("CURSOR_EXPIRED");
        assert_eq!(error["details"]["oldest"], 5, "{error}");
    }
    fleet.call("events.list", json!({"cursor": "2"})).await.refused("CURSOR_EXPIRED");
    let rest = fleet.call("events.list", json!({})).await.ok();
    assert_eq!(rest["items"][0]["position"], 6, "without a cursor the oldest kept one");
    fleet.get("/api/compute/watch?cursor=x").await.refused("INVALID_INPUT");
    fleet.get("/api/compute/watch?topics=x").await.refused("INVALID_INPUT");
}

#[tokio::test]
async fn a_drain_ends_watches_and_readiness() {
    let fleet = Fleet::new().await;
    assert_eq!(fleet.get("/readyz").await.ok(), json!("ready\n"));
    let (_, _, body) = watch(&fleet, "", None, 0).await;
    fleet.api.drain();
    tokio::time::timeout(PATIENCE, body.collect()).await.expect("ends").expect("in order");
    fleet.get("/readyz").await.refused("UNAVAILABLE");
    assert_eq!(fleet.get("/healthz").await.ok(), json!("ok\n"));
}

#[tokio::test]
async fn a_blob_is_for_the_tenant_whose_command_brought_it() {
    let fleet = Fleet::new().await;
    let node = fleet.node("gpu-a").await;
    let run = json!({"nodeId": "gpu-a", "kind": "logs.collect", "idempotencyKey": "l"});
    let command = fleet.call("commands.run", run).await.ok();
    let command = CommandId::new(command["id"].as_str().expect("id"));
    let sha256 = stdx::hex::sha256_hex(b"logs");
    let blobs = fleet.directory.path().join("blobs");
    stdx::durable::create_directory(&blobs, 0o700).expect("directory");
    stdx::durable::write_file(&blobs.join(&sha256), b"logs", 0o600).expect("file");
    let path = format!("/api/compute/blobs/{sha256}");
    fleet.get(&path).await.refused("NOT_FOUND");
    let (digest, owner): (String, NodeId) = (sha256.clone(), node);
    fleet.write(move |tx| kernel::blobs::put(tx, &digest, 4, &owner, &command)).await;
    let response = fleet.send(fleet.request("GET", &path).body(Body::empty()).expect("request")).await;
    assert_eq!(response.headers()["content-length"], "4");
    assert_eq!(response.into_body().collect().await.expect("body").to_bytes(), "logs");
    let stranger = fleet.tenant("tenant_a").await;
    let request = axum::http::Request::get(&path).header("authorization", format!("Bearer {stranger}"));
    assert_eq!(fleet.send(request.body(Body::empty()).expect("request")).await.status(), 404);
    for bad in ["..%2Fstore.db", "AA", &"A".repeat(64)] {
        fleet.get(&format!("/api/compute/blobs/{bad}")).await.refused("INVALID_INPUT");
    }
}

#[tokio::test]
async fn metrics_count_calls_by_verb_and_code_and_nothing_unbounded() {
    let fleet = Fleet::new().await;
    fleet.call("fleet.get", json!({})).await.ok();
    fleet.call("nodes.get", json!({"nodeId": "x"})).await.refused("NOT_FOUND");
    fleet.call("made.up", json!({})).await.refused("NOT_FOUND");
    let text = fleet.get("/metrics").await.ok();
    let text = text.as_str().expect("text");
    for line in [
        r#"better_compute_api_requests_total{verb="fleet.get",code="OK"} 1"#,
        r#"better_compute_api_requests_total{verb="nodes.get",code="NOT_FOUND"} 1"#,
        r#"better_compute_api_requests_total{verb="unknown",code="NOT_FOUND"} 1"#,
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn the_api_listens_beyond_loopback_only_when_told() {
    let address = |text: &str| text.parse().expect("an address");
    assert!(crate::check_listen(address("127.0.0.1:1"), false).is_ok());
    assert!(crate::check_listen(address("[::1]:1"), false).is_ok());
    let refused = crate::check_listen(address("0.0.0.0:1"), false).expect_err("refused");
    assert!(refused.to_string().contains("--insecure-listen"), "{refused}");
    assert!(crate::check_listen(address("10.0.0.1:1"), true).is_ok());
}
