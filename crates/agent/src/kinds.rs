//! The command kinds this build runs, and the workers that run them: a fixed number of tasks for each lane,
//! none made for a command. Which command may start, and which two never run together, was decided by the
//! engine; a worker gets one piece of work, does it on the host, and says what really happened.

mod execute;
mod logs;

pub use execute::{Ending, Executed, execute};
pub use logs::{UploadError, Uploader};

use crate::conditions::Conditions;
use crate::driver::Event;
use crate::inventory::{InventoryBoard, Observed};
use host::Host;
use model::frame::Any;
use model::{CommandId, FailCode, Kind, Lane};
use node_core::{Work, WorkResult};
use proto::v1;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::task::JoinSet;

/// Everything else in the table of kinds is refused `UNSUPPORTED`.
pub const IMPLEMENTED: &[Kind] =
    &[Kind::InventoryRefresh, Kind::DiagNvml, Kind::GpuReset, Kind::NodeReboot, Kind::LogsCollect];

/// The devices a command acts on. Commands that share one never run at the same time.
pub fn resources(kind: Kind, payload: &Any) -> Vec<String> {
    match kind {
        Kind::GpuReset => proto::unpack::<v1::GpuResetRequest>(payload).map(|request| request.gpu_uuids),
        _ => Ok(Vec::new()),
    }
    .unwrap_or_default()
}

/// What a worker needs beside its work.
pub struct Context {
    pub host: Arc<dyn Host>,
    pub inventory: Arc<InventoryBoard>,
    pub conditions: Arc<Conditions>,
    pub uploader: Uploader,
    /// Where an archive grows before it is sent; nameless, so that a crash leaves nothing.
    pub spool_dir: PathBuf,
    pub events: mpsc::Sender<Event>,
}

type Running = Arc<Mutex<BTreeMap<CommandId, Arc<AtomicBool>>>>;

/// Work that is running when the daemon ends gets this long to stop between two actions.
const END_WITHIN: Duration = Duration::from_secs(5);

/// The workers of all lanes. They end with this value.
pub struct Workers {
    lanes: BTreeMap<Lane, mpsc::Sender<Work>>,
    running: Running,
    tasks: JoinSet<()>,
}

fn lock(running: &Running) -> MutexGuard<'_, BTreeMap<CommandId, Arc<AtomicBool>>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Workers {
    /// Starts every worker of every lane.
    pub fn spawn(context: Context) -> Self {
        let context = Arc::new(context);
        let running = Running::default();
        let mut lanes = BTreeMap::new();
        let mut tasks = JoinSet::new();
        for lane in Lane::ALL {
            let (work_tx, work_rx) = mpsc::channel(lane.credits() as usize);
            let work_rx = Arc::new(AsyncMutex::new(work_rx));
            for _ in 0..lane.workers() {
                tasks.spawn(work_on(work_rx.clone(), context.clone(), running.clone()));
            }
            lanes.insert(lane, work_tx);
        }
        Self { lanes, running, tasks }
    }

    /// Hands work to its lane. The engine starts no more than the lane has workers, so there is always room.
    pub fn start(&self, work: Work) {
        tracing::debug!(command_id = %work.id, kind = work.kind.name(), traceparent = work.traceparent, "work handed over");
        lock(&self.running).insert(work.id.clone(), Arc::default());
        let lane = self.lanes.get(&work.lane).expect("every lane has workers");
        lane.try_send(work).expect("the engine starts no more work than a lane has workers");
    }

    /// Asks a running command to stop before its next action.
    pub fn cancel(&self, id: &CommandId) {
        if let Some(stop) = lock(&self.running).get(id) {
            stop.store(true, Ordering::Release);
        }
    }
}

impl Workers {
    /// Stops what is running before its next action and waits for it, so that nothing of this process acts
    /// on the host once another one begins. Work that does not stop in time is left to its end.
    pub async fn end(self) {
        let Self { lanes, running, mut tasks } = self;
        drop(lanes);
        lock(&running).values().for_each(|stop| stop.store(true, Ordering::Release));
        let ended = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(END_WITHIN, ended).await.is_err() {
            tracing::warn!("a command was still running at the end");
        }
    }
}

async fn work_on(work_rx: Arc<AsyncMutex<mpsc::Receiver<Work>>>, context: Arc<Context>, running: Running) {
    loop {
        let received = work_rx.lock().await.recv().await;
        let Some(work) = received else { return };
        let id = work.id.clone();
        let stop = lock(&running).get(&id).cloned().unwrap_or_default();
        let ending = run(&context, work, stop).await;
        lock(&running).remove(&id);
        let event = match ending {
            Ending::Finished(result) => Event::Finished { id, result },
            Ending::HostGoesDown => {
                tracing::warn!(command_id = %id, "the host goes down");
                continue;
            }
            Ending::RestartSimulated => Event::RestartSimulated,
            Ending::Refreshed => unreachable!("a refresh is answered with what was observed"),
        };
        if context.events.send(event).await.is_err() {
            return;
        }
    }
}

async fn run(context: &Arc<Context>, work: Work, stop: Arc<AtomicBool>) -> Ending {
    if work.kind == Kind::LogsCollect {
        return Ending::Finished(logs::collect(context, &work).await);
    }
    let on_host = context.clone();
    let executed =
        tokio::task::spawn_blocking(move || execute(&*on_host.host, &work, &|| stop.load(Ordering::Acquire)));
    let Ok(executed) = executed.await else {
        return Ending::Finished(failed(FailCode::Internal, "the worker panicked"));
    };
    for uuid in &executed.recovered_gpus {
        context.conditions.gpu_recovered(uuid);
    }
    if let Some(inventory) = executed.inventory {
        let observed = context.inventory.observe(&inventory);
        let ending = match executed.ending {
            Ending::Refreshed => Ending::Finished(refreshed(&inventory, &observed)),
            ending => ending,
        };
        if context.events.send(Event::Inventory(observed)).await.is_err() {
            tracing::debug!("the daemon is stopping");
        }
        return ending;
    }
    executed.ending
}

/// The answer to `inventory.refresh`.
fn refreshed(inventory: &v1::Inventory, observed: &Observed) -> WorkResult {
    succeeded(proto::pack(&v1::InventoryRefreshResult {
        digest: observed.report.digest.clone(),
        changed: observed.is_changed,
        problems: inventory.problems.iter().map(|problem| format!("{}: {}", problem.subject, problem.reason)).collect(),
    }))
}

pub(crate) fn succeeded(value: Any) -> WorkResult {
    WorkResult::Succeeded { code: String::new(), message: String::new(), value: Some(value) }
}

pub(crate) fn failed(code: FailCode, message: impl Into<String>) -> WorkResult {
    WorkResult::Failed { code: code.name().to_owned(), message: message.into(), value: None }
}

#[cfg(test)]
mod tests;
