//! What the tests of this crate share: one fleet, made once, and certificates of it.

use crate::bundle::Bundle;
use crate::ca::NodeRequest;
use crate::fleet::FleetId;
use crate::key::KeyPair;
use crate::tls::TlsIdentity;
use model::{NodeId, Role};
use rustls_pki_types::CertificateDer;
use std::sync::LazyLock;

/// 2027-01-15T08:00:00Z.
pub(crate) const NOW_MS: i64 = 1_800_000_000_000;
pub(crate) const MINUTE_MS: i64 = 60_000;
pub(crate) const HOUR_MS: i64 = 60 * MINUTE_MS;
pub(crate) const SERVER: &str = "gateway.example";

pub(crate) static FLEET: LazyLock<Bundle> = LazyLock::new(new_fleet);
/// Another fleet with the same fleet id, so that only its keys differ.
pub(crate) static IMPOSTOR: LazyLock<Bundle> =
    LazyLock::new(|| Bundle::create(FLEET.public.fleet_id.clone(), &names(), NOW_MS).expect("fleet"));

pub(crate) fn new_fleet() -> Bundle {
    Bundle::create(FleetId::random(), &names(), NOW_MS).expect("fleet")
}

fn names() -> Vec<String> {
    vec![SERVER.to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()]
}

pub(crate) fn node_id() -> NodeId {
    NodeId::new("node_0000000000000000000000000A")
}

pub(crate) fn kinds() -> Vec<String> {
    vec!["diag.nvml".to_owned(), "gpu.reset".to_owned()]
}

/// A node's certificate of `fleet`, issued at [`NOW_MS`].
pub(crate) fn node_certificate(fleet: &Bundle, role: Role, key: &KeyPair) -> CertificateDer<'static> {
    let (node_id, kinds) = (node_id(), kinds());
    let request = NodeRequest { node_id: &node_id, role, allowed_kinds: &kinds, public_key: key.public() };
    fleet.node_ca.issue_node(&fleet.public.fleet_id, &request, NOW_MS).expect("issue")
}

pub(crate) fn node_identity(fleet: &Bundle) -> TlsIdentity {
    let key = KeyPair::generate();
    TlsIdentity { chain: vec![node_certificate(fleet, Role::Node, &key)], key }
}
