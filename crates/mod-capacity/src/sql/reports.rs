//! Allocation reports as they come in. Where bindings are attested they are only stored, as received;
//! the verifier's verdict lets them act (D-Q11, D-Q12).
//!
//! Not here: the cryptography, and what a believed report does (`settle`).

use super::settle::{self, AllocationReport, Applied, ReportedState};
use kernel::db::{Hint, StoreError, Tx, args};
use kernel::events::{ReportError, ReportHandler};
use kernel::outbox::{self, EventRow};
use kernel::signed;
use kernel::verifier::Verdict;
use model::frame::{Any, Report, Signed};
use model::{AllocationId, NodeId, ReservationId, TenantId};
use proto::v1;
use serde_json::json;

/// Reports this module acts on.
const KINDS: [&str; 3] = ["allocationBound", "allocationReleased", "allocationFailed"];
/// Texts of a node that are kept, bytes.
const MESSAGE_BYTES_MAX: usize = 1024;
const REASON_BYTES_MAX: usize = 64;
/// CDI names of one report.
const CDI_DEVICES_MAX: usize = 256;

/// A stored report that nobody believes yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnverifiedReport {
    /// Names it in [`settle_report`].
    pub n: u64,
    pub node: NodeId,
    pub kind: String,
    pub allocation: AllocationId,
    /// Purpose `event-report`, as received; a missing one is a forgery.
    pub signed: Option<Signed>,
    /// DER of every certificate issued to the node, oldest first, expired ones too.
    pub certs: Vec<Vec<u8>>,
}

/// What a verdict did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettledReport {
    Applied(Applied),
    /// It was forged, or its signed bytes are not the report that was stored; it is gone.
    Refused,
    /// An older report of the same allocation waits: settle that one first.
    NotYet,
    /// There is no such report any more.
    Gone,
}

/// The handler of one kind of report.
pub(crate) struct AllocationReports {
    kind: &'static str,
    attested: bool,
}

impl AllocationReports {
    pub fn all(attested: bool) -> Vec<Box<dyn ReportHandler>> {
        KINDS.iter().map(|kind| Box::new(Self { kind, attested }) as Box<dyn ReportHandler>).collect()
    }
}

impl ReportHandler for AllocationReports {
    fn kind(&self) -> &str {
        self.kind
    }

    fn handle(
        &self,
        tx: &mut Tx<'_>,
        node: &NodeId,
        report: &Report,
        signed: Option<&Signed>,
    ) -> Result<(), ReportError> {
        let decoded = decode(report).map_err(ReportError::Refused)?;
        if self.attested {
            Ok(store(tx, node, self.kind, &decoded.allocation, signed)?)
        } else {
            settle::apply(tx, node, &decoded)?;
            Ok(())
        }
    }
}

/// Keeps a report for the verifier, if it is about an allocation that is booked on this node.
fn store(
    tx: &mut Tx<'_>,
    node: &NodeId,
    kind: &str,
    allocation: &AllocationId,
    signed: Option<&Signed>,
) -> Result<(), StoreError> {
    let known = "SELECT 1 FROM capacity_allocations WHERE id = ?1 AND node_id = ?2 AND ended_at IS NULL";
    if !tx.exists(known, args![allocation, node])? {
        return Ok(());
    }
    let now = tx.now()?;
    let chain = signed.map(|signed| signed::encode_chain(&signed.chain));
    tx.execute(
        "INSERT INTO capacity_reports (node_id, allocation_id, kind, sig_body, sig_kid, sig_chain, sig_signature, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        args![
            node,
            allocation,
            kind,
            signed.map(|signed| &signed.body),
            signed.map(|signed| &signed.kid),
            chain,
            signed.map(|signed| &signed.signature),
            now
        ],
    )?;
    tx.hint(Hint::Verify);
    Ok(())
}

/// Up to `limit` reports that wait, oldest first. They stay until [`settle_report`].
pub fn take_unverified_reports(tx: &mut Tx<'_>, limit: u32) -> Result<Vec<UnverifiedReport>, StoreError> {
    let mut waiting = tx.query(
        "SELECT n, node_id, kind, allocation_id, sig_body, sig_kid, sig_chain, sig_signature
         FROM capacity_reports ORDER BY n LIMIT ?1",
        args![limit],
        |row| {
            Ok(UnverifiedReport {
                n: row.take()?,
                node: row.take()?,
                kind: row.take()?,
                allocation: row.take()?,
                signed: signed::take_opt(row)?,
                certs: Vec::new(),
            })
        },
    )?;
    for report in &mut waiting {
        let sql = "SELECT der FROM node_certificates WHERE node_id = ?1 ORDER BY issued_at, serial";
        report.certs = tx.query(sql, args![report.node], |row| row.take())?;
    }
    Ok(waiting)
}

/// Acts on a report, or drops it, by the verifier's verdict. What is acted on is what was signed.
pub fn settle_report(tx: &mut Tx<'_>, n: u64, verdict: &Verdict) -> Result<SettledReport, StoreError> {
    let found = tx.query_opt(
        "SELECT node_id, allocation_id, kind, sig_body FROM capacity_reports WHERE n = ?1",
        args![n],
        |row| {
            let (node, allocation) = (row.take::<NodeId>()?, row.take::<AllocationId>()?);
            Ok((node, allocation, row.take::<String>()?, row.take::<Option<Vec<u8>>>()?))
        },
    )?;
    let Some((node, allocation, kind, body)) = found else { return Ok(SettledReport::Gone) };
    let older = "SELECT 1 FROM capacity_reports WHERE allocation_id = ?1 AND n < ?2";
    if tx.exists(older, args![allocation, n])? {
        return Ok(SettledReport::NotYet);
    }
    tx.execute("DELETE FROM capacity_reports WHERE n = ?1", args![n])?;
    let report = match verdict {
        Verdict::Genuine => signed_report(&node, &allocation, &kind, body.as_deref()),
        Verdict::Forged(reason) => Err(reason.clone()),
    };
    match report {
        Ok(report) => Ok(SettledReport::Applied(settle::apply(tx, &node, &report)?)),
        Err(reason) => {
            tracing::warn!(%node, %allocation, %kind, %reason, "an allocation report does not verify");
            refused(tx, &node, &allocation, &kind, &reason)?;
            Ok(SettledReport::Refused)
        }
    }
}

/// The report in the signed bytes; it must be the one that was stored.
fn signed_report(
    node: &NodeId,
    allocation: &AllocationId,
    kind: &str,
    body: Option<&[u8]>,
) -> Result<AllocationReport, String> {
    let body = body.ok_or("it is not signed")?;
    let report = proto::decode_report(body).map_err(|error| format!("the signed bytes are no report: {error}"))?;
    if report.node_id != *node || report.kind != kind {
        return Err("the signature is over another report".to_owned());
    }
    let decoded = decode(&report)?;
    match decoded.allocation == *allocation {
        true => Ok(decoded),
        false => Err("the signature is over a report of another allocation".to_owned()),
    }
}

fn refused(
    tx: &mut Tx<'_>,
    node: &NodeId,
    allocation: &AllocationId,
    kind: &str,
    reason: &str,
) -> Result<(), StoreError> {
    let tenant: TenantId = tx.query_one("SELECT tenant_id FROM nodes WHERE id = ?1", args![node], |row| row.take())?;
    let payload = json!({
        "nodeId": node.as_str(), "allocationId": allocation.as_str(), "kind": kind, "message": reason,
    });
    let topic = "security.bad-attestation";
    outbox::publish(tx, &EventRow { topic, tenant: &tenant, key: node.as_str(), payload })
}

/// The message in a report, checked.
fn decode(report: &Report) -> Result<AllocationReport, String> {
    let body = report.body.as_ref().ok_or("the report has no body")?;
    match report.kind.as_str() {
        "allocationBound" => {
            let v1::AllocationBound { allocation_id, reservation_id, mut cdi_devices, generation } = unpack(body)?;
            cdi_devices.truncate(CDI_DEVICES_MAX);
            decoded(&allocation_id, &reservation_id, generation, ReportedState::Bound { cdi_devices })
        }
        "allocationReleased" => {
            let v1::AllocationReleased { allocation_id, reservation_id, generation } = unpack(body)?;
            decoded(&allocation_id, &reservation_id, generation, ReportedState::Released)
        }
        "allocationFailed" => {
            let v1::AllocationFailed { allocation_id, reservation_id, reason, message, generation } = unpack(body)?;
            let (reason, message) = (cut(reason, REASON_BYTES_MAX), cut(message, MESSAGE_BYTES_MAX));
            let reason = if reason.is_empty() { "failed".to_owned() } else { reason };
            decoded(&allocation_id, &reservation_id, generation, ReportedState::Failed { reason, message })
        }
        other => Err(format!("{other} is no allocation report")),
    }
}

fn unpack<M: proto::Message + proto::Name + Default>(body: &Any) -> Result<M, String> {
    proto::unpack(body).map_err(|error| error.to_string())
}

fn decoded(
    allocation: &str,
    reservation: &str,
    generation: u64,
    state: ReportedState,
) -> Result<AllocationReport, String> {
    let allocation = AllocationId::parse(allocation).map_err(|error| error.to_string())?;
    let named = (!reservation.is_empty()).then(|| ReservationId::parse(reservation)).transpose();
    let reservation = named.map_err(|error| error.to_string())?;
    Ok(AllocationReport { allocation, reservation, generation, state })
}

/// At most `bytes` of a text, cut between characters, without control characters.
fn cut(text: String, bytes: usize) -> String {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text[..end].chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
