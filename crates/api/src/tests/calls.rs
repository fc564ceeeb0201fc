//! What holds for every verb: tokens, unknown keys, bounds, idempotency, audit.

use super::{Answer, Fleet, START_MS};
use api_types::{Effect, VERBS};
use axum::body::Body;
use kernel::access;
use model::{ServerTimeMs, TenantId};
use serde_json::{Value, json};

fn pool(key: &str, name: &str) -> Value {
    json!({"siteId": "lab", "name": name, "idempotencyKey": key})
}

#[tokio::test]
async fn without_a_valid_token_nothing_is_answered() {
    let fleet = Fleet::new().await;
    for bearer in ["", "bct_at_first.wrong", "bct_at_other.x", "bcjt_jt_1.x", "x"] {
        fleet.call_as(bearer, "nodes.list", "{}".into()).await.refused("UNAUTHENTICATED");
    }
    for path in ["/api/compute/watch", "/api/compute/blobs/aa"] {
        let request = axum::http::Request::get(path).body(Body::empty()).expect("request");
        let response = fleet.send(request).await;
        assert_eq!(response.status(), 401, "{path}");
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
    }
}

#[tokio::test]
async fn a_revoked_or_expired_token_is_no_token() {
    let fleet = Fleet::new().await;
    let made =
        fleet.call("apiTokens.create", json!({"name": "ci", "ttlSeconds": 60, "idempotencyKey": "a"})).await.ok();
    let bearer = made["token"].as_str().expect("bearer").to_owned();
    fleet.call_as(&bearer, "fleet.get", "{}".into()).await.ok();
    fleet.clock.0.store(START_MS + 60_000, std::sync::atomic::Ordering::SeqCst);
    fleet.call_as(&bearer, "fleet.get", "{}".into()).await.refused("UNAUTHENTICATED");
    let made = fleet.call("apiTokens.create", json!({"name": "ci", "idempotencyKey": "b"})).await.ok();
    let bearer = made["token"].as_str().expect("bearer").to_owned();
    let revoke = json!({"tokenId": made["id"], "idempotencyKey": "r"});
    assert!(fleet.call("apiTokens.revoke", revoke).await.ok()["revokedAt"].is_string());
    fleet.call_as(&bearer, "fleet.get", "{}".into()).await.refused("UNAUTHENTICATED");
    let listed = fleet.call("apiTokens.list", json!({})).await.ok();
    assert_eq!(listed["items"].as_array().expect("items").len(), 3);
    assert!(!listed.to_string().contains(bearer.split_once('.').expect("dot").1), "a list never holds a bearer");
}

#[tokio::test]
async fn every_verb_of_the_table_is_routed_and_no_other() {
    let fleet = Fleet::new().await;
    for verb in VERBS {
        let Answer { body, .. } = fleet.call(verb.name, json!({})).await;
        let message = body["error"]["message"].as_str().unwrap_or_default();
        assert!(!message.starts_with("there is no verb"), "{}: {message}", verb.name);
        if verb.effect == Effect::Mutation {
            assert_eq!(body["error"]["code"], "INVALID_INPUT", "{} takes a key", verb.name);
        }
    }
    fleet.call("nodes.explode", json!({})).await.refused("NOT_FOUND");
    fleet.get("/api/compute/nodes.list").await.refused("NOT_FOUND");
    fleet.get("/nowhere").await.refused("NOT_FOUND");
}

#[tokio::test]
async fn an_unknown_key_is_invalid_input_and_named() {
    let fleet = Fleet::new().await;
    for verb in VERBS {
        let error = fleet.call(verb.name, json!({"frobnicate": 1})).await.refused("INVALID_INPUT");
        assert!(error["message"].as_str().expect("text").contains("frobnicate"), "{}: {error}", verb.name);
    }
    for body in ["", "[]", "{\"limit\":1,\"limit\":2}", "{\"limit\":-1}", "nonsense"] {
        fleet.call_as(&fleet.bearer, "nodes.list", body.into()).await.refused("INVALID_INPUT");
    }
}

#[tokio::test]
async fn a_body_over_a_mebibyte_is_refused() {
    let fleet = Fleet::new().await;
    let body = format!("{{\"cursor\":\"{}\"}}", "x".repeat(api_types::REQUEST_BYTES_MAX));
    let error = fleet.call_as(&fleet.bearer, "nodes.list", body).await.refused("INVALID_INPUT");
    assert!(error["message"].as_str().expect("text").contains("1048576"), "{error}");
}

#[tokio::test]
async fn a_retry_returns_the_same_object_and_another_request_conflicts() {
    let fleet = Fleet::new().await;
    fleet.places().await;
    let first = fleet.call("pools.create", pool("k", "a")).await.ok();
    // Another order of keys and a spelled-out default are the same request.
    let same = r#"{"idempotencyKey":"k","tenantControlled":false,"name":"a","siteId":"lab"}"#;
    assert_eq!(fleet.call_as(&fleet.bearer, "pools.create", same.into()).await.ok(), first);
    fleet.call("pools.create", pool("k", "b")).await.refused("CONFLICT");
    // The key belongs to this verb only.
    fleet.call("apiTokens.create", json!({"name": "x", "idempotencyKey": "k"})).await.ok();
    let listed = fleet.call("pools.list", json!({})).await.ok();
    assert_eq!(listed["items"].as_array().expect("items").len(), 2, "dev and a");
    let id = first["id"].as_str().expect("id");
    let expected = stdx::id::derive(&["root", crate::FIRST_PRINCIPAL, "pools.create", "k"]);
    assert_eq!(id, format!("pool_{expected}"));
}

#[tokio::test]
async fn a_refused_request_leaves_its_key_free() {
    let fleet = Fleet::new().await;
    fleet.call("pools.create", pool("k", "a")).await.refused("NOT_FOUND");
    fleet.places().await;
    fleet.call("pools.create", pool("k", "a")).await.ok();
}

#[tokio::test]
async fn a_replay_never_shows_the_secret_again() {
    let fleet = Fleet::new().await;
    fleet.places().await;
    for (verb, body) in [
        ("joinTokens.create", json!({"poolId": "dev", "ttlSeconds": 60, "idempotencyKey": "j"})),
        ("apiTokens.create", json!({"name": "x", "idempotencyKey": "j"})),
    ] {
        let first = fleet.call(verb, body.clone()).await.ok();
        let again = fleet.call(verb, body).await.ok();
        assert!(first["token"].is_string() && again.get("token").is_none(), "{verb}: {again}");
        assert_eq!(first["id"], again["id"]);
    }
    // Nor does the store hold it.
    let bytes: Vec<u8> = ["store.db", "store.db-wal"]
        .iter()
        .filter_map(|name| std::fs::read(fleet.directory.path().join(name)).ok())
        .flatten()
        .collect();
    let made = fleet.call("apiTokens.create", json!({"name": "y", "idempotencyKey": "s"})).await.ok();
    let secret = made["token"].as_str().and_then(|token| token.split_once('.')).expect("a secret").1.to_owned();
    assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()));
}

#[tokio::test]
async fn an_idempotency_key_has_bounds() {
    let fleet = Fleet::new().await;
    for key in ["", "a\nb", "schlüssel", &"k".repeat(201)] {
        fleet.call("apiTokens.create", json!({"name": "x", "idempotencyKey": key})).await.refused("INVALID_INPUT");
    }
    fleet.call("apiTokens.create", json!({"name": "x", "idempotencyKey": "k".repeat(200)})).await.ok();
}

#[tokio::test]
async fn another_tenant_is_not_found_and_the_denied_mutation_is_audited() {
    let fleet = Fleet::new().await;
    let (site, pool) = fleet.places().await;
    let below = fleet.tenant("tenant_a").await;
    let other = fleet.tenant("tenant_b").await;
    let body = json!({"siteId": site, "name": "x", "tenantId": "tenant_b", "idempotencyKey": "k"}).to_string();
    fleet.call_as(&below, "pools.create", body.clone()).await.refused("NOT_FOUND");
    fleet.call_as(&other, "pools.create", body).await.ok();
    // A tenant sees a shared site and not another tenant's pool; the root acts for those below it.
    fleet.call_as(&below, "sites.get", json!({"siteId": site}).to_string()).await.ok();
    fleet.call_as(&below, "pools.get", json!({"poolId": pool}).to_string()).await.refused("NOT_FOUND");
    fleet.call("pools.get", json!({"poolId": "x", "tenantId": "tenant_b"})).await.ok();
    let audits = fleet
        .write(|tx| {
            let a = access::audit_list(tx, &TenantId::new("tenant_a"), None, 10)?;
            Ok((a, access::audit_list(tx, &TenantId::new("root"), None, 10)?))
        })
        .await;
    let denied = &audits.0[0];
    assert!(!denied.allowed && denied.verb == "pools.create" && denied.detail.contains("NOT_FOUND"), "{denied:?}");
    assert_eq!(audits.0.len(), 1);
    assert!(audits.1.iter().all(|row| row.allowed) && audits.1.len() == 2, "{:?}", audits.1);
    assert_eq!(audits.1[0].at, ServerTimeMs(START_MS));
}

#[tokio::test]
async fn pages_hold_each_item_once() {
    let fleet = Fleet::new().await;
    fleet.places().await;
    for name in ["a", "b", "c", "d"] {
        fleet.call("pools.create", pool(name, name)).await.ok();
    }
    let mut names = Vec::new();
    let mut cursor = Value::Null;
    for page in 0..3 {
        let body = if cursor.is_null() { json!({"limit": 2}) } else { json!({"limit": 2, "cursor": cursor}) };
        let answer = fleet.call("pools.list", body).await.ok();
        let items = answer["items"].as_array().expect("items");
        assert_eq!(items.len(), if page == 2 { 1 } else { 2 });
        names.extend(items.iter().map(|item| item["name"].as_str().expect("name").to_owned()));
        cursor = answer.get("nextCursor").cloned().unwrap_or_default();
    }
    assert!(cursor.is_null());
    names.sort();
    assert_eq!(names, ["a", "b", "c", "d", "dev"]);
    for limit in [0, 501] {
        fleet.call("pools.list", json!({ "limit": limit })).await.refused("INVALID_INPUT");
    }
    fleet.call("commands.list", json!({"cursor": "x"})).await.refused("INVALID_INPUT");
}

#[test]
fn a_failing_store_is_unavailable_and_a_defect_is_internal_without_its_text() {
    use crate::refusal::Refusal;
    use kernel::db::StoreError;
    for error in [StoreError::Unavailable("x".into()), StoreError::Full, StoreError::Closed] {
        let response = Refusal::from(error).into_response("req_1");
        assert_eq!(response.status(), 503);
        assert!(response.headers().contains_key("retry-after"));
    }
    let defect = Refusal::from(StoreError::Corrupt("secret detail".into()));
    assert_eq!(defect.code.name(), "INTERNAL");
    assert_eq!(defect.into_response("req_1").status(), 500);
}
