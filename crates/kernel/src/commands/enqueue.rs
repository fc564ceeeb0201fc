//! Enqueue: one command into its node's queue, in the caller's transaction. A rollback of that
//! transaction leaves no command and no used `seq`.

use super::read::{self, CommandRow};
use crate::db::{Hint, StoreError, Tx, args};
use crate::signed::encode_chain;
use model::frame::{Any, CommandBody, Signed};
use model::kind::timeout_ms;
use model::limits::{COMMAND_BODY_BYTES_MAX, COUNTER_MAX, NOT_AFTER_MAX_S};
use model::{CommandId, Kind, KindSpec, Lane, Lifecycle, NodeId, PrincipalId, ServerTimeMs, TenantId};

/// Commands of one node that may wait.
pub const PENDING_PER_NODE_MAX: u32 = 1000;
/// One idempotency key, bytes.
const KEY_BYTES_MAX: usize = 256;

/// What to run, where, until when.
#[derive(Clone, Debug)]
pub struct NewCommand {
    pub id: CommandId,
    pub node: NodeId,
    pub principal: PrincipalId,
    /// The wire name. One that no build knows has lane `control` and no flags.
    pub kind: String,
    pub payload: Any,
    /// `not_after` from now, milliseconds: 1 to 7 days.
    pub not_after_in_ms: i64,
    /// 0 for none.
    pub min_generation: u64,
    /// Unique per node.
    pub idempotency_key: String,
    pub workflow_id: String,
    pub step_id: String,
    pub traceparent: String,
    /// Empty for an unbatched command.
    pub batch_id: String,
}

#[derive(Debug, thiserror::Error)]
pub enum EnqueueError {
    #[error("there is no node {0}")]
    UnknownNode(NodeId),
    #[error("the node {0} was revoked or retired")]
    NodeGone(NodeId),
    /// The key, or the id, belongs to another request.
    #[error("the idempotency key or the command id belongs to another request, command {0}")]
    Conflict(CommandId),
    #[error("not_after must lie 1 millisecond to 7 days ahead")]
    BadDeadline,
    #[error("the idempotency key must have 1 to {KEY_BYTES_MAX} bytes")]
    BadKey,
    #[error("min_generation is above 2^53")]
    BadGeneration,
    #[error("the command has {0} bytes, more than {COMMAND_BODY_BYTES_MAX}")]
    TooLarge(usize),
    #[error("{PENDING_PER_NODE_MAX} commands of the node wait already")]
    QueueFull,
    #[error(transparent)]
    Store(#[from] StoreError),
}

struct Target {
    tenant: TenantId,
    seq: u64,
}

/// Inserts the command `pending`, with the next `seq` of its node, sealed by `seal`, which returns the
/// body's bytes and their signature. The same key with the same request returns the same command.
pub fn enqueue(
    tx: &mut Tx<'_>,
    seal: &dyn Fn(&CommandBody) -> Signed,
    new: &NewCommand,
) -> Result<CommandRow, EnqueueError> {
    check(new)?;
    let request = request_sha256(new);
    if let Some(existing) = existing(tx, new, &request)? {
        return Ok(existing);
    }
    let target = target(tx, &new.node)?;
    let body = body(new, target.seq, tx.now()?);
    let signed = seal(&body);
    if signed.body.len() > COMMAND_BODY_BYTES_MAX {
        return Err(EnqueueError::TooLarge(signed.body.len()));
    }
    insert(tx, new, &target, &body, &signed, &request)?;
    tx.execute("UPDATE nodes SET next_cmd_seq = ?2 WHERE id = ?1", args![new.node, target.seq + 1])?;
    tx.hint(Hint::Node(new.node.clone()));
    let row = read::get(tx, &new.id)?;
    Ok(row.ok_or_else(|| StoreError::Corrupt(format!("the command {} just inserted is missing", new.id)))?)
}

fn check(new: &NewCommand) -> Result<(), EnqueueError> {
    if !(1..=NOT_AFTER_MAX_S * 1000).contains(&new.not_after_in_ms) {
        return Err(EnqueueError::BadDeadline);
    }
    if new.idempotency_key.is_empty() || new.idempotency_key.len() > KEY_BYTES_MAX {
        return Err(EnqueueError::BadKey);
    }
    if new.min_generation > COUNTER_MAX {
        return Err(EnqueueError::BadGeneration);
    }
    Ok(())
}

/// What makes two requests under one key the same. The trace context is not part of it.
fn request_sha256(new: &NewCommand) -> [u8; 32] {
    let parts: Vec<Vec<u8>> = [
        new.kind.as_bytes(),
        new.payload.type_url.as_bytes(),
        &new.payload.value,
        &new.not_after_in_ms.to_be_bytes(),
        &new.min_generation.to_be_bytes(),
        new.workflow_id.as_bytes(),
        new.step_id.as_bytes(),
        new.batch_id.as_bytes(),
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    stdx::hex::sha256(&encode_chain(&parts))
}

fn existing(tx: &mut Tx<'_>, new: &NewCommand, request: &[u8; 32]) -> Result<Option<CommandRow>, EnqueueError> {
    let found = tx.query_opt(
        "SELECT id, request_sha256 FROM commands WHERE node_id = ?1 AND idempotency_key = ?2",
        args![new.node, new.idempotency_key],
        |row| Ok((row.take::<CommandId>()?, row.take::<[u8; 32]>()?)),
    )?;
    match found {
        Some((id, stored)) if stored == *request => Ok(read::get(tx, &id)?),
        Some((id, _)) => Err(EnqueueError::Conflict(id)),
        None if tx.exists("SELECT 1 FROM commands WHERE id = ?1", args![new.id])? => {
            Err(EnqueueError::Conflict(new.id.clone()))
        }
        None => Ok(None),
    }
}

fn target(tx: &mut Tx<'_>, node: &NodeId) -> Result<Target, EnqueueError> {
    let found = tx.query_opt(
        "SELECT tenant_id, next_cmd_seq, lifecycle, revoked_at IS NOT NULL FROM nodes WHERE id = ?1",
        args![node],
        |row| {
            let target = Target { tenant: row.take()?, seq: row.take()? };
            Ok((target, row.take::<Lifecycle>()?, row.take::<bool>()?))
        },
    )?;
    let (target, lifecycle, revoked) = found.ok_or_else(|| EnqueueError::UnknownNode(node.clone()))?;
    if revoked || lifecycle == Lifecycle::Retired {
        return Err(EnqueueError::NodeGone(node.clone()));
    }
    let full = tx.exists(
        "SELECT 1 FROM commands WHERE state = 'pending' AND node_id = ?1 LIMIT 1 OFFSET ?2",
        args![node, PENDING_PER_NODE_MAX - 1],
    )?;
    if full { Err(EnqueueError::QueueFull) } else { Ok(target) }
}

/// The fixed properties of a kind by its wire name.
fn spec_of(kind: &str) -> KindSpec {
    let unregistered = KindSpec {
        lane: Lane::Control,
        roles: &[],
        timeout_s: model::kind::UNREGISTERED_TIMEOUT_S,
        retry_safe: false,
        attested: false,
        destructive: false,
        self_terminating: false,
    };
    Kind::parse(kind).map_or(unregistered, |kind| kind.spec().clone())
}

fn body(new: &NewCommand, seq: u64, now: ServerTimeMs) -> CommandBody {
    let spec = spec_of(&new.kind);
    CommandBody {
        id: new.id.clone(),
        node_id: new.node.clone(),
        seq,
        kind: new.kind.clone(),
        payload: new.payload.clone(),
        lane: spec.lane,
        not_after: Some(now.plus(new.not_after_in_ms)),
        min_generation: new.min_generation,
        retry_safe: spec.retry_safe,
        idempotency_key: new.idempotency_key.clone(),
        self_terminating: spec.self_terminating,
        attested: spec.attested,
        workflow_id: new.workflow_id.clone(),
        step_id: new.step_id.clone(),
        traceparent: new.traceparent.clone(),
        batch_id: new.batch_id.clone(),
        issued_at: now,
    }
}

fn insert(
    tx: &mut Tx<'_>,
    new: &NewCommand,
    target: &Target,
    body: &CommandBody,
    signed: &Signed,
    request: &[u8; 32],
) -> Result<(), StoreError> {
    let now = tx.now()?;
    let not_after = now.plus(new.not_after_in_ms);
    let attestation = if body.attested { read::Attestation::Unverified } else { read::Attestation::None };
    tx.execute(
        "INSERT INTO commands (id, node_id, tenant_id, principal_id, seq, kind, lane, state, idempotency_key,
             request_sha256, retry_safe, self_terminating, attested, destructive, min_generation, workflow_id,
             step_id, traceparent, batch_id, created_at, issued_at, not_before, not_after, times_out_at, body, kid,
             chain, signature, attestation)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'pending', ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
             ?19, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26)",
        args![
            new.id,
            new.node,
            target.tenant,
            new.principal,
            target.seq,
            new.kind,
            body.lane,
            new.idempotency_key,
            request,
            body.retry_safe,
            body.self_terminating,
            body.attested,
            spec_of(&new.kind).destructive,
            new.min_generation,
            new.workflow_id,
            new.step_id,
            new.traceparent,
            new.batch_id,
            now,
            not_after,
            not_after.plus(timeout_ms(&new.kind)),
            signed.body,
            signed.kid,
            encode_chain(&signed.chain),
            signed.signature,
            attestation
        ],
    )?;
    Ok(())
}
