//! How often each decision, refusal, failure and crash point occurred. What is expected and never
//! occurs over a thousand worlds is a hole in the simulation, and fails it.

use node_core::{Busy, Decision};
use std::collections::BTreeMap;
use std::fmt::Write;

#[derive(Clone, Debug, Default)]
pub struct Coverage {
    counts: BTreeMap<String, u64>,
}

impl Coverage {
    pub fn hit(&mut self, group: &str, name: &str) {
        let mut key = String::with_capacity(group.len() + name.len() + 2);
        key.push_str(group);
        key.push_str(": ");
        key.push_str(name);
        *self.counts.entry(key).or_default() += 1;
    }

    pub fn add(&mut self, other: &Coverage) {
        for (key, count) in &other.counts {
            *self.counts.entry(key.clone()).or_default() += count;
        }
    }

    pub fn count(&self, key: &str) -> u64 {
        self.counts.get(key).copied().unwrap_or(0)
    }

    /// Expected and never seen.
    pub fn missing(&self) -> Vec<&'static str> {
        EXPECTED.iter().copied().filter(|key| self.count(key) == 0).collect()
    }

    /// One line each, by name; what is expected and absent shows a zero.
    pub fn table(&self) -> String {
        let mut counts = self.counts.clone();
        for key in EXPECTED {
            counts.entry((*key).to_owned()).or_default();
        }
        let mut text = String::new();
        for (key, count) in counts {
            writeln!(text, "{count:>10}  {key}").expect("writing to a string does not fail");
        }
        text
    }
}

/// What a decision is called, its reason included.
pub fn decision_name(decision: &Decision) -> String {
    match decision {
        Decision::Accepted { again: false, .. } => "accepted".to_owned(),
        Decision::Accepted { again: true, .. } => "accepted again".to_owned(),
        Decision::Rejected { reason, .. } => format!("rejected {reason}"),
        Decision::Busy { why, .. } => format!(
            "busy {}",
            match why {
                Busy::NoCredit => "no credit",
                Busy::JournalFull => "journal full",
                Busy::TooManyDeferred => "too many deferred",
                Busy::Undecodable => "undecodable",
            }
        ),
        Decision::Deferred { .. } => "deferred".to_owned(),
        Decision::Reattached { .. } => "reattached".to_owned(),
        Decision::Resent { .. } => "resent".to_owned(),
        Decision::Rebooted { .. } => "rebooted".to_owned(),
        Decision::Interrupted { .. } => "interrupted".to_owned(),
        Decision::JournalLost { .. } => "journal lost".to_owned(),
        Decision::Cancelled { .. } => "cancelled".to_owned(),
        Decision::CancelTooLate { .. } => "cancel too late".to_owned(),
        Decision::Started { .. } => "started".to_owned(),
        Decision::Settled { .. } => "settled".to_owned(),
        Decision::SessionUp { .. } => "session up".to_owned(),
        Decision::SessionDown { code: None } => "session down".to_owned(),
        Decision::SessionDown { code: Some(code) } => format!("session down {code}"),
        Decision::Draining { .. } => "draining".to_owned(),
        Decision::TimeRefused => "time refused".to_owned(),
        Decision::TimeIgnored => "time ignored".to_owned(),
        Decision::BundleAdopted => "bundle adopted".to_owned(),
        Decision::BundleRefused => "bundle refused".to_owned(),
        Decision::SpecApplied { .. } => "spec applied".to_owned(),
        Decision::SpecRefused { why } => format!("spec refused: {why}"),
        Decision::EventsDropped { .. } => "events dropped".to_owned(),
        Decision::Swept { .. } => "swept".to_owned(),
        Decision::Ticket { verdict } => format!("ticket {verdict:?}"),
    }
}

/// What a thousand worlds must show.
pub const EXPECTED: &[&str] = &[
    "decision: accepted",
    "decision: accepted again",
    "decision: rejected UNSUPPORTED",
    "decision: rejected STALE_GENERATION",
    "decision: rejected EXPIRED",
    "decision: rejected BAD_SIGNATURE",
    "decision: rejected BATCH_UNAPPROVED",
    "decision: busy no credit",
    "decision: busy journal full",
    "decision: busy too many deferred",
    "decision: busy undecodable",
    "decision: deferred",
    "decision: reattached",
    "decision: resent",
    "decision: rebooted",
    "decision: interrupted",
    "decision: journal lost",
    "decision: cancelled",
    "decision: cancel too late",
    "decision: started",
    "decision: settled",
    "decision: session up",
    "decision: session down",
    "decision: session down heartbeat-lost",
    "decision: session down protocol-error",
    "decision: session down draining",
    "decision: session down time-refused",
    "decision: session down superseded",
    "decision: session down revoked",
    "decision: session down epoch-lost",
    "decision: session down certificate-expired",
    "decision: draining",
    "decision: time refused",
    "decision: time ignored",
    "decision: bundle adopted",
    "decision: bundle refused",
    "decision: spec applied",
    "decision: spec refused: bad signature",
    "decision: spec refused: does not decode",
    "decision: spec refused: another node's, or not newer",
    "decision: spec refused: has sections this version cannot hold",
    "decision: events dropped",
    "decision: swept",
    "gateway ended: superseded",
    "gateway ended: revoked",
    "gateway ended: certificate-expired",
    "gateway ended: wrong-fleet",
    "gateway ended: frame-too-large",
    "gateway ended: protocol-error",
    "gateway ended: heartbeat-lost",
    "gateway ended: epoch-lost",
    "gateway ended: draining",
    "gateway ended: time-refused",
    "gateway ended: shutdown",
    "store accept: stored",
    "store accept: failed",
    "store accept: answer lost, stored",
    "store updates: stored",
    "store updates: failed",
    "store updates: answer lost, stored",
    "store updates: answer lost, not stored",
    "store resume-done: stored",
    "store resume-done: failed",
    "store resume-done: answer lost, stored",
    "store events: stored",
    "store events: failed",
    "store events: answer lost, stored",
    "store status: stored",
    "store inventory: stored",
    "store close: stored",
    "store close: failed",
    "store touch: stored",
    "store touch: failed",
    "store dispatch: stored",
    "store dispatch: failed",
    "store dispatch: answer lost, stored",
    "store dispatch: answer lost, not stored",
    "store cancels: stored",
    "store cancels: failed",
    "store cancels: answer lost, stored",
    "store closings: stored",
    "store closings: failed",
    "store facts: stored",
    "store facts: failed",
    "store controllers: failed",
    "crash: killed before send",
    "crash: killed before commit",
    "crash: killed before start",
    "crash: killed at random",
    "crash: killed between commit and its answer",
    "crash: killed between effect and result",
    "crash: killed in a commit",
    "crash: power lost before send",
    "crash: power lost before commit",
    "crash: power lost at random",
    "crash: power lost in a commit",
    "crash: power lost between effect and result",
    "crash: sync failed",
    "crash: disk full",
    "crash: opening the journal failed",
    "crash: rebooted by command",
    "crash: stopped",
    "crash: gateway",
    "disk: unsynced sector lost",
    "disk: unsynced sector kept",
    "disk: misdirected",
    "disk: misdirected onto acknowledged",
    "disk: journal flipped",
    "disk: journal moved aside",
    "disk: journal missing",
    "fault: gateway paused",
    "fault: cut",
    "fault: half-open",
    "fault: wall clock jumped",
    "fault: leap of seven days",
    "lie: command again",
    "lie: command of another node",
    "lie: command before its turn",
    "lie: forged signature",
    "lie: changed body",
    "lie: garbage body",
    "lie: old epoch",
    "lie: unsigned time",
    "lie: old time",
    "lie: forged time",
    "lie: forged bundle",
    "lie: events of another journal acknowledged",
    "lie: cancel again",
    "lie: result changed",
    "join: new",
    "join: same",
    "join: token-used",
    "settled: succeeded",
    "settled: succeeded rebooted",
    "settled: failed interrupted",
    "settled: failed journal-lost",
    "settled: failed timeout",
    "settled: failed bad-attestation",
    "settled: failed result-too-large",
    "settled: failed node-retired",
    "settled: failed internal",
    "settled: rejected UNSUPPORTED",
    "settled: rejected EXPIRED",
    "settled: rejected STALE_GENERATION",
    "settled: rejected BAD_SIGNATURE",
    "settled: rejected BATCH_UNAPPROVED",
    "settled: cancelled cancel-requested",
    "settled: cancelled kind-not-allowed",
    "settled: cancelled tenant-controlled",
    "settled: cancelled invalid-body",
    "settled: cancelled node-retired",
    "settled: expired",
    "controller: signed again",
    "events: gap recorded",
];
