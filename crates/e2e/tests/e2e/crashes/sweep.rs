//! All durable calls of a process, one after the other: a life with a kill before it, a life with a kill after
//! it, until a life ends before its call is reached.

use super::scene::{Victim, play};
use anyhow::Result;
use e2e::fleet::Fleet;
use e2e::supervisor::KillAt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Lives at once. They mostly wait for each other's processes, disk and timers.
const LANES: usize = 4;
/// More calls than a life makes; a sweep that gets here does not converge.
const CALLS_MAX: usize = 2_000;

/// The scene with each of the victim's calls.
pub fn every_call(victim: Victim) {
    let template = Fleet::create().expect("a fleet");
    let untouched = play(&template, victim, KillAt::Never).expect("the scene works when nobody is killed");
    let kills = kills(|kill_at| Ok(play(&template, victim, kill_at)?.killed));
    println!("{victim:?}: {} durable calls when nobody is killed, {kills} kills", untouched.calls.len());
    assert!(kills >= untouched.calls.len(), "only {kills} kills for {} calls", untouched.calls.len());
}

/// Lives with one kill each until one was not killed any more; `live` says whether its was. Answers how many.
pub fn kills(live: impl Fn(KillAt) -> Result<bool> + Sync) -> usize {
    let (next, kills) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failures = Mutex::new(Vec::new());
    let lane = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let call = number / 2 + 1;
            let kill_at = if number % 2 == 0 { KillAt::Before(call) } else { KillAt::After(call) };
            match live(kill_at) {
                Ok(true) if call < CALLS_MAX => {
                    kills.fetch_add(1, Ordering::Relaxed);
                }
                // Beyond the last call.
                Ok(_) => return,
                Err(error) => {
                    failures.lock().expect("no lane panics").push(format!("{error:#}"));
                    return;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(lane);
        }
    });
    let failures = failures.into_inner().expect("no lane panics");
    assert!(failures.is_empty(), "{} lives failed:\n{}", failures.len(), failures.join("\n\n"));
    assert!(next.into_inner() / 2 < CALLS_MAX, "no life ends untouched");
    kills.into_inner()
}
