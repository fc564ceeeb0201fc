use super::harness::*;
use model::frame::CommandBody;
use model::*;

#[test]
fn a_queued_command_is_cancelled_and_never_runs() {
    let mut node = Node::new().up();
    for index in 0..5 {
        node.deliver(&command(&format!("c{index}"), Kind::DiagNvml));
    }
    node.updates();
    node.cancel("c4");
    node.expect_updates(&["c4 cancelled cancel-requested| signed"]);
    node.finish("c0");
    assert!(!node.started_ids().contains(&"c4"));
}

#[test]
fn a_deferred_command_is_cancelled_and_a_duplicate_gets_the_same_answer() {
    let mut node = Node::new().up();
    let body = CommandBody { min_generation: 3, ..command("c1", Kind::InventoryRefresh) };
    node.deliver(&body);
    node.updates();
    node.cancel("c1");
    node.expect_updates(&["c1 cancelled cancel-requested|"]);
    node.deliver(&CommandBody { min_generation: 0, ..body });
    node.expect_updates(&["c1 cancelled cancel-requested|"]);
    assert!(node.started.is_empty());
}

#[test]
fn a_late_cancel_never_hides_a_result() {
    let mut node = Node::new().up();
    node.deliver(&command("c1", Kind::GpuReset));
    node.updates();
    node.cancel("c1");
    assert_eq!(node.cancels, [CommandId::new("c1")], "the work is told to stop between actions");
    node.expect_updates(&[]);
    node.finish("c1");
    node.expect_updates(&["c1 succeeded | signed"]);
    node.cancel("c1");
    node.expect_updates(&["c1 succeeded | signed"]);
}

#[test]
fn a_cancel_while_accepted_goes_to_disk_takes_effect_after_it() {
    let mut node = Node::new().up();
    node.slow_disk = true;
    node.deliver(&command("c1", Kind::GpuReset));
    node.cancel("c1");
    while node.sync_one() {}
    node.expect_updates(&["c1 ACKED", "c1 cancelled cancel-requested| signed"]);
    assert!(node.started.is_empty());
}

#[test]
fn a_cancel_for_a_command_that_never_came_is_remembered() {
    let mut node = Node::new().up();
    node.cancel("c1");
    node.expect_updates(&["c1 cancelled cancel-requested| signed"]);
    node.deliver(&command("c1", Kind::GpuReset));
    node.expect_updates(&["c1 cancelled cancel-requested| signed"]);
    assert!(node.started.is_empty());
}

#[test]
fn what_a_crash_interrupted_is_never_called_cancelled() {
    let mut node = Node::new().up();
    let body = command("c1", Kind::InventoryRefresh);
    node.deliver(&body);
    let mut node = node.crash("boot1", "inc2").up();
    node.cancel("c1");
    node.expect_updates(&["c1 failed interrupted|"]);

    let mut node = Node::new().up();
    for index in 0..5 {
        node.deliver(&command(&format!("c{index}"), Kind::DiagNvml));
    }
    let mut node = node.crash("boot1", "inc2").up();
    for index in 0..5 {
        node.deliver(&command(&format!("c{index}"), Kind::DiagNvml));
    }
    node.updates();
    node.cancel("c4");
    node.expect_updates(&["c4 failed interrupted| signed"]);
}

#[test]
fn a_cancel_between_the_mark_and_the_effect_reaches_the_work() {
    let mut node = Node::new().up();
    node.slow_disk = true;
    node.deliver(&command("c1", Kind::NodeReboot));
    node.sync_one();
    node.cancel("c1");
    assert!(node.cancels.is_empty());
    node.sync_one();
    assert_eq!(node.started_ids(), ["c1"]);
    assert_eq!(node.cancels, [CommandId::new("c1")]);
}
