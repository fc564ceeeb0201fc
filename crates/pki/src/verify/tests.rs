use super::*;
use crate::ca::{self, NODE_LIFE_MS, NodeRequest};
use crate::key::KeyPair;
use crate::testing::{FLEET, HOUR_MS, IMPOSTOR, NOW_MS, kinds, new_fleet, node_certificate, node_id};
use proptest::prelude::*;
use std::sync::LazyLock;

static NODE_KEY: LazyLock<KeyPair> = LazyLock::new(KeyPair::generate);
static NODE: LazyLock<CertificateDer<'static>> = LazyLock::new(|| node_certificate(&FLEET, Role::Node, &NODE_KEY));

fn trust() -> NodeTrust {
    FLEET.public.node_trust()
}

#[track_caller]
fn check(at_ms: i64, expected: Result<Standing, NodeVerifyError>) {
    let standing = verify_node_chain(&NODE, &trust(), at_ms, RENEW_GRACE_MS).map(|node| node.standing);
    assert_eq!(standing, expected);
}

#[test]
fn a_node_is_valid_then_in_grace_then_expired() {
    let (start_ms, end_ms) = (NOW_MS - HOUR_MS, NOW_MS + NODE_LIFE_MS);
    check(NOW_MS, Ok(Standing::Valid));
    check(start_ms, Ok(Standing::Valid));
    check(start_ms - 1, Err(NodeVerifyError::NotYetValid { not_before_ms: start_ms }));
    check(end_ms, Ok(Standing::Valid));
    check(end_ms + 1, Ok(Standing::InGrace));
    check(end_ms + RENEW_GRACE_MS, Ok(Standing::InGrace));
    check(end_ms + RENEW_GRACE_MS + 1, Err(NodeVerifyError::Expired { not_after_ms: end_ms }));
    check(i64::MAX, Err(NodeVerifyError::Expired { not_after_ms: end_ms }));
    check(i64::MIN, Err(NodeVerifyError::NotYetValid { not_before_ms: start_ms }));
    assert_eq!(RENEW_GRACE_MS, 7 * 24 * HOUR_MS);
}

#[test]
fn what_the_certificate_says_is_what_was_issued() {
    let node = verify_node_chain(&NODE, &trust(), NOW_MS, 0).expect("valid").certificate;
    assert_eq!((&node.node_id, &node.fleet_id, node.role), (&node_id(), &FLEET.public.fleet_id, Role::Node));
    assert_eq!(node.allowed_kinds, kinds());
    assert!(node.allows("gpu.reset") && !node.allows("node.reboot"));
    assert_eq!(node.spki(), NODE_KEY.public().spki());
    assert_eq!(node.serial_hex.len(), 32);
}

#[test]
fn a_certificate_of_another_fleet_is_told_apart_even_when_it_expired() {
    let key = KeyPair::generate();
    // The same fleet id and the same names, but another node CA.
    let forged = node_certificate(&IMPOSTOR, Role::Node, &key);
    let foreign = node_certificate(&new_fleet(), Role::Node, &key);
    for at_ms in [NOW_MS, NOW_MS + 10 * NODE_LIFE_MS, 0] {
        for certificate in [&forged, &foreign] {
            let refused = verify_node_chain(certificate, &trust(), at_ms, RENEW_GRACE_MS);
            assert_eq!(refused, Err(NodeVerifyError::WrongFleet));
        }
    }
}

#[test]
fn our_node_ca_certifies_for_our_fleet_id_only() {
    let (key, id, kinds) = (KeyPair::generate(), node_id(), kinds());
    let request = NodeRequest { node_id: &id, role: Role::Node, allowed_kinds: &kinds, public_key: key.public() };
    let other = FleetId::random();
    let certificate = FLEET.node_ca.issue_node(&other, &request, NOW_MS).expect("issue");
    assert_eq!(verify_node_chain(&certificate, &trust(), NOW_MS, 0), Err(NodeVerifyError::WrongFleet));
}

#[test]
fn certificates_of_other_uses_are_no_nodes() {
    let worker = FLEET.api.certificate();
    let of_workers = NodeTrust { node_ca: vec![FLEET.public.command_root.clone()], ..trust() };
    assert_eq!(verify_node_chain(worker, &of_workers, NOW_MS, 0), Err(NodeVerifyError::Unfit));
    let serving = &FLEET.serving.chain[0];
    let of_servers = NodeTrust { node_ca: vec![FLEET.public.serving_ca.clone()], ..trust() };
    assert_eq!(verify_node_chain(serving, &of_servers, NOW_MS, 0), Err(NodeVerifyError::Unfit));
    assert!(verify_node_chain(&FLEET.public.node_ca, &trust(), NOW_MS, 0).is_err());
    let alone = ca::self_signed_signer(&FLEET.public.fleet_id, "x", &[], &NODE_KEY, NOW_MS).expect("made");
    assert!(verify_node_chain(&alone, &trust(), NOW_MS, 0).is_err());
    let garbage = CertificateDer::from(&b"garbage"[..]);
    assert_eq!(
        verify_node_chain(&garbage, &trust(), NOW_MS, 0),
        Err(NodeVerifyError::Malformed(CertificateError::Der))
    );
}

#[test]
fn a_node_takes_only_the_certificate_it_asked_for() {
    let check = |key: &KeyPair, id: &NodeId, role, expected| {
        let wanted = Expected { public_key: key.public(), node_id: id, role };
        assert_eq!(verify_issued(&NODE, &trust(), &wanted, NOW_MS).map(|node| node.role), expected);
    };
    check(&NODE_KEY, &node_id(), Role::Node, Ok(Role::Node));
    check(&KeyPair::generate(), &node_id(), Role::Node, Err(IssuedError::Key));
    check(&NODE_KEY, &NodeId::new("node_other"), Role::Node, Err(IssuedError::Node));
    check(&NODE_KEY, &node_id(), Role::Site, Err(IssuedError::Role));
    let wanted = Expected { public_key: NODE_KEY.public(), node_id: &node_id(), role: Role::Node };
    let wrong = IMPOSTOR.public.node_trust();
    assert_eq!(verify_issued(&NODE, &wrong, &wanted, NOW_MS), Err(IssuedError::Chain(NodeVerifyError::WrongFleet)));
}

#[test]
fn no_flipped_bit_of_a_nodes_certificate_verifies() {
    for at in 0..NODE.len() {
        let mut flipped = NODE.to_vec();
        flipped[at] ^= 1 << (at % 8);
        let refused = verify_node_chain(&CertificateDer::from(flipped), &trust(), NOW_MS, RENEW_GRACE_MS);
        assert!(refused.is_err(), "byte {at}");
    }
}

proptest! {
    #[test]
    fn reading_certificates_never_panics(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..6), cut: usize,
    ) {
        prop_assert!(NodeCertificate::parse(&bytes).is_err());
        let mut changed = NODE.to_vec();
        for (at, with) in changes {
            let at = at % changed.len();
            changed[at] = with;
        }
        changed.truncate(changed.len() - cut % 3);
        if let Ok(node) = NodeCertificate::parse(&changed) {
            prop_assert!(node.allowed_kinds.len() <= crate::certificate::KINDS_MAX);
        }
        prop_assert!(crate::WorkerCertificate::parse(&changed).is_err());
    }
}
