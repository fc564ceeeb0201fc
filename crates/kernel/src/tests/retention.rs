//! What is forgotten, and when.

use super::world::*;
use crate::retention::{self, CERTIFICATES_KEPT_MS, COMMANDS_KEPT_MS, JOIN_REQUESTS_KEPT_MS};
use crate::{blobs, commands, join};
use model::{NodeId, Outcome, ServerTimeMs};

fn settled(world: &World, node: &NodeId, key: &str) -> model::CommandId {
    let id = world.dispatched(node, 1, key, "logs.collect");
    world.report(node, &id, done(Outcome::Succeeded, ""));
    id
}

#[test]
fn settled_commands_go_after_their_time_with_blobs_nobody_else_names() {
    let (world, node) = World::with_session();
    let old = settled(&world, &node, "old");
    let put = |sha256: &'static str, id: &model::CommandId| {
        let (node, id) = (node.clone(), id.clone());
        world.run(move |tx| blobs::put(tx, sha256, 10, &node, &id))
    };
    assert!(put("aa", &old) && put("bb", &old) && put("aa", &old));
    world.clock.advance(1);
    let young = settled(&world, &node, "young");
    assert!(put("bb", &young));
    let open = world.enqueue(&node, "open", "diag.nvml").id;
    world.clock.advance(COMMANDS_KEPT_MS);
    let pruned = world.run(|tx| retention::prune(tx, 10));
    assert_eq!((pruned.commands, pruned.blobs), (1, vec!["aa".to_owned()]));
    assert!(world.run(|tx| commands::get(tx, &old)).is_none());
    assert!(world.run(|tx| commands::get(tx, &young)).is_some());
    assert_eq!(world.run(|tx| blobs::list(tx, &young)).len(), 1);
    let named: Vec<model::CommandId> =
        world.run(|tx| blobs::find(tx, "bb")).into_iter().map(|blob| blob.command).collect();
    assert_eq!(named, std::slice::from_ref(&young));
    world.clock.advance(COMMANDS_KEPT_MS);
    world.run(|tx| retention::prune(tx, 10));
    assert!(world.run(|tx| commands::get(tx, &open)).is_some(), "an open command is never forgotten");
}

#[test]
fn a_blob_is_recorded_only_for_the_nodes_own_command() {
    let (world, node) = World::with_session();
    let id = settled(&world, &node, "key");
    let other = world.join("host-b");
    assert!(!world.run(|tx| blobs::put(tx, "aa", 10, &other, &id)));
    assert!(world.run(|tx| blobs::list(tx, &id)).is_empty());
}

#[test]
fn one_call_is_bounded() {
    let (world, node) = World::with_session();
    for number in 0..5 {
        settled(&world, &node, &number.to_string());
    }
    world.clock.advance(COMMANDS_KEPT_MS + 1);
    let pruned: Vec<usize> = (0..4).map(|_| world.run(|tx| retention::prune(tx, 2)).commands).collect();
    assert_eq!(pruned, [2, 2, 1, 0]);
}

#[test]
fn certificates_and_join_requests_go_after_their_time() {
    let (world, node) = World::with_node();
    world.run(|tx| join::store_certificate(tx, &node, "aa", &[1], &[2], ServerTimeMs(START)));
    world.run(|tx| join::store_certificate(tx, &node, "bb", &[1], &[2], ServerTimeMs(START + 1)));
    world.store.run(|tx| join::join_request_put(tx, join::JoinKind::Join, &[1; 32], &[1])).unwrap();
    world.clock.advance(JOIN_REQUESTS_KEPT_MS);
    assert_eq!(world.run(|tx| retention::prune(tx, 10)).join_requests, 0);
    world.clock.advance(1);
    assert_eq!(world.run(|tx| retention::prune(tx, 10)).join_requests, 1);
    world.clock.advance(CERTIFICATES_KEPT_MS - JOIN_REQUESTS_KEPT_MS);
    assert_eq!(world.run(|tx| retention::prune(tx, 10)).certificates, 1);
    assert_eq!(world.run(|tx| join::node_certificates(tx, &node)).len(), 1);
}
