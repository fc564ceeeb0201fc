//! Accepting a session: the checks, the new epoch, and what the node is told about itself.

use crate::db::{Hint, StoreError, Tx, args};
use crate::outbox::{self, EventRow};
use model::frame::Hello;
use model::limits::COUNTER_MAX;
use model::session::{PROTOCOL_MAX, PROTOCOL_MIN};
use model::{GatewayId, JournalId, Lifecycle, NodeId, PoolId, Role, ServerTimeMs, SessionEnd, SiteId, TenantId};
use serde_json::json;

/// Journals of one node that are remembered beside its current one.
const JOURNALS_KEPT: u32 = 16;

/// What the client certificate of the connection says, verified by the TLS layer.
#[derive(Clone, Debug)]
pub struct CertFacts {
    pub node_id: NodeId,
    pub serial: String,
    pub role: Role,
    pub allowed_kinds: Vec<String>,
    pub not_after_ms: i64,
}

/// The answer to a `Hello`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionAnswer {
    Accepted {
        epoch: u64,
        acked_event_seq: u64,
        /// Only `daemon.upgrade` goes to this session.
        upgrade_required: bool,
        /// The inventory's digest is not the stored one (F-Q7).
        want_inventory: bool,
        site: SiteId,
        pool: PoolId,
    },
    Refused(SessionEnd, String),
}

struct Known {
    tenant: TenantId,
    site: SiteId,
    pool: PoolId,
    lifecycle: Lifecycle,
    revoked: bool,
    certificate_revoked: bool,
    inventory_digest: String,
}

struct Previous {
    epoch: u64,
    journal: JournalId,
    journal_since: i64,
    resign_due: bool,
    acked_event_seq: u64,
}

/// Accepts or refuses a session. An accepted one takes the place of the node's older session and is
/// dispatched to only after [`super::resume_done`].
pub fn accept_session(
    tx: &mut Tx<'_>,
    gateway: &GatewayId,
    cert: &CertFacts,
    hello: &Hello,
) -> Result<SessionAnswer, StoreError> {
    let Some(known) = known(tx, cert)? else {
        return Ok(refused(SessionEnd::Revoked, "this fleet has no such node"));
    };
    let now = tx.now()?;
    if let Some(refusal) = check(&known, cert, hello, now.0) {
        return Ok(refusal);
    }
    let previous = previous(tx, &cert.node_id)?;
    let stored = previous.as_ref().map_or(0, |previous| previous.epoch);
    let epoch = stored.max(hello.last_epoch) + 1;
    if epoch > COUNTER_MAX {
        return Ok(refused(SessionEnd::ProtocolError, "the session epoch is above 2^53"));
    }
    let same_journal = previous.as_ref().filter(|previous| previous.journal == hello.journal_id);
    let acked_event_seq = match same_journal {
        Some(previous) => previous.acked_event_seq,
        None => replace_journal(tx, &cert.node_id, previous.as_ref(), &hello.journal_id, now)?,
    };
    let journal_since = same_journal.map_or(now.0, |previous| previous.journal_since);
    // Commands never sent before this journal's birth are signed again before they go (F-Q13).
    let resign_due = same_journal.is_none_or(|previous| previous.resign_due);
    let upgrade_required = hello.protocol_max < PROTOCOL_MIN;
    let allowed_kinds = json!(cert.allowed_kinds).to_string();
    tx.execute(
        "INSERT INTO node_sessions (node_id, session_epoch, gateway_id, state, boot_id, incarnation, journal_id,
             journal_since, resign_due, acked_event_seq, certificate_serial, certificate_not_after, allowed_kinds,
             upgrade_required, connected_at, last_seen_at, lost_since, end_code)
         VALUES (?1, ?2, ?3, 'resuming', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?14, NULL, NULL)
         ON CONFLICT (node_id) DO UPDATE SET session_epoch = excluded.session_epoch,
             gateway_id = excluded.gateway_id, state = excluded.state, boot_id = excluded.boot_id,
             incarnation = excluded.incarnation, journal_id = excluded.journal_id,
             journal_since = excluded.journal_since, resign_due = excluded.resign_due,
             acked_event_seq = excluded.acked_event_seq, certificate_serial = excluded.certificate_serial,
             certificate_not_after = excluded.certificate_not_after, allowed_kinds = excluded.allowed_kinds,
             upgrade_required = excluded.upgrade_required, connected_at = excluded.connected_at,
             last_seen_at = excluded.last_seen_at, lost_since = NULL, end_code = NULL",
        args![
            cert.node_id,
            epoch,
            gateway,
            hello.boot_id,
            hello.incarnation.as_str(),
            hello.journal_id,
            journal_since,
            resign_due,
            acked_event_seq,
            cert.serial,
            cert.not_after_ms,
            allowed_kinds,
            upgrade_required,
            now
        ],
    )?;
    record_hello(tx, &cert.node_id, hello)?;
    announce(tx, gateway, cert, hello, &known.tenant, epoch)?;
    if resign_due {
        tx.hint(Hint::Resign);
    }
    let want_inventory = known.inventory_digest.is_empty() || known.inventory_digest != hello.inventory_digest;
    let (site, pool) = (known.site, known.pool);
    Ok(SessionAnswer::Accepted { epoch, acked_event_seq, upgrade_required, want_inventory, site, pool })
}

fn known(tx: &mut Tx<'_>, cert: &CertFacts) -> Result<Option<Known>, StoreError> {
    tx.query_opt(
        "SELECT n.tenant_id, n.site_id, n.pool_id, n.lifecycle, n.revoked_at IS NOT NULL, c.revoked_at IS NOT NULL,
             n.inventory_digest
         FROM nodes n LEFT JOIN node_certificates c ON c.serial = ?2 AND c.node_id = n.id WHERE n.id = ?1",
        args![cert.node_id, cert.serial],
        |row| {
            Ok(Known {
                tenant: row.take()?,
                site: row.take()?,
                pool: row.take()?,
                lifecycle: row.take()?,
                revoked: row.take()?,
                certificate_revoked: row.take()?,
                inventory_digest: row.take()?,
            })
        },
    )
}

/// The refusal of a `Hello`, if there is one.
fn check(known: &Known, cert: &CertFacts, hello: &Hello, now_ms: i64) -> Option<SessionAnswer> {
    if known.revoked || known.lifecycle == Lifecycle::Retired {
        return Some(refused(SessionEnd::Revoked, "the node was revoked or retired"));
    }
    if known.certificate_revoked {
        return Some(refused(SessionEnd::Revoked, "the certificate was revoked"));
    }
    if cert.not_after_ms <= now_ms {
        return Some(refused(SessionEnd::CertificateExpired, "the certificate has expired: renew it"));
    }
    if hello.role != cert.role {
        return Some(refused(SessionEnd::ProtocolError, "the certificate is for another role"));
    }
    if hello.protocol_min > PROTOCOL_MAX {
        return Some(refused(SessionEnd::ProtocolError, "the agent speaks only newer protocols than this gateway"));
    }
    if hello.last_epoch > COUNTER_MAX || hello.applied_generation > COUNTER_MAX {
        return Some(refused(SessionEnd::ProtocolError, "a counter is above 2^53"));
    }
    None
}

fn refused(end: SessionEnd, message: &str) -> SessionAnswer {
    SessionAnswer::Refused(end, message.to_owned())
}

fn previous(tx: &mut Tx<'_>, node: &NodeId) -> Result<Option<Previous>, StoreError> {
    tx.query_opt(
        "SELECT session_epoch, journal_id, journal_since, resign_due, acked_event_seq
         FROM node_sessions WHERE node_id = ?1",
        args![node],
        |row| {
            Ok(Previous {
                epoch: row.take()?,
                journal: row.take()?,
                journal_since: row.take()?,
                resign_due: row.take()?,
                acked_event_seq: row.take()?,
            })
        },
    )
}

/// Remembers what was stored of the journal that is replaced, and says what was stored of `journal`: a late
/// `Hello` of a process that is gone may bring an older journal in between, and no event is stored twice.
fn replace_journal(
    tx: &mut Tx<'_>,
    node: &NodeId,
    previous: Option<&Previous>,
    journal: &JournalId,
    now: ServerTimeMs,
) -> Result<u64, StoreError> {
    if let Some(previous) = previous.filter(|previous| previous.acked_event_seq > 0) {
        tx.execute(
            "INSERT INTO node_journals (node_id, journal_id, acked_event_seq, replaced_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (node_id, journal_id) DO UPDATE SET acked_event_seq = excluded.acked_event_seq,
                 replaced_at = excluded.replaced_at",
            args![node, previous.journal, previous.acked_event_seq, now],
        )?;
        tx.execute(
            "DELETE FROM node_journals WHERE node_id = ?1 AND journal_id NOT IN
                 (SELECT journal_id FROM node_journals WHERE node_id = ?1
                  ORDER BY replaced_at DESC, journal_id LIMIT ?2)",
            args![node, JOURNALS_KEPT],
        )?;
    }
    let sql = "SELECT acked_event_seq FROM node_journals WHERE node_id = ?1 AND journal_id = ?2";
    Ok(tx.query_opt(sql, args![node, journal], |row| row.take())?.unwrap_or(0))
}

fn record_hello(tx: &mut Tx<'_>, node: &NodeId, hello: &Hello) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE nodes SET applied_generation = ?2, applied_spec_hash = ?3, daemon_version = ?4, hostname = ?5,
             capabilities = ?6 WHERE id = ?1",
        args![
            node,
            hello.applied_generation,
            hello.applied_spec_hash,
            hello.daemon_version,
            hello.hostname,
            json!(hello.capabilities).to_string()
        ],
    )?;
    Ok(())
}

fn announce(
    tx: &mut Tx<'_>,
    gateway: &GatewayId,
    cert: &CertFacts,
    hello: &Hello,
    tenant: &TenantId,
    epoch: u64,
) -> Result<(), StoreError> {
    let node = &cert.node_id;
    let payload = json!({
        "nodeId": node.as_str(), "epoch": epoch, "gatewayId": gateway.as_str(), "bootId": hello.boot_id.as_str(),
        "journalId": hello.journal_id.as_str(), "daemonVersion": hello.daemon_version,
    });
    outbox::publish(tx, &EventRow { topic: "node.connected", tenant, key: node.as_str(), payload })?;
    // The gateway that holds the older session, if any, lets go of it.
    tx.hint(Hint::Session(node.clone()));
    Ok(())
}
