//! A node's word about its holds beside the books.

use super::world::*;
use crate::placement::Request;
use crate::sql::{self, HoldDifference, ReportedHold};
use crate::state::ReservationState::*;
use model::AllocationId;

fn reported(allocation: &AllocationId, devices: &[&str]) -> ReportedHold {
    ReportedHold {
        allocation: allocation.clone(),
        devices: devices.iter().map(|device| (*device).to_owned()).collect(),
    }
}

#[test]
fn differences_are_shown_and_nothing_is_dropped() {
    let mut world = World::new(1);
    let id = world.active("a", Request::gpus(2));
    let (node, allocation) = (world.id(0), world.row(&id).allocation.unwrap().id);
    let report = |holds: Vec<ReportedHold>| {
        world.run(|tx| sql::holds_reported(tx, &node, &holds));
        world.run(|tx| sql::hold_differences(tx, &node))
    };
    assert_eq!(
        report(vec![reported(
            &allocation,
            &["GPU-00000000-0000-0000-0000-000000000001", "GPU-00000000-0000-0000-0000-000000000000"]
        )]),
        []
    );
    assert_eq!(report(vec![reported(&allocation, &[])]), [], "devices need not be named");
    let stranger = AllocationId::new("alloc_x");
    let differences = report(vec![
        reported(&allocation, &["GPU-00000000-0000-0000-0000-000000000000"]),
        reported(&stranger, &["GPU-00000000-0000-0000-0000-000000000002"]),
    ]);
    let expected = [
        HoldDifference::OtherDevices {
            allocation: allocation.clone(),
            held: vec!["GPU-00000000-0000-0000-0000-000000000000".into()],
            booked: vec![
                "GPU-00000000-0000-0000-0000-000000000000".into(),
                "GPU-00000000-0000-0000-0000-000000000001".into(),
            ],
        },
        HoldDifference::NotBooked {
            allocation: stranger,
            devices: vec!["GPU-00000000-0000-0000-0000-000000000002".into()],
        },
    ];
    assert!(differences.len() == 2 && expected.iter().all(|one| differences.contains(one)), "{differences:?}");
    assert_eq!(report(vec![]), [HoldDifference::NotHeld { allocation }]);
    let text = world.run(|tx| sql::explain_node(tx, &node)).unwrap().text;
    assert!(text.contains("is booked as bound, and the node does not hold it"), "{text}");
    assert_eq!(world.state(&id), Active);
    world.check_books();
    let told = world.topics(node.as_str()).iter().filter(|topic| *topic == "node.holds-differ").count();
    assert_eq!(told, 2, "each set of differences once");
    // Saying the same again tells nobody again.
    report(vec![]);
    let again = world.topics(node.as_str()).iter().filter(|topic| *topic == "node.holds-differ").count();
    assert_eq!(again, 2);
}

#[test]
fn what_is_not_bound_yet_need_not_be_held() {
    let world = World::new(1);
    world.create("a", Request::gpus(1));
    world.place();
    let node = world.id(0);
    world.run(|tx| sql::holds_reported(tx, &node, &[]));
    assert_eq!(world.run(|tx| sql::hold_differences(tx, &node)), []);
}
