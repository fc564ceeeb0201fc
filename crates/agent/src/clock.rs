//! What time it is for certificates. Before the first session of a process that is the host's clock, but
//! never before the highest server time this node has seen; after it, server time and nothing else.
//!
//! Whether a command may run is decided by the engine's own clock, never by this one.

use model::ServerTimeMs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use stdx::clock::{self, boottime};

#[derive(Clone, Debug)]
pub struct AgentClock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The highest server time seen by an earlier process.
    mark_ms: i64,
    /// Server time minus time since boot, once told.
    offset_ms: AtomicI64,
    is_told: AtomicBool,
}

impl AgentClock {
    pub fn new(mark: ServerTimeMs) -> Self {
        Self(Arc::new(Inner { mark_ms: mark.0, offset_ms: AtomicI64::new(0), is_told: AtomicBool::new(false) }))
    }

    /// Server time, as the engine holds it now.
    pub fn tell(&self, server_time: ServerTimeMs) {
        self.0.offset_ms.store(server_time.0 - boottime().0 as i64, Ordering::Relaxed);
        self.0.is_told.store(true, Ordering::Release);
    }

    pub fn is_told(&self) -> bool {
        self.0.is_told.load(Ordering::Acquire)
    }

    /// Unix milliseconds to judge a certificate by.
    pub fn certificate_time_ms(&self) -> i64 {
        if self.is_told() {
            return self.0.offset_ms.load(Ordering::Relaxed) + boottime().0 as i64;
        }
        clock::wall_unix_ms().max(self.0.mark_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_server_time_is_told_the_host_clock_counts_but_never_below_the_mark() {
        let future = clock::wall_unix_ms() + 1_000_000_000;
        assert_eq!(AgentClock::new(ServerTimeMs(future)).certificate_time_ms(), future);
        let host = AgentClock::new(ServerTimeMs(0));
        assert!((host.certificate_time_ms() - clock::wall_unix_ms()).abs() < 60_000);
        host.tell(ServerTimeMs(5_000));
        assert!((5_000..65_000).contains(&host.certificate_time_ms()), "told time beats the host's");
    }
}
