//! The role's life: start with this role's keys, ready, drain.

use crate::join::{self, JoinService};
use crate::metrics::Metrics;
use crate::resigner::Resigner;
use crate::retention::Retention;
use crate::runner::{self, Context};
use crate::sequencer::Sequencer;
use crate::server_time::ServerTimeSigner;
use crate::sweeper::Sweeper;
use crate::verifier::Verifier;
use kernel::db::{Store, StoreError};
use pki::roles::{ControllersKeys, JoinKeys};
use prometheus_client::registry::Registry;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub struct ControllersOptions {
    /// Who holds leases for this process. Where one process at a time can open the store, a constant: a
    /// restart then goes on at once instead of waiting for its own old lease.
    pub holder: String,
    /// Where gateways put blobs.
    pub blobs: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the join keys are of fleet {join} and the controllers' keys of fleet {controllers}")]
    KeysOfTwoFleets { join: String, controllers: String },
    #[error("the store belongs to fleet {stored} and the keys to fleet {keys}; this is another fleet's data directory")]
    OtherFleet { stored: String, keys: String },
    #[error("cannot prepare the trust bundle")]
    Sign(#[source] pki::signed::SignatureError),
    #[error("the store cannot be used")]
    Store(#[from] StoreError),
}

/// The running role.
pub struct Controllers {
    tasks: JoinSet<()>,
    drain: watch::Sender<bool>,
}

impl Controllers {
    /// Returns once every controller runs; whether each holds its lease shows in the metrics.
    pub async fn start(
        join_keys: JoinKeys,
        keys: ControllersKeys,
        store: Store,
        options: ControllersOptions,
        registry: &mut Registry,
    ) -> Result<Self, StartError> {
        let (join_fleet, fleet) = (join_keys.public.fleet_id.to_string(), keys.public.fleet_id.to_string());
        if join_fleet != fleet {
            return Err(StartError::KeysOfTwoFleets { join: join_fleet, controllers: fleet });
        }
        let join_keys = Arc::new(join_keys);
        join::prepare(&store, &join_keys).await?;
        let (drain, drained) = watch::channel(false);
        let metrics = Metrics::register(registry);
        let context = Context { store, holder: options.holder, metrics, drain: drained };
        let worker = Arc::new(keys.worker);
        let mut tasks = JoinSet::new();
        tasks.spawn(runner::run(Sequencer, context.clone()));
        tasks.spawn(runner::run(ServerTimeSigner::new(fleet, worker.clone()), context.clone()));
        tasks.spawn(runner::run(JoinService::new(join_keys), context.clone()));
        tasks.spawn(runner::run(Verifier, context.clone()));
        tasks.spawn(runner::run(Sweeper, context.clone()));
        tasks.spawn(runner::run(Resigner::new(worker), context.clone()));
        tasks.spawn(runner::run(Retention::new(options.blobs), context));
        Ok(Self { tasks, drain })
    }

    /// Lets every controller finish its step, release its lease and end.
    pub async fn drain(mut self) {
        self.drain.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a controller panicked");
            }
        }
    }

    /// Returns if a controller ended by itself, which only a defect does.
    pub async fn failed(&mut self) -> String {
        match self.tasks.join_next().await {
            Some(Err(error)) => format!("a controller panicked: {error}"),
            Some(Ok(())) | None => "a controller ended by itself".to_owned(),
        }
    }
}
