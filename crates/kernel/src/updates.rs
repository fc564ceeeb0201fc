//! What nodes report about commands: progress, `BUSY`, and outcomes. Applied through the state table
//! of `model::CommandState`, scoped to the reporting node, from any session of it; what is stale or
//! repeated changes nothing, and every terminal report is acknowledged.
//!
//! Not here: judging signatures. An attested result is stored as it came and waits for the verifier.

use crate::commands::{Settle, settle};
use crate::db::{Hint, StoreError, Tx, args};
use crate::signed::encode_chain;
use model::frame::{CommandUpdate, Settled, UpdateState};
use model::limits::{BUSY_DELAY_FIRST_MS, BUSY_DELAY_MOST_MS};
use model::{BootId, CommandId, CommandState, NodeId};

/// What to acknowledge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ingested {
    /// Every terminal report, whether it changed anything or not.
    pub acks: Vec<CommandId>,
}

struct Row {
    n: i64,
    state: CommandState,
    attested: bool,
    awaiting: bool,
    busy_count: u32,
}

/// Applies reports of `node` in their order.
pub fn ingest_updates(tx: &mut Tx<'_>, node: &NodeId, updates: &[CommandUpdate]) -> Result<Ingested, StoreError> {
    let mut ingested = Ingested::default();
    for update in updates {
        if let Some(row) = find(tx, node, &update.command_id)? {
            apply(tx, node, &row, update)?;
        }
        if matches!(update.state, UpdateState::Done(_)) {
            ingested.acks.push(update.command_id.clone());
        }
    }
    Ok(ingested)
}

/// The reporting node's own command. Another node's is as good as none.
fn find(tx: &mut Tx<'_>, node: &NodeId, id: &CommandId) -> Result<Option<Row>, StoreError> {
    tx.query_opt(
        "SELECT n, state, attested, awaiting, busy_count FROM commands WHERE id = ?1 AND node_id = ?2",
        args![id, node],
        |row| {
            Ok(Row {
                n: row.take()?,
                state: row.take()?,
                attested: row.take()?,
                awaiting: row.take()?,
                busy_count: row.take()?,
            })
        },
    )
}

fn apply(tx: &mut Tx<'_>, node: &NodeId, row: &Row, update: &CommandUpdate) -> Result<(), StoreError> {
    if row.awaiting {
        // Its result is stored; only the verifier moves it now.
        return Ok(());
    }
    match &update.state {
        UpdateState::Acked => progress(tx, node, row, CommandState::Acked, &update.boot_id),
        UpdateState::Running => progress(tx, node, row, CommandState::Running, &update.boot_id),
        UpdateState::Busy => busy(tx, row),
        UpdateState::Done(settled) => done(tx, node, row, settled, &update.boot_id),
    }
}

fn progress(tx: &mut Tx<'_>, node: &NodeId, row: &Row, to: CommandState, boot: &BootId) -> Result<(), StoreError> {
    if !row.state.accepts(to) {
        return Ok(());
    }
    let now = tx.now()?;
    // A pending row takes a report when the commit of its dispatch was lost, or after a `BUSY`; what
    // the resume rules compare is then filled in here.
    tx.execute(
        "UPDATE commands SET state = ?2, acked_at = COALESCE(acked_at, ?3),
             running_at = CASE WHEN ?2 = 'running' THEN ?3 ELSE running_at END,
             dispatched_boot_id = COALESCE(dispatched_boot_id, ?4),
             dispatched_journal_id = COALESCE(dispatched_journal_id,
                 (SELECT journal_id FROM node_sessions WHERE node_id = ?5))
         WHERE n = ?1",
        args![row.n, to, now, boot, node],
    )?;
    Ok(())
}

/// `BUSY` (D-Q27): back into the queue, in its old place, after a delay. Only a command that was sent
/// and not accepted can be refused so.
fn busy(tx: &mut Tx<'_>, row: &Row) -> Result<(), StoreError> {
    if row.state != CommandState::Dispatched {
        return Ok(());
    }
    let count = row.busy_count.saturating_add(1);
    let not_before = tx.now()?.plus(stdx::backoff::delay_ms(count, BUSY_DELAY_FIRST_MS, BUSY_DELAY_MOST_MS));
    tx.execute(
        "UPDATE commands SET state = 'pending', busy_count = ?2, not_before = ?3, session_epoch = NULL,
             dispatched_boot_id = NULL, dispatched_journal_id = NULL WHERE n = ?1",
        args![row.n, count, not_before],
    )?;
    Ok(())
}

fn done(tx: &mut Tx<'_>, node: &NodeId, row: &Row, settled: &Settled, boot: &BootId) -> Result<(), StoreError> {
    let state = settled.outcome.state();
    if !row.state.accepts(state) {
        return Ok(());
    }
    store_result(tx, row.n, settled, boot)?;
    if row.attested {
        return await_verification(tx, node, row);
    }
    let code = result_code(&settled.result);
    settle(tx, row.n, &Settle { state, code: &code, attestation: None })
}

/// The result and the node's signature, byte for byte as received.
fn store_result(tx: &mut Tx<'_>, n: i64, settled: &Settled, boot: &BootId) -> Result<(), StoreError> {
    let now = tx.now()?;
    let sig = settled.node_sig.as_ref();
    let chain = sig.map(|signed| encode_chain(&signed.chain));
    tx.execute(
        "UPDATE commands SET reported_outcome = ?2, result = ?3, result_boot_id = ?4, result_at = ?5,
             node_sig_body = ?6, node_sig_kid = ?7, node_sig_chain = ?8, node_sig_signature = ?9 WHERE n = ?1",
        args![
            n,
            settled.outcome,
            settled.result,
            boot,
            now,
            sig.map(|signed| &signed.body),
            sig.map(|signed| &signed.kid),
            chain,
            sig.map(|signed| &signed.signature)
        ],
    )?;
    Ok(())
}

fn await_verification(tx: &mut Tx<'_>, node: &NodeId, row: &Row) -> Result<(), StoreError> {
    // A row that waited again after a `BUSY` must not be dispatched once its result is here.
    tx.execute(
        "UPDATE commands SET awaiting = 1, state = CASE WHEN state = 'pending' THEN 'dispatched' ELSE state END
         WHERE n = ?1",
        args![row.n],
    )?;
    tx.hint(Hint::Verify);
    // Its credit is free.
    tx.hint(Hint::Node(node.clone()));
    Ok(())
}

/// The code inside a result; empty for one that does not decode, whose bytes are kept all the same.
pub(crate) fn result_code(result: &[u8]) -> String {
    proto::decode_result(result).map(|result| result.code).unwrap_or_default()
}
