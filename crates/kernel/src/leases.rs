//! Who runs a controller: a name leased to one holder at a time, with a fence that rises at each
//! change of holder. A holder checks its fence inside each transaction it makes, so that one that
//! was replaced while it slept writes nothing.

use crate::db::{StoreError, Tx, args};

/// Takes the lease if it is free, expired or already held by `holder`. Returns the fence.
pub fn acquire(tx: &mut Tx<'_>, name: &str, holder: &str, ttl_ms: i64) -> Result<Option<u64>, StoreError> {
    let now = tx.now()?;
    let held = tx.query_opt("SELECT holder, fence, expires_at FROM leases WHERE name = ?1", args![name], |row| {
        Ok((row.take::<String>()?, row.take::<u64>()?, row.take()?))
    })?;
    let fence = match held {
        None => 1,
        Some((owner, fence, expires_at)) if owner == holder && now < expires_at => fence,
        Some((_, fence, expires_at)) if now >= expires_at => fence + 1,
        Some(_) => return Ok(None),
    };
    tx.execute(
        "INSERT INTO leases (name, holder, fence, expires_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (name) DO UPDATE
         SET holder = excluded.holder, fence = excluded.fence, expires_at = excluded.expires_at",
        args![name, holder, fence, now.plus(ttl_ms)],
    )?;
    Ok(Some(fence))
}

/// Extends a lease; `false` when its fence has moved on.
pub fn renew(tx: &mut Tx<'_>, name: &str, fence: u64, ttl_ms: i64) -> Result<bool, StoreError> {
    let until = tx.now()?.plus(ttl_ms);
    let sql = "UPDATE leases SET expires_at = ?3 WHERE name = ?1 AND fence = ?2";
    Ok(tx.execute(sql, args![name, fence, until])? == 1)
}

/// Whether `fence` is still the lease's newest.
pub fn check_fence(tx: &mut Tx<'_>, name: &str, fence: u64) -> Result<bool, StoreError> {
    tx.exists("SELECT 1 FROM leases WHERE name = ?1 AND fence = ?2", args![name, fence])
}

/// Gives a lease up early, so that the next holder need not wait for its end.
pub fn release(tx: &mut Tx<'_>, name: &str, fence: u64) -> Result<(), StoreError> {
    let now = tx.now()?;
    tx.execute("UPDATE leases SET expires_at = ?3 WHERE name = ?1 AND fence = ?2", args![name, fence, now])?;
    Ok(())
}
