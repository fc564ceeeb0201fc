//! Durations of one thing done many times.

use std::time::{Duration, Instant};

/// Microseconds, in the order in which they were measured.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    pub fn push(&mut self, duration: Duration) {
        self.0.push(duration.as_secs_f64() * 1e6);
    }

    /// Runs `work` and keeps how long it took.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let result = work();
        self.push(begun.elapsed());
        result
    }

    pub fn extend(&mut self, other: &Samples) {
        self.0.extend_from_slice(&other.0);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn total_us(&self) -> f64 {
        self.0.iter().sum()
    }

    pub fn mean(&self) -> f64 {
        self.total_us() / self.len().max(1) as f64
    }

    pub fn p50(&self) -> f64 {
        self.quantile(0.5)
    }

    pub fn p99(&self) -> f64 {
        self.quantile(0.99)
    }

    /// The smallest sample that at least `share` of all do not exceed; 0 without samples.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.max(1) - 1).copied().unwrap_or_default()
    }
}

/// The median of numbers that are not durations.
pub fn median(values: &[f64]) -> f64 {
    Samples(values.to_vec()).p50()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_samples() {
        let mut samples = Samples::default();
        (1..=100).rev().for_each(|us| samples.push(Duration::from_micros(us)));
        let near = |value: f64, expected: f64| (value - expected).abs() < 1e-6;
        assert!(near(samples.p50(), 50.0) && near(samples.p99(), 99.0) && near(samples.quantile(1.0), 100.0));
        assert_eq!(Samples::default().p50(), 0.0);
    }
}
