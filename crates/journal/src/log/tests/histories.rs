//! Random histories of appends, failures, crashes and rewrites against a model.

use super::*;
use crate::log::AppendError;
use crate::sim::Misdirect;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use rand::SeedableRng;
use rand::rngs::SmallRng;

const HISTORIES: u32 = 2500;

#[derive(Clone, Copy, Debug)]
enum End {
    Kill,
    Crash(u64),
}

#[derive(Clone, Debug)]
enum Action {
    /// Records as seed and size.
    Append(Vec<(u8, usize)>),
    FailWrite,
    FailGrow,
    FailSync,
    Rewrite {
        skip: usize,
    },
    /// All but the first `calls` disk calls after this fail; the next `End` clears it.
    PowerFailsAfter(u64),
    /// The process or the machine dies; the next open is itself cut short after `open_calls`.
    Die(End, Option<(u64, u64)>),
}

fn a_record() -> impl Strategy<Value = (u8, usize)> {
    let size = prop_oneof![
        24 => 1_usize..60,
        12 => 425_usize..500,
        12 => 200_usize..1500,
        3 => 2000_usize..6000,
        1 => prop::sample::select(vec![100_000, 130_000, 250_000, 262_144]),
    ];
    (prop_oneof![1 => Just(0_u8), 3 => any::<u8>()], size)
}

fn action() -> impl Strategy<Value = Action> {
    let end = prop_oneof![1 => Just(End::Kill), 3 => any::<u64>().prop_map(End::Crash)];
    prop_oneof![
        10 => prop::collection::vec(a_record(), 1..5).prop_map(Action::Append),
        1 => Just(Action::FailWrite),
        1 => Just(Action::FailGrow),
        1 => Just(Action::FailSync),
        2 => (0_usize..4).prop_map(|skip| Action::Rewrite { skip }),
        5 => (0_u64..9).prop_map(Action::PowerFailsAfter),
        4 => (end, prop::option::weighted(0.3, (0_u64..6, any::<u64>()))).prop_map(|(end, open)| Action::Die(end, open)),
    ]
}

fn misdirect() -> impl Strategy<Value = Misdirect> {
    prop_oneof![Just(Misdirect::Never), Just(Misdirect::Unsynced), Just(Misdirect::Acknowledged)]
}

/// What may be read after the next open.
struct Model {
    acked: Vec<Vec<u8>>,
    /// Records of an append that failed without saying how far it came.
    in_doubt: Vec<Vec<u8>>,
    /// Records of a rewrite that failed without saying how far it came.
    rewritten: Option<Vec<Vec<u8>>>,
    /// A crash put a write onto acknowledged data: from here on "corrupt" is a right answer.
    may_be_corrupt: bool,
}

impl Model {
    fn allows(&self, read: &[Vec<u8>]) -> bool {
        let extended = read.len() >= self.acked.len()
            && read[..self.acked.len()] == self.acked
            && self.in_doubt.starts_with(&read[self.acked.len()..]);
        extended || self.rewritten.as_deref() == Some(read)
    }
}

#[derive(Debug, Default)]
struct Seen {
    cuts: u32,
    partly_kept: u32,
    misdirected: u32,
    corrupt: u32,
    poisoned: u32,
    retried: u32,
    grown: u32,
    renames_undone: u32,
    rewritten: u32,
    opens_cut: u32,
}

fn run(actions: Vec<Action>, misdirect: Misdirect, seed: u64, seen: &mut Seen) -> Result<(), TestCaseError> {
    let mut storage = SimStorage::new(seed);
    let mut log = open(&storage).log;
    let mut model = Model { acked: Vec::new(), in_doubt: Vec::new(), rewritten: None, may_be_corrupt: false };
    let last = Action::Die(End::Crash(seed), None);
    for action in actions.into_iter().chain([last]) {
        match action {
            Action::FailWrite => storage.fail_next_write(),
            Action::FailGrow => storage.fail_next_grow(),
            Action::FailSync => storage.fail_next_sync(),
            Action::PowerFailsAfter(calls) => storage.fail_after(calls),
            Action::Append(records) => {
                let records: Vec<_> = records.into_iter().map(|(seed, size)| record(seed, size)).collect();
                match append(&mut log, &records) {
                    Ok(()) => model.acked.extend(records),
                    Err(AppendError::Sync(_) | AppendError::TailNotCut(_)) => {
                        prop_assert!(log.is_poisoned());
                        model.in_doubt = records;
                        seen.poisoned += 1;
                    }
                    Err(AppendError::Write(_) | AppendError::Grow(_)) => {
                        prop_assert!(!log.is_poisoned());
                        seen.retried += 1;
                    }
                    Err(AppendError::Poisoned) => prop_assert!(log.is_poisoned()),
                    Err(error) => panic!("{error:?}"),
                }
            }
            Action::Rewrite { skip } => {
                let kept: Vec<_> = model.acked.iter().skip(skip).cloned().collect();
                match log.rewrite(kept.clone().into_iter()) {
                    Ok(()) => {
                        model.acked = kept;
                        seen.rewritten += 1;
                    }
                    // Once poisoned, an earlier rewrite may have happened; this one was refused.
                    Err(crate::log::RewriteError::Sync { .. }) => model.rewritten = Some(kept),
                    Err(_) => {}
                }
            }
            Action::Die(end, cut_open) => {
                die(&mut storage, end, misdirect, &mut model, seen);
                if let Some((calls, crash)) = cut_open {
                    storage.fail_after(calls);
                    seen.opens_cut += u32::from(matches!(Log::open(storage.clone()), Err(OpenError::Storage { .. })));
                    die(&mut storage, End::Crash(crash), misdirect, &mut model, seen);
                }
                let opened = match Log::open(storage.clone()) {
                    Ok(opened) => opened,
                    Err(OpenError::Corrupt { .. }) if model.may_be_corrupt => {
                        seen.corrupt += 1;
                        return Ok(());
                    }
                    Err(error) => return Err(TestCaseError::fail(format!("{error:?}"))),
                };
                prop_assert!(model.allows(&opened.records), "read {} records", opened.records.len());
                prop_assert!(!opened.created);
                seen.cuts += u32::from(opened.sectors_cut > 0);
                seen.partly_kept += u32::from(
                    (1..model.in_doubt.len()).contains(&(opened.records.len().wrapping_sub(model.acked.len()))),
                );
                seen.grown += u32::from(opened.log.file_bytes() > crate::log::GROW_STEP_BYTES);
                log = opened.log;
                model.acked = opened.records;
                model.in_doubt.clear();
                model.rewritten = None;
            }
        }
        prop_assert!(log.is_poisoned() || log.len() == model.acked.len() as u64);
    }
    Ok(())
}

fn die(storage: &mut SimStorage, end: End, misdirect: Misdirect, model: &mut Model, seen: &mut Seen) {
    match end {
        End::Kill => storage.kill(),
        End::Crash(seed) => {
            let report = storage.crash(&mut SmallRng::seed_from_u64(seed), misdirect);
            seen.misdirected += report.misdirected;
            seen.renames_undone += u32::from(report.rename_undone);
            model.may_be_corrupt |= report.misdirected_onto_acknowledged > 0;
        }
    }
}

#[test]
fn acknowledged_records_are_a_prefix_of_what_is_read_and_that_of_what_was_attempted() {
    let mut runner = TestRunner::new(Config { cases: HISTORIES, failure_persistence: None, ..Config::default() });
    let seen = std::cell::RefCell::new(Seen::default());
    let histories = (prop::collection::vec(action(), 1..20), misdirect(), any::<u64>());
    let result =
        runner.run(&histories, |(actions, misdirect, seed)| run(actions, misdirect, seed, &mut seen.borrow_mut()));
    if let Err(error) = result {
        panic!("{error}");
    }
    let seen = seen.into_inner();
    println!("{seen:?}");
    let Seen {
        cuts,
        partly_kept,
        misdirected,
        corrupt,
        poisoned,
        retried,
        grown,
        renames_undone,
        rewritten,
        opens_cut,
    } = seen;
    let all = [cuts, partly_kept, misdirected, corrupt, poisoned, retried, grown, renames_undone, rewritten, opens_cut];
    assert!(all.iter().all(|count| *count > 0), "something never happened: {all:?}");
}
