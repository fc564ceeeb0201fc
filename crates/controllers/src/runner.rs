//! The life of every controller: hold the lease, step until nothing is due, wait for a hint or the timer.

use crate::lease::{Lease, StepError};
use crate::metrics::Metrics;
use kernel::db::{Hint, Store};
use std::future::Future;
use std::time::Duration;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

/// Between looks at a lease that another process holds.
const STANDBY: Duration = Duration::from_secs(5);
/// After a failure: from, to.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_MOST: Duration = Duration::from_secs(10);

/// Whether a step left something that is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Done,
    More,
}

/// One controller. A step may be cut off at any point and is taken again.
pub(crate) trait Controller: Send + 'static {
    const NAME: &'static str;
    /// Between steps that nothing woke.
    const PERIOD: Duration;

    fn wakes(hint: &Hint) -> bool;
    fn step(&mut self, lease: &Lease, metrics: &Metrics) -> impl Future<Output = Result<Progress, StepError>> + Send;
}

/// What all controllers of a process share.
#[derive(Clone)]
pub(crate) struct Context {
    pub store: Store,
    pub holder: String,
    pub metrics: Metrics,
    /// True once the process drains.
    pub drain: watch::Receiver<bool>,
}

/// Stays until the drain.
pub(crate) async fn run<C: Controller>(mut controller: C, mut context: Context) {
    let mut hints = context.store.hints().subscribe();
    let mut lease = Lease::new(context.store.clone(), C::NAME, context.holder.clone());
    let mut backoff = stdx::backoff::Backoff::new(RETRY_FIRST, RETRY_MOST);
    while !*context.drain.borrow() {
        let pause = match activate(&mut controller, &mut lease, &context.metrics).await {
            Ok(Some(Progress::More)) => {
                backoff.reset();
                continue;
            }
            Ok(Some(Progress::Done)) => {
                backoff.reset();
                C::PERIOD
            }
            Ok(None) => STANDBY,
            Err(error) => {
                context.metrics.failure(C::NAME);
                lease.forget();
                tracing::warn!(controller = C::NAME, error = %stdx::error::chain(&error), "a step failed");
                let pause = backoff.next_full_jitter(&mut rand::rng());
                wait_quietly(pause, &mut context.drain).await;
                continue;
            }
        };
        wait::<C>(pause, &mut hints, &mut context.drain).await;
    }
    lease.release().await;
    context.metrics.leased(C::NAME, false);
}

/// One step under the lease; `None` when another process holds it.
async fn activate<C: Controller>(
    controller: &mut C,
    lease: &mut Lease,
    metrics: &Metrics,
) -> Result<Option<Progress>, StepError> {
    let held = lease.hold().await?;
    metrics.leased(C::NAME, held);
    if !held {
        return Ok(None);
    }
    metrics.step(C::NAME);
    controller.step(lease, metrics).await.map(Some)
}

async fn wait<C: Controller>(
    period: Duration,
    hints: &mut broadcast::Receiver<Hint>,
    drain: &mut watch::Receiver<bool>,
) {
    let until = Instant::now() + period;
    loop {
        tokio::select! {
            // Cancel-safe: a lost hint is made up for by the timer.
            hint = hints.recv() => match hint {
                Ok(hint) if C::wakes(&hint) => return,
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => return,
                Err(broadcast::error::RecvError::Closed) => return wait_quietly(until - Instant::now(), drain).await,
            },
            () = tokio::time::sleep_until(until) => return,
            // Cancel-safe: the value stays changed.
            () = drained(drain) => return,
        }
    }
}

async fn wait_quietly(pause: Duration, drain: &mut watch::Receiver<bool>) {
    tokio::select! {
        () = tokio::time::sleep(pause) => {}
        () = drained(drain) => {}
    }
}

/// Ends once the process drains, or nobody is left to say so.
async fn drained(drain: &mut watch::Receiver<bool>) {
    drain.wait_for(|draining| *draining).await.map(|_| ()).unwrap_or_default();
}
