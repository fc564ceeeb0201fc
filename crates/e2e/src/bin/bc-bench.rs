//! `bc-bench`: the measurements behind `cargo xtask bench`. Each prints a table and ends with one JSON line.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(1)
        }
    }
}

fn run() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().context("which measurement: journal or delivery")?;
    let programs = std::env::current_exe()?.parent().context("a program is in a folder")?.to_owned();
    let mut directory = programs.clone();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--dir" => directory = PathBuf::from(arguments.next().context("--dir needs a folder")?),
            _ => bail!("unknown argument {argument:?}"),
        }
    }
    match name.as_str() {
        "journal" => e2e::bench::journal::run(&directory),
        "delivery" => e2e::bench::delivery::run(&directory),
        _ => bail!("there is no measurement {name:?}"),
    }
}
