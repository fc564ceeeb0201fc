//! Single values of the whole fleet: its id, the signed server time, the signed trust bundle. What
//! they mean is their writers' business; here they are bytes under a name.

use crate::db::{StoreError, Tx, args};
use crate::signed::{decode_chain, encode_chain};
use model::ServerTimeMs;
use model::frame::Signed;

/// The fleet's id, text.
pub const FLEET_ID: &str = "fleet-id";
/// The newest signed statement of the server time.
pub const SERVER_TIME: &str = "server-time";
/// The newest signed trust bundle.
pub const TRUST_BUNDLE: &str = "trust-bundle";

/// Stores `value` under `name`, over an older one.
pub fn put(tx: &mut Tx<'_>, name: &str, value: &[u8]) -> Result<(), StoreError> {
    let now = tx.now()?;
    tx.execute(
        "INSERT INTO settings (name, value, updated_at) VALUES (?1, ?2, ?3)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at",
        args![name, value, now],
    )?;
    Ok(())
}

/// The value under `name`.
pub fn get(tx: &mut Tx<'_>, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
    tx.query_opt("SELECT value FROM settings WHERE name = ?1", args![name], |row| row.take())
}

/// Stores a signed document and when it was stored.
pub fn put_signed(tx: &mut Tx<'_>, name: &str, signed: &Signed) -> Result<(), StoreError> {
    let parts =
        [signed.body.clone(), signed.kid.clone().into_bytes(), encode_chain(&signed.chain), signed.signature.clone()];
    put(tx, name, &encode_chain(&parts))
}

/// A signed document, and when it was stored.
pub fn get_signed(tx: &mut Tx<'_>, name: &str) -> Result<Option<(Signed, ServerTimeMs)>, StoreError> {
    let found = tx.query_opt("SELECT value, updated_at FROM settings WHERE name = ?1", args![name], |row| {
        Ok((row.take::<Vec<u8>>()?, row.take()?))
    })?;
    let Some((bytes, at)) = found else { return Ok(None) };
    let signed = decode_signed(&bytes).ok_or_else(|| StoreError::Corrupt(format!("the setting {name}")))?;
    Ok(Some((signed, at)))
}

fn decode_signed(bytes: &[u8]) -> Option<Signed> {
    let [body, kid, chain, signature]: [Vec<u8>; 4] = decode_chain(bytes)?.try_into().ok()?;
    Some(Signed { body, kid: String::from_utf8(kid).ok()?, chain: decode_chain(&chain)?, signature })
}
