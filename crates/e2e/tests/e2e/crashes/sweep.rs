//! All durable calls of a process, one after the other: a scene with a kill before it, a scene with a kill after
//! it, until a scene ends before its call is reached.

use super::scene::{Victim, play};
use e2e::fleet::Fleet;
use e2e::supervisor::{KillAt, Report};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Scenes at once. They mostly wait for each other's processes, disk and timers.
const LANES: usize = 4;
/// More calls than a scene makes; a sweep that gets here does not converge.
const CALLS_MAX: usize = 2_000;

pub fn every_call(victim: Victim) {
    let template = Fleet::create().expect("a fleet");
    let untouched = play(&template, victim, KillAt::Never).expect("the scene works when nobody is killed");
    println!("{victim:?}: {} durable calls when nobody is killed", untouched.calls.len());
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let scenes = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let call = number / 2 + 1;
                    let kill_at = if number % 2 == 0 { KillAt::Before(call) } else { KillAt::After(call) };
                    match play(&template, victim, kill_at) {
                        Ok(Report { killed: true, .. }) if call < CALLS_MAX => {
                            scenes.fetch_add(1, Ordering::Relaxed);
                        }
                        // Beyond the last call: the scene ended untouched.
                        Ok(_) => return,
                        Err(error) => {
                            failures.lock().expect("no lane panics").push(format!("{error:#}"));
                            return;
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no lane panics");
    assert!(failures.is_empty(), "{} scenes failed:\n{}", failures.len(), failures.join("\n\n"));
    let scenes = scenes.into_inner();
    println!("{victim:?}: {scenes} kills, then a scene ended untouched");
    assert!(scenes >= untouched.calls.len(), "only {scenes} kills for {} calls", untouched.calls.len());
}
