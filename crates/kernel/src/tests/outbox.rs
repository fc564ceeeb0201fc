//! The outbox and leases.

use super::world::*;
use crate::db::{Hint, Tx};
use crate::leases;
use crate::outbox::{self, EventRow, Filter, ReadError};
use model::TenantId;
use model::limits::OUTBOX_KEPT_MS;
use serde_json::json;

fn publish(tx: &mut Tx<'_>, topic: &str, key: &str) -> Result<(), crate::db::StoreError> {
    outbox::publish(tx, &EventRow { topic, tenant: &tenant(), key, payload: json!({ "nodeId": "node_1" }) })
}

/// A world whose own rows are sequenced and out of the way.
fn quiet() -> (World, u64) {
    let world = World::new();
    let head = world.published().last().map_or(0, |event| event.position);
    (world, head)
}

fn keys(world: &World, after: u64, limit: u32, filter: &Filter) -> (Vec<String>, u64, bool) {
    let (page, _) = world.store.run(|tx| outbox::read(tx, after, limit, filter)).unwrap();
    (page.events.into_iter().map(|event| event.key).collect(), page.next, page.at_end)
}

#[test]
fn rows_get_positions_in_commit_order_and_readers_follow_them() {
    let (world, head) = quiet();
    assert_eq!(world.hints(|tx| publish(tx, "a.one", "1")), [Hint::Outbox]);
    world.run(|tx| publish(tx, "a.two", "2").and_then(|()| publish(tx, "b.one", "3")));
    assert_eq!(keys(&world, head, 10, &Filter::default()), (vec![], head, true), "not sequenced yet");
    assert_eq!(world.run(|tx| outbox::sequence(tx, 2)), 2);
    assert_eq!(world.run(|tx| outbox::sequence(tx, 2)), 1);
    assert_eq!(world.run(|tx| outbox::sequence(tx, 2)), 0);
    assert_eq!(world.run(outbox::head), head + 3);
    assert_eq!(keys(&world, head, 2, &Filter::default()), (vec!["1".into(), "2".into()], head + 2, false));
    assert_eq!(keys(&world, head + 2, 2, &Filter::default()), (vec!["3".into()], head + 3, true));
}

#[test]
fn a_rolled_back_publish_leaves_no_hole() {
    let (world, head) = quiet();
    world.run(|tx| publish(tx, "a", "1"));
    assert!(world.store.run_failing_commit(|tx| publish(tx, "a", "lost")).is_err());
    world.run(|tx| publish(tx, "a", "2"));
    world.run(|tx| outbox::sequence(tx, 10));
    assert_eq!(keys(&world, head, 10, &Filter::default()), (vec!["1".into(), "2".into()], head + 2, true));
}

#[test]
fn a_filter_lets_the_cursor_pass_what_it_holds_back() {
    let (world, head) = quiet();
    world.run(|tx| {
        publish(tx, "node.event", "x")?;
        publish(tx, "node.connected", "y")?;
        publish(tx, "command.settled", "z")
    });
    world.run(|tx| outbox::sequence(tx, 10));
    let topics = |topics: &[&str]| Filter {
        topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        ..Filter::default()
    };
    assert_eq!(keys(&world, head, 10, &topics(&["node."])), (vec!["x".into(), "y".into()], head + 3, true));
    assert_eq!(keys(&world, head, 10, &topics(&["node"])), (vec![], head + 3, true));
    assert_eq!(keys(&world, head, 10, &topics(&["command.settled"])).0, ["z"]);
    let foreign = Filter { tenants: vec![TenantId::new("other")], ..Filter::default() };
    assert_eq!(keys(&world, head, 10, &foreign), (vec![], head + 3, true));
    let about = |id: &str| Filter { about: Some(id.to_owned()), ..Filter::default() };
    assert_eq!(keys(&world, head, 10, &about("y")).0, ["y"]);
    assert_eq!(keys(&world, head, 10, &about("node_1")).0.len(), 3);
}

#[test]
fn a_cursor_older_than_what_is_kept_has_expired() {
    let (world, head) = quiet();
    world.run(|tx| publish(tx, "a", "old"));
    world.run(|tx| outbox::sequence(tx, 10));
    world.clock.advance(OUTBOX_KEPT_MS);
    world.run(|tx| publish(tx, "a", "new"));
    world.run(|tx| outbox::sequence(tx, 10));
    assert_eq!(world.run(|tx| outbox::prune(tx, 10)), 0, "30 days have not passed");
    world.clock.advance(1);
    assert_eq!(world.run(|tx| outbox::prune(tx, 1)), 1, "bounded");
    while world.run(|tx| outbox::prune(tx, 10)) > 0 {}
    let expired = world.store.run(|tx| outbox::read(tx, head, 10, &Filter::default()));
    assert!(matches!(expired, Err(ReadError::CursorExpired { after, oldest }) if after == head && oldest == head + 1));
    assert_eq!(keys(&world, head + 1, 10, &Filter::default()), (vec!["new".into()], head + 2, true));
    let future = world.store.run(|tx| outbox::read(tx, head + 3, 10, &Filter::default()));
    assert!(matches!(future, Err(ReadError::CursorExpired { .. })), "never given out");
}

#[test]
fn positions_go_on_after_everything_was_pruned() {
    let (world, head) = quiet();
    world.clock.advance(OUTBOX_KEPT_MS + 1);
    while world.run(|tx| outbox::prune(tx, 100)) > 0 {}
    world.run(|tx| publish(tx, "a", "1"));
    world.run(|tx| outbox::sequence(tx, 10));
    assert_eq!(world.run(outbox::head), head + 1);
}

#[test]
fn a_lease_has_one_holder_and_a_fence_that_rises_with_each() {
    let world = World::new();
    let acquire = |holder: &'static str| world.run(move |tx| leases::acquire(tx, "sweeper", holder, 10_000));
    assert_eq!(acquire("a"), Some(1));
    assert_eq!(acquire("b"), None);
    assert_eq!(acquire("a"), Some(1));
    world.clock.advance(9_999);
    assert!(world.run(|tx| leases::renew(tx, "sweeper", 1, 10_000)));
    world.clock.advance(9_999);
    assert_eq!(acquire("b"), None);
    world.clock.advance(1);
    assert_eq!(acquire("b"), Some(2));
    assert!(!world.run(|tx| leases::check_fence(tx, "sweeper", 1)));
    assert!(world.run(|tx| leases::check_fence(tx, "sweeper", 2)));
    assert!(!world.run(|tx| leases::renew(tx, "sweeper", 1, 10_000)), "the first holder woke up late");
    world.run(|tx| leases::release(tx, "sweeper", 2));
    assert_eq!(acquire("a"), Some(3));
}
