//! Expiry and timeouts.

use super::world::*;
use crate::commands::{self, Swept};
use crate::db::args;
use model::frame::UpdateState;
use model::{CommandState, Kind};

const NOT_AFTER_MS: i64 = 300_000;

#[test]
fn a_pending_command_expires_when_not_after_has_come() {
    let (world, node) = World::with_node();
    let id = world.enqueue(&node, "key", "diag.nvml").id;
    world.clock.advance(NOT_AFTER_MS - 1);
    assert_eq!(world.run(|tx| commands::sweep(tx, 10)), Swept::default());
    world.clock.advance(1);
    assert_eq!(world.run(|tx| commands::sweep(tx, 10)), Swept { expired: 1, timed_out: 0 });
    assert_eq!(world.state(&id), (CommandState::Expired, String::new()));
    assert_eq!(world.count("command.settled"), 1);
    assert_eq!(world.run(|tx| commands::sweep(tx, 10)), Swept::default());
}

#[test]
fn every_kind_times_out_after_its_own_time_beyond_not_after() {
    let minutes = |kind: &str| match kind {
        "site.httpProxy" => 1,
        "diag.nvml" | "inventory.refresh" | "bmc.query" | "bmc.boot" | "boot.prepareRamdisk" | "boot.cleanUp" => 2,
        "gpu.reset" | "bmc.power" | "bmc.rotate" => 5,
        "driver.invoke" => 10,
        "logs.collect" | "node.reboot" | "boot.kexec" | "daemon.upgrade" | "vendor.special" => 15,
        "bmc.firmware" | "bmc.storage" | "diag.dcgm" | "deploy.image" => 60,
        "disk.wipe" => 6 * 60,
        "instance.snapshot" => 7 * 60,
        other => panic!("no figure for {other}"),
    };
    for kind in Kind::ALL.iter().map(|kind| kind.name()).chain(["vendor.special"]) {
        for state in ["dispatched", "acked", "running"] {
            let (world, node) = World::with_node();
            let id = world.enqueue(&node, "key", kind).id;
            world.run(|tx| tx.execute("UPDATE commands SET state = ?2 WHERE id = ?1", args![id, state]));
            world.clock.advance(NOT_AFTER_MS + minutes(kind) * 60_000 - 1);
            assert_eq!(world.run(|tx| commands::sweep(tx, 10)), Swept::default(), "{kind} {state}");
            world.clock.advance(1);
            assert_eq!(world.run(|tx| commands::sweep(tx, 10)), Swept { expired: 0, timed_out: 1 }, "{kind} {state}");
            assert_eq!(world.state(&id), (CommandState::Failed, "timeout".into()));
        }
    }
}

#[test]
fn a_self_terminating_command_that_rejoins_in_time_is_not_timed_out() {
    let (world, node) = World::with_session();
    let id = world.dispatched(&node, 1, "key", "node.reboot");
    world.report(&node, &id, UpdateState::Running);
    world.clock.advance(NOT_AFTER_MS + 15 * 60_000 - 1);
    assert_eq!(world.run(|tx| commands::sweep(tx, 10)), Swept::default());
    world.connect(&node, "boot-2", "journal-1");
    assert_eq!(world.state(&id), (CommandState::Succeeded, "rebooted".into()));
}

#[test]
fn one_sweep_is_bounded_and_the_rest_follows() {
    let (world, node) = World::with_node();
    for number in 0..5 {
        world.enqueue(&node, &number.to_string(), "diag.nvml");
    }
    world.clock.advance(NOT_AFTER_MS);
    let expired: Vec<usize> = (0..4).map(|_| world.run(|tx| commands::sweep(tx, 2)).expired).collect();
    assert_eq!(expired, [2, 2, 1, 0]);
}
