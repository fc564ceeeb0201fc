//! N nodes in one process, each the real daemon over a simulated machine with a root of its own:
//!
//! ```text
//! ROOT/effects.log           what the machines did to the world
//! ROOT/<n>/config.toml       written from the flags at each start
//! ROOT/<n>/data              identity and journal
//! ROOT/<n>/host              the machine itself
//! ROOT/<n>/bcd.sock          the status socket
//! ```
//!
//! A reboot of a machine ends its daemon and starts another in the next boot.

use agent::config::{self, Build, Config};
use agent::driver::Exit;
use agent::identity::IdentityStore;
use agent::join::{self, Timing};
use agent::{node, token};
use anyhow::Context;
use fakehw::FakeHost;
use host::Host;
use model::Role;
use pki::{JoinToken, PublicKey};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const NODES_MAX: u32 = 4096;
const WORKER_THREADS: usize = 2;
const BLOCKING_THREADS_MAX: usize = 64;
const END_WITHIN: Duration = Duration::from_secs(2);
const DIRECTORY_MODE: u32 = 0o700;
const CONFIG_MODE: u32 = 0o600;

#[derive(Debug, clap::Args)]
pub struct SimArgs {
    /// How many nodes, from 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(NODES_MAX)))]
    count: u32,
    /// Where the nodes keep everything.
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    #[arg(long, value_name = "URL")]
    gateway_url: String,
    /// The name the gateway's certificate carries, when it is not the URL's host.
    #[arg(long, value_name = "NAME")]
    gateway_server_name: Option<String>,
    #[arg(long)]
    site: String,
    #[arg(long, value_name = "PIN")]
    serving_ca_pin: String,
    #[arg(long, value_name = "PIN")]
    join_signing_pin: String,
    #[arg(long, value_name = "PIN")]
    join_encryption_pin: String,
    /// The public key that join tokens are sealed to, as a JWK.
    #[arg(long, value_name = "FILE")]
    join_encryption_jwk: PathBuf,
    /// A token for as many uses as nodes have not joined yet. Unlike `bcd join`, this keeps it.
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// Where each reset and reboot leaves a line; ROOT/effects.log by default.
    #[arg(long, value_name = "FILE")]
    effects_log: Option<PathBuf>,
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: String,
}

pub fn run(args: &SimArgs) -> ExitCode {
    match start(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bcd-sim sim: {error:#}");
            ExitCode::from(bcd::FAILED)
        }
    }
}

fn start(args: &SimArgs) -> anyhow::Result<()> {
    let nodes = (1..=args.count).map(|index| SimNode::prepare(args, index)).collect::<anyhow::Result<Vec<_>>>()?;
    agent::logging::start(nodes.first().context("no nodes")?.config.log);
    let joining = Arc::new(Joining::prepare(args, &nodes)?);
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .max_blocking_threads(BLOCKING_THREADS_MAX.max(args.count as usize / 2))
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let ended = runtime.block_on(run_all(nodes, joining));
    runtime.shutdown_timeout(END_WITHIN);
    ended
}

/// Runs every node until a signal; the first node that fails ends all.
async fn run_all(nodes: Vec<SimNode>, joining: Arc<Joining>) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let mut running = JoinSet::new();
    for node in nodes {
        running.spawn(node.run(joining.clone(), stop.clone()));
    }
    let listen = |kind| signal(kind).context("cannot listen for signals");
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let mut failure = None;
    loop {
        tokio::select! {
            // Cancel-safe, both: a signal stays noticed.
            _ = terminate.recv() => stop.cancel(),
            _ = interrupt.recv() => stop.cancel(),
            // Cancel-safe: an ended task stays in the set until it is taken.
            ended = running.join_next() => match ended {
                None => return failure.map_or(Ok(()), Err),
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => {
                    stop.cancel();
                    failure.get_or_insert(error);
                }
                Some(Err(error)) => {
                    stop.cancel();
                    failure.get_or_insert(anyhow::Error::new(error).context("a node panicked"));
                }
            },
        }
    }
}

/// What a node that has not joined needs.
struct Joining {
    seal_to: PublicKey,
    /// Read only when somebody needs it.
    token: Option<JoinToken>,
}

impl Joining {
    fn prepare(args: &SimArgs, nodes: &[SimNode]) -> anyhow::Result<Self> {
        let config = &nodes.first().context("no nodes")?.config;
        let seal_to = join::read_jwk_file(&args.join_encryption_jwk, config)?;
        let mut is_needed = false;
        for node in nodes {
            is_needed |= IdentityStore::new(&node.config.data_dir).load()?.is_none();
        }
        let token = if is_needed { Some(token::from_file(&args.token_file)?) } else { None };
        Ok(Self { seal_to, token })
    }
}

struct SimNode {
    index: u32,
    config: Config,
    host_root: PathBuf,
    effects_log: PathBuf,
}

impl SimNode {
    fn prepare(args: &SimArgs, index: u32) -> anyhow::Result<Self> {
        let root = std::path::absolute(&args.root)?.join(index.to_string());
        stdx::durable::create_directory(&root, DIRECTORY_MODE)?;
        let text = config_text(args, &root)?;
        let path = root.join("config.toml");
        stdx::durable::write_file(&path, text.as_bytes(), CONFIG_MODE)?;
        let config = config::load(&path, Build::Development)?;
        let effects_log = args.effects_log.clone().unwrap_or_else(|| args.root.join("effects.log"));
        Ok(Self { index, config, host_root: root.join("host"), effects_log: std::path::absolute(effects_log)? })
    }

    async fn run(self, joining: Arc<Joining>, stop: CancellationToken) -> anyhow::Result<()> {
        let index = self.index;
        self.run_boots(&joining, &stop).await.with_context(|| format!("node sim-{index}"))
    }

    /// One daemon after the other, a boot each.
    async fn run_boots(&self, joining: &Joining, stop: &CancellationToken) -> anyhow::Result<()> {
        loop {
            let host = FakeHost::open(&self.host_root, self.index, &self.effects_log)?;
            let host: Arc<dyn Host> = Arc::new(host);
            if IdentityStore::new(&self.config.data_dir).load()?.is_none() && !self.join(joining, &*host, stop).await? {
                return Ok(());
            }
            match node::run(&self.config, host, stop.clone()).await? {
                Exit::Stopped => return Ok(()),
                Exit::RestartSimulated => tracing::info!(index = self.index, "the simulated machine boots again"),
            }
        }
    }

    /// Joins; false when it was told to stop first.
    async fn join(&self, joining: &Joining, host: &dyn Host, stop: &CancellationToken) -> anyhow::Result<bool> {
        let token = joining.token.as_ref().context("the identity went away")?;
        let claims = join::claims(&self.config, Role::Node, host);
        let timing = Timing { unreachable_most: None, ..Timing::default() };
        tokio::select! {
            // Cancel-safe: a join that is cut short goes on where it was.
            joined = join::join(&self.config, claims, token, &joining.seal_to, &timing) => joined.map(|_| true).map_err(Into::into),
            // Cancel-safe: a token only ever changes to cancelled.
            () = stop.cancelled() => Ok(false),
        }
    }
}

/// The node's configuration as an install would write it. Values that cannot stand in it are refused.
fn config_text(args: &SimArgs, root: &Path) -> anyhow::Result<String> {
    let mut text = String::from("# Written by bcd-sim at each start.\n");
    let mut put = |key: &str, value: &str| {
        anyhow::ensure!(!value.contains(['\'', '\n', '\r']), "{key} may not hold quotes or line breaks");
        text.push_str(&format!("{key} = '{value}'\n"));
        Ok(())
    };
    put("gateway_url", &args.gateway_url)?;
    put("site", &args.site)?;
    put("serving_ca_spki_pin", &args.serving_ca_pin)?;
    put("join_signing_key_pin", &args.join_signing_pin)?;
    put("join_encryption_key_pin", &args.join_encryption_pin)?;
    put("data_dir", &root.join("data").to_string_lossy())?;
    put("socket_path", &root.join("bcd.sock").to_string_lossy())?;
    if let Some(name) = &args.gateway_server_name {
        put("gateway_server_name", name)?;
    }
    if args.gateway_url.starts_with("http://") {
        text.push_str("dev_insecure_h2c = true\n");
    }
    text.push_str(&format!("[log]\nlevel = '{}'\n", args.log_level.replace('\'', "")));
    Ok(text)
}
