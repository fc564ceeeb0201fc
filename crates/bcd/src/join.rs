//! `bcd join`.

use crate::args::JoinArgs;
use crate::{FAILED, USAGE, failed};
use agent::config::{self, Build, Config};
use agent::identity::IdentityStore;
use agent::join::{self, Timing};
use agent::token::{self, TOKEN_VARIABLE, TokenReadError};
use host::RealHost;
use model::Role;
use pki::JoinToken;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

const TPM: &str = "/dev/tpmrm0";

pub fn run(args: &JoinArgs, build: Build) -> ExitCode {
    if let Some(refusal) = args.refusal() {
        eprintln!("{}", refusal.message());
        return ExitCode::from(USAGE);
    }
    let config = match config::load(&args.config, build) {
        Ok(config) => config,
        Err(error) => return failed("bcd join", &error),
    };
    agent::logging::start(config.log);
    match IdentityStore::new(&config.data_dir).load() {
        Ok(Some(loaded)) => {
            args.token_file.iter().for_each(|path| token::discard(path));
            println!("already joined as {}", loaded.identity.node_id);
            return ExitCode::SUCCESS;
        }
        Ok(None) => {}
        Err(error) => return failed("bcd join", &error),
    }
    let seal_to = match join::read_jwk(&args.config, &config) {
        Ok(key) => key,
        Err(error) => return failed("bcd join", &error),
    };
    let token = match read_token(args.token_file.as_deref()) {
        Ok(token) => token,
        Err(error) => {
            eprintln!("bcd join: {}", stdx::error::chain(&error));
            return ExitCode::from(if error.is_usage() { USAGE } else { FAILED });
        }
    };
    if Path::new(TPM).exists() {
        tracing::info!(device = TPM, "this host has a TPM; this version keeps the node key in a file");
    }
    match join_now(&config, &token, &seal_to) {
        Ok(code) => {
            args.token_file.iter().for_each(|path| token::discard(path));
            code
        }
        Err(code) => code,
    }
}

fn join_now(config: &Config, token: &JoinToken, seal_to: &pki::PublicKey) -> Result<ExitCode, ExitCode> {
    let claims = join::claims(config, Role::Node, &RealHost::default());
    let runtime = crate::node::runtime().map_err(|error| failed("bcd join", &error))?;
    let timing = Timing::default();
    let joining = runtime.block_on(async {
        tokio::select! {
            // Cancel-safe: a join that is cut short goes on where it was.
            result = join::join(config, claims, token, seal_to, &timing) => Some(result),
            // Cancel-safe: a signal stays noticed.
            () = crate::node::stop_signal() => None,
        }
    });
    match joining {
        Some(Ok(identity)) => {
            println!("joined as {}", identity.node_id);
            Ok(ExitCode::SUCCESS)
        }
        Some(Err(error)) => Err(failed("bcd join", &error)),
        None => {
            eprintln!("bcd join: stopped; the same call goes on with the same request");
            Err(ExitCode::from(FAILED))
        }
    }
}

fn read_token(file: Option<&Path>) -> Result<JoinToken, TokenReadError> {
    if let Some(path) = file {
        return token::from_file(path);
    }
    if let Some(text) = std::env::var_os(TOKEN_VARIABLE) {
        return token::parse(text.as_encoded_bytes());
    }
    let input = std::io::stdin();
    if input.is_terminal() { Err(TokenReadError::Absent) } else { token::from_input(input.lock()) }
}

#[cfg(test)]
mod tests;
