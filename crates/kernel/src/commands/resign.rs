//! Signing again (F-Q13): a node with a new journal refuses every command that was signed before the
//! journal's birth and must not run twice. What was never sent is signed anew, so that only commands
//! in flight are lost with a journal.

use crate::db::{Hint, StoreError, Tx, args};
use crate::signed::encode_chain;
use model::NodeId;
use model::frame::{CommandBody, Signed};

/// Signs up to `limit` commands again: pending, never sent, issued before their node's journal was
/// first seen. Returns how many; fewer than `limit` means that none is left.
pub fn resign(tx: &mut Tx<'_>, seal: &dyn Fn(&CommandBody) -> Signed, limit: u32) -> Result<usize, StoreError> {
    let nodes: Vec<(NodeId, i64)> = tx.query(
        "SELECT node_id, journal_since FROM node_sessions WHERE resign_due = 1 ORDER BY node_id LIMIT ?1",
        args![limit],
        |row| Ok((row.take()?, row.take()?)),
    )?;
    let mut signed = 0;
    for (node, journal_since) in nodes {
        let left = limit as usize - signed;
        let rows: Vec<i64> = tx.query(
            "SELECT n FROM commands
             WHERE state = 'pending' AND node_id = ?1 AND attempt = 0 AND issued_at < ?2 ORDER BY lane, seq LIMIT ?3",
            args![node, journal_since, left],
            |row| row.take(),
        )?;
        for n in &rows {
            resign_row(tx, seal, *n)?;
        }
        signed += rows.len();
        if rows.len() == left {
            break;
        }
        tx.execute("UPDATE node_sessions SET resign_due = 0 WHERE node_id = ?1", args![node])?;
        tx.hint(Hint::Node(node));
    }
    Ok(signed)
}

/// A body that does not decode keeps its bytes; dispatch cancels it.
fn resign_row(tx: &mut Tx<'_>, seal: &dyn Fn(&CommandBody) -> Signed, n: i64) -> Result<(), StoreError> {
    let now = tx.now()?;
    let old: Vec<u8> = tx.query_one("SELECT body FROM commands WHERE n = ?1", args![n], |row| row.take())?;
    let Ok(mut body) = proto::decode_body(&old) else {
        tx.execute("UPDATE commands SET issued_at = ?2 WHERE n = ?1", args![n, now])?;
        return Ok(());
    };
    body.issued_at = now;
    let signed = seal(&body);
    tx.execute(
        "UPDATE commands SET issued_at = ?2, body = ?3, kid = ?4, chain = ?5, signature = ?6 WHERE n = ?1",
        args![n, now, signed.body, signed.kid, encode_chain(&signed.chain), signed.signature],
    )?;
    Ok(())
}
