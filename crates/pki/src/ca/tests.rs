use super::*;
use crate::certificate::NodeCertificate;
use crate::pin::Pin;
use crate::testing::{FLEET, HOUR_MS, NOW_MS, SERVER, kinds, node_certificate, node_id};
use crate::verify::{ServingVerifyError, verify_serving_chain};

fn fleet() -> &'static FleetId {
    &FLEET.public.fleet_id
}

#[track_caller]
fn life(role: Role, expected_ms: i64) {
    let certificate = node_certificate(&FLEET, role, &KeyPair::generate());
    let node = NodeCertificate::parse(&certificate).expect("parse");
    assert_eq!(node.role, role);
    assert_eq!(node.not_before_ms, NOW_MS - HOUR_MS);
    assert_eq!(node.not_after_ms, NOW_MS + expected_ms);
    assert_eq!(node.issued_at_ms(), NOW_MS);
    assert_eq!(node.renew_at_ms(), NOW_MS + expected_ms / 3 * 2);
}

#[test]
fn nodes_live_24_hours_and_ramdisks_2_and_all_start_an_hour_back() {
    life(Role::Node, 24 * HOUR_MS);
    life(Role::Site, 24 * HOUR_MS);
    life(Role::Ramdisk, 2 * HOUR_MS);
}

#[test]
fn serials_differ() {
    let serial = || {
        let certificate = node_certificate(&FLEET, Role::Node, &KeyPair::generate());
        NodeCertificate::parse(&certificate).expect("parse").serial_hex
    };
    let mut serials: Vec<String> = (0..32).map(|_| serial()).collect();
    serials.sort();
    serials.dedup();
    assert_eq!(serials.len(), 32);
    assert!(serials.iter().all(|serial| serial.len() == 32));
}

#[test]
fn an_authority_issues_only_its_own() {
    let (key, id, kinds) = (KeyPair::generate(), node_id(), kinds());
    let request = NodeRequest { node_id: &id, role: Role::Node, allowed_kinds: &kinds, public_key: key.public() };
    for ca in [&FLEET.serving_ca, &FLEET.command_root] {
        assert!(matches!(ca.issue_node(fleet(), &request, NOW_MS), Err(CaError::NotItsAffair(_))));
    }
    let names = ["a.example".to_owned()];
    for ca in [&FLEET.node_ca, &FLEET.command_root] {
        assert!(matches!(ca.issue_serving(fleet(), &names, key.public(), NOW_MS), Err(CaError::NotItsAffair(_))));
    }
    for ca in [&FLEET.node_ca, &FLEET.serving_ca] {
        assert!(matches!(ca.issue_worker(fleet(), "w", &[], key.public(), NOW_MS), Err(CaError::NotItsAffair(_))));
    }
}

#[test]
fn nothing_outlives_its_authority() {
    let (key, id) = (KeyPair::generate(), node_id());
    let request = NodeRequest { node_id: &id, role: Role::Node, allowed_kinds: &[], public_key: key.public() };
    let last_ms = NOW_MS + AUTHORITY_LIFE_MS - NODE_LIFE_MS;
    assert!(FLEET.node_ca.issue_node(fleet(), &request, last_ms).is_ok());
    assert!(matches!(
        FLEET.node_ca.issue_node(fleet(), &request, last_ms + 1000),
        Err(CaError::Outlives(Authority::Node))
    ));
    assert!(matches!(Ca::create(Authority::Node, fleet(), i64::MAX), Err(CaError::Time(_))));
}

#[test]
fn serving_names_are_hosts_and_addresses() {
    let key = KeyPair::generate();
    let issue = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        FLEET.serving_ca.issue_serving(fleet(), &names, key.public(), NOW_MS)
    };
    let certificate = issue(&["gw.example", "10.0.0.1", "fd00::1"]).expect("issue");
    let info = CertificateInfo::parse(&certificate).expect("parse");
    assert_eq!(info.names, ["gw.example", "10.0.0.1", "fd00::1"]);
    for bad in ["", "a b", "https://gw", "gw:443"] {
        assert!(matches!(issue(&[bad]), Err(CaError::ServingName(_))), "{bad:?}");
    }
    assert!(matches!(issue(&[]), Err(CaError::ServingNames)));
}

#[test]
fn kinds_of_a_certificate_are_bounded() {
    let (key, id) = (KeyPair::generate(), node_id());
    let issue = |kinds: &[String]| {
        let request = NodeRequest { node_id: &id, role: Role::Node, allowed_kinds: kinds, public_key: key.public() };
        FLEET.node_ca.issue_node(fleet(), &request, NOW_MS)
    };
    let most = vec!["k".repeat(64); KINDS_MAX];
    let read = NodeCertificate::parse(&issue(&most).expect("issue")).expect("parse");
    assert_eq!(read.allowed_kinds, most);
    assert!(matches!(issue(&vec!["k".to_owned(); KINDS_MAX + 1]), Err(CaError::Kinds)));
    assert!(matches!(issue(&["a b".to_owned()]), Err(CaError::Kinds)));
    assert!(matches!(issue(&[String::new()]), Err(CaError::Kinds)));
}

#[test]
fn an_authority_needs_its_own_key_and_a_ca_certificate() {
    let refused = Ca::from_parts(Authority::Node, FLEET.public.node_ca.clone(), KeyPair::generate());
    assert!(matches!(refused, Err(CaError::Mismatch)));
    let leaf = FLEET.api.certificate().clone();
    assert!(matches!(Ca::from_parts(Authority::Command, leaf, FLEET.api.key().clone()), Err(CaError::Mismatch)));
}

#[test]
fn a_pinned_key_whose_certificate_is_no_authoritys_certifies_no_gateway() {
    let (key, gateway) = (KeyPair::generate(), KeyPair::generate());
    let no_authority = self_signed_signer(fleet(), "x", &[], &key, NOW_MS).expect("made");
    let pin = Pin::of(key.public());
    // Built by hand, because `from_parts` refuses it.
    let not_after_ms = NOW_MS + AUTHORITY_LIFE_MS;
    let forger = Ca { authority: Authority::Serving, certificate: no_authority.clone(), not_after_ms, key };
    let leaf = forger.issue_serving(fleet(), &[SERVER.to_owned()], gateway.public(), NOW_MS).expect("issue");
    let name = crate::tls::server_name(SERVER, None).expect("name");
    let verdict = verify_serving_chain(&leaf, &[no_authority], &[pin], &name, NOW_MS);
    assert_eq!(verdict, Err(ServingVerifyError::Pin));
}
