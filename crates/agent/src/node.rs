//! `bcd node`: puts one daemon together over its host and runs it until it is stopped. Identity, journal,
//! engine, workers and the tasks around them begin here and end here.

use crate::clock::AgentClock;
use crate::conditions::Conditions;
use crate::config::Config;
use crate::driver::{self, Driver, Event, Exit, KEEP_QUEUE, Keep, transition};
use crate::identity::{Identity, IdentityError, IdentityStore};
use crate::inventory::InventoryBoard;
use crate::journal_thread::JournalThread;
use crate::keeper::Keeper;
use crate::kinds::{self, Uploader, Workers};
use crate::outside::NodeOutside;
use crate::renew::Renewer;
use crate::status::{self, About, StatusError};
use crate::transport::Gateway;
use host::{Host, HostError};
use journal::{Birth, JournalError, OpenedFile};
use model::{BootId, IncarnationId, JournalId, Role, ServerTimeMs};
use node_core::{Engine, EngineConfig, JournalLimits};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use stdx::clock::{boottime, wall_unix_ms};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The machine is looked at again this often, for a change that nobody announced.
const INVENTORY_EVERY: Duration = Duration::from_secs(10 * 60);
/// Events from workers and others that wait for the driver.
const EVENTS_WAITING_MAX: usize = 64;
/// The mark beside the journal is at most this far behind the last server time of a session: it moves with
/// every five minutes, and a heartbeat may be on its way.
const MARK_BEHIND_MOST_MS: i64 = 6 * 60_000;

#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("this machine has not joined: run bcd join first (no identity in {})", .0.display())]
    NotJoined(PathBuf),
    #[error("the identity is of a {0}, bcd node needs one of a node")]
    Role(Role),
    #[error("[{0}] in config.toml is not in this version")]
    NotInThisVersion(&'static str),
    #[error("the host does not say which boot this is")]
    Boot(#[source] HostError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("cannot start the journal's thread")]
    Thread(#[source] std::io::Error),
    #[error(transparent)]
    Status(#[from] StatusError),
}

/// Runs one daemon over `host`. Returns once everything it started has ended and its journal is free.
pub async fn run(config: &Config, host: Arc<dyn Host>, stop: CancellationToken) -> Result<Exit, NodeError> {
    refuse_what_is_not_here(config)?;
    let store = IdentityStore::new(&config.data_dir);
    let loaded = store.load()?.ok_or_else(|| NodeError::NotJoined(config.data_dir.clone()))?;
    if loaded.identity.role != Role::Node {
        return Err(NodeError::Role(loaded.identity.role));
    }
    let boot_id = host.boot_id().map_err(NodeError::Boot)?;
    let identity = loaded.identity.clone();
    let OpenedFile { journal, moved_aside } = open_journal(config, &identity)?;
    let keeper = Keeper::new(store, loaded);
    keeper.store_journal_id(journal.state().meta().journal_id.clone())?;

    let about = about(config, &identity, &*host, boot_id);
    let clock = AgentClock::new(identity.time_mark.max(journal.state().meta().time_mark));
    let mut first = vec![transition(
        "daemon.started",
        [
            ("boot_id", about.boot_id.to_string()),
            ("incarnation", about.incarnation.to_string()),
            ("version", about.version.clone()),
        ],
    )];
    if let Some(moved) = moved_aside {
        tracing::error!(path = %moved.path.display(), why = moved.why, "a damaged journal was moved aside");
        let path = moved.path.display().to_string();
        first.push(transition("journal.moved-aside", [("path", path), ("why", moved.why)]));
    }
    let (events_tx, events) = mpsc::channel(EVENTS_WAITING_MAX);
    let (keep, keep_rx) = mpsc::channel(KEEP_QUEUE);
    let (conditions, inventory) = (Arc::new(Conditions::default()), Arc::new(InventoryBoard::default()));
    let outside = NodeOutside::new(keeper.clone(), config.join_signing_pin);
    let engine = Engine::new(engine_config(config, &about), journal.state().clone(), outside, boottime());
    let gateway = Gateway::of(config);
    let uploader = Uploader { keeper: keeper.clone(), gateway: gateway.clone(), clock: clock.clone() };
    let workers = Workers::spawn(kinds::Context {
        host: host.clone(),
        inventory: inventory.clone(),
        conditions: conditions.clone(),
        uploader,
        spool_dir: config.data_dir.clone(),
        events: events_tx.clone(),
    });
    let renewer = Renewer {
        keeper: keeper.clone(),
        gateway: gateway.clone(),
        join_signing_pin: config.join_signing_pin,
        clock: clock.clone(),
    };
    // They end with this value, when the driver has returned.
    let mut tasks = JoinSet::new();
    tasks.spawn(status::serve(status::bind(&config.socket_path)?, events_tx.clone()));
    tasks.spawn(look_at_inventory(host, inventory, events_tx.clone()));
    tasks.spawn(write_identity(keeper.clone(), keep_rx));
    tasks.spawn(renewer.run(on_renewed(events_tx)));

    let journal = JournalThread::spawn(journal).map_err(NodeError::Thread)?;
    tracing::info!(node_id = %about.node_id, version = about.version, boot_id = %about.boot_id, "bcd node runs");
    let parts =
        driver::Parts { engine, journal, workers, events, keep, keeper, gateway, clock, conditions, about, first };
    Ok(Driver::new(parts).run(stop).await)
}

/// A section that would change what root may do, or how the gateway is reached, is never passed over.
fn refuse_what_is_not_here(config: &Config) -> Result<(), NodeError> {
    if config.helper.is_some() {
        return Err(NodeError::NotInThisVersion("helper"));
    }
    if config.websocket.url.is_some() {
        return Err(NodeError::NotInThisVersion("websocket"));
    }
    let unused = [
        (config.plugins.dir.is_some(), "plugins"),
        (config.imds_listen.is_some(), "imds"),
        (!config.update.release_pins.is_empty(), "update"),
        (!config.kubernetes.allowed_clusters.is_empty(), "kubernetes"),
    ];
    for (_, section) in unused.iter().filter(|(is_set, _)| *is_set) {
        tracing::warn!(section, "this section of config.toml has no effect in this version");
    }
    Ok(())
}

fn open_journal(config: &Config, identity: &Identity) -> Result<OpenedFile, JournalError> {
    journal::open_directory(&config.data_dir, wall_unix_ms(), |is_damaged| Birth {
        node_id: identity.node_id.clone(),
        journal_id: JournalId::new(format!("journal_{}", stdx::id::random(&mut rand::rng()))),
        birth: birth(identity, is_damaged || identity.journal_id.is_some(), wall_unix_ms()),
        time_mark: identity.time_mark,
    })
}

/// F-Q13. A first journal is as old as the node. One that replaces a lost journal is as young as anything
/// the lost one can have seen: the host's clock counts only within what the mark leaves open.
fn birth(identity: &Identity, replaces_lost: bool, wall_unix_ms: i64) -> ServerTimeMs {
    if !replaces_lost {
        return identity.joined_at;
    }
    let mark = identity.time_mark;
    ServerTimeMs(wall_unix_ms.clamp(mark.0, mark.0.saturating_add(MARK_BEHIND_MOST_MS)))
}

fn about(config: &Config, identity: &Identity, host: &dyn Host, boot_id: BootId) -> About {
    About {
        version: crate::VERSION.to_owned(),
        node_id: identity.node_id.clone(),
        fleet_id: identity.fleet_id.to_string(),
        role: identity.role,
        site: identity.site.clone(),
        pool: identity.pool.clone(),
        hostname: host.hostname(),
        boot_id,
        incarnation: IncarnationId::new(stdx::id::random(&mut rand::rng())),
        gateway_url: config.gateway_url.text.clone(),
    }
}

fn engine_config(config: &Config, about: &About) -> EngineConfig {
    EngineConfig {
        node_id: about.node_id.clone(),
        role: about.role,
        daemon_version: about.version.clone(),
        hostname: about.hostname.clone(),
        boot_id: about.boot_id.clone(),
        incarnation: about.incarnation.clone(),
        capabilities: Vec::new(),
        limits: JournalLimits { bytes_max: config.journal.bytes_max, events_max: config.journal.events_max },
        awaits_approvers: config.approver_set_sha256.is_some(),
    }
}

/// Looks at the machine now and then.
async fn look_at_inventory(host: Arc<dyn Host>, board: Arc<InventoryBoard>, events: mpsc::Sender<Event>) {
    loop {
        let (host, board) = (host.clone(), board.clone());
        let looking = tokio::task::spawn_blocking(move || board.observe(&host.inventory()));
        match looking.await {
            Ok(observed) => {
                if events.send(Event::Inventory(observed)).await.is_err() {
                    return;
                }
            }
            Err(_) => tracing::error!("collecting the inventory panicked"),
        }
        tokio::time::sleep(INVENTORY_EVERY).await;
    }
}

/// Writes what the machine wants kept, in order. A mark or a bundle that is not written comes again.
async fn write_identity(keeper: Keeper, mut changes: mpsc::Receiver<Keep>) {
    while let Some(change) = changes.recv().await {
        let keeper = keeper.clone();
        let writing = tokio::task::spawn_blocking(move || match change {
            Keep::Bundle(signed) => keeper.store_bundle(signed),
            Keep::Mark(mark) => keeper.store_mark(mark),
        });
        match writing.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(error = stdx::error::chain(&error), "identity.json cannot be written"),
            Err(_) => tracing::error!("writing identity.json panicked"),
        }
    }
}

fn on_renewed(events: mpsc::Sender<Event>) -> crate::renew::OnRenewed {
    Box::new(move |serial, not_after_ms| {
        // A full queue loses this event and nothing else: the certificate is stored.
        if events.try_send(Event::Renewed { serial, not_after_ms }).is_err() {
            tracing::warn!("the event of a renewal was lost");
        }
    })
}

#[cfg(test)]
mod tests;
