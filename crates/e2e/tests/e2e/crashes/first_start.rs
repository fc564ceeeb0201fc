//! The first start of `dev` makes a PKI, its key files, the first token, the context and a node's configuration.
//! Killed anywhere, the next start finds what is there, makes what is not, and comes up.

use super::sweep;
use crate::dev::Dev;
use e2e::fleet::process::{redirect, tail};
use e2e::supervisor::{KillAt, Supervised};
use e2e::wait;
use nix::sys::signal::Signal;

/// A first start makes more durable calls than that.
const KILLS_LEAST: usize = 40;

pub fn every_call() {
    let kills = sweep::kills(|kill_at| Ok(survives(kill_at)));
    println!("dev: {kills} kills");
    assert!(kills >= KILLS_LEAST, "only {kills} kills");
}

/// Whether the first start was killed. In any case the fleet works afterwards.
fn survives(kill_at: KillAt) -> bool {
    let dev = Dev::new(0);
    let mut command = dev.dev();
    redirect(&mut command, &dev.path("first.log")).expect("a log");
    let first = Supervised::spawn(command, kill_at).expect("dev starts");
    wait::until("what to paste, or a kill", wait::LONG, || {
        Ok((dev.is_up("first.log") || first.is_over()).then_some(()))
    })
    .expect("one of them");
    first.signal(Signal::SIGINT);
    let report = first.wait().expect("a report");
    let log = dev.path("first.log");
    assert!(report.killed || dev.is_up("first.log"), "{kill_at:?}, {:?}:\n{}", report.ending, tail(&log));
    if report.killed {
        dev.wait_gone();
        let second = dev.start("second.log");
        let fleet = dev.type_in_json("better-compute fleet");
        assert_eq!(fleet["nodes"]["total"], 0, "{kill_at:?}: {fleet}");
        dev.type_in("better-compute join-tokens create --pool dev --out ./token");
        let status = second.stop().expect("it ends");
        assert!(status.success(), "{kill_at:?}: {status}");
    }
    report.killed
}
