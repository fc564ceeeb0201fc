//! Join requests, tokens and certificates.

use super::world::*;
use crate::db::{Hint, args};
use crate::join::{self, JoinFacts, JoinKind, PutError, REQUESTS_WAITING_MAX, Redeemed, TokenRefusal};
use crate::nodes;
use crate::places::{self, NewJoinToken, PoolUpdate};
use model::{Lifecycle, NodeId, Role, ServerTimeMs, SiteId, TokenId};
use serde_json::json;

fn redeem(world: &World, token: &str, csr: u8, facts: &JoinFacts) -> Redeemed {
    world.run(|tx| join::redeem_token(tx, &TokenId::new(token), &TOKEN_SECRET, &[csr; 32], facts))
}

fn with_token(new: &NewJoinToken) -> World {
    let world = World::new();
    world.store.run(|tx| places::create_join_token(tx, new)).unwrap();
    world
}

#[track_caller]
fn joined(redeemed: Redeemed) -> NodeId {
    match redeemed {
        Redeemed::New(node) => node,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_use_makes_a_node_that_is_adopting_and_named_for_its_host() {
    let world = with_token(&token("t", 5));
    let node = joined(redeem(&world, "t", 1, &facts("gpu-1")));
    let row = world.run(|tx| nodes::get_node(tx, &node)).unwrap();
    assert_eq!((row.name.as_str(), row.lifecycle, row.role), ("gpu-1", Lifecycle::Adopting, Role::Node));
    assert_eq!((row.pool, row.site, row.tenant), (pool(), site(), tenant()));
    let twin = joined(redeem(&world, "t", 2, &facts("gpu-1")));
    assert_eq!(world.run(|tx| nodes::get_node(tx, &twin)).unwrap().name, "gpu-1-2");
    assert_eq!(world.count("node.joined"), 2);
}

#[test]
fn the_same_csr_gets_the_same_node_and_another_is_another_use() {
    let world = with_token(&token("t", 1));
    let node = joined(redeem(&world, "t", 1, &facts("gpu-1")));
    assert_eq!(redeem(&world, "t", 1, &facts("gpu-1")), Redeemed::Same(node.clone()));
    assert_eq!(redeem(&world, "t", 2, &facts("gpu-1")), Redeemed::Refused(TokenRefusal::Used));
    world.clock.advance(86_400_000);
    assert_eq!(redeem(&world, "t", 1, &facts("gpu-1")), Redeemed::Same(node.clone()), "also once it expired");
    world.run(|tx| places::revoke_join_token(tx, &TokenId::new("t")));
    assert_eq!(redeem(&world, "t", 1, &facts("gpu-1")), Redeemed::Same(node.clone()));
    world.run(|tx| join::revoke_node(tx, &node, "stolen"));
    assert_eq!(redeem(&world, "t", 1, &facts("gpu-1")), Redeemed::Refused(TokenRefusal::NodeRevoked));
    assert_eq!(world.run(|tx| places::get_join_token(tx, &TokenId::new("t"))).unwrap().uses, 1);
}

#[test]
fn each_refusal_has_its_reason_and_uses_nothing() {
    let new = NewJoinToken { expect_mac: Some("02:00:00:00:00:01".into()), ..token("t", 5) };
    let world = with_token(&new);
    let good = facts("gpu-1");
    let refusal = |facts: &JoinFacts| match redeem(&world, "t", 1, facts) {
        Redeemed::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(redeem(&world, "nothing", 1, &good), Redeemed::Refused(TokenRefusal::Invalid));
    let wrong = world.run(|tx| join::redeem_token(tx, &TokenId::new("t"), &[8; 32], &[1; 32], &good));
    assert_eq!(wrong, Redeemed::Refused(TokenRefusal::Invalid));
    assert_eq!(refusal(&JoinFacts { site: SiteId::new("x"), ..good.clone() }), TokenRefusal::SiteMismatch);
    assert_eq!(refusal(&JoinFacts { role: Role::Site, ..good.clone() }), TokenRefusal::RoleMismatch);
    assert_eq!(refusal(&JoinFacts { macs: vec![], ..good.clone() }), TokenRefusal::HardwareMismatch);
    let tpm = PoolUpdate { policy: Some(json!({ "joinAttestors": ["tpm"] })), ..PoolUpdate::default() };
    world.store.run(|tx| places::update_pool(tx, &pool(), &tpm)).unwrap();
    assert_eq!(refusal(&good), TokenRefusal::AttestorRefused);
    let both = PoolUpdate { policy: Some(json!({ "joinAttestors": ["tpm", "join-token"] })), ..PoolUpdate::default() };
    world.store.run(|tx| places::update_pool(tx, &pool(), &both)).unwrap();
    world.clock.advance(86_400_000);
    assert_eq!(refusal(&good), TokenRefusal::Expired);
    world.run(|tx| places::revoke_join_token(tx, &TokenId::new("t")));
    assert_eq!(refusal(&good), TokenRefusal::Revoked);
    assert_eq!(world.run(|tx| places::get_join_token(tx, &TokenId::new("t"))).unwrap().uses, 0);
    assert_eq!(world.count("node.joined"), 0);
}

#[test]
fn a_hardware_key_another_node_holds_needs_a_token_that_may_reclaim() {
    let world = with_token(&token("t", 5));
    let keyed = JoinFacts { hardware_key: Some("ek-1".into()), ..facts("gpu-1") };
    let node = joined(redeem(&world, "t", 1, &keyed));
    assert_eq!(redeem(&world, "t", 2, &keyed), Redeemed::Refused(TokenRefusal::HardwareMismatch));
    let reclaiming = NewJoinToken { allow_reclaim: true, ..token("r", 5) };
    world.store.run(|tx| places::create_join_token(tx, &reclaiming)).unwrap();
    assert_eq!(redeem(&world, "r", 2, &keyed), Redeemed::New(node.clone()), "the same node again");
    world.run(|tx| join::retire_node(tx, &node));
    assert_ne!(joined(redeem(&world, "t", 3, &keyed)), node);
}

#[test]
fn a_request_waits_until_its_one_answer() {
    let world = World::new();
    let put = |kind, csr: u8| world.store.run(|tx| join::join_request_put(tx, kind, &[csr; 32], &[csr])).unwrap();
    let (first, hints) = put(JoinKind::Join, 1);
    assert_eq!(hints, [Hint::Join]);
    let (second, _) = put(JoinKind::Renew, 2);
    let waiting = world.run(|tx| join::join_requests_take(tx, 10));
    assert_eq!(
        waiting.iter().map(|request| (request.id, request.kind)).collect::<Vec<_>>(),
        [(first, JoinKind::Join), (second, JoinKind::Renew)]
    );
    assert_eq!((waiting[0].csr_sha256, waiting[0].request.as_slice()), ([1; 32], &[1][..]));
    assert_eq!(world.run(|tx| join::join_answer_get(tx, first)), None);
    assert_eq!(world.hints(|tx| join::join_answer(tx, first, b"yes")), [Hint::Join]);
    world.run(|tx| join::join_answer(tx, first, b"no"));
    assert_eq!(world.run(|tx| join::join_answer_get(tx, first)), Some(b"yes".to_vec()));
    assert_eq!(world.run(|tx| join::join_requests_take(tx, 10)).len(), 1);
}

#[test]
fn waiting_requests_are_bounded() {
    let world = World::new();
    let put = || world.store.run(|tx| join::join_request_put(tx, JoinKind::Join, &[1; 32], &[1]));
    for _ in 0..REQUESTS_WAITING_MAX {
        put().unwrap();
    }
    assert!(matches!(put(), Err(PutError::TooMany)));
    let first = world.run(|tx| join::join_requests_take(tx, 1))[0].id;
    world.run(|tx| join::join_answer(tx, first, b"no"));
    assert!(put().is_ok());
}

#[test]
fn certificates_are_kept_as_issued_and_recorded_once() {
    let (world, node) = World::with_node();
    let store = |serial: &str, der: u8| {
        world.run(|tx| join::store_certificate(tx, &node, serial, &[der], &[der, der], ServerTimeMs(START + 5)));
    };
    store("aa", 1);
    store("aa", 9);
    world.clock.advance(1);
    store("bb", 2);
    assert!(world.run(|tx| join::revoke_certificate(tx, "aa")));
    assert!(!world.run(|tx| join::revoke_certificate(tx, "aa")));
    assert!(!world.run(|tx| join::revoke_certificate(tx, "zz")));
    let found = world.run(|tx| join::node_certificates(tx, &node));
    let found: Vec<_> = found.iter().map(|cert| (cert.serial.as_str(), cert.der[0], cert.revoked)).collect();
    assert_eq!(found, [("aa", 1, true), ("bb", 2, false)]);
    assert_eq!(world.count("node.certificate-revoked"), 1);
}

#[test]
fn of_a_token_only_the_hash_is_stored() {
    let world = with_token(&token("t", 1));
    let stored: Vec<u8> =
        world.run(|tx| tx.query_one("SELECT secret_sha256 FROM join_tokens WHERE id = 't'", args![], |row| row.take()));
    assert_eq!(stored, TOKEN_SECRET);
}
