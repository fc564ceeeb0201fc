//! Many worlds, on every core: each is a world of its own, so which thread runs it does not matter.

use crate::{Coverage, Outcome, run};
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// What came of many worlds.
#[derive(Debug)]
pub struct Summary {
    /// Worlds that ran.
    pub worlds: u64,
    pub simulated_ms: u64,
    pub coverage: Coverage,
    /// The broken world with the lowest seed, if any broke.
    pub broken: Option<Outcome>,
}

/// Runs `count` worlds from seed `base` on, and stops soon after one broke. `progress` hears how many ran.
pub fn run_many(base: u64, count: u64, progress: impl Fn(u64) + Sync) -> Summary {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicU64::new(0);
    // Seeds from here on need not run: a lower one broke.
    let end = AtomicU64::new(count);
    let summary = Mutex::new(Summary { worlds: 0, simulated_ms: 0, coverage: Coverage::default(), broken: None });
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= end.load(Ordering::Relaxed) {
                        return;
                    }
                    let outcome = run(base + index);
                    let mut summary = summary.lock().expect("no thread panics while it holds the summary");
                    summary.worlds += 1;
                    summary.simulated_ms += outcome.simulated_ms;
                    summary.coverage.add(&outcome.coverage);
                    let worlds = summary.worlds;
                    let is_lowest = summary.broken.as_ref().is_none_or(|broken| outcome.seed < broken.seed);
                    if outcome.violation.is_some() && is_lowest {
                        end.fetch_min(index, Ordering::Relaxed);
                        summary.broken = Some(outcome);
                    }
                    drop(summary);
                    progress(worlds);
                }
            });
        }
    });
    summary.into_inner().expect("no thread panicked while it held the summary")
}
