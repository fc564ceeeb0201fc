//! What the controllers count, in the process's one registry.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ControllerLabels {
    pub controller: &'static str,
}

/// `outcome` is one of the controller's own few words.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct OutcomeLabels {
    pub controller: &'static str,
    pub outcome: &'static str,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    steps: Family<ControllerLabels, Counter>,
    failures: Family<ControllerLabels, Counter>,
    leased: Family<ControllerLabels, Gauge>,
    outcomes: Family<OutcomeLabels, Counter>,
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("better_compute_controller");
        registry.register("steps", "Steps taken", metrics.steps.clone());
        registry.register("failures", "Steps that failed and are taken again", metrics.failures.clone());
        registry.register("leased", "Whether this process runs the controller", metrics.leased.clone());
        registry.register("outcomes", "Things done, by what became of them", metrics.outcomes.clone());
        metrics
    }

    pub fn step(&self, controller: &'static str) {
        self.steps.get_or_create(&ControllerLabels { controller }).inc();
    }

    pub fn failure(&self, controller: &'static str) {
        self.failures.get_or_create(&ControllerLabels { controller }).inc();
    }

    pub fn leased(&self, controller: &'static str, held: bool) {
        self.leased.get_or_create(&ControllerLabels { controller }).set(i64::from(held));
    }

    pub fn outcome(&self, controller: &'static str, outcome: &'static str, count: usize) {
        if count > 0 {
            self.outcomes.get_or_create(&OutcomeLabels { controller, outcome }).inc_by(count as u64);
        }
    }
}
