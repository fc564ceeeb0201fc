//! Joining: what a token admits, and that a relay can neither read nor bend anything.

use super::{Answer, Bed, HOUR_MS, Machine, START_MS};
use kernel::join::{JoinKind, revoke_certificate, revoke_node};
use kernel::nodes::get_node;
use kernel::places::revoke_join_token;
use model::{Lifecycle, NodeId, Role};
use pki::verify::{Expected, verify_issued};
use pki::{CertificateDer, NodeCertificate, Purpose};
use proto::{Message, v1};

#[test]
fn a_machine_with_a_token_becomes_an_adopting_node_with_a_certificate_of_its_key() {
    let bed = Bed::new();
    let (machine, response) = bed.node("gpu-a");
    assert_eq!(response.csr_sha256, stdx::hex::sha256(&machine.csr));
    assert_eq!((response.site.as_str(), response.pool.as_str(), response.issued_at_ms), ("site_1", "pool_1", START_MS));
    let leaf = CertificateDer::from(response.chain[0].as_slice());
    let node_id = Bed::node_id(&response);
    let expected = Expected { public_key: machine.key.public(), node_id: &node_id, role: Role::Node };
    let node =
        verify_issued(&leaf, &bed.bundle.public.node_trust(), &expected, START_MS).expect("as a daemon checks it");
    assert_eq!(node.not_before_ms, START_MS - HOUR_MS, "it starts an hour back");
    assert_eq!(node.not_after_ms, START_MS + 24 * HOUR_MS, "it lasts 24 hours");
    assert!(node.allows("gpu.reset") && !node.allows("bmc.power"), "the kinds of the role");
    let row = bed.run(|tx| get_node(tx, &node_id)).expect("row");
    assert_eq!((row.lifecycle, row.name.as_str()), (Lifecycle::Adopting, "gpu-a"));
    // The bundle in the answer is the pinned key's too.
    let bundle = crate::join::from_frame(response.trust_bundle.expect("a bundle").try_into().expect("signed"));
    let body = bundle.verify_pinned(Purpose::TrustBundle, &bed.bundle.pins().join_signing_key_pin).expect("genuine");
    let bundle = v1::TrustBundle::decode(body).expect("a bundle");
    assert_eq!(bundle.command_roots, [bed.bundle.public.command_root.to_vec()]);
    assert_eq!(bundle.version, 1);
}

#[test]
fn the_same_request_gets_the_same_certificate_and_another_one_finds_the_token_used() {
    let bed = Bed::new();
    let (machine, token) = (Machine::new("gpu-a"), bed.token(1, None));
    let first = bed.join(&machine, &token).granted();
    bed.at(60_000);
    let again = bed.join(&machine, &token).granted();
    assert_eq!((again.node_id, again.chain), (first.node_id.clone(), first.chain.clone()));
    assert_eq!(bed.join(&Machine::new("gpu-b"), &token).refused(), "token-used");
    // Also when the token has expired meanwhile: the use is bound to the request.
    bed.at(2 * HOUR_MS);
    assert_eq!(bed.join(&machine, &token).granted().node_id, first.node_id);
    // And when the first certificate has: the machine that lost its answer gets a new one for the same key.
    bed.at(30 * HOUR_MS);
    let late = bed.join(&machine, &token).granted();
    assert_eq!(late.node_id, first.node_id);
    let leaf = NodeCertificate::parse(&late.chain[0]).expect("a leaf");
    assert_eq!((leaf.not_after_ms, leaf.public_key), (START_MS + 54 * HOUR_MS, *machine.key.public()));
}

#[test]
fn a_token_admits_as_many_machines_as_it_has_uses() {
    let bed = Bed::new();
    let token = bed.token(2, None);
    let one = bed.join(&Machine::new("x"), &token).granted();
    let two = bed.join(&Machine::new("x"), &token).granted();
    assert_ne!(one.node_id, two.node_id);
    assert_eq!(bed.join(&Machine::new("x"), &token).refused(), "token-used");
    let name = |id: &str| bed.run(|tx| get_node(tx, &NodeId::new(id))).expect("row").name;
    assert_eq!((name(&one.node_id), name(&two.node_id)), ("x".to_owned(), "x-2".to_owned()));
}

#[test]
fn expired_revoked_unknown_and_misplaced_tokens_are_refused_by_name() {
    let bed = Bed::new();
    let machine = Machine::new("gpu-a");
    let revoked = bed.token(1, None);
    bed.run(|tx| revoke_join_token(tx, &revoked.id));
    assert_eq!(bed.join(&machine, &revoked).refused(), "token-revoked");
    let unknown = pki::JoinToken::generate(model::TokenId::new(format!("jt_{}", stdx::id::encode(1)))).expect("token");
    assert_eq!(bed.join(&machine, &unknown).refused(), "token-invalid");
    let wrong_secret = pki::JoinToken::generate(bed.token(1, None).id).expect("token");
    assert_eq!(bed.join(&machine, &wrong_secret).refused(), "token-invalid");
    let mut elsewhere = machine.clone();
    elsewhere.claims.site = "site_2".into();
    assert_eq!(bed.join(&elsewhere, &bed.token(1, None)).refused(), "site-mismatch");
    let mut site_agent = machine.clone();
    site_agent.claims.role = v1::Role::Site as i32;
    assert_eq!(bed.join(&site_agent, &bed.token(1, None)).refused(), "role-mismatch");
    assert_eq!(bed.join(&machine, &bed.token(1, Some("02:00:5e:10:00:02"))).refused(), "hardware-mismatch");
    bed.join(&machine, &bed.token(1, Some("02:00:5e:10:00:01"))).granted();
    let expiring = bed.token(1, None);
    bed.at(HOUR_MS);
    assert_eq!(bed.join(&Machine::new("late"), &expiring).refused(), "token-expired");
}

#[test]
fn a_relay_cannot_attach_a_request_or_claims_of_its_own() {
    let bed = Bed::new();
    let (machine, token) = (Machine::new("gpu-a"), bed.token(9, None));
    let genuine = machine.request(&bed, &token);
    let gateway = Machine::new("gateway");
    let mut own_csr = genuine.clone();
    own_csr.csr = gateway.csr;
    assert_eq!(bed.ask(JoinKind::Join, &own_csr).refused(), "token-invalid");
    let mut own_claims = genuine.clone();
    own_claims.claims = v1::JoinClaims { hostname: "other".into(), ..machine.claims.clone() }.encode_to_vec();
    assert_eq!(bed.ask(JoinKind::Join, &own_claims).refused(), "token-invalid");
    // Nor does what it relays hold the token.
    let bearer = token.reveal().to_string();
    let secret = bearer.split_once('.').expect("dot").1;
    let relayed = genuine.encode_to_vec();
    assert!(!relayed.windows(secret.len()).any(|window| window == secret.as_bytes()));
    // An answer of its own does not verify under the pin, whatever certificate it shows.
    let pin = bed.bundle.pins().join_signing_key_pin;
    let join_certificate = bed.bundle.public.join_signing.to_vec();
    for chain in [Vec::new(), vec![join_certificate]] {
        let forged = pki::Signed::sign(Purpose::JoinResponse, vec![1], &gateway.key, chain);
        assert!(forged.verify_pinned(Purpose::JoinResponse, &pin).is_err());
    }
    bed.ask(JoinKind::Join, &genuine).granted();
}

#[test]
fn what_is_not_a_join_is_a_bad_request() {
    let bed = Bed::new();
    let machine = Machine::new("gpu-a");
    let genuine = machine.request(&bed, &bed.token(9, None));
    let broken = [
        v1::JoinRequest { csr: vec![1, 2, 3], ..genuine.clone() },
        v1::JoinRequest { csr: Vec::new(), ..genuine.clone() },
        v1::JoinRequest { attestor: "tpm".into(), ..genuine.clone() },
    ];
    for request in broken {
        assert_eq!(bed.ask(JoinKind::Join, &request).refused(), "bad-request");
    }
    let mut loud = machine.clone();
    loud.claims.hostname = "x\u{1b}[2J".into();
    assert_eq!(bed.join(&loud, &bed.token(1, None)).refused(), "bad-request");
    let mut nobody = machine;
    nobody.claims.role = 0;
    assert_eq!(bed.join(&nobody, &bed.token(1, None)).refused(), "bad-request");
    // Bytes that are no message at all, as a broken gateway could leave them.
    assert_eq!(bed.ask(JoinKind::Renew, &genuine).refused(), "bad-request");
}

#[test]
fn a_revoked_node_does_not_come_back_by_its_old_request() {
    let bed = Bed::new();
    let (machine, token) = (Machine::new("gpu-a"), bed.token(1, None));
    let first = bed.join(&machine, &token).granted();
    let serial = NodeCertificate::parse(&first.chain[0]).expect("leaf").serial_hex;
    bed.run(|tx| revoke_certificate(tx, &serial));
    assert_eq!(bed.join(&machine, &token).refused(), "node-revoked");
    bed.run(|tx| revoke_node(tx, &Bed::node_id(&first), "sold"));
    assert_eq!(bed.join(&machine, &token).refused(), "node-revoked");
}

#[test]
fn a_commit_that_fails_leaves_the_token_unused_and_the_request_waiting() {
    let bed = Bed::new();
    let (machine, token) = (Machine::new("gpu-a"), bed.token(1, None));
    let bytes = machine.request(&bed, &token).encode_to_vec();
    let id = bed.run(|tx| {
        kernel::join::join_request_put(tx, JoinKind::Join, &[0; 32], &bytes)
            .map_err(|error| kernel::db::StoreError::Statement(error.to_string()))
    });
    let request = kernel::join::JoinRequest { id, kind: JoinKind::Join, csr_sha256: [0; 32], request: bytes.clone() };
    assert!(bed.store.run_failing_commit(|tx| crate::join::serve(tx, &bed.keys, &request)).is_err());
    assert_eq!(bed.run(|tx| kernel::join::join_answer_get(tx, id)), None);
    bed.serve(id, JoinKind::Join, bytes);
    let granted = bed.answer(id);
    assert!(matches!(granted, Answer::Granted(_)));
    assert_eq!(bed.join(&Machine::new("other"), &token).refused(), "token-used", "one use, not two");
}
