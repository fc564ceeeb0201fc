//! A controller's hold on its name, and the only way it writes: under the fence.

use kernel::db::{Store, StoreError, Tx};
use kernel::leases;
use std::time::Duration;
use tokio::time::Instant;

/// How long a holder that died is waited for.
const LEASE_TTL: Duration = Duration::from_secs(30);
/// A holder extends its lease this long after it last did.
const RENEW_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub(crate) enum StepError {
    #[error("the lease was lost to another process")]
    LeaseLost,
    #[error("the store failed")]
    Store(#[from] StoreError),
    #[error("cannot sign")]
    Sign(#[from] pki::signed::SignatureError),
}

/// The lease of one controller, held or not.
pub(crate) struct Lease {
    store: Store,
    name: &'static str,
    holder: String,
    held: Option<Held>,
}

struct Held {
    fence: u64,
    renew_at: Instant,
}

impl Lease {
    pub fn new(store: Store, name: &'static str, holder: String) -> Self {
        Self { store, name, holder, held: None }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Takes or extends the lease when that is due. Whether it is held.
    pub async fn hold(&mut self) -> Result<bool, StoreError> {
        if self.held.as_ref().is_some_and(|held| Instant::now() < held.renew_at) {
            return Ok(true);
        }
        let started = Instant::now();
        let (name, holder) = (self.name, self.holder.clone());
        let ttl_ms = LEASE_TTL.as_millis() as i64;
        let fence = self.store.write(move |tx| leases::acquire(tx, name, &holder, ttl_ms)).await?;
        self.held = fence.map(|fence| Held { fence, renew_at: started + RENEW_AFTER });
        Ok(self.held.is_some())
    }

    /// Runs `op` in one transaction that fails if the fence has moved on.
    pub async fn write<T, F>(&self, op: F) -> Result<T, StepError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, StepError> + Send + 'static,
    {
        let name = self.name;
        let fence = self.held.as_ref().ok_or(StepError::LeaseLost)?.fence;
        let fenced = move |tx: &mut Tx<'_>| {
            if !leases::check_fence(tx, name, fence)? {
                return Err(StepError::LeaseLost);
            }
            op(tx)
        };
        self.store.write(fenced).await
    }

    pub fn forget(&mut self) {
        self.held = None;
    }

    /// Gives the lease up, so that the next holder need not wait.
    pub async fn release(&mut self) {
        let Some(held) = self.held.take() else { return };
        let name = self.name;
        if let Err(error) = self.store.write(move |tx| leases::release(tx, name, held.fence)).await {
            tracing::debug!(controller = name, %error, "the lease was not released; it runs out by itself");
        }
    }
}
