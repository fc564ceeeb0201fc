//! The verifier's side of attested results: what waits for it, with every certificate its node ever
//! had, and its verdict, which alone makes such a command terminal.
//!
//! Not here: the cryptography.

use crate::commands::{Attestation, Settle, settle};
use crate::db::{StoreError, Tx, args};
use crate::signed;
use crate::updates::result_code;
use model::frame::Signed;
use model::{CommandId, CommandState, FailCode, NodeId, Outcome};

/// A stored result that nobody believes yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unverified {
    pub command: CommandId,
    pub node: NodeId,
    pub kind: String,
    pub outcome: Outcome,
    /// As received.
    pub result: Vec<u8>,
    /// As received; a missing one is a forgery.
    pub node_sig: Option<Signed>,
    /// DER of every certificate issued to the node, oldest first, expired ones too.
    pub certs: Vec<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Genuine,
    /// Why it is not.
    Forged(String),
}

/// Up to `limit` results that wait, oldest first. They stay until [`settle_verified`].
pub fn take_unverified(tx: &mut Tx<'_>, limit: u32) -> Result<Vec<Unverified>, StoreError> {
    let mut waiting = tx.query(
        "SELECT id, node_id, kind, reported_outcome, result, node_sig_body, node_sig_kid, node_sig_chain,
             node_sig_signature FROM commands WHERE awaiting = 1 ORDER BY n LIMIT ?1",
        args![limit],
        |row| {
            Ok(Unverified {
                command: row.take()?,
                node: row.take()?,
                kind: row.take()?,
                outcome: row.take()?,
                result: row.take()?,
                node_sig: signed::take_opt(row)?,
                certs: Vec::new(),
            })
        },
    )?;
    for result in &mut waiting {
        let sql = "SELECT der FROM node_certificates WHERE node_id = ?1 ORDER BY issued_at, serial";
        result.certs = tx.query(sql, args![result.node], |row| row.take())?;
    }
    Ok(waiting)
}

/// Ends a command by the verifier's verdict. `false` when it does not wait for one.
pub fn settle_verified(tx: &mut Tx<'_>, id: &CommandId, verdict: &Verdict) -> Result<bool, StoreError> {
    let waiting = tx.query_opt(
        "SELECT n, reported_outcome, result FROM commands WHERE id = ?1 AND awaiting = 1",
        args![id],
        |row| Ok((row.take::<i64>()?, row.take::<Outcome>()?, row.take::<Vec<u8>>()?)),
    )?;
    let Some((n, outcome, result)) = waiting else { return Ok(false) };
    match verdict {
        Verdict::Genuine => {
            let (code, attestation) = (result_code(&result), Some(Attestation::Verified));
            settle(tx, n, &Settle { state: outcome.state(), code: &code, attestation })?;
        }
        Verdict::Forged(reason) => {
            tracing::warn!(command = %id, %reason, "an attested result does not verify");
            let (code, attestation) = (FailCode::BadAttestation.name(), Some(Attestation::Forged));
            settle(tx, n, &Settle { state: CommandState::Failed, code, attestation })?;
        }
    }
    Ok(true)
}
