//! Server time as a daemon knows it (F-Q12): the highest statement it has seen plus the time since,
//! on a clock that neither stops nor jumps. It never runs backwards, whatever a gateway says.

use model::ServerTimeMs;
use model::limits::SERVER_TIME_BACKSLIDE_MS;
use stdx::clock::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeError {
    /// Command-signing roots are held and the statement is missing or does not verify.
    Unsigned,
    /// More than five minutes before the mark.
    WoundBack { stated: ServerTimeMs, mark: ServerTimeMs },
}

#[derive(Clone, Debug)]
pub struct ServerClock {
    /// The highest statement seen, in this process or in the journal.
    mark: ServerTimeMs,
    /// The estimate at `at`, never below the mark.
    base: ServerTimeMs,
    at: Instant,
    /// A session of this process has told the time, so it may be compared with `not_after`.
    is_told: bool,
}

impl ServerClock {
    pub fn new(mark: ServerTimeMs, now: Instant) -> Self {
        Self { mark, base: mark, at: now, is_told: false }
    }

    pub fn mark(&self) -> ServerTimeMs {
        self.mark
    }

    pub fn now(&self, now: Instant) -> ServerTimeMs {
        self.base.plus(now.since(self.at) as i64)
    }

    /// When the estimate will read `at`.
    pub fn when(&self, at: ServerTimeMs) -> Instant {
        self.at.plus(at.since(self.base).max(0) as u64)
    }

    pub fn is_told(&self) -> bool {
        self.is_told
    }

    /// A `Welcome`'s statement. Refused when it lies more than five minutes before the mark.
    pub fn welcome(&mut self, now: Instant, stated: ServerTimeMs) -> Result<bool, TimeError> {
        if self.mark.since(stated) > SERVER_TIME_BACKSLIDE_MS {
            return Err(TimeError::WoundBack { stated, mark: self.mark });
        }
        self.is_told = true;
        Ok(self.observe(now, stated))
    }

    /// Any later statement. Returns whether the mark moved; it only moves forward.
    pub fn observe(&mut self, now: Instant, stated: ServerTimeMs) -> bool {
        let estimate = self.now(now);
        self.base = estimate.max(stated);
        self.at = now;
        let moved = stated > self.mark;
        if moved {
            self.mark = stated;
        }
        moved
    }
}
