use super::harness::*;
use crate::*;
use model::*;

fn show(node: &mut Node, jti: &str, in_ms: i64) -> Option<TicketVerdict> {
    let expires_at = ServerTimeMs(node.server_now() + in_ms);
    node.decisions.clear();
    node.input(Input::Ticket { jti: jti.to_owned(), expires_at });
    node.decisions.iter().find_map(|decision| match decision {
        Decision::Ticket { verdict } => Some(*verdict),
        _ => None,
    })
}

#[test]
fn a_ticket_is_good_for_one_use_also_across_a_restart() {
    let mut node = Node::new().up();
    assert_eq!(show(&mut node, "t1", 600_000), Some(TicketVerdict::Granted));
    assert_eq!(show(&mut node, "t1", 600_000), Some(TicketVerdict::Reused));
    let mut node = node.crash("boot1", "inc2").up();
    assert_eq!(show(&mut node, "t1", 600_000), Some(TicketVerdict::Reused));
}

#[test]
fn a_use_is_granted_only_once_it_is_durable_and_to_one_of_two_at_once() {
    let mut node = Node::new().up();
    node.slow_disk = true;
    assert_eq!(show(&mut node, "t1", 600_000), None);
    assert_eq!(show(&mut node, "t1", 600_000), Some(TicketVerdict::Reused));
    node.decisions.clear();
    while node.sync_one() {}
    assert!(node.decisions.contains(&Decision::Ticket { verdict: TicketVerdict::Granted }));
}

#[test]
fn a_full_set_refuses_new_tickets_until_old_ones_expire() {
    let mut node = Node::new().up();
    for index in 0..limits::EXEC_TICKETS_MAX {
        assert_eq!(show(&mut node, &format!("t{index}"), 25_000), Some(TicketVerdict::Granted));
    }
    assert_eq!(show(&mut node, "more", 60_000), Some(TicketVerdict::Full));
    node.pass(25_000);
    assert_eq!(show(&mut node, "more", 60_000), Some(TicketVerdict::Granted));
    assert_eq!(node.engine.journal().tickets().len(), 1);
}

#[test]
fn expired_and_malformed_tickets_are_refused_and_not_kept() {
    let mut node = Node::new().up();
    assert_eq!(show(&mut node, "t1", 0), Some(TicketVerdict::Expired));
    assert_eq!(show(&mut node, "", 9), Some(TicketVerdict::Malformed));
    assert_eq!(show(&mut node, &"x".repeat(JTI_BYTES_MAX + 1), 9), Some(TicketVerdict::Malformed));
    assert!(node.engine.journal().tickets().is_empty());
}
