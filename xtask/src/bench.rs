//! `bench`: builds what is measured with optimizations and starts the measuring program.

use crate::dev;
use crate::process::{cargo, run as run_command};
use anyhow::Result;
use std::process::{Command, ExitCode};

pub const HELP: &str = "\
Usage: cargo xtask bench NAME [ARGUMENTS]

  journal    appends of 300 bytes, each fsynced, alone and 16 at once, against pwrite and fdatasync into a
             preallocated file, in interleaved rounds on the same disk
  delivery   the round trip of a command through API, store, gateway, journal and back, with 3 and with 300
             simulated nodes; resident memory of an idle bcd node; size of the stripped binary

Everything is built with optimizations first. Each prints a table and ends with one line of JSON. Figures
are measured and never asserted: compare them with those of the same run and the same machine.

  --dir DIR  measure on the disk of this folder [default: the target folder]
";

pub fn run(arguments: &[String]) -> Result<ExitCode> {
    match arguments.first().map(String::as_str) {
        Some("journal") => run_command(cargo().args(["build", "--release", "--package", "e2e", "--bin", "bc-bench"]))?,
        Some("delivery") => dev::build(true)?,
        _ => {
            eprint!("{HELP}");
            return Ok(ExitCode::from(2));
        }
    }
    let status = Command::new(dev::programs_dir(true).join("bc-bench")).args(arguments).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
