//! What one lane of one node is sent next, decided on plain values: the rows that wait, in order, and
//! the session's facts in; one decision a row out. Order is kept: after the first row that has to
//! wait, the lane waits.

use model::{FailCode, ServerTimeMs};

/// What a session allows.
#[derive(Clone, Debug)]
pub(super) struct SessionFacts {
    pub allowed_kinds: Vec<String>,
    pub tenant_controlled: bool,
    /// When the node's journal was first seen; commands never sent and signed before it are signed
    /// again first (F-Q13).
    pub journal_since: ServerTimeMs,
}

/// A pending row, as far as it decides whether it goes.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub n: i64,
    pub seq: u64,
    pub kind: String,
    pub destructive: bool,
    pub retry_safe: bool,
    pub cancel_requested: bool,
    pub attempt: u32,
    pub issued_at: ServerTimeMs,
    pub not_before: ServerTimeMs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Send,
    Cancel(FailCode),
}

/// Decides the rows of one lane in order, up to the first that waits. At most `credit` are sent.
pub(super) fn plan_lane(
    session: &SessionFacts,
    rows: &[Waiting],
    credit: u32,
    now: ServerTimeMs,
) -> Vec<(usize, Decision)> {
    let mut free = credit;
    let mut decisions = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        if let Some(code) = cancelled(session, row) {
            decisions.push((index, Decision::Cancel(code)));
            continue;
        }
        if free == 0 || row.not_before > now || waits_for_signature(session, row) {
            break;
        }
        free -= 1;
        decisions.push((index, Decision::Send));
    }
    decisions
}

fn cancelled(session: &SessionFacts, row: &Waiting) -> Option<FailCode> {
    if row.cancel_requested {
        return Some(FailCode::CancelRequested);
    }
    if !session.allowed_kinds.contains(&row.kind) {
        return Some(FailCode::KindNotAllowed);
    }
    (row.destructive && session.tenant_controlled).then_some(FailCode::TenantControlled)
}

/// The node would fail it with `journal-lost`, although it was never sent.
fn waits_for_signature(session: &SessionFacts, row: &Waiting) -> bool {
    row.attempt == 0 && !row.retry_safe && row.issued_at < session.journal_since
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: ServerTimeMs = ServerTimeMs(1_000);

    fn session() -> SessionFacts {
        SessionFacts {
            allowed_kinds: vec!["diag.nvml".into(), "gpu.reset".into()],
            tenant_controlled: false,
            journal_since: ServerTimeMs(500),
        }
    }

    fn row(seq: u64) -> Waiting {
        Waiting {
            n: seq as i64,
            seq,
            kind: "diag.nvml".into(),
            destructive: false,
            retry_safe: true,
            cancel_requested: false,
            attempt: 0,
            issued_at: ServerTimeMs(600),
            not_before: ServerTimeMs(0),
        }
    }

    #[track_caller]
    fn check(session: &SessionFacts, rows: &[Waiting], credit: u32, expected: &[Decision]) {
        let decisions = plan_lane(session, rows, credit, NOW);
        let indices: Vec<usize> = decisions.iter().map(|(index, _)| *index).collect();
        assert_eq!(indices, (0..decisions.len()).collect::<Vec<_>>(), "in order, without a hole");
        assert_eq!(decisions.into_iter().map(|(_, decision)| decision).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_lane_sends_up_to_its_credit_in_order() {
        check(&session(), &[row(1), row(2), row(3)], 2, &[Decision::Send, Decision::Send]);
        check(&session(), &[row(1)], 0, &[]);
    }

    #[test]
    fn a_row_that_waits_holds_back_every_later_row_of_its_lane() {
        let delayed = Waiting { not_before: ServerTimeMs(1_001), ..row(2) };
        check(&session(), &[row(1), delayed, row(3)], 8, &[Decision::Send]);
        let due = Waiting { not_before: NOW, ..row(2) };
        check(&session(), &[row(1), due, row(3)], 8, &[Decision::Send; 3]);
    }

    #[test]
    fn a_cancelled_row_is_not_sent_and_takes_no_credit() {
        let cancelled = Waiting { cancel_requested: true, ..row(1) };
        check(&session(), &[cancelled, row(2)], 1, &[Decision::Cancel(FailCode::CancelRequested), Decision::Send]);
    }

    #[test]
    fn a_kind_outside_the_certificate_is_cancelled() {
        let foreign = Waiting { kind: "bmc.power".into(), ..row(1) };
        check(&session(), &[foreign], 1, &[Decision::Cancel(FailCode::KindNotAllowed)]);
    }

    #[test]
    fn a_destructive_kind_is_cancelled_only_where_the_tenant_controls_the_node() {
        let reset = Waiting { kind: "gpu.reset".into(), destructive: true, ..row(1) };
        let controlled = SessionFacts { tenant_controlled: true, ..session() };
        check(
            &controlled,
            &[reset.clone(), row(2)],
            2,
            &[Decision::Cancel(FailCode::TenantControlled), Decision::Send],
        );
        check(&session(), &[reset], 1, &[Decision::Send]);
    }

    #[test]
    fn a_command_signed_before_the_journal_waits_unless_it_may_repeat_or_was_sent() {
        let old = Waiting { retry_safe: false, issued_at: ServerTimeMs(499), ..row(1) };
        check(&session(), &[old.clone(), row(2)], 8, &[]);
        check(&session(), &[Waiting { issued_at: ServerTimeMs(500), ..old.clone() }], 8, &[Decision::Send]);
        check(&session(), &[Waiting { retry_safe: true, ..old.clone() }], 8, &[Decision::Send]);
        check(&session(), &[Waiting { attempt: 1, ..old }], 8, &[Decision::Send]);
    }
}
