//! Accepting, superseding and closing sessions.

use super::world::*;
use crate::db::Hint;
use crate::nodes;
use crate::sessions::{self, CertFacts, SessionAnswer};
use crate::{join, status};
use model::frame::{Hello, InventoryReport};
use model::limits::COUNTER_MAX;
use model::{NodeId, Role, ServerTimeMs, SessionEnd};
use std::collections::BTreeMap;

#[track_caller]
fn refusal(world: &World, cert: &CertFacts, hello: &Hello) -> SessionEnd {
    match world.run(|tx| sessions::accept_session(tx, &world.gateway, cert, hello)) {
        SessionAnswer::Refused(end, message) => {
            assert!(!message.is_empty());
            end
        }
        accepted => panic!("{accepted:?}"),
    }
}

#[test]
fn the_epoch_is_one_above_the_stored_and_the_reported() {
    let (world, node) = World::with_node();
    let at = |last_epoch| Hello { last_epoch, ..hello("boot-1", "journal-1") };
    assert_eq!(epoch_of(&world.accept(&node, &at(0))), 1);
    assert_eq!(epoch_of(&world.accept(&node, &at(0))), 2);
    assert_eq!(epoch_of(&world.accept(&node, &at(40))), 41, "a restored control plane");
    assert_eq!(epoch_of(&world.accept(&node, &at(3))), 42);
}

#[test]
fn counters_above_2_to_the_53_are_refused() {
    let (world, node) = World::with_node();
    let good = hello("boot-1", "journal-1");
    let epoch = |last_epoch| Hello { last_epoch, ..good.clone() };
    let generation = |applied_generation| Hello { applied_generation, ..good.clone() };
    for bad in [epoch(COUNTER_MAX), epoch(COUNTER_MAX + 1), epoch(u64::MAX), generation(COUNTER_MAX + 1)] {
        assert_eq!(refusal(&world, &cert(&node), &bad), SessionEnd::ProtocolError);
    }
    assert_eq!(epoch_of(&world.accept(&node, &generation(COUNTER_MAX))), 1);
    assert_eq!(epoch_of(&world.accept(&node, &epoch(COUNTER_MAX - 1))), COUNTER_MAX);
}

#[test]
fn each_refusal_has_its_code() {
    let (world, node) = World::with_node();
    let (good, hello) = (cert(&node), hello("boot-1", "journal-1"));
    let unknown = CertFacts { node_id: NodeId::new("node_x"), ..good.clone() };
    assert_eq!(refusal(&world, &unknown, &hello), SessionEnd::Revoked);
    let expired = CertFacts { not_after_ms: START, ..good.clone() };
    assert_eq!(refusal(&world, &expired, &hello), SessionEnd::CertificateExpired);
    let site = CertFacts { role: Role::Site, ..good.clone() };
    assert_eq!(refusal(&world, &site, &hello), SessionEnd::ProtocolError);
    let newer = Hello { protocol_min: 2, protocol_max: 3, ..hello.clone() };
    assert_eq!(refusal(&world, &good, &newer), SessionEnd::ProtocolError);
    world.run(|tx| join::store_certificate(tx, &node, &good.serial, &[1], &[2], ServerTimeMs(START + 1000)));
    assert!(world.run(|tx| join::revoke_certificate(tx, &good.serial)));
    assert_eq!(refusal(&world, &good, &hello), SessionEnd::Revoked);
    let renewed = CertFacts { serial: "another".into(), ..good };
    assert_eq!(epoch_of(&world.run(|tx| sessions::accept_session(tx, &world.gateway, &renewed, &hello))), 1);
    world.run(|tx| join::revoke_node(tx, &node, "stolen"));
    assert_eq!(refusal(&world, &renewed, &hello), SessionEnd::Revoked);
}

#[test]
fn a_retired_node_that_resumes_is_revoked() {
    let (world, node) = World::with_session();
    world.run(|tx| join::retire_node(tx, &node));
    assert_eq!(refusal(&world, &cert(&node), &hello("boot-1", "journal-1")), SessionEnd::Revoked);
}

#[test]
fn an_agent_with_an_older_protocol_gets_upgrade_required() {
    let (world, node) = World::with_node();
    let old = Hello { protocol_min: 0, protocol_max: 0, ..hello("boot-1", "journal-1") };
    assert!(matches!(world.accept(&node, &old), SessionAnswer::Accepted { upgrade_required: true, .. }));
    let current = world.accept(&node, &hello("boot-1", "journal-1"));
    assert!(matches!(current, SessionAnswer::Accepted { upgrade_required: false, .. }));
}

#[test]
fn an_unknown_inventory_digest_asks_for_the_inventory() {
    let (world, node) = World::with_session();
    let inventory = b"inventory".to_vec();
    let report = InventoryReport { digest: stdx::hex::sha256_hex(&inventory), inventory };
    world.run(|tx| status::write_inventory(tx, &node, 1, &report));
    for (digest, wanted) in [(report.digest.clone(), false), ("other".into(), true), (String::new(), true)] {
        let hello = Hello { inventory_digest: digest, ..hello("boot-1", "journal-1") };
        match world.accept(&node, &hello) {
            SessionAnswer::Accepted { want_inventory, .. } => assert_eq!(want_inventory, wanted),
            refused => panic!("{refused:?}"),
        }
    }
}

#[test]
fn an_accepted_session_is_published_and_tells_the_gateway_of_the_older_one() {
    let (world, node) = World::with_session();
    let hints =
        world.hints(|tx| sessions::accept_session(tx, &world.gateway, &cert(&node), &hello("boot-1", "journal-1")));
    assert!(hints.contains(&Hint::Session(node.clone())), "{hints:?}");
    assert_eq!(world.count("node.connected"), 2);
    let row = world.run(|tx| nodes::get_node(tx, &node)).unwrap();
    assert_eq!((row.daemon_version.as_str(), row.hostname.as_str()), ("1.0.0", "host"));
    assert_eq!(row.session.map(|session| (session.epoch, session.connected)), Some((2, true)));
}

#[test]
fn sessions_that_must_end_are_named_with_their_code() {
    let (world, node) = World::with_session();
    let ending = |epoch| {
        let epochs = BTreeMap::from([(node.clone(), epoch)]);
        let found = world.run(|tx| sessions::sessions_to_close(tx, &world.gateway, &epochs));
        found.into_iter().map(|(_, end)| end).collect::<Vec<_>>()
    };
    assert!(ending(1).is_empty());
    world.accept(&node, &hello("boot-1", "journal-1"));
    assert_eq!(ending(1), [SessionEnd::Superseded]);
    assert!(ending(2).is_empty());
    world.run(|tx| sessions::close_session(tx, &node, 2, SessionEnd::HeartbeatLost));
    assert_eq!(ending(2), [SessionEnd::EpochLost]);
    world.connect(&node, "boot-1", "journal-1");
    let serial = cert(&node).serial;
    world.run(|tx| join::store_certificate(tx, &node, &serial, &[1], &[2], ServerTimeMs(START + 1000)));
    assert!(ending(3).is_empty());
    let hints = world.hints(|tx| join::revoke_certificate(tx, &serial));
    assert!(hints.contains(&Hint::Session(node.clone())));
    assert_eq!(ending(3), [SessionEnd::Revoked]);
}

#[test]
fn revoking_or_retiring_a_node_ends_its_session_and_its_commands() {
    for retire in [false, true] {
        let (world, node) = World::with_session();
        let flying = world.dispatched(&node, 1, "1", "gpu.reset");
        let waiting = world.enqueue(&node, "2", "gpu.reset").id;
        let hints =
            world.hints(|tx| if retire { join::retire_node(tx, &node) } else { join::revoke_node(tx, &node, "lost") });
        assert!(hints.contains(&Hint::Session(node.clone())));
        let epochs = BTreeMap::from([(node.clone(), 1)]);
        let ending = world.run(|tx| sessions::sessions_to_close(tx, &world.gateway, &epochs));
        assert_eq!(ending, [(node.clone(), SessionEnd::Revoked)]);
        assert_eq!(world.state(&flying), (model::CommandState::Failed, "node-retired".into()));
        assert_eq!(world.state(&waiting), (model::CommandState::Cancelled, "node-retired".into()));
        assert_eq!(world.count("command.settled"), 2);
    }
}

#[test]
fn a_closed_session_is_published_once_and_an_older_epoch_closes_nothing() {
    let (world, node) = World::with_session();
    world.clock.advance(5);
    assert!(!world.run(|tx| sessions::close_session(tx, &node, 2, SessionEnd::Shutdown)));
    assert!(world.run(|tx| sessions::close_session(tx, &node, 1, SessionEnd::HeartbeatLost)));
    assert!(!world.run(|tx| sessions::close_session(tx, &node, 1, SessionEnd::Shutdown)));
    assert_eq!(world.count("node.disconnected"), 1);
    let session = world.run(|tx| nodes::get_node(tx, &node)).unwrap().session.unwrap();
    assert_eq!((session.connected, session.lost_since), (false, Some(world.now())));
    assert_eq!(session.end_code.as_deref(), Some("heartbeat-lost"));
}
