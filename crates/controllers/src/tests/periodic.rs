//! What is signed by timer: the time, and pending commands again.

use super::{Bed, START_MS};
use crate::runner::Controller;
use crate::server_time::{self, ServerTimeSigner};
use crate::sweeper::Sweeper;
use kernel::settings;
use pki::{FleetId, Purpose};
use proto::{Message, v1};

#[test]
fn the_time_is_signed_by_a_worker_and_moves_with_the_clock() {
    let bed = Bed::new();
    let worker = bed.bundle.split().controllers.worker;
    let roots = [bed.bundle.public.command_root.clone()];
    for ms in [0, 30_000] {
        bed.at(ms);
        bed.store.run(|tx| server_time::sign(tx, &worker, bed.bundle.public.fleet_id.as_str())).expect("signed");
        let (signed, _) = bed.run(|tx| settings::get_signed(tx, settings::SERVER_TIME)).expect("stored");
        let signed = crate::join::from_frame(signed);
        let body = signed.verify_chain(Purpose::ServerTime, &roots, START_MS + ms).expect("under the command root");
        let time = v1::ServerTime::decode(body).expect("a time");
        assert_eq!((time.unix_ms, time.fleet_id.as_str()), (START_MS + ms, bed.bundle.public.fleet_id.as_str()));
    }
}

#[test]
fn the_apis_key_signs_no_time() {
    let bed = Bed::new();
    let api = bed.bundle.split().api.worker;
    assert!(server_time::statement(&api, "f", model::ServerTimeMs(1)).is_err());
}

#[test]
fn the_trust_bundle_keeps_its_version_until_its_roots_change() {
    let bed = Bed::new();
    let version = |bed: &Bed| {
        let (signed, _) = bed.run(|tx| settings::get_signed(tx, settings::TRUST_BUNDLE)).expect("stored");
        v1::TrustBundle::decode(signed.body.as_slice()).expect("a bundle").version
    };
    bed.at(1000);
    bed.store.run(|tx| crate::join::prepare_in(tx, &bed.keys)).expect("again");
    assert_eq!(version(&bed), 1);
    // The same fleet with another command root.
    let other = pki::Bundle::create(bed.bundle.public.fleet_id.clone(), &["x".into()], START_MS).expect("pki");
    let mut keys = bed.keys.clone();
    keys.public.command_root = other.public.command_root;
    bed.store.run(|tx| crate::join::prepare_in(tx, &keys)).expect("changed");
    assert_eq!(version(&bed), 2);
}

#[test]
fn a_store_of_another_fleet_is_refused() {
    let bed = Bed::new();
    let other = pki::Bundle::create(FleetId::random(), &["x".into()], START_MS).expect("pki").split().join;
    let error = bed.store.run(|tx| crate::join::prepare_in(tx, &other)).expect_err("refused");
    assert!(matches!(error, crate::StartError::OtherFleet { .. }), "{error}");
    let fleet = bed.run(|tx| settings::get(tx, settings::FLEET_ID)).expect("stored");
    assert_eq!(fleet, bed.bundle.public.fleet_id.as_str().as_bytes());
}

#[test]
fn the_sweeper_runs_every_five_seconds_and_the_time_is_signed_every_thirty() {
    assert_eq!(Sweeper::PERIOD, std::time::Duration::from_secs(5));
    assert_eq!(ServerTimeSigner::PERIOD, std::time::Duration::from_secs(30));
}
