//! The arguments of `bcd`. A join token is never one of them, and a call that carries one by mistake is
//! refused without a word of it.

use clap::error::ErrorKind;
use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

const JOIN_TOKEN_HINT: &str = "bcd join reads the join token from BCD_JOIN_TOKEN or stdin, never from arguments";

/// The daemon of a machine in a better-compute fleet.
#[derive(Debug, Parser)]
#[command(name = "bcd", version, about)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon of a node.
    Node(ConfigArgs),
    /// Join a fleet with a token from BCD_JOIN_TOKEN or standard input.
    Join(JoinArgs),
    /// Show what the running daemon says of itself.
    Status(StatusArgs),
    /// Check this machine.
    Doctor(RestArgs),
    /// Show the state of self-update.
    Update(RestArgs),
    /// Run the privileged half of an unprivileged node.
    Helper(RestArgs),
    /// Run the agent of a site.
    Site(RestArgs),
    /// Run inside the ramdisk of a machine being prepared.
    Ramdisk(RestArgs),
}

#[derive(Debug, clap::Args)]
pub struct ConfigArgs {
    #[arg(long, value_name = "PATH", default_value = crate::CONFIG_DEFAULT)]
    pub config: PathBuf,
}

#[derive(Debug, clap::Args)]
pub struct JoinArgs {
    #[arg(long, value_name = "PATH", default_value = crate::CONFIG_DEFAULT)]
    pub config: PathBuf,
    /// Read the token from a file of mode 0600 or 0400, and delete it once it is used.
    #[arg(long, value_name = "PATH")]
    pub token_file: Option<PathBuf>,
    /// Only `node` in this version.
    #[arg(long, hide = true)]
    pub role: Option<String>,
    #[arg(long, hide = true)]
    pub attestor: Option<String>,
    #[arg(long, hide = true)]
    pub server: Option<String>,
    #[arg(long, hide = true)]
    pub node_id: Option<String>,
    #[arg(long, hide = true)]
    pub serving_ca_pin: Option<String>,
    #[arg(long, hide = true)]
    pub join_signing_pin: Option<String>,
    #[arg(long, hide = true)]
    pub join_encryption_pin: Option<String>,
    #[arg(long, hide = true)]
    pub reset: bool,
    #[arg(long, hide = true)]
    pub yes: bool,
    /// Taken so that it can be refused without repeating it.
    #[arg(hide = true)]
    pub positional: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    #[arg(long, value_name = "PATH", default_value = crate::CONFIG_DEFAULT)]
    pub config: PathBuf,
    /// The status socket, when it is not the configuration's.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

/// Whatever follows a command that is not there yet.
#[derive(Debug, clap::Args)]
pub struct RestArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    pub rest: Vec<String>,
}

/// Why a call of `bcd join` is refused before anything is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinRefusal {
    Positional,
    NotInThisVersion(&'static str),
}

impl JoinRefusal {
    pub fn message(&self) -> String {
        match self {
            Self::Positional => format!("bcd join: takes no positional arguments\n{JOIN_TOKEN_HINT}"),
            Self::NotInThisVersion(flag) => format!("bcd join: {flag} is not in this version"),
        }
    }
}

impl JoinArgs {
    /// What of this call is refused, if anything.
    pub fn refusal(&self) -> Option<JoinRefusal> {
        if !self.positional.is_empty() {
            return Some(JoinRefusal::Positional);
        }
        let flags = [
            (self.reset, "--reset"),
            (self.yes, "--yes"),
            (self.server.is_some(), "--server"),
            (self.node_id.is_some(), "--node-id"),
            (self.serving_ca_pin.is_some(), "--serving-ca-pin"),
            (self.join_signing_pin.is_some(), "--join-signing-pin"),
            (self.join_encryption_pin.is_some(), "--join-encryption-pin"),
            (self.attestor.as_deref().is_some_and(|attestor| attestor != "join-token"), "--attestor"),
            (self.role.as_deref().is_some_and(|role| role != "node"), "--role"),
        ];
        flags.iter().find(|(is_given, _)| *is_given).map(|(_, flag)| JoinRefusal::NotInThisVersion(flag))
    }
}

/// Parses the arguments of this process, or says what is wrong and answers the exit status.
pub fn parse<A: Parser>(program: &str) -> Result<A, ExitCode> {
    parse_from(program, std::env::args_os().collect())
}

fn parse_from<A: Parser>(program: &str, arguments: Vec<std::ffi::OsString>) -> Result<A, ExitCode> {
    let is_join = arguments.iter().any(|argument| argument == "join");
    A::try_parse_from(arguments).map_err(|error| {
        let is_question = matches!(
            error.kind(),
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        );
        if is_join && !is_question {
            // clap repeats what it does not understand, and that might be a token.
            eprintln!("{program} join: an option is unknown, misspelled or lacks its value; see {program} join --help");
            eprintln!("{JOIN_TOKEN_HINT}");
            return ExitCode::from(crate::USAGE);
        }
        if let Err(error) = error.print() {
            eprintln!("{program}: {error}");
        }
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(crate::USAGE))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(rest: &[&str]) -> JoinArgs {
        let all = ["bcd", "join"].iter().chain(rest).map(std::ffi::OsString::from).collect();
        match parse_from::<Args>("bcd", all).expect("parses").command {
            Command::Join(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_positional_argument_is_refused_and_never_repeated() {
        let refusal = join(&["bcjt_jt_01SECRET"]).refusal().expect("refused");
        assert_eq!(
            refusal.message(),
            "bcd join: takes no positional arguments\n\
             bcd join reads the join token from BCD_JOIN_TOKEN or stdin, never from arguments"
        );
    }

    #[test]
    fn what_is_not_there_yet_is_refused_by_name() {
        for (call, flag) in [
            (vec!["--reset"], "--reset"),
            (vec!["--server", "https://x"], "--server"),
            (vec!["--role", "site"], "--role"),
            (vec!["--node-id", "node_1"], "--node-id"),
            (vec!["--attestor", "tpm"], "--attestor"),
            (vec!["--serving-ca-pin", "sha256/x"], "--serving-ca-pin"),
        ] {
            let refusal = join(&call).refusal().expect("refused");
            assert_eq!(refusal.message(), format!("bcd join: {flag} is not in this version"));
        }
        let args = join(&["--config", "/c", "--token-file", "/t", "--role", "node", "--attestor", "join-token"]);
        assert_eq!((args.refusal(), args.config), (None, PathBuf::from("/c")));
    }

    #[test]
    fn an_unknown_option_of_a_join_is_a_mistake_in_the_call() {
        for bad in [&["join", "--tokn", "x"][..], &["join", "--token-file"], &["join", "-x"]] {
            let all = std::iter::once(&"bcd").chain(bad).map(std::ffi::OsString::from).collect();
            assert!(parse_from::<Args>("bcd", all).is_err());
        }
    }
}
