//! The trust bundle: which roots daemons believe, signed by the pinned key, with a version that rises
//! with each change. Gateways relay it in `Welcome`, this service sends it with each answer.

use super::to_frame;
use crate::start::StartError;
use kernel::db::{Store, StoreError, Tx};
use kernel::settings;
use pki::Purpose;
use pki::roles::JoinKeys;
use proto::{Message, v1};
use std::sync::Arc;

/// Ties the store to this fleet, and brings the stored bundle up to date with the keys.
pub(crate) async fn prepare(store: &Store, keys: &Arc<JoinKeys>) -> Result<(), StartError> {
    let keys = keys.clone();
    store.write(move |tx| prepare_in(tx, &keys)).await
}

pub(crate) fn prepare_in(tx: &mut Tx<'_>, keys: &JoinKeys) -> Result<(), StartError> {
    let fleet = keys.public.fleet_id.to_string();
    match settings::get(tx, settings::FLEET_ID)? {
        Some(stored) if stored != fleet.as_bytes() => {
            return Err(StartError::OtherFleet { stored: String::from_utf8_lossy(&stored).into_owned(), keys: fleet });
        }
        Some(_) => {}
        None => settings::put(tx, settings::FLEET_ID, fleet.as_bytes())?,
    }
    let stored = stored_bundle(tx)?;
    let version = stored.as_ref().map_or(0, |bundle| bundle.version);
    let mut bundle = v1::TrustBundle {
        version,
        fleet_id: fleet,
        command_roots: vec![keys.public.command_root.to_vec()],
        node_cas: vec![keys.public.node_ca.to_vec()],
        serving_cas: vec![keys.public.serving_ca.to_vec()],
        issued_at_ms: stored.as_ref().map_or(0, |bundle| bundle.issued_at_ms),
    };
    if stored.as_ref() == Some(&bundle) {
        return Ok(());
    }
    bundle.version = version + 1;
    bundle.issued_at_ms = tx.now()?.0;
    let signed = keys.signing.sign(Purpose::TrustBundle, bundle.encode_to_vec()).map_err(StartError::Sign)?;
    Ok(settings::put_signed(tx, settings::TRUST_BUNDLE, &to_frame(signed))?)
}

fn stored_bundle(tx: &mut Tx<'_>) -> Result<Option<v1::TrustBundle>, StoreError> {
    let Some((signed, _)) = settings::get_signed(tx, settings::TRUST_BUNDLE)? else { return Ok(None) };
    v1::TrustBundle::decode(signed.body.as_slice())
        .map(Some)
        .map_err(|error| StoreError::Corrupt(format!("the stored trust bundle: {error}")))
}
