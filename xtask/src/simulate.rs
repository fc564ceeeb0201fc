//! `simulate`: builds and starts the deterministic simulation.

use crate::process::{cargo, show};
use anyhow::{Context, Result};
use std::process::ExitCode;

pub const HELP: &str = "\
Usage: cargo xtask simulate [--seeds N] [--base SEED] [--release]
       cargo xtask simulate --seed SEED

Runs N simulated worlds [default: 10000], each from a seed of its own, until one breaks a rule. Prints how
often each decision, refusal and crash point occurred, and ends with one line of JSON. A decision that is
expected and never occurred in 1000 worlds or more fails the run, as a broken rule does.

  --base SEED  the first seed; fresh ones otherwise
  --seed SEED  this world only, with everything that happened in it
  --release    build with optimizations first: slower to start, for many worlds

docs/simulation.md says what is simulated and what must hold.
";

pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let (release, rest): (Vec<&String>, Vec<&String>) = arguments.iter().partition(|argument| *argument == "--release");
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "simtest", "--bin", "bc-simulate"]);
    if !release.is_empty() {
        command.arg("--release");
    }
    command.arg("--").args(rest);
    let status = command.status().with_context(|| format!("cannot start {}", show(&command)))?;
    Ok(match status.code() {
        Some(0) => ExitCode::SUCCESS,
        Some(2) => ExitCode::from(2),
        _ => ExitCode::from(1),
    })
}
