//! How often and how long a call is tried.

use std::time::Duration;

/// Exponential delays with full jitter between a bounded number of attempts.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    /// Attempts of one call, the first included.
    pub attempts_max: u32,
    pub delay_first: Duration,
    pub delay_most: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { attempts_max: 5, delay_first: Duration::from_millis(200), delay_most: Duration::from_secs(5) }
    }
}

impl RetryPolicy {
    pub(crate) fn backoff(&self) -> stdx::backoff::Backoff {
        stdx::backoff::Backoff::new(self.delay_first, self.delay_most)
    }
}
