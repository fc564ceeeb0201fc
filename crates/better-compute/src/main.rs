//! `better-compute`: the control plane's processes, the PKI's files, and the commands people type. Wiring
//! only: what happens is in the roles' crates.

mod args;
mod bootstrap;
mod dev;
mod keys;
mod logging;
mod pki_files;
mod serve;

#[cfg(test)]
mod tests;

use args::{Command, Program};
use clap::{CommandFactory, Parser};
use std::process::ExitCode;

fn main() -> ExitCode {
    let program = Program::parse();
    let outcome = match program.command {
        Command::Serve(args) => serve::run(args),
        Command::Dev(args) => dev::run(&args),
        Command::Pki(command) => pki_files::run(program.globals.format, command),
        Command::Bootstrap(args) => bootstrap::run(&args),
        Command::Cli(command) => return cli_command(program.globals, command),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(1)
        }
    }
}

fn cli_command(globals: cli::Globals, command: cli::Command) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start: {error}");
            return ExitCode::from(1);
        }
    };
    runtime.block_on(cli::run(globals, command, Program::command()))
}
