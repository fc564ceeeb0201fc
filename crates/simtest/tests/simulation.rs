//! Worlds by the thousand.

use simtest::{run, run_many};
use std::io::Read;

/// Fresh worlds of one test run; `BC_SIM_SEEDS` changes it.
const SEEDS: u64 = 1_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A base that no earlier run had.
fn fresh_base() -> u64 {
    let mut bytes = [0; 8];
    let mut source = std::fs::File::open("/dev/urandom").expect("a source of chance");
    source.read_exact(&mut bytes).expect("eight random bytes");
    u64::from_le_bytes(bytes) >> 1
}

#[test]
fn a_thousand_fresh_schedules_hold() {
    let one = number("BC_SIM_SEED");
    let base = one.unwrap_or_else(fresh_base);
    let count = if one.is_some() { 1 } else { number("BC_SIM_SEEDS").unwrap_or(SEEDS) };
    println!("{count} worlds from seed {base}");
    let start = std::time::Instant::now();
    let summary = run_many(base, count, |_| {});
    println!("{} worlds in {:.1} s", summary.worlds, start.elapsed().as_secs_f64());
    if let Some(broken) = &summary.broken {
        panic!("{}", broken.report());
    }
    println!("{}", summary.coverage.table());
    if count >= SEEDS {
        assert_eq!(summary.coverage.missing(), Vec::<&str>::new(), "never occurred in {count} worlds from seed {base}");
    }
}

#[test]
fn a_seed_replays_to_the_same_digest() {
    for seed in 0..12 {
        let (first, second) = (run(seed), run(seed));
        assert_eq!(first.digest, second.digest, "seed {seed}");
    }
}
