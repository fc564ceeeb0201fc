//! Books after the inventory changed.

use super::node::{MIG_GPU, uuid};
use super::world::*;
use crate::placement::{DeviceClass, Request};
use crate::sql::{self, Synced};
use crate::state::ReservationState::*;
use kernel::db::args;

#[test]
fn inventories_become_atoms() {
    let world = World::new(1);
    let node = world.id(0);
    let fleet = world.run(|tx| sql::load_node(tx, &node));
    let facts = &fleet.nodes()[0];
    assert_eq!(
        facts.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect::<Vec<_>>(),
        [
            "GPU-00000000-0000-0000-0000-000000000000",
            "GPU-00000000-0000-0000-0000-000000000001",
            "GPU-00000000-0000-0000-0000-000000000002"
        ]
    );
    assert_eq!(facts.gpus[MIG_GPU].instances.len(), 2);
    assert_eq!((facts.host.vcpu.total, facts.host.memory_bytes.total), (8, 64 << 30));
    assert_eq!(facts.labels[0].0, "bc.dev/cap.binding.kubernetes");
    assert_eq!(facts.slots_per_gpu, SLOTS_PER_GPU);
    assert_eq!(world.store.run(|tx| sql::sync_inventory(tx, &node)).unwrap().0, Synced::Unchanged);
}

#[test]
fn all_classes_are_placed_side_by_side() {
    let mut world = World::new(1);
    let ids = [
        world.create("whole", Request::gpus(1)),
        world.create("slots", slots(2)),
        world.create("mig", mig(2)),
        world.create("more", slots(1)),
    ];
    world.settle_all();
    assert_eq!(ids.each_ref().map(|id| world.state(id)), [Active, Active, Active, Pending]);
    let devices = |id| world.row(id).allocation.unwrap().devices;
    assert_eq!(devices(&ids[0])[0].id, "GPU-00000000-0000-0000-0000-000000000000");
    assert_eq!(
        devices(&ids[1]).iter().map(|device| device.id.as_str()).collect::<Vec<_>>(),
        ["GPU-00000000-0000-0000-0000-000000000001/s0", "GPU-00000000-0000-0000-0000-000000000001/s1"]
    );
    assert!(
        devices(&ids[2])
            .iter()
            .all(|device| device.class == DeviceClass::Mig && device.gpu == "GPU-00000000-0000-0000-0000-000000000002")
    );
    world.check_books();
}

#[test]
fn a_booked_gpu_that_vanished_stays_booked_and_is_shown() {
    let mut world = World::new(1);
    let id = world.active("a", Request::gpus(1));
    world.nodes[0].missing.insert(0);
    world.inventory(0);
    assert_eq!(world.state(&id), Active);
    world.check_books();
    let node = world.id(0);
    let text = world.run(|tx| sql::explain_node(tx, &node)).unwrap().text;
    assert!(
        text.contains("GPU-00000000-0000-0000-0000-000000000000: whole, missing from the newest inventory"),
        "{text}"
    );
    assert!(world.topics(node.as_str()).contains(&"node.booked-gpu-missing".to_owned()));
    // Nobody else gets it, also when it is back.
    let second = world.create("b", Request::gpus(2));
    world.settle_all();
    assert_eq!(world.state(&second), Pending);
    world.nodes[0].missing.clear();
    world.inventory(0);
    world.settle_all();
    assert_eq!(world.state(&second), Pending);
    world.release(&id, false);
    world.settle(0);
    world.settle_all();
    assert_eq!(world.state(&second), Active);
    world.check_books();
}

#[test]
fn a_free_gpu_that_vanished_is_forgotten_and_a_booked_one_with_its_booking() {
    let mut world = World::new(1);
    let id = world.active("a", slots(1));
    world.nodes[0].missing.extend([0, 1, MIG_GPU]);
    world.inventory(0);
    let node = world.id(0);
    let gpus = |world: &World| world.run(|tx| sql::load_node(tx, &node)).nodes()[0].gpus.len();
    assert_eq!(gpus(&world), 1);
    world.release(&id, false);
    world.settle(0);
    assert_eq!((world.state(&id), gpus(&world)), (Released, 0));
    world.check_books();
}

#[test]
fn a_card_that_was_moved_is_given_only_where_it_is_and_only_once() {
    let mut world = World::new(2);
    let id = world.active("a", Request::gpus(1));
    let (from, to) = (world.node_of(&id), 1 - world.node_of(&id));
    // The other node lists the booked card and the free one of this node.
    let (from_id, to_id) = (world.id(from), world.id(to));
    let moved = |world: &mut World| {
        let card = |uuid: String| proto::v1::Gpu { uuid, ..Default::default() };
        let inventory = proto::v1::Inventory {
            gpu_driver: Some(Default::default()),
            gpus: vec![card(uuid(from, 0)), card(uuid(from, 1))],
            ..Default::default()
        };
        let inventory = proto::Message::encode_to_vec(&inventory);
        let digest = stdx::hex::sha256_hex(&inventory);
        let sql = "UPDATE nodes SET inventory = ?2, inventory_digest = ?3 WHERE id = ?1";
        world.run(|tx| tx.execute(sql, args![to_id, inventory, digest]));
        assert_eq!(world.run(|tx| sql::sync_due(tx, 10)), 1);
    };
    moved(&mut world);
    let facts = |world: &World, node: &model::NodeId| world.run(|tx| sql::load_node(tx, node)).nodes()[0].gpus.clone();
    let there = facts(&world, &to_id);
    assert_eq!((there[0].elsewhere.as_ref(), there[1].elsewhere.as_ref()), (Some(&from_id), None));
    assert!(!facts(&world, &from_id).iter().any(|gpu| gpu.uuid == uuid(from, 1)), "the free one is the other node's");
    let text = world.run(|tx| sql::explain_node(tx, &to_id)).unwrap().text;
    assert!(text.contains(&format!("booked on {from_id}")), "{text}");
    world.release(&id, true);
    let there = facts(&world, &to_id);
    assert_eq!(there[0].elsewhere, None);
    assert!(!facts(&world, &from_id).iter().any(|gpu| gpu.uuid == uuid(from, 0)));
    world.check_books();
}

#[test]
fn an_inventory_that_cannot_be_read_offers_nothing_and_drops_nothing() {
    let mut world = World::new(1);
    let id = world.active("a", Request::gpus(1));
    let node = world.id(0);
    let sql = "UPDATE nodes SET inventory = ?2, inventory_digest = 'x' WHERE id = ?1";
    world.run(|tx| tx.execute(sql, args![node, vec![0xffu8]]));
    assert_eq!(world.run(|tx| sql::sync_due(tx, 10)), 1);
    assert_eq!(world.run(|tx| sql::sync_due(tx, 10)), 0, "it is not read again and again");
    let facts = world.run(|tx| sql::load_node(tx, &node)).nodes()[0].clone();
    assert_eq!((facts.gpus.len(), facts.gpus[0].present, facts.gpu_driver), (1, false, false));
    assert_eq!(world.state(&id), Active);
    world.check_books();
}

#[test]
fn host_resources_are_booked_and_given_back() {
    let mut world = World::new(1);
    let first = world.active("a", host(slots(1), VCPU - 1));
    let second = world.create("b", host(slots(1), 2));
    world.settle_all();
    assert_eq!(world.state(&second), Pending);
    let text = world.run(|tx| sql::explain_reservation(tx, &second)).unwrap().text;
    assert!(text.contains("host-resources: 2 vCPU wanted, 1 free of 8"), "{text}");
    world.release(&first, false);
    world.settle(0);
    world.settle_all();
    assert_eq!(world.state(&second), Active);
    world.check_books();
}
