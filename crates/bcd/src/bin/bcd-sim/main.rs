//! `bcd-sim`: `bcd` with the development relaxations, and `sim`, which runs many daemons over simulated
//! hosts in one process. It is shipped for development and never installed on a machine of a fleet.

mod sim;

use agent::config::Build;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// bcd for development: simulated nodes, and bcd's own commands.
#[derive(Debug, Parser)]
#[command(name = "bcd-sim", version, about)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run simulated nodes in one process.
    Sim(sim::SimArgs),
    #[command(flatten)]
    Bcd(bcd::args::Command),
}

fn main() -> ExitCode {
    match bcd::args::parse::<Args>("bcd-sim") {
        Ok(Args { command: Command::Sim(args) }) => sim::run(&args),
        Ok(Args { command: Command::Bcd(command) }) => bcd::run(command, Build::Development),
        Err(code) => code,
    }
}
