//! Sites, pools, join tokens, nodes.

use super::Fleet;
use serde_json::json;

#[tokio::test]
async fn shared_and_dedicated_sites_belong_to_the_root() {
    let fleet = Fleet::new().await;
    let tenant = fleet.tenant("tenant_a").await;
    let site = |kind: &str, extra: serde_json::Value| {
        let mut body = json!({"kind": kind, "region": "eu", "idempotencyKey": format!("{kind}{extra}")});
        body.as_object_mut().expect("object").extend(extra.as_object().expect("object").clone());
        body
    };
    for kind in ["shared", "dedicated"] {
        fleet.call_as(&tenant, "sites.create", site(kind, json!({})).to_string()).await.refused("INVALID_INPUT");
    }
    fleet.call("sites.create", site("dedicated", json!({}))).await.refused("INVALID_INPUT");
    fleet.call("sites.create", site("shared", json!({"dedicatedTenantId": "tenant_a"}))).await.refused("INVALID_INPUT");
    let dedicated = fleet.call("sites.create", site("dedicated", json!({"dedicatedTenantId": "tenant_a"}))).await.ok();
    let owned = fleet.call_as(&tenant, "sites.create", site("owned", json!({})).to_string()).await.ok();
    assert_eq!((&owned["ownerTenantId"], &owned["version"]), (&json!("tenant_a"), &json!(1)));
    // The tenant sees both; another tenant sees neither.
    let other = fleet.tenant("tenant_b").await;
    for id in [&dedicated["id"], &owned["id"]] {
        let body = json!({ "siteId": id }).to_string();
        fleet.call_as(&tenant, "sites.get", body.clone()).await.ok();
        fleet.call_as(&other, "sites.get", body).await.refused("NOT_FOUND");
    }
    let listed = fleet.call_as(&other, "sites.list", "{}".into()).await.ok();
    assert_eq!(listed["items"], json!([]));
}

#[tokio::test]
async fn a_name_that_is_taken_conflicts_and_an_ambiguous_one_names_its_ids() {
    let fleet = Fleet::new().await;
    fleet.places().await;
    let pool = |site: &str, key: &str| json!({"siteId": site, "name": "dev", "idempotencyKey": key});
    fleet.call("pools.create", pool("lab", "again")).await.refused("CONFLICT");
    let second = json!({"name": "lab2", "kind": "shared", "region": "eu", "idempotencyKey": "s2"});
    fleet.call("sites.create", second).await.ok();
    let twin = fleet.call("pools.create", pool("lab2", "twin")).await.ok();
    let error = fleet.call("pools.get", json!({"poolId": "dev"})).await.refused("INVALID_INPUT");
    let ids = error["details"]["ids"].as_array().expect("ids");
    assert!(ids.len() == 2 && ids.contains(&twin["id"]), "{error}");
    fleet.call("pools.get", json!({"poolId": twin["id"]})).await.ok();
    for name in ["", "Dev", "1x", "a b", &"a".repeat(64)] {
        let body = json!({"siteId": "lab", "name": name, "idempotencyKey": "bad"});
        fleet.call("pools.create", body).await.refused("INVALID_INPUT");
    }
}

#[tokio::test]
async fn a_join_token_is_bound_bounded_and_revoked_by_id() {
    let fleet = Fleet::new().await;
    let (site, pool) = fleet.places().await;
    let body = |extra: serde_json::Value, key: &str| {
        let mut body = json!({"poolId": "dev", "ttlSeconds": 3600, "idempotencyKey": key});
        body.as_object_mut().expect("object").extend(extra.as_object().expect("object").clone());
        body
    };
    let made =
        fleet.call("joinTokens.create", body(json!({"maxUses": 3, "expect": {"mac": "02:00:5e:10:00:01"}}), "a"));
    let made = made.await.ok();
    assert_eq!((&made["siteId"], &made["poolId"]), (&json!(site), &json!(pool)));
    assert_eq!((&made["usesLeft"], &made["expiresAt"]), (&json!(3), &json!("2026-12-01T13:00:00.000Z")));
    let bearer = made["token"].as_str().expect("bearer");
    assert_eq!(bearer.split_once('.').expect("dot").0, format!("bcjt_{}", made["id"].as_str().expect("id")));
    for (index, bad) in [
        json!({"ttlSeconds": 59}),
        json!({"ttlSeconds": 86_401}),
        json!({"maxUses": 0}),
        json!({"maxUses": 10_001}),
        json!({"expect": {"mac": "02:00:5E:10:00:01"}}),
        json!({"expect": {"mac": "x"}}),
        json!({"expect": {"macs": []}}),
    ]
    .into_iter()
    .enumerate()
    {
        fleet.call("joinTokens.create", body(bad, &format!("bad{index}"))).await.refused("INVALID_INPUT");
    }
    // A pasted bearer is refused and reaches no audit row.
    let error = fleet.call("joinTokens.revoke", json!({"tokenId": bearer, "idempotencyKey": "p"})).await;
    let error = error.refused("INVALID_INPUT");
    assert!(!error.to_string().contains(bearer.split_once('.').expect("dot").1));
    for key in ["r", "r2"] {
        let revoked = json!({"tokenId": made["id"], "idempotencyKey": key});
        assert!(fleet.call("joinTokens.revoke", revoked).await.ok()["revokedAt"].is_string(), "{key}");
    }
    let listed = fleet.call("joinTokens.list", json!({"poolId": "dev"})).await.ok();
    assert_eq!(listed["items"].as_array().expect("items").len(), 1);
    assert!(listed["items"][0].get("token").is_none());
    fleet.call("joinTokens.revoke", json!({"tokenId": "jt_x", "idempotencyKey": "n"})).await.refused("NOT_FOUND");
}

#[tokio::test]
async fn a_node_is_found_by_id_and_by_name_and_revoked_for_good() {
    let fleet = Fleet::new().await;
    let node = fleet.node("gpu-a").await;
    let by_name = fleet.call("nodes.get", json!({"nodeId": "gpu-a"})).await.ok();
    assert_eq!(by_name["id"], node.as_str());
    assert_eq!((&by_name["lifecycle"], &by_name["connection"]["state"]), (&json!("adopting"), &json!("never")));
    assert_eq!(fleet.call("nodes.get", json!({"nodeId": node.as_str()})).await.ok(), by_name);
    assert_eq!(fleet.call("nodes.list", json!({"poolId": "dev"})).await.ok()["items"], json!([by_name]));
    let counts = fleet.call("fleet.get", json!({})).await.ok();
    assert_eq!(counts["nodes"], json!({"total": 1, "connected": 0, "adopting": 1, "ready": 0}));
    let stranger = fleet.tenant("tenant_a").await;
    fleet.call_as(&stranger, "nodes.get", json!({"nodeId": "gpu-a"}).to_string()).await.refused("NOT_FOUND");
    let revoke = json!({"nodeId": "gpu-a", "reason": "sold", "idempotencyKey": "r"});
    assert!(fleet.call("nodes.revoke", revoke).await.ok()["revokedAt"].is_string());
    let run = json!({"nodeId": "gpu-a", "kind": "diag.nvml", "idempotencyKey": "c"});
    fleet.call("commands.run", run).await.refused("INVALID_STATE");
}
