//! The plans SQLite makes of the periodic statements: each goes by its partial index, so that idle
//! nodes and settled commands cost nothing.

use super::world::*;
use crate::commands;
use crate::db::Value;

#[track_caller]
fn check(sql: &str, args: &[Value<'_>], wanted: &[&str]) {
    let world = World::new();
    let plan: Vec<String> = world.run(|tx| {
        tx.query(&format!("EXPLAIN QUERY PLAN {sql}"), args, |row| {
            let _: (i64, i64, i64) = (row.take()?, row.take()?, row.take()?);
            row.take()
        })
    });
    for part in wanted {
        assert!(plan.iter().any(|line| line.contains(part)), "no {part} in {plan:#?}");
    }
    let scans = plan.iter().filter(|line| line.starts_with("SCAN") && !line.contains("SCAN w"));
    let scans: Vec<&String> = scans.filter(|line| !line.contains("INDEX") && !line.contains("CONSTANT")).collect();
    assert!(scans.is_empty(), "scans a table: {plan:#?}");
    assert!(!plan.iter().any(|line| line.contains("TEMP B-TREE")), "sorts: {plan:#?}");
}

const TEXT: Value<'_> = Value::Text("x");
const INT: Value<'_> = Value::Int(1);

#[test]
fn dispatch_finds_its_work_by_skipping_through_the_pending_rows() {
    check(
        crate::sessions::testing::SESSIONS_WITH_WORK,
        &[TEXT],
        &[
            "SEARCH commands USING COVERING INDEX commands_pending",
            "SEARCH c USING COVERING INDEX commands_pending (node_id>?)",
            "SEARCH s USING INDEX sqlite_autoindex_node_sessions_1 (node_id=?)",
        ],
    );
    check(
        crate::sessions::testing::WAITING,
        &[TEXT, TEXT, INT, Value::Null, INT],
        &["USING INDEX commands_pending (node_id=? AND lane=?)"],
    );
    check(crate::sessions::testing::IN_FLIGHT, &[TEXT], &["INDEX commands_in_flight (node_id=?)"]);
}

#[test]
fn cancels_and_sweeps_go_by_their_partial_indexes() {
    check(crate::sessions::testing::CANCELLING, &[TEXT, INT], &["USING INDEX commands_cancelling"]);
    check(commands::testing::EXPIRED, &[INT, INT], &["USING COVERING INDEX commands_pending_expiry (not_after<?)"]);
    check(commands::testing::TIMED_OUT, &[INT, INT], &["USING INDEX commands_in_flight_timeout (times_out_at<?)"]);
}

#[test]
fn dispatch_costs_the_same_with_many_idle_nodes_and_many_settled_commands() {
    let steps = |idle: usize, settled: usize| {
        let (world, node) = World::with_session();
        for number in 0..idle {
            let other = world.join(&format!("idle-{number}"));
            world.connect(&other, "boot-1", "journal-1");
        }
        for number in 0..settled {
            let id = world.enqueue(&node, &format!("old-{number}"), "diag.nvml").id;
            world.run(|tx| commands::request_cancel(tx, &id, ""));
        }
        world.enqueue(&node, "new", "diag.nvml");
        let sql = crate::sessions::testing::SESSIONS_WITH_WORK;
        world.run(|tx| tx.statement_steps(sql, &[Value::Text(world.gateway.as_str())]))
    };
    assert_eq!(steps(0, 0), steps(200, 500));
}
