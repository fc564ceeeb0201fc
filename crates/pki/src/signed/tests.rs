use super::*;
use crate::bundle::CONTROLLERS_PURPOSES;
use crate::ca::{self, LEAF_LIFE_MS};
use crate::fleet::FleetId;
use crate::testing::{FLEET, HOUR_MS, IMPOSTOR, NOW_MS, node_identity};
use proptest::prelude::*;
use std::sync::LazyLock;

static KEY: LazyLock<KeyPair> = LazyLock::new(KeyPair::generate);

fn command() -> Signed {
    FLEET.api.sign(Purpose::Command, b"reset that GPU".to_vec()).expect("allowed")
}

fn roots() -> Vec<CertificateDer<'static>> {
    vec![FLEET.public.command_root.clone()]
}

#[test]
fn a_workers_signature_leads_to_the_command_root() {
    assert_eq!(command().verify_chain(Purpose::Command, &roots(), NOW_MS), Ok(&b"reset that GPU"[..]));
    assert_eq!(command().signature.len(), 64);
    let two = [IMPOSTOR.public.command_root.clone(), FLEET.public.command_root.clone()];
    assert!(command().verify_chain(Purpose::Command, &two, NOW_MS).is_ok());
}

#[test]
fn bytes_signed_for_one_purpose_verify_for_no_other() {
    for signed_for in Purpose::ALL {
        let signed = Signed::sign(*signed_for, b"body".to_vec(), &KEY, Vec::new());
        for asked in Purpose::ALL {
            assert_eq!(signed.verify(*asked, KEY.public()).is_ok(), asked == signed_for, "{signed_for} as {asked}");
        }
    }
    let spec = FLEET.api.sign(Purpose::DesiredState, b"body".to_vec()).expect("allowed");
    assert_eq!(spec.verify_chain(Purpose::Command, &roots(), NOW_MS), Err(SignatureError::Signature(Purpose::Command)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_choice_of_body_moves_a_signature_to_another_purpose(
        one in 0..Purpose::ALL.len(), other in 0..Purpose::ALL.len(),
        body in proptest::collection::vec(any::<u8>(), 0..64), cut in 0..64usize,
    ) {
        prop_assume!(one != other);
        let mut signed = Signed::sign(Purpose::ALL[one], body, &KEY, Vec::new());
        prop_assert!(signed.verify(Purpose::ALL[other], KEY.public()).is_err());
        // What an attacker would try: the purpose's own bytes moved into the body or out of it.
        signed.body = Purpose::ALL[one].signing_input(&signed.body);
        signed.body.drain(..cut.min(signed.body.len()));
        prop_assert!(signed.verify(Purpose::ALL[other], KEY.public()).is_err());
    }
}

#[test]
fn a_worker_signs_only_what_its_certificate_lists() {
    assert_eq!(FLEET.api.sign(Purpose::ServerTime, vec![1]), Err(SignatureError::Purpose(Purpose::ServerTime)));
    let chain = vec![FLEET.api.certificate().to_vec()];
    let forged = Signed::sign(Purpose::ServerTime, vec![1], FLEET.api.key(), chain);
    assert_eq!(
        forged.verify_chain(Purpose::ServerTime, &roots(), NOW_MS),
        Err(SignatureError::Purpose(Purpose::ServerTime))
    );
    let time = FLEET.controllers.sign(Purpose::ServerTime, vec![1]).expect("allowed");
    assert!(time.verify_chain(Purpose::ServerTime, &roots(), NOW_MS).is_ok());
}

#[test]
fn another_key_is_refused() {
    let signed = Signed::sign(Purpose::CommandResult, b"ok".to_vec(), &KEY, Vec::new());
    let other = KeyPair::generate();
    assert_eq!(signed.verify(Purpose::CommandResult, other.public()), Err(SignatureError::Kid));
    let renamed = Signed { kid: other.kid(), ..signed };
    assert_eq!(
        renamed.verify(Purpose::CommandResult, other.public()),
        Err(SignatureError::Signature(Purpose::CommandResult))
    );
    let mut stolen = command();
    stolen.signature = other.sign(&Purpose::Command.signing_input(&stolen.body)).to_vec();
    assert!(stolen.verify_chain(Purpose::Command, &roots(), NOW_MS).is_err());
}

#[test]
fn no_flipped_bit_verifies() {
    let signed = command();
    let (kid, body, leaf) = (signed.kid.len(), signed.body.len(), signed.chain[0].len());
    for at in 0..kid + body + leaf + signed.signature.len() {
        let mut flipped = signed.clone();
        let mut kid_bytes = flipped.kid.into_bytes();
        let mask = 1 << (at % 7);
        match at {
            at if at < kid => kid_bytes[at] ^= mask,
            at if at < kid + body => flipped.body[at - kid] ^= mask,
            at if at < kid + body + leaf => flipped.chain[0][at - kid - body] ^= mask,
            at => flipped.signature[at - kid - body - leaf] ^= mask,
        }
        flipped.kid = String::from_utf8(kid_bytes).expect("ASCII");
        assert!(flipped.verify_chain(Purpose::Command, &roots(), NOW_MS).is_err(), "byte {at}");
    }
}

#[test]
fn nothing_cut_short_verifies() {
    for length in 0..64 {
        let mut cut = command();
        cut.signature.truncate(length);
        assert!(cut.verify_chain(Purpose::Command, &roots(), NOW_MS).is_err());
    }
    let mut cut = command();
    cut.body.pop();
    assert!(cut.verify_chain(Purpose::Command, &roots(), NOW_MS).is_err());
    let mut cut = command();
    cut.chain[0].pop();
    assert!(matches!(cut.verify_chain(Purpose::Command, &roots(), NOW_MS), Err(SignatureError::Certificate(_))));
    for chain in [Vec::new(), vec![command().chain[0].clone(), FLEET.public.command_root.to_vec()]] {
        let other = Signed { chain, ..command() };
        assert_eq!(other.verify_chain(Purpose::Command, &roots(), NOW_MS), Err(SignatureError::ChainLength));
    }
}

#[test]
fn a_chain_of_another_root_or_of_none_is_refused() {
    let foreign = IMPOSTOR.api.sign(Purpose::Command, vec![1]).expect("allowed");
    assert_eq!(foreign.verify_chain(Purpose::Command, &roots(), NOW_MS), Err(SignatureError::Untrusted));
    assert_eq!(command().verify_chain(Purpose::Command, &[], NOW_MS), Err(SignatureError::Untrusted));
    let key = KeyPair::generate();
    let alone = ca::self_signed_signer(
        &FLEET.public.fleet_id,
        "better-compute command root",
        CONTROLLERS_PURPOSES,
        &key,
        NOW_MS,
    )
    .expect("self-signed");
    let forged = SigningIdentity::new(key, alone).expect("identity").sign(Purpose::Command, vec![1]).expect("allowed");
    assert_eq!(forged.verify_chain(Purpose::Command, &roots(), NOW_MS), Err(SignatureError::Untrusted));
}

#[test]
fn a_nodes_key_and_the_root_itself_sign_no_commands() {
    let node = node_identity(&FLEET);
    let signed = Signed::sign(Purpose::Command, vec![1], &node.key, vec![node.chain[0].to_vec()]);
    assert!(matches!(
        signed.verify_chain(Purpose::Command, std::slice::from_ref(&FLEET.public.node_ca), NOW_MS),
        Err(SignatureError::Certificate(CertificateError::Purposes))
    ));
    let root = &FLEET.command_root;
    let signed = Signed::sign(Purpose::Command, vec![1], root.key(), vec![root.certificate().to_vec()]);
    assert!(matches!(
        signed.verify_chain(Purpose::Command, &roots(), NOW_MS),
        Err(SignatureError::Certificate(CertificateError::Authority))
    ));
}

#[test]
fn a_workers_certificate_has_its_time() {
    let signed = command();
    let at = |at_ms| signed.verify_chain(Purpose::Command, &roots(), at_ms).map(|_| ());
    assert_eq!(at(NOW_MS - HOUR_MS), Ok(()));
    assert_eq!(at(NOW_MS - HOUR_MS - 1000), Err(SignatureError::NotYetValid));
    assert_eq!(at(NOW_MS + LEAF_LIFE_MS), Ok(()));
    assert_eq!(at(NOW_MS + LEAF_LIFE_MS + 1000), Err(SignatureError::Expired));
    assert_eq!(at(i64::MIN), Err(SignatureError::NotYetValid));
}

#[test]
fn joinservice_is_known_by_its_pin() {
    let pin = FLEET.pins().join_signing_key_pin;
    let answer = FLEET.join_signing.sign(Purpose::JoinResponse, b"welcome".to_vec()).expect("allowed");
    assert_eq!(answer.verify_pinned(Purpose::JoinResponse, &pin), Ok(&b"welcome"[..]));
    assert!(answer.verify_pinned(Purpose::TrustBundle, &pin).is_err());
    assert_eq!(
        answer.verify_pinned(Purpose::JoinResponse, &IMPOSTOR.pins().join_signing_key_pin),
        Err(SignatureError::Pin)
    );
    let command = command();
    let worker_pin = Pin::of(FLEET.api.public_key());
    assert_eq!(
        command.verify_pinned(Purpose::JoinResponse, &worker_pin),
        Err(SignatureError::Purpose(Purpose::JoinResponse))
    );
    assert!(FLEET.join_signing.sign(Purpose::Command, vec![1]).is_err());
}

#[test]
fn an_identity_needs_its_own_certificate() {
    let other = KeyPair::generate();
    let refused = SigningIdentity::new(other, FLEET.api.certificate().clone());
    assert_eq!(refused.map(|_| ()), Err(SignatureError::Kid));
    assert_ne!(FleetId::random(), FLEET.public.fleet_id);
}
