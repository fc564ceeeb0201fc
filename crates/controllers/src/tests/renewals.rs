//! Renewals: signed with a key this fleet certified for the node, in time, for a new key.

use super::{Answer, Bed, HOUR_MS, Machine, START_MS};
use kernel::join::{JoinKind, retire_node, revoke_certificate, revoke_node};
use model::limits::CERT_GRACE_MS;
use pki::{KeyPair, NodeCertificate, Purpose, csr};
use proto::{Message, v1};

const LIFE_MS: i64 = 24 * HOUR_MS;

fn renewal(signer: &KeyPair, purpose: Purpose, node_id: &str, csr: Vec<u8>) -> v1::RenewRequest {
    let body = v1::RenewalBody { node_id: node_id.into(), csr }.encode_to_vec();
    let signed = pki::Signed::sign(purpose, body, signer, Vec::new());
    v1::RenewRequest { signed: Some(crate::join::to_frame(signed).into()) }
}

fn renew(bed: &Bed, signer: &KeyPair, node_id: &str, next: &KeyPair) -> Answer {
    bed.ask(JoinKind::Renew, &renewal(signer, Purpose::RenewalRequest, node_id, csr::create(next)))
}

#[test]
fn a_node_renews_with_a_new_key_and_the_same_request_gets_the_same_certificate() {
    let bed = Bed::new();
    let (machine, joined) = bed.node("gpu-a");
    bed.at(16 * HOUR_MS);
    let next = KeyPair::generate();
    let request = renewal(&machine.key, Purpose::RenewalRequest, &joined.node_id, csr::create(&next));
    let renewed = bed.ask(JoinKind::Renew, &request).granted();
    let leaf = NodeCertificate::parse(&renewed.chain[0]).expect("leaf");
    assert_eq!((leaf.public_key, renewed.node_id.as_str()), (*next.public(), joined.node_id.as_str()));
    assert_eq!(leaf.not_after_ms, START_MS + 16 * HOUR_MS + LIFE_MS);
    assert_eq!(bed.ask(JoinKind::Renew, &request).granted().chain, renewed.chain);
    // The next renewal is signed with the new key.
    bed.at(32 * HOUR_MS);
    renew(&bed, &next, &joined.node_id, &KeyPair::generate()).granted();
}

#[test]
fn an_expired_certificate_renews_for_seven_days_and_not_a_moment_longer() {
    let bed = Bed::new();
    let (machine, joined) = bed.node("gpu-a");
    bed.at(LIFE_MS + CERT_GRACE_MS);
    renew(&bed, &machine.key, &joined.node_id, &KeyPair::generate()).granted();
    let (machine, joined) = bed.node("gpu-b");
    let start = LIFE_MS + CERT_GRACE_MS;
    bed.at(start + LIFE_MS + CERT_GRACE_MS + 1000);
    assert_eq!(renew(&bed, &machine.key, &joined.node_id, &KeyPair::generate()).refused(), "certificate-expired");
}

#[test]
fn a_gateway_cannot_renew_in_a_nodes_name() {
    let bed = Bed::new();
    let (machine, joined) = bed.node("gpu-a");
    let (other, other_joined) = bed.node("gpu-b");
    let (gateway, own) = (KeyPair::generate(), KeyPair::generate());
    // Signed by a key of its own, or by another node's.
    assert_eq!(renew(&bed, &gateway, &joined.node_id, &own).refused(), "bad-request");
    assert_eq!(renew(&bed, &other.key, &joined.node_id, &own).refused(), "bad-request");
    // With the node's key id and a signature of its own.
    let mut forged = renewal(&gateway, Purpose::RenewalRequest, &joined.node_id, csr::create(&own));
    forged.signed.as_mut().expect("signed").kid = machine.key.kid();
    assert_eq!(bed.ask(JoinKind::Renew, &forged).refused(), "bad-request");
    // A genuine signature over another body: a request or a node id that was put in afterwards.
    let genuine = renewal(&machine.key, Purpose::RenewalRequest, &joined.node_id, csr::create(&KeyPair::generate()));
    for (node_id, csr) in [(&joined.node_id, csr::create(&own)), (&other_joined.node_id, machine.csr.clone())] {
        let mut bent = genuine.clone();
        let body = v1::RenewalBody { node_id: node_id.clone(), csr }.encode_to_vec();
        bent.signed.as_mut().expect("signed").body = body;
        assert_eq!(bed.ask(JoinKind::Renew, &bent).refused(), "bad-request");
    }
    // What the node signed for another purpose.
    let attested = renewal(&machine.key, Purpose::CommandResult, &joined.node_id, csr::create(&own));
    assert_eq!(bed.ask(JoinKind::Renew, &attested).refused(), "bad-request");
    assert_eq!(bed.ask(JoinKind::Renew, &v1::RenewRequest { signed: None }).refused(), "bad-request");
    bed.ask(JoinKind::Renew, &genuine).granted();
}

#[test]
fn a_revoked_or_retired_node_does_not_renew() {
    let bed = Bed::new();
    let (machine, joined) = bed.node("gpu-a");
    let serial = NodeCertificate::parse(&joined.chain[0]).expect("leaf").serial_hex;
    bed.run(|tx| revoke_certificate(tx, &serial));
    assert_eq!(renew(&bed, &machine.key, &joined.node_id, &KeyPair::generate()).refused(), "node-revoked");
    for retire in [false, true] {
        let (machine, joined) = bed.node("gpu-b");
        let id = Bed::node_id(&joined);
        bed.run(|tx| if retire { retire_node(tx, &id) } else { revoke_node(tx, &id, "") });
        assert_eq!(renew(&bed, &machine.key, &joined.node_id, &KeyPair::generate()).refused(), "node-revoked");
    }
}

#[test]
fn a_renewal_needs_a_new_key_that_the_node_holds() {
    let bed = Bed::new();
    let (machine, joined) = bed.node("gpu-a");
    assert_eq!(renew(&bed, &machine.key, &joined.node_id, &machine.key).refused(), "bad-request");
    let broken = renewal(&machine.key, Purpose::RenewalRequest, &joined.node_id, vec![0; 40]);
    assert_eq!(bed.ask(JoinKind::Renew, &broken).refused(), "bad-request");
    let Machine { key, .. } = Machine::new("stranger");
    assert_eq!(renew(&bed, &key, "node_unknown", &KeyPair::generate()).refused(), "bad-request");
}
