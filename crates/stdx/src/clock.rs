//! The clocks of a machine, read in one place. Cores never read a clock: they are given a
//! [`Instant`] by their shell.
//!
//! [`Instant`] counts milliseconds of `CLOCK_BOOTTIME`, which goes on while a machine sleeps and
//! never jumps (clock_gettime(2)). Wall time is only ever shown or written into certificates.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since boot, suspend included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// `self + ms`, saturating.
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to `self`, 0 if `earlier` is later.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Now on `CLOCK_BOOTTIME`.
pub fn boottime() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Instant((time.tv_sec as u64) * 1000 + (time.tv_nsec as u64) / 1_000_000)
}

/// Now on the wall clock, in Unix milliseconds. Never used to decide whether a command may run.
pub fn wall_unix_ms() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_millis() as i64,
        Err(before) => -(before.duration().as_millis() as i64),
    }
}
