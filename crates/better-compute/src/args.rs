//! The program's command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The API's address when none is given.
pub(crate) const LISTEN: &str = "127.0.0.1:8420";
/// The gateway's address when none is given.
pub(crate) const GATEWAY_LISTEN: &str = "127.0.0.1:8421";

/// Bare-metal GPU fleets: the control plane, and the commands to operate it
#[derive(Parser)]
#[command(name = "better-compute", version, max_term_width = 120)]
pub(crate) struct Program {
    #[command(flatten)]
    pub globals: cli::Globals,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run roles of the control plane
    Serve(ServeArgs),
    /// Run a whole fleet on this machine: a control plane and simulated nodes
    Dev(DevArgs),
    /// Make, split and show the keys of a fleet
    #[command(subcommand)]
    Pki(PkiCommand),
    /// Make the first API token of a new store, before anybody can call the API
    Bootstrap(BootstrapArgs),
    #[command(flatten)]
    Cli(cli::Command),
}

/// A part of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Role {
    Api,
    Gateway,
    Controllers,
    Console,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

// How sealed key files are opened.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Unseal {
    /// Key file that opens the sealed keys
    #[arg(long, value_name = "FILE", conflicts_with = "passphrase_file")]
    pub key_file: Option<PathBuf>,
    /// File with the passphrase that opens the sealed keys (its first line)
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Roles of this process
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Role::Api, Role::Gateway, Role::Controllers])]
    pub roles: Vec<Role>,
    /// Where the store and the blobs are
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Address of the API (HTTP without TLS: loopback, or behind a TLS proxy)
    #[arg(long, value_name = "ADDR", default_value = LISTEN)]
    pub listen: SocketAddr,
    /// Address of the gateway (mutual TLS), where nodes connect
    #[arg(long, value_name = "ADDR", default_value = GATEWAY_LISTEN)]
    pub gateway_listen: SocketAddr,
    /// Sealed key file of a role, or a folder of them; exactly those that the roles need [default: DIR/keys]
    #[arg(long, value_name = "PATH")]
    pub keys: Vec<PathBuf>,
    #[command(flatten)]
    pub unseal: Unseal,
    /// Where the API is mounted
    #[arg(long, value_name = "PATH", default_value = api_types::BASE_PATH)]
    pub base_path: String,
    /// Let the API listen beyond loopback, without TLS
    #[arg(long)]
    pub insecure_listen: bool,
    /// Seconds in which sessions and requests may end after SIGTERM
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub drain_seconds: u64,
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub log_format: LogFormat,
    /// Log level, or directives as `info,gateway=debug`
    #[arg(long, value_name = "LEVEL", env = "BETTER_COMPUTE_LOG", default_value = "info")]
    pub log_level: String,
}

#[derive(Args)]
pub(crate) struct DevArgs {
    /// Simulated nodes
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub sim: u32,
    /// Where everything is kept; the next start with it resumes the same fleet
    #[arg(long, value_name = "DIR", default_value = ".dev")]
    pub data_dir: PathBuf,
    /// Address of the API [default: 127.0.0.1:8420, or a free port]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// Address of the gateway [default: 127.0.0.1:8421, or a free port]
    #[arg(long, value_name = "ADDR")]
    pub gateway_listen: Option<SocketAddr>,
}

#[derive(Args)]
pub(crate) struct BootstrapArgs {
    /// Where the store is; no `serve` may be running on it
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Write the token to this new 0600 file
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

#[derive(Subcommand)]
pub(crate) enum PkiCommand {
    /// Make the keys of a new fleet and seal them into one bundle
    Init {
        /// The bundle to write
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// A DNS name or address under which nodes reach the gateways; may be repeated
        #[arg(long = "serving-name", value_name = "NAME", required = true)]
        serving_names: Vec<String>,
        /// Id of the fleet [default: random]
        #[arg(long, value_name = "ID")]
        fleet_id: Option<String>,
        #[command(flatten)]
        unseal: Unseal,
    },
    /// Write one sealed file for each role: gateway, join, api, controllers, offline
    Split {
        /// The bundle that `pki init` wrote
        #[arg(long, value_name = "FILE")]
        bundle: PathBuf,
        /// Folder to write to
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        #[command(flatten)]
        unseal: Unseal,
    },
    /// Show what a key file holds: fingerprints, names and dates, never a private key
    Show {
        file: PathBuf,
        #[command(flatten)]
        unseal: Unseal,
    },
    /// Print the pins for a node's config.toml
    Pins {
        file: PathBuf,
        #[command(flatten)]
        unseal: Unseal,
    },
}
