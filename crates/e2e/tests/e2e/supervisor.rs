//! The supervisor against a program whose calls are known.

use e2e::supervisor::{DurableCall, Ending, KillAt, Report, Supervised};
use nix::sys::signal::Signal;
use std::path::Path;
use std::process::Command;

const ALL: &[&str] = &["fsync", "thread", "fdatasync", "child", "signal", "rename"];
const COUNTED: [DurableCall; 4] = [DurableCall::Fsync, DurableCall::Fsync, DurableCall::Fdatasync, DurableCall::Rename];

fn run(directory: &Path, words: &[&str], kill_at: KillAt) -> Report {
    let mut command = Command::new(env!("CARGO_BIN_EXE_durable-calls"));
    command.arg(directory).args(words);
    Supervised::spawn(command, kill_at).expect("start").wait().expect("trace")
}

fn done(directory: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(directory.join("done")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn durable_calls_of_all_threads_are_counted_in_order_and_those_of_children_are_not() {
    let directory = tempfile::tempdir().expect("tempdir");
    let report = run(directory.path(), ALL, KillAt::Never);
    assert_eq!(report, Report { calls: COUNTED.to_vec(), ending: Ending::Exited(0), killed: false });
    assert_eq!(done(directory.path()), ALL, "signals and children work under the supervisor");
}

#[test]
fn a_kill_before_a_call_leaves_it_undone_and_a_kill_after_it_done() {
    let words = ["fsync", "rename", "fsync"];
    for (kill_at, renamed) in [(KillAt::Before(2), false), (KillAt::After(2), true)] {
        let directory = tempfile::tempdir().expect("tempdir");
        let report = run(directory.path(), &words, kill_at);
        let calls = vec![DurableCall::Fsync, DurableCall::Rename];
        assert_eq!(report, Report { calls, ending: Ending::Signaled(Signal::SIGKILL), killed: true }, "{kill_at:?}");
        assert_eq!(directory.path().join("to").exists(), renamed, "{kill_at:?}");
        assert_eq!(done(directory.path()), ["fsync"], "nothing runs behind the kill: {kill_at:?}");
    }
}

#[test]
fn a_call_of_another_thread_can_be_the_one_that_is_killed_at() {
    for kill_at in [KillAt::Before(1), KillAt::After(1)] {
        let directory = tempfile::tempdir().expect("tempdir");
        let report = run(directory.path(), &["thread", "fsync"], kill_at);
        assert!(report.killed && report.calls == [DurableCall::Fsync], "{kill_at:?}: {report:?}");
        assert!(done(directory.path()).is_empty(), "{kill_at:?}");
    }
}

#[test]
fn a_kill_behind_the_last_call_never_happens() {
    let directory = tempfile::tempdir().expect("tempdir");
    let report = run(directory.path(), &["fsync"], KillAt::Before(2));
    assert_eq!(report, Report { calls: vec![DurableCall::Fsync], ending: Ending::Exited(0), killed: false });
}

#[test]
fn a_failure_of_the_program_is_its_own_exit_status() {
    let directory = tempfile::tempdir().expect("tempdir");
    let report = run(directory.path(), &["no-such-word"], KillAt::Never);
    assert_eq!(report.ending, Ending::Exited(1));
}
