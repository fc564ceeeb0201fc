//! Reservations from making to release.

use super::world::*;
use crate::placement::{Request, Strategy};
use crate::sql::{self, QuotaError, Release, ReleaseError, ReservationFilter, ReserveError, Resource};
use crate::state::ReservationState::{self, *};
use expect_test::expect;
use kernel::access;
use kernel::db::{Hint, StoreError};
use kernel::verifier::Verdict;
use model::{PoolId, PrincipalId, ReservationId, TenantId};

#[test]
fn a_reservation_goes_from_pending_to_active_and_back() {
    let mut world = World::new(1);
    let id = world.create("a", Request::gpus(2));
    assert_eq!(world.state(&id), Pending);
    world.place();
    assert_eq!(world.state(&id), Placing);
    world.reconcile(0);
    assert_eq!(world.state(&id), Binding);
    world.deliver(0);
    world.nodes[0].converge(false);
    world.report_events(0, 10);
    assert_eq!(world.state(&id), Binding, "a report is not believed before it is verified");
    world.verify(10, &Verdict::Genuine);
    let row = world.row(&id);
    assert_eq!((row.state, row.attempt, row.version), (Active, 1, 4));
    let allocation = row.allocation.unwrap();
    assert_eq!(
        allocation.cdi_devices,
        [
            "bcd.dev/gpu=GPU-00000000-0000-0000-0000-000000000000",
            "bcd.dev/gpu=GPU-00000000-0000-0000-0000-000000000001"
        ]
    );
    assert_eq!(world.release(&id, false).state, Releasing);
    world.check_books();
    world.settle(0);
    let row = world.row(&id);
    assert_eq!((row.state, row.allocation.unwrap().ended_by.as_deref()), (Released, Some("released")));
    assert!(world.nodes[0].holds.is_empty());
    world.check_books();
    assert_eq!(
        world.topics(id.as_str()),
        ["pending", "placing", "binding", "active", "releasing", "released"]
            .map(|state| format!("reservation.{state}"))
    );
}

#[test]
fn a_booking_stands_until_the_node_has_let_go() {
    let mut world = World::new(1);
    let first = world.active("a", Request::gpus(2));
    world.release(&first, false);
    let second = world.create("b", Request::gpus(1));
    for _ in 0..3 {
        world.advance(3_600_000);
        world.place();
        world.run(|tx| sql::end_dropped(tx, 10));
        assert_eq!((world.state(&first), world.state(&second)), (Releasing, Pending));
    }
    // Observed, and not reported: time and a gateway's word are not enough for what was bound.
    world.reconcile(0);
    world.deliver(0);
    world.nodes[0].converge(false);
    world.report_status(0);
    assert_eq!(world.run(|tx| sql::end_dropped(tx, 10)), 0);
    world.settle(0);
    world.settle_all();
    assert_eq!((world.state(&first), world.state(&second)), (Released, Active));
}

#[test]
fn what_was_never_bound_ends_once_its_dropping_is_observed() {
    let mut world = World::new(1);
    let id = world.create("a", Request::gpus(1));
    world.place();
    world.reconcile(0);
    world.release(&id, false);
    assert_eq!(world.run(|tx| sql::end_dropped(tx, 10)), 0);
    world.reconcile(0);
    assert_eq!(world.run(|tx| sql::end_dropped(tx, 10)), 0, "nobody has observed it");
    world.settle(0);
    let row = world.row(&id);
    assert_eq!((row.state, row.allocation.unwrap().ended_by.as_deref()), (Released, Some("unbound")));
    world.check_books();
}

#[test]
fn a_waiting_reservation_is_released_at_once() {
    let world = World::new(0);
    let id = world.create("a", Request::gpus(1));
    assert_eq!(world.release(&id, false).state, Released);
    assert_eq!(world.release(&id, false).version, 2, "asking twice is asking once");
}

#[test]
fn a_lost_node_gives_up_its_bookings_by_a_persons_word_only() {
    let mut world = World::new(1);
    let id = world.active("a", Request::gpus(2));
    world.disconnect(0);
    assert_eq!(world.release(&id, false).state, Releasing);
    world.advance(86_400_000);
    assert_eq!(world.run(|tx| sql::end_dropped(tx, 10)), 0);
    let row = world.release(&id, true);
    assert_eq!((row.state, row.reason.as_str()), (Released, "node-lost"));
    assert_eq!(row.allocation.unwrap().ended_by.as_deref(), Some("node-lost"));
    world.check_books();
    // The node comes back: it lets go, and its late word changes nothing.
    world.connect(0);
    world.settle(0);
    assert!(world.nodes[0].holds.is_empty());
    world.check_books();
}

#[test]
fn a_stale_version_releases_nothing() {
    let world = World::new(1);
    let id = world.create("a", Request::gpus(1));
    world.place();
    let release = Release { node_lost: false, version: Some(1) };
    let stale = world.store.run(|tx| sql::release(tx, &id, &release));
    assert!(matches!(stale, Err(ReleaseError::Stale(2))));
    let nobody = ReservationId::new("res_x");
    let none = world.store.run(|tx| sql::release(tx, &nobody, &Release::default()));
    assert!(matches!(none, Err(ReleaseError::NoSuch)));
    assert_eq!(world.state(&id), Placing);
}

#[test]
fn what_no_node_could_take_waits_and_says_so() {
    let world = World::new(2);
    let id = world.create("big", Request::gpus(25));
    world.place();
    let row = world.row(&id);
    assert_eq!((row.state, row.reason.as_str()), (Pending, "never-fits"));
    let why = world.run(|tx| sql::explain_reservation(tx, &id)).unwrap();
    let nodes = [world.id(0), world.id(1)];
    let mut text = why.text;
    for (node, name) in nodes.iter().zip(["node_0", "node_1"]) {
        text = text.replace(node.as_str(), name);
    }
    let mut sorted: Vec<&str> = text.lines().map(str::trim).collect();
    sorted.sort_unstable();
    sorted.dedup();
    assert!(text.starts_with("res_big is pending (never-fits)\n"));
    assert!(sorted.contains(&"atoms: 25 whole GPUs wanted, 2 free of 3 (1 in MIG mode)"), "{text}");
    // Looking again changes nothing and publishes nothing.
    let version = row.version;
    world.advance(60_000);
    world.place();
    assert_eq!(world.row(&id).version, version);
}

#[test]
fn a_request_that_may_not_wait_is_placed_or_refused() {
    let world = World::new(1);
    let placed = world.try_create("a", Request::gpus(2), false).unwrap();
    assert_eq!(placed.state, Placing);
    let refused = world.try_create("b", Request::gpus(1), false);
    assert!(matches!(refused, Err(ReserveError::NoCapacity(_))));
    let id = ReservationId::new("res_b");
    assert_eq!(world.run(|tx| sql::get_reservation(tx, &id)), None, "nothing of it is left");
    world.check_books();
}

#[test]
fn a_plan_says_where_and_changes_nothing() {
    let world = World::new(1);
    let before = world.published().len();
    let plan = |request: Request| world.store.run(|tx| sql::plan(tx, &tenant(), &pool(), &request)).map(|done| done.0);
    let placement = plan(Request::gpus(1)).unwrap();
    assert_eq!(
        (placement.node, placement.devices[0].id.as_str()),
        (world.id(0), "GPU-00000000-0000-0000-0000-000000000000")
    );
    let refused = plan(Request::gpus(25));
    assert!(matches!(&refused, Err(ReserveError::NoCapacity(why)) if why.nodes.len() == 1));
    assert!(refused.unwrap_err().to_string().contains("25 whole GPUs wanted, 2 in all"));
    let nowhere = world.store.run(|tx| sql::plan(tx, &tenant(), &PoolId::new("pool_x"), &Request::gpus(1)));
    assert!(matches!(nowhere, Err(ReserveError::NoSuchPool)));
    assert!(matches!(plan(Request::gpus(0)), Err(ReserveError::Invalid(_))));
    assert_eq!(world.published().len(), before);
    world.check_books();
}

#[test]
fn quotas_bound_a_tenant_and_those_below_it() {
    let world = World::new(1);
    let below = TenantId::new("tenant_below");
    world.run(|tx| access::create_tenant(tx, &below, Some(&tenant()), "below"));
    let create = |name: &str, tenant: &TenantId, request: Request| {
        let new = sql::NewReservation {
            id: ReservationId::new(name),
            tenant: tenant.clone(),
            principal: PrincipalId::new("principal_dev"),
            pool: pool(),
            request,
            may_wait: true,
        };
        world.store.run(|tx| sql::create_reservation(tx, &new)).map(|done| done.0.id)
    };
    let set = |tenant: &TenantId, resource, most| world.run(|tx| sql::set_quota(tx, tenant, resource, most));
    set(&tenant(), Resource::Gpus, Some(3));
    set(&below, Resource::Gpus, Some(2));
    set(&below, Resource::Vcpu, Some(4));
    let first = create("r1", &below, Request::gpus(2)).unwrap();
    let beyond = create("r2", &below, Request::gpus(1));
    assert!(
        matches!(beyond, Err(ReserveError::Quota(QuotaError::Exceeded { tenant, used: 2, wanted: 1, most: 2, .. })) if tenant == below)
    );
    assert!(matches!(
        create("r3", &below, host(slots(1), 5)),
        Err(ReserveError::Quota(QuotaError::Exceeded { resource: Resource::Vcpu, .. }))
    ));
    let above = create("r4", &tenant(), Request::gpus(2));
    assert!(
        matches!(above, Err(ReserveError::Quota(QuotaError::Exceeded { tenant, used: 2, most: 3, .. })) if tenant == super::world::tenant())
    );
    create("r5", &tenant(), Request::gpus(1)).unwrap();
    let planned = world.store.run(|tx| sql::plan(tx, &below, &pool(), &Request::gpus(1)));
    assert!(matches!(planned, Err(ReserveError::Quota(_))));
    assert_eq!(world.run(|tx| sql::usage(tx, &tenant())).of(Resource::Gpus), 3);
    assert_eq!(world.run(|tx| sql::usage(tx, &below)).of(Resource::Reservations), 1);
    // What is over counts no more, and a quota can be taken away.
    world.release(&first, false);
    set(&below, Resource::Gpus, None);
    create("r6", &below, Request::gpus(2)).unwrap();
    assert_eq!(world.run(|tx| sql::list_quotas(tx, &below)).len(), 1);
}

#[test]
fn lists_go_on_after_a_cursor_and_filter() {
    let world = World::new(1);
    let ids: Vec<ReservationId> = ["c", "a", "b"].iter().map(|name| world.create(name, Request::gpus(1))).collect();
    world.place();
    let list = |filter: ReservationFilter, cursor: Option<&str>, limit| {
        let rows = world.run(|tx| sql::list_reservations(tx, &filter, cursor, limit));
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(list(ReservationFilter::default(), None, 2), ids[..2]);
    assert_eq!(list(ReservationFilter::default(), Some("res_a"), 2), ids[2..]);
    let state = |state: ReservationState| ReservationFilter { state: Some(state), ..Default::default() };
    assert_eq!(list(state(Placing), None, 9), ids[..2]);
    assert_eq!(list(state(Pending), None, 9), ids[2..]);
    let node = ReservationFilter { node: Some(world.id(0)), tenant: Some(tenant()), ..Default::default() };
    assert_eq!(list(node, None, 9), ids[..2]);
}

#[test]
fn the_same_id_is_made_once() {
    let world = World::new(0);
    world.create("a", Request::gpus(1));
    assert!(matches!(world.try_create("a", Request::gpus(1), true), Err(ReserveError::Exists)));
}

#[test]
fn a_placement_that_did_not_commit_booked_nothing() {
    let world = World::new(1);
    let id = world.create("a", Request { strategy: Strategy::Spread, ..Request::gpus(1) });
    assert!(world.store.run_failing_commit(|tx| sql::place_next(tx, 10)).is_err());
    assert_eq!(world.state(&id), Pending);
    world.check_books();
    let hints = world.hints(|tx| sql::place_next(tx, 10));
    assert!(hints.contains(&Hint::Node(world.id(0))), "the node's spec has something new");
}

#[test]
fn a_reservation_that_waits_is_looked_at_when_something_changed() {
    let mut world = World::new(1);
    let first = world.active("a", Request::gpus(2));
    let second = world.create("b", Request::gpus(1));
    assert_eq!(world.place().refused, 1);
    assert_eq!(world.place().refused, 0, "nothing changed and no time passed");
    world.advance(10_000);
    assert_eq!(world.place().refused, 1);
    world.release(&first, false);
    world.settle(0);
    assert_eq!(world.place().placed.len(), 1);
    assert_eq!(world.state(&second), Placing);
}

#[test]
fn what_is_waited_for_is_said() {
    let mut world = World::new(1);
    let id = world.create("a", Request::gpus(1));
    let mut said = String::new();
    let mut say = |world: &World| {
        let text = world.run(|tx| sql::explain_reservation(tx, &id)).unwrap().text;
        said.push_str(&text.replace(world.id(0).as_str(), "NODE"));
    };
    say(&world);
    world.place();
    say(&world);
    world.reconcile(0);
    say(&world);
    world.settle(0);
    say(&world);
    world.release(&id, false);
    say(&world);
    world.settle(0);
    say(&world);
    expect![[r#"
        res_a is pending
        NODE would take it
          NODE: can take it
        res_a is placing on NODE
        waits until the spec of NODE names it
        res_a is binding on NODE
        waits for NODE to report that it is bound
        res_a is active on NODE
        res_a is releasing on NODE
        waits for NODE to report that it let go; if the node is lost for good, release it with --node-lost
        res_a is released on NODE
    "#]]
    .assert_eq(&said);
    let none: Result<_, StoreError> = world.store.run(|tx| sql::explain_reservation(tx, &ReservationId::new("x")));
    assert_eq!(none.unwrap().0, None);
}
