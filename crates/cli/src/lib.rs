//! The commands of `better-compute` that people type: nothing here but the API, called through the
//! client, and the words around it.
//!
//! Data goes to standard output, everything else to standard error. The exit status is 0, 1 (refused
//! or failed) or 2 (usage). A bearer token is never printed when a file was asked for, and never
//! accepted where an id belongs.
//!
//! Not here: `serve`, `dev` and `pki`, which belong to the binary.

mod access;
mod args;
mod commands;
mod context;
mod error;
mod events;
mod fleet;
mod nodes;
mod output;
mod place;
mod progress;
mod secret_file;
mod table;
mod time;
mod wait;

pub use args::{Command, Format, Globals};
pub use context::{Context, ContextError, Contexts};
pub use error::CliError;
pub use output::to_yaml;

use std::process::ExitCode;

/// Runs one command and prints what it says. `root` is the whole program's, for its completions.
pub async fn run(globals: Globals, command: Command, root: clap::Command) -> ExitCode {
    match dispatch(&globals, command, root).await {
        Ok(code) => code,
        Err(CliError::Closed) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", stdx::error::chain(&error));
            for line in error.hints() {
                eprintln!("  {line}");
            }
            ExitCode::from(error.exit_status())
        }
    }
}

async fn dispatch(globals: &Globals, command: Command, root: clap::Command) -> Result<ExitCode, CliError> {
    match command {
        Command::Context(command) => context::run(globals, command),
        Command::Completions { shell } => args::completions(shell, root),
        Command::Nodes(command) => nodes::run(&Session::open(globals)?, command).await,
        Command::Commands(command) => commands::run(&Session::open(globals)?, command).await,
        Command::Events(command) => events::run(&Session::open(globals)?, command).await,
        Command::JoinTokens(command) => access::run_join(&Session::open(globals)?, command).await,
        Command::ApiTokens(command) => access::run_api(&Session::open(globals)?, command).await,
        Command::Sites(command) => place::run_sites(&Session::open(globals)?, command).await,
        Command::Pools(command) => place::run_pools(&Session::open(globals)?, command).await,
        Command::Fleet => fleet::run(&Session::open(globals)?).await,
    }
}

/// One invocation: the control plane it talks to, for which tenant, and how it prints.
struct Session {
    client: client::Client,
    tenant: Option<String>,
    format: Format,
}

impl Session {
    fn open(globals: &Globals) -> Result<Self, CliError> {
        let context = context::resolve(globals)?;
        let client = client::Client::new(&client::ClientConfig {
            url: context.url,
            token: context.token,
            retry: client::RetryPolicy::default(),
        })?;
        Ok(Self { client, tenant: globals.tenant.clone().or(context.tenant), format: globals.format })
    }

    fn print<T: serde::Serialize>(&self, value: &T, table: impl FnOnce(&T) -> String) -> Result<ExitCode, CliError> {
        output::print(self.format, value, table)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The key of a mutation: the caller's, or a random one for this invocation.
fn key(given: Option<String>) -> String {
    given.unwrap_or_else(|| format!("cli-{}", stdx::id::random(&mut rand::rng())))
}

#[cfg(test)]
mod tests;
