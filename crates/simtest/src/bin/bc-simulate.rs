//! `bc-simulate`: many worlds with fresh seeds, or one seed again with all that happened in it.

use simtest::{Summary, replay, run_many};
use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;
use std::time::Instant;

/// Worlds of one run.
const SEEDS: u64 = 10_000;
/// Fewer worlds cannot show everything that is expected.
const SEEDS_FOR_COVERAGE: u64 = 1_000;
/// Worlds between two lines of progress where there is no terminal.
const PROGRESS_EVERY: u64 = 500;

struct Options {
    seeds: u64,
    base: Option<u64>,
    one: Option<u64>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match parse(&arguments) {
        Ok(Options { one: Some(seed), .. }) => again(seed),
        Ok(options) => fresh(&options),
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options { seeds: SEEDS, base: None, one: None };
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let mut value = || {
            let text = rest.next().ok_or_else(|| format!("{name} needs a number"))?;
            text.parse::<u64>().map_err(|_| format!("{name} {text}: not a number"))
        };
        match name.as_str() {
            "--seeds" => options.seeds = value()?,
            "--base" => options.base = Some(value()?),
            "--seed" => options.one = Some(value()?),
            other => return Err(format!("there is no option {other}")),
        }
    }
    Ok(options)
}

/// One seed, every line of it.
fn again(seed: u64) -> ExitCode {
    let outcome = replay(seed);
    let mut out = std::io::stdout().lock();
    let lines = outcome.trace.iter().try_for_each(|line| writeln!(out, "{line}"));
    if lines.is_err() {
        return ExitCode::from(1);
    }
    println!("seed {seed}, digest {}, {} ms of simulated time", outcome.digest, outcome.simulated_ms);
    match outcome.violation {
        None => ExitCode::SUCCESS,
        Some(violation) => {
            eprintln!("seed {seed} broke a rule: {violation}");
            ExitCode::from(1)
        }
    }
}

fn fresh(options: &Options) -> ExitCode {
    let base = options.base.unwrap_or_else(random);
    println!("{} worlds from seed {base}", options.seeds);
    let start = Instant::now();
    let count = options.seeds;
    let summary = run_many(base, count, |done| progress(done, count));
    let seconds = start.elapsed().as_secs_f64();
    print!("{}", summary.coverage.table());
    let missing = if count < SEEDS_FOR_COVERAGE { Vec::new() } else { summary.coverage.missing() };
    if let Some(broken) = &summary.broken {
        eprintln!("{}", broken.report());
    } else if !missing.is_empty() {
        eprintln!("never occurred in {count} worlds: {}", missing.join(", "));
    }
    println!("{}", last_line(base, &summary, seconds, missing.len()));
    if summary.broken.is_none() && missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// The run as one line of JSON.
fn last_line(base: u64, summary: &Summary, seconds: f64, missing: usize) -> String {
    let broken = summary.broken.as_ref();
    serde_json::json!({
        "base": base,
        "worlds": summary.worlds,
        "seconds": (seconds * 10.0).round() / 10.0,
        "simulatedSeconds": summary.simulated_ms / 1000,
        "missing": missing,
        "brokenSeed": broken.map(|broken| broken.seed),
        "violation": broken.and_then(|broken| broken.violation.clone()),
    })
    .to_string()
}

fn progress(done: u64, count: u64) {
    if std::io::stderr().is_terminal() {
        eprint!("\r{done} of {count} worlds");
        if done == count {
            eprintln!();
        }
    } else if done.is_multiple_of(PROGRESS_EVERY) {
        eprintln!("{done} of {count} worlds");
    }
}

/// A base that no earlier run had.
fn random() -> u64 {
    let mut bytes = [0; 8];
    let source = std::fs::File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    source.expect("the system gives random bytes");
    // Half of what there is, so that counting up does not end.
    u64::from_le_bytes(bytes) >> 1
}
