//! Gateways that live, fall silent and start again.

use super::world::*;
use crate::nodes;
use crate::sessions::{self, GATEWAY_SILENT_MS};
use model::{GatewayId, NodeId};

fn connected(world: &World, node: &NodeId) -> bool {
    world.run(|tx| nodes::get_node(tx, node)).unwrap().session.is_some_and(|session| session.connected)
}

#[test]
fn the_sessions_of_a_gateway_silent_for_30_s_are_lost() {
    let (world, node) = World::with_session();
    let other = GatewayId::new("gw-2");
    world.run(|tx| sessions::gateway_started(tx, &other));
    world.run(|tx| sessions::gateway_heartbeat(tx, &world.gateway));
    world.clock.advance(GATEWAY_SILENT_MS - 1);
    world.run(|tx| sessions::gateway_heartbeat(tx, &other));
    assert!(connected(&world, &node));
    world.clock.advance(1);
    world.run(|tx| sessions::gateway_heartbeat(tx, &other));
    assert!(!connected(&world, &node));
    assert_eq!(world.count("node.disconnected"), 1);
}

#[test]
fn a_gateway_that_starts_again_holds_no_session() {
    let (world, node) = World::with_session();
    world.run(|tx| sessions::gateway_started(tx, &GatewayId::new("gw-2")));
    assert!(connected(&world, &node));
    world.run(|tx| sessions::gateway_started(tx, &world.gateway));
    assert!(!connected(&world, &node));
}

#[test]
fn a_session_is_touched_only_by_its_gateway_under_its_epoch() {
    let (world, node) = World::with_session();
    let seen = || world.run(|tx| nodes::get_node(tx, &node)).unwrap().session.unwrap().last_seen_at.0 - START;
    world.clock.advance(10);
    world.run(|tx| sessions::touch_sessions(tx, &world.gateway, &[(node.clone(), 2)]));
    world.run(|tx| sessions::touch_sessions(tx, &GatewayId::new("gw-2"), &[(node.clone(), 1)]));
    assert_eq!(seen(), 0);
    world.run(|tx| sessions::touch_sessions(tx, &world.gateway, &[(node.clone(), 1)]));
    assert_eq!(seen(), 10);
}

#[test]
fn counts_name_what_stands_how() {
    let (world, node) = World::with_session();
    let other = world.join("host-b");
    world.join("host-c");
    assert!(world.run(|tx| nodes::adopt_node(tx, &other)));
    assert!(!world.run(|tx| nodes::adopt_node(tx, &other)));
    let counts = world.run(|tx| nodes::count_nodes(tx, None));
    assert_eq!((counts.total, counts.connected, counts.adopting, counts.ready), (3, 1, 2, 1));
    let names: Vec<String> = world
        .run(|tx| nodes::list_nodes(tx, &nodes::NodeFilter::default(), None, 10))
        .into_iter()
        .map(|row| row.name)
        .collect();
    assert_eq!(names.len(), 3);
    assert_eq!(world.run(|tx| nodes::node_by_name(tx, "host-a")).unwrap().id, node);
}
