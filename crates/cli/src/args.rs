//! Every command, flag and help text.

use crate::CliError;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
}

// Flags of every command. Not a doc comment: clap would show it as the program's.
#[derive(Clone, Debug, Default, Args)]
pub struct Globals {
    /// How to print results
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT", help_heading = "Global options")]
    pub format: Format,
    /// Context to use instead of the selected one
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub context: Option<String>,
    /// Tenant to act for, when it is not the token's own
    #[arg(long, global = true, value_name = "ID", help_heading = "Global options")]
    pub tenant: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Nodes: list them, look at one, revoke one
    #[command(subcommand)]
    Nodes(NodesCommand),
    /// Commands: send one to a node, wait for it, look at what became of it
    #[command(subcommand)]
    Commands(CommandsCommand),
    /// Events: what happened, and what happens now
    #[command(subcommand)]
    Events(EventsCommand),
    /// Join tokens: what a machine shows once to become a node
    #[command(subcommand)]
    JoinTokens(JoinTokensCommand),
    /// API tokens: how programs prove who they are
    #[command(subcommand)]
    ApiTokens(ApiTokensCommand),
    /// Sites: rooms, cages and labs
    #[command(subcommand)]
    Sites(SitesCommand),
    /// Pools: nodes that belong together
    #[command(subcommand)]
    Pools(PoolsCommand),
    /// Show the fleet: its id, its version, how many nodes are there
    Fleet,
    /// Contexts: which control plane these commands talk to
    #[command(subcommand)]
    Context(ContextCommand),
    /// Print a completion script for a shell
    Completions {
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub struct Page {
    /// Go on after the last item of an earlier page
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
    /// Items at most; without it all are fetched
    #[arg(long, value_name = "N")]
    pub limit: Option<u32>,
}

#[derive(Debug, Args)]
pub struct Key {
    /// Idempotency key: repeating a command with the same key has no second effect [default: random]
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum NodesCommand {
    /// List nodes
    List {
        /// Only those of this pool (id or unique name)
        #[arg(long, value_name = "POOL")]
        pool: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Show one node and what it is made of
    Get {
        /// Id or unique name
        node: String,
    },
    /// Revoke a node and its certificates for good; its session ends at once
    Revoke {
        /// Id or unique name
        node: String,
        /// For the audit trail
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        key: Key,
    },
}

#[derive(Debug, Subcommand)]
pub enum CommandsCommand {
    /// Send a command to a node
    Run(RunArgs),
    /// Show one command
    Get { id: String },
    /// List commands, newest first
    List {
        /// Only those of this node (id or unique name)
        #[arg(long, value_name = "NODE")]
        node: Option<String>,
        /// Only those in this state, as `running`
        #[arg(long, value_name = "STATE", value_parser = parse_state)]
        state: Option<api_types::CommandState>,
        #[command(flatten)]
        page: Page,
    },
    /// Ask for a command to be given up; what already happened is reported all the same
    Cancel {
        id: String,
        /// Reaches the node
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        key: Key,
    },
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Id or unique name of the node
    pub node: String,
    /// As `diag.nvml`, `node.reboot`, `inventory.refresh`, `gpu.reset`, `logs.collect`
    pub kind: String,
    /// The kind's request as JSON, or @FILE, or @- for standard input
    #[arg(long, value_name = "JSON|@FILE")]
    pub payload: Option<String>,
    /// Wait until the command is settled; the exit status is 0 only if it succeeded
    #[arg(long)]
    pub wait: bool,
    /// Seconds to wait at most; the command itself goes on
    #[arg(long, value_name = "SECONDS", requires = "wait")]
    pub timeout: Option<u64>,
    /// Write the output that the result names (logs.collect) to this file, checked; needs --wait
    #[arg(long, value_name = "FILE", requires = "wait")]
    pub out: Option<PathBuf>,
    /// Seconds from now after which the command must not start [default: 300]
    #[arg(long, value_name = "SECONDS")]
    pub not_after: Option<i64>,
    /// Spec generation the command presupposes
    #[arg(long, value_name = "N")]
    pub min_generation: Option<u64>,
    #[command(flatten)]
    pub key: Key,
}

#[derive(Debug, Subcommand)]
pub enum EventsCommand {
    /// List kept events, oldest first
    List {
        /// A topic, or a prefix that ends in a dot, as `node.`
        #[arg(long, value_name = "TOPIC")]
        topic: Option<String>,
        /// Only those about this node (id or unique name)
        #[arg(long, value_name = "NODE")]
        node: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Print events as they happen, one line each, until interrupted
    Watch {
        /// A topic, or a prefix that ends in a dot, as `node.`
        #[arg(long, value_name = "TOPIC")]
        topic: Option<String>,
        /// Only those about this node (id or unique name)
        #[arg(long, value_name = "NODE")]
        node: Option<String>,
        /// Start after this position instead of now; 0 for the oldest kept event
        #[arg(long, value_name = "POSITION")]
        after: Option<u64>,
    },
}

#[derive(Debug, Subcommand)]
pub enum JoinTokensCommand {
    /// Make a join token
    Create {
        /// Pool the node will belong to (id or unique name)
        #[arg(long, value_name = "POOL")]
        pool: String,
        /// Machines that may join with it
        #[arg(long, value_name = "N", default_value_t = 1)]
        uses: u32,
        /// Seconds until it expires, 60 to 86400
        #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
        ttl: u64,
        /// Only a machine with this MAC address may use it
        #[arg(long, value_name = "MAC")]
        expect_mac: Option<String>,
        /// A machine that is a node already may come back as the same node
        #[arg(long)]
        allow_reclaim: bool,
        /// Write the token to a new 0600 file and do not print it
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        key: Key,
    },
    /// List join tokens; never the bearer
    List {
        /// Only those of this pool (id or unique name)
        #[arg(long, value_name = "POOL")]
        pool: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Revoke a join token by its id
    Revoke {
        /// `jt_...`, never the token itself
        id: String,
        #[command(flatten)]
        key: Key,
    },
}

#[derive(Debug, Subcommand)]
pub enum ApiTokensCommand {
    /// Make an API token
    Create {
        /// What it is for
        #[arg(long, value_name = "NAME")]
        name: String,
        /// Seconds until it expires; without it, it does not
        #[arg(long, value_name = "SECONDS")]
        ttl: Option<u64>,
        /// Write the token to a new 0600 file and do not print it
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        key: Key,
    },
    /// List API tokens; never the bearer
    List {
        #[command(flatten)]
        page: Page,
    },
    /// Revoke an API token by its id
    Revoke {
        /// The id, never the token itself
        id: String,
        #[command(flatten)]
        key: Key,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SiteKindArg {
    Shared,
    Dedicated,
    Owned,
}

#[derive(Debug, Subcommand)]
pub enum SitesCommand {
    /// Make a site
    Create {
        /// Unique name
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        #[arg(long, value_enum, default_value_t = SiteKindArg::Shared, value_name = "KIND")]
        kind: SiteKindArg,
        /// Region label, as eu-central-1
        #[arg(long, value_name = "REGION")]
        region: String,
        /// The region's name in policies, when it differs
        #[arg(long, value_name = "REGION")]
        iam_region: Option<String>,
        /// The tenant a dedicated site is for
        #[arg(long, value_name = "ID")]
        dedicated_tenant: Option<String>,
        #[command(flatten)]
        key: Key,
    },
    /// Show one site
    Get {
        /// Id or unique name
        site: String,
    },
    /// List sites
    List {
        #[command(flatten)]
        page: Page,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum AdoptionArg {
    Auto,
    Manual,
}

#[derive(Debug, Subcommand)]
pub enum PoolsCommand {
    /// Make a pool
    Create {
        /// Unique name
        #[arg(long, value_name = "NAME")]
        name: String,
        /// Site it is on (id or unique name)
        #[arg(long, value_name = "SITE")]
        site: String,
        /// Whether new nodes become ready by themselves
        #[arg(long, value_enum, default_value_t = AdoptionArg::Auto, value_name = "HOW")]
        adoption: AdoptionArg,
        /// The tenant controls the machines: no destructive command is sent to them
        #[arg(long)]
        tenant_controlled: bool,
        #[command(flatten)]
        key: Key,
    },
    /// Show one pool
    Get {
        /// Id or unique name
        pool: String,
    },
    /// List pools
    List {
        #[command(flatten)]
        page: Page,
    },
}

#[derive(Debug, Subcommand)]
pub enum ContextCommand {
    /// List contexts; the selected one is marked
    List,
    /// Select a context
    Use { name: String },
    /// Show the context these commands use, without its secret
    Show,
}

fn parse_state(text: &str) -> Result<api_types::CommandState, String> {
    serde_json::from_value(serde_json::Value::String(text.to_lowercase())).map_err(|_| {
        "it is one of pending, dispatched, acked, running, succeeded, failed, rejected, cancelled, expired".to_owned()
    })
}

pub(crate) fn completions(shell: clap_complete::Shell, mut root: clap::Command) -> Result<ExitCode, CliError> {
    let name = root.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut root, name, &mut script);
    crate::output::write(&script)?;
    Ok(ExitCode::SUCCESS)
}
