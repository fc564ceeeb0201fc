//! The command line of `bcd`, the daemon of a machine. Wiring only: what a command does is the `agent`
//! crate's.
//!
//! Data goes to standard output, everything else to standard error. Exit status: 0, 1 for what was refused
//! or failed, 2 for a mistake in the call.

pub mod args;
mod join;
mod node;
mod status;

use agent::config::Build;
use args::{Args, Command};
use std::process::ExitCode;

/// Where `config.toml` is unless a call says otherwise.
pub const CONFIG_DEFAULT: &str = "/etc/bcd/config.toml";

/// What was refused or failed.
pub const FAILED: u8 = 1;
/// A mistake in the call.
pub const USAGE: u8 = 2;

/// Runs `bcd`. `build` says which relaxations this binary knows.
pub fn main(build: Build) -> ExitCode {
    match args::parse::<Args>("bcd") {
        Ok(args) => run(args.command, build),
        Err(code) => code,
    }
}

/// Runs one command.
pub fn run(command: Command, build: Build) -> ExitCode {
    match command {
        Command::Node(args) => node::run(&args, build),
        Command::Join(args) => join::run(&args, build),
        Command::Status(args) => status::run(&args, build),
        Command::Doctor(_) => not_in_this_version("bcd doctor"),
        Command::Update(_) => not_in_this_version("bcd update"),
        Command::Helper(_) => not_in_this_version("bcd helper"),
        Command::Site(_) => not_in_this_version("bcd site"),
        Command::Ramdisk(_) => not_in_this_version("bcd ramdisk"),
    }
}

/// Says that something is not there yet.
pub fn not_in_this_version(what: &str) -> ExitCode {
    eprintln!("{what} is not in this version");
    ExitCode::from(USAGE)
}

/// Says what failed, each cause once.
pub fn failed(command: &str, error: &dyn std::error::Error) -> ExitCode {
    eprintln!("{command}: {}", stdx::error::chain(error));
    ExitCode::from(FAILED)
}
