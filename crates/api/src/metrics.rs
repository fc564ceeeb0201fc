//! What the API counts, in the process's one registry.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Seconds; a commit on a good disk is well below the second.
const BUCKETS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// `verb` is a name of the table or `unknown`, so labels are bounded.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct CallLabels {
    pub verb: String,
    /// `OK` or the error's code.
    pub code: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct VerbLabels {
    pub verb: String,
}

#[derive(Clone)]
pub(crate) struct Metrics {
    pub requests: Family<CallLabels, Counter>,
    pub seconds: Family<VerbLabels, Histogram, fn() -> Histogram>,
    pub watches: Gauge,
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let metrics = Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(histogram),
            watches: Gauge::default(),
        };
        let registry = registry.sub_registry_with_prefix("better_compute_api");
        registry.register("requests", "Calls of verbs, by outcome", metrics.requests.clone());
        registry.register("request_seconds", "From the last byte read to the answer", metrics.seconds.clone());
        registry.register("watches", "Open event streams", metrics.watches.clone());
        metrics
    }
}
