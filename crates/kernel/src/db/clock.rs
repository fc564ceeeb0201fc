//! The control plane's only clock, as the store sees it: `compute_now()` in SQL, injected.

/// Where `compute_now()` reads the time.
pub trait Clock: Send + Sync + 'static {
    /// Unix milliseconds.
    fn now_ms(&self) -> i64;
}

/// The wall clock of the machine that holds the database.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        stdx::clock::wall_unix_ms()
    }
}
