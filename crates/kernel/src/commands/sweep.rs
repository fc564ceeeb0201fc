//! The sweeper's step: what waited too long expires, what ran too long fails with `timeout`. A stored
//! result that waits for the verifier is never timed out (D-Q33).

use super::settle::{Settle, settle};
use crate::db::{StoreError, Tx, args};
use model::{CommandState, FailCode};

/// What one sweep ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub expired: usize,
    pub timed_out: usize,
}

pub(crate) const EXPIRED: &str =
    "SELECT n FROM commands WHERE state = 'pending' AND not_after <= ?1 ORDER BY not_after LIMIT ?2";

pub(crate) const TIMED_OUT: &str = "
    SELECT n FROM commands
    WHERE state IN ('dispatched', 'acked', 'running') AND awaiting = 0 AND times_out_at <= ?1
    ORDER BY times_out_at LIMIT ?2";

/// Ends up to `limit` commands of each sort. Called every 5 s, and again at once while it finds any.
pub fn sweep(tx: &mut Tx<'_>, limit: u32) -> Result<Swept, StoreError> {
    let now = tx.now()?;
    let expired: Vec<i64> = tx.query(EXPIRED, args![now, limit], |row| row.take())?;
    for n in &expired {
        settle(tx, *n, &Settle { state: CommandState::Expired, code: "", attestation: None })?;
    }
    let timed_out: Vec<i64> = tx.query(TIMED_OUT, args![now, limit], |row| row.take())?;
    let code = FailCode::Timeout.name();
    for n in &timed_out {
        settle(tx, *n, &Settle { state: CommandState::Failed, code, attestation: None })?;
    }
    Ok(Swept { expired: expired.len(), timed_out: timed_out.len() })
}
