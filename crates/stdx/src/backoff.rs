//! Waiting between attempts: exponential, capped, with full jitter where many clients would
//! otherwise return in step.

use rand::Rng;
use std::time::Duration;

/// An exponential delay from `first` doubling to `most`.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    attempt: u32,
}

impl Backoff {
    pub const fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, attempt: 0 }
    }

    /// Attempts since the last [`Backoff::reset`].
    pub fn attempts(&self) -> u32 {
        self.attempt
    }

    pub fn reset(&mut self) {
        self.attempt = 0;
    }

    /// The next delay without jitter: `first`, then twice that, up to `most`.
    pub fn next_ceiling(&mut self) -> Duration {
        let factor = 1u32.checked_shl(self.attempt.min(31)).unwrap_or(u32::MAX);
        self.attempt = self.attempt.saturating_add(1);
        self.first.saturating_mul(factor).min(self.most)
    }

    /// Full jitter: uniform between `first` and the ceiling of this attempt.
    pub fn next_full_jitter(&mut self, rng: &mut impl Rng) -> Duration {
        let ceiling = self.next_ceiling();
        let low = self.first.as_millis() as u64;
        let high = (ceiling.as_millis() as u64).max(low);
        Duration::from_millis(rng.random_range(low..=high))
    }
}

/// The delay of attempt `attempt` (from 1) as a plain number, for rows of the store: `first_ms`
/// doubling to `most_ms`.
pub fn delay_ms(attempt: u32, first_ms: i64, most_ms: i64) -> i64 {
    let shift = attempt.saturating_sub(1).min(40);
    first_ms.saturating_mul(1i64 << shift).min(most_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_to_the_cap_and_start_over_after_a_reset() {
        let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));
        let delays: Vec<u64> = (0..8).map(|_| backoff.next_ceiling().as_millis() as u64).collect();
        assert_eq!(delays, [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
        backoff.reset();
        assert_eq!(backoff.next_ceiling(), Duration::from_millis(500));
    }

    #[test]
    fn row_delays_never_overflow() {
        assert_eq!(delay_ms(1, 1000, 30_000), 1000);
        assert_eq!(delay_ms(3, 1000, 30_000), 4000);
        assert_eq!(delay_ms(u32::MAX, 1000, 30_000), 30_000);
    }
}
