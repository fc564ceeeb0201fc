use super::*;
use crate::identity::IdentityStore;
use crate::testing::{Fleet, identity_of};
use model::{CommandId, Outcome};
use pki::SigningIdentity;

fn keeper(fleet: &Fleet, directory: &std::path::Path) -> Keeper {
    let store = IdentityStore::new(directory);
    let pending = store.prepare_join().expect("prepare");
    store.install(&identity_of(fleet, pending.key.public())).expect("install");
    let loaded = store.load().expect("load").expect("joined");
    Keeper::new(store, loaded)
}

struct Bed {
    fleet: Fleet,
    keeper: Keeper,
    outside: NodeOutside,
    _directory: tempfile::TempDir,
}

fn bed() -> Bed {
    let directory = tempfile::tempdir().expect("tempdir");
    let fleet = Fleet::new();
    let keeper = keeper(&fleet, directory.path());
    let outside = NodeOutside::new(keeper.clone(), fleet.keys.pins().join_signing_key_pin);
    Bed { fleet, keeper, outside, _directory: directory }
}

fn sign(identity: &SigningIdentity, purpose: Purpose, body: Vec<u8>) -> Signed {
    from_pki(identity.sign(purpose, body).expect("signs"))
}

fn bundle(fleet: &Fleet, change: impl FnOnce(&mut v1::TrustBundle)) -> Signed {
    let mut bundle = fleet.trust_bundle();
    change(&mut bundle);
    sign(&fleet.keys.join_signing, Purpose::TrustBundle, bundle.encode_to_vec())
}

#[test]
fn only_a_worker_of_this_fleet_signs_a_command_and_only_for_that_purpose() {
    let bed = bed();
    let at = ServerTimeMs(bed.fleet.now_ms);
    assert!(bed.outside.has_command_roots());
    let signed = sign(&bed.fleet.keys.api, Purpose::Command, b"body".to_vec());
    assert!(bed.outside.verify_command(&signed, at));
    assert!(!bed.outside.verify_spec(&signed, at), "another purpose");
    let mut changed = signed.clone();
    changed.body[0] ^= 1;
    assert!(!bed.outside.verify_command(&changed, at));
    let foreign = sign(&Fleet::new().keys.api, Purpose::Command, b"body".to_vec());
    assert!(!bed.outside.verify_command(&foreign, at), "another fleet's worker");
    let unsigned = Signed { body: b"body".to_vec(), ..Signed::default() };
    assert!(!bed.outside.verify_command(&unsigned, at));
}

#[test]
fn server_time_counts_when_a_worker_of_this_fleet_states_it_for_this_fleet() {
    let bed = bed();
    let state = |fleet_id: &str| v1::ServerTime { unix_ms: bed.fleet.now_ms + 5, fleet_id: fleet_id.to_owned() };
    let ours = bed.fleet.keys.public.fleet_id.to_string();
    let signed = sign(&bed.fleet.keys.controllers, Purpose::ServerTime, state(&ours).encode_to_vec());
    assert_eq!(bed.outside.verify_server_time(&signed), Some(ServerTimeMs(bed.fleet.now_ms + 5)));
    let other = sign(&bed.fleet.keys.controllers, Purpose::ServerTime, state("fleet-other").encode_to_vec());
    assert_eq!(bed.outside.verify_server_time(&other), None);
    let forged = Signed { signature: vec![0; 64], ..signed };
    assert_eq!(bed.outside.verify_server_time(&forged), None);
    assert_eq!(bed.outside.verify_server_time(&Signed::default()), None);
}

#[test]
fn a_trust_bundle_is_adopted_only_when_it_is_newer_and_genuine() {
    let mut bed = bed();
    let held = bed.keeper.identity().trust_bundle.expect("bundle");
    assert_eq!(bed.outside.adopt_bundle(&held), BundleVerdict::Unchanged);
    let same_version = bundle(&bed.fleet, |bundle| bundle.issued_at_ms += 1);
    assert_eq!(bed.outside.adopt_bundle(&same_version), BundleVerdict::Refused);
    let newer = bundle(&bed.fleet, |bundle| bundle.version = 2);
    assert_eq!(bed.outside.adopt_bundle(&newer), BundleVerdict::Adopted);
    assert_eq!(bed.outside.adopt_bundle(&newer), BundleVerdict::Unchanged);
    assert_eq!(bed.outside.adopt_bundle(&held), BundleVerdict::Refused, "a node never goes back");
    let other_fleet = bundle(&bed.fleet, |bundle| (bundle.version, bundle.fleet_id) = (3, "fleet-other".to_owned()));
    assert_eq!(bed.outside.adopt_bundle(&other_fleet), BundleVerdict::Refused);
    let rootless = bundle(&bed.fleet, |bundle| {
        bundle.version = 3;
        bundle.command_roots.clear();
    });
    assert_eq!(bed.outside.adopt_bundle(&rootless), BundleVerdict::Refused, "signing is never switched off");
    let foreign = Fleet::new();
    let forged = bundle(&foreign, |bundle| {
        bundle.version = 3;
        bundle.fleet_id = bed.fleet.keys.public.fleet_id.to_string();
    });
    assert_eq!(bed.outside.adopt_bundle(&forged), BundleVerdict::Refused);
}

#[test]
fn a_stored_bundle_that_does_not_verify_is_left_out() {
    let bed = bed();
    bed.keeper.store_bundle(Fleet::new().signed_bundle_frame()).expect("store");
    let outside = NodeOutside::new(bed.keeper.clone(), bed.fleet.keys.pins().join_signing_key_pin);
    assert!(!outside.has_command_roots());
}

#[test]
fn a_result_is_signed_with_the_nodes_key_for_that_purpose() {
    let bed = bed();
    let statement =
        ResultStatement { command_id: CommandId::new("c1"), outcome: Outcome::Succeeded, result_sha256: [7; 32] };
    let signed = to_pki(&bed.outside.sign_result(&statement));
    let key = *bed.keeper.credentials().key.public();
    let body = signed.verify(Purpose::CommandResult, &key).expect("verifies");
    assert_eq!(proto::decode_statement(body).expect("statement"), statement);
    assert!(signed.verify(Purpose::EventReport, &key).is_err());
    assert_eq!(signed.chain, [bed.keeper.identity().chain[0].clone()]);
}

#[test]
fn the_kinds_of_this_build_are_implemented_and_no_others() {
    let bed = bed();
    let implemented: Vec<&str> =
        Kind::ALL.iter().filter(|kind| bed.outside.implements(**kind)).map(|kind| kind.name()).collect();
    assert_eq!(implemented, ["inventory.refresh", "diag.nvml", "gpu.reset", "node.reboot", "logs.collect"]);
    assert!(bed.outside.can_hold_spec(&[]) && !bed.outside.can_hold_spec(&[8, 1]));
}
