//! What a gateway counts.

use model::SessionEnd;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct EndLabel {
    /// A `SessionEnd` code.
    code: &'static str,
}

/// Cloning shares the counters.
#[derive(Clone, Debug, Default)]
pub struct GatewayMetrics {
    pub sessions: Gauge,
    pub ended: Family<EndLabel, Counter>,
    pub commands_sent: Counter,
    pub store_failures: Counter,
    pub handshakes_failed: Counter,
    pub joins_relayed: Counter,
    pub blobs_stored: Counter,
}

impl GatewayMetrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register("gateway_sessions", "Sessions held by this gateway", self.sessions.clone());
        registry.register("gateway_sessions_ended", "Sessions that ended, by code", self.ended.clone());
        registry.register("gateway_commands_sent", "Commands sent to nodes", self.commands_sent.clone());
        registry.register("gateway_store_failures", "Store operations that failed", self.store_failures.clone());
        registry.register("gateway_handshakes_failed", "TLS handshakes that failed", self.handshakes_failed.clone());
        registry.register("gateway_joins_relayed", "Joins and renewals relayed", self.joins_relayed.clone());
        registry.register("gateway_blobs_stored", "Blobs received whole", self.blobs_stored.clone());
    }

    pub(crate) fn ended(&self, code: SessionEnd) {
        self.ended.get_or_create(&EndLabel { code: code.name() }).inc();
    }
}
