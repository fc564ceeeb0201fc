//! Every subset of a small batch's sectors, with every single misdirection.

use super::*;
use rand::SeedableRng;
use rand::rngs::SmallRng;

struct Case {
    acked: Vec<Vec<u8>>,
    batch: Vec<Vec<u8>>,
    /// The batch is written and not synced.
    storage: SimStorage,
    unsynced: Vec<u32>,
    /// The batch's first sector holds acknowledged bytes too.
    shared: bool,
}

fn case(acked_sizes: &[usize], batch_sizes: &[usize]) -> Case {
    let acked: Vec<_> = acked_sizes.iter().zip(1..).map(|(size, seed)| record(seed, *size)).collect();
    let batch: Vec<_> = batch_sizes.iter().zip(101..).map(|(size, seed)| record(seed % 104, *size)).collect();
    let mut storage = small_journal(&acked.iter().map(|record| vec![record.clone()]).collect::<Vec<_>>());
    storage.truncate(storage.journal_bytes().expect("there").len() as u64 + 10 * SECTOR_BYTES as u64);
    let mut log = open(&storage).log;
    let shared = !log.tail.is_fresh();
    storage.fail_after(1);
    append(&mut log, &batch).expect_err("the sync fails");
    let unsynced = storage.unsynced_sectors();
    Case { acked, batch, storage, unsynced, shared }
}

fn cases() -> Vec<Case> {
    vec![
        case(&[10, 300], &[30, 900, 5, 600]),
        case(&[1, 441], &[472, 472, 472]),
        case(&[452], &[1400]),
        case(&[700, 200], &[3, 3, 3, 700, 500]),
        case(&[], &[100, 1000]),
        // A payload of zeroes and one sector filled to within a header's length.
        case(&[460], &[2, 450, 460, 1000]),
    ]
}

/// Opens, checks that acked records are a prefix of what is read and that a prefix of what was
/// attempted, and that the log goes on from there.
fn check_opens(case: &Case, storage: &SimStorage) -> usize {
    let opened = open(storage);
    let attempted: Vec<_> = case.acked.iter().chain(&case.batch).cloned().collect();
    assert!(opened.records.len() >= case.acked.len());
    assert_eq!(opened.records, attempted[..opened.records.len()]);
    let mut log = opened.log;
    append(&mut log, &[record(9, 700)]).expect("append");
    let again = open(storage);
    assert_eq!(again.sectors_cut, 0);
    assert_eq!(again.records.len(), opened.records.len() + 1);
    assert_eq!(again.records.last(), Some(&record(9, 700)));
    opened.records.len() - case.acked.len()
}

fn keeps(case: &Case, subset: u32) -> impl Fn(u32) -> bool {
    let kept: Vec<u32> = (0..).zip(&case.unsynced).filter(|(bit, _)| subset >> bit & 1 == 1).map(|(_, s)| *s).collect();
    move |index| kept.contains(&index)
}

#[test]
fn every_torn_subset_of_a_batch_reads_as_a_prefix_of_it() {
    assert!(cases().iter().any(|case| case.shared) && cases().iter().any(|case| !case.shared));
    for case in cases() {
        assert!((3..8).contains(&case.unsynced.len()), "{:?}", case.unsynced);
        let mut kept_records = Vec::new();
        for subset in 0..1 << case.unsynced.len() {
            let mut storage = case.storage.fork();
            storage.crash_with(keeps(&case, subset), None);
            kept_records.push(check_opens(&case, &storage));
        }
        assert_eq!(kept_records[0], 0);
        assert_eq!(kept_records.last(), Some(&case.batch.len()));
    }
}

#[test]
fn a_batch_sector_misdirected_onto_an_unacknowledged_one_is_cut() {
    for case in cases() {
        let first_free = 1 + (case.storage.journal_bytes().expect("there").len() / SECTOR_BYTES) as u32 - 10;
        for subset in 0..1 << case.unsynced.len() {
            for from in &case.unsynced {
                for to in case.unsynced[1..].iter().copied().chain(first_free + 4..first_free + 9) {
                    let mut storage = case.storage.fork();
                    storage.crash_with(keeps(&case, subset), Some((*from, to)));
                    check_opens(&case, &storage);
                }
            }
        }
    }
}

#[test]
fn a_batch_sector_misdirected_onto_acknowledged_data_is_corrupt() {
    for case in cases() {
        for subset in 0..1 << case.unsynced.len() {
            for from in &case.unsynced {
                for to in 0..case.unsynced[0] {
                    let mut storage = case.storage.fork();
                    storage.crash_with(keeps(&case, subset), Some((*from, to)));
                    corruption(&storage);
                }
                // The sector that both share: if it held acknowledged bytes they are gone.
                let shared = case.unsynced[0];
                let mut storage = case.storage.fork();
                storage.crash_with(keeps(&case, subset), Some((*from, shared)));
                if *from != shared && case.shared {
                    corruption(&storage);
                } else {
                    check_opens(&case, &storage);
                }
            }
        }
    }
}

#[test]
fn a_crash_while_the_tail_is_cut_changes_nothing() {
    for case in cases() {
        for subset in 0..1 << case.unsynced.len() {
            let mut before = case.storage.fork();
            before.crash_with(keeps(&case, subset), None);
            for calls in 0..5 {
                let mut storage = before.fork();
                let mut rng = SmallRng::seed_from_u64(u64::from(subset) * 31 + calls);
                storage.fail_after(calls);
                Log::open(storage.clone()).ok();
                storage.crash(&mut rng, crate::sim::Misdirect::Unsynced);
                check_opens(&case, &storage);
            }
        }
    }
}

#[test]
fn a_cut_that_strays_onto_acknowledged_data_is_corrupt() {
    // The tail shares its sector with acknowledged records, and it does not.
    for (last, shared) in [(500, true), (614, false)] {
        let case = case(&[10, 300, last], &[900, 900]);
        assert_eq!(case.shared, shared);
        for lost in &case.unsynced[..2] {
            let mut storage = case.storage.fork();
            storage.crash_with(|index| index != *lost, None);
            let cut = open(&storage.fork()).sectors_cut;
            // The settling syncs, each write, and not the sync behind them.
            storage.fail_after(2 + cut as u64);
            Log::open(storage.clone()).expect_err("the cut is not synced");
            let dirty = storage.unsynced_sectors();
            assert!(dirty.len() == cut && cut >= 2);
            for from in dirty {
                for to in 1..case.unsynced[0] {
                    for keep in [false, true] {
                        let mut storage = storage.fork();
                        storage.crash_with(|_| keep, Some((from, to)));
                        corruption(&storage);
                    }
                }
            }
        }
    }
}

#[test]
fn the_erasing_of_a_failed_write_that_strays_onto_acknowledged_data_is_corrupt() {
    let acked = [vec![record(1, 10)], vec![record(2, 300)], vec![record(3, 614)]];
    let mut storage = SimStorage::new(7);
    let mut log = open(&storage).log;
    acked.iter().for_each(|batch| append(&mut log, batch).expect("append"));
    let first = log.tail.sector;
    // The write of three sectors, which fails, and the three that erase it, but not their sync.
    storage.fail_next_write();
    storage.fail_after(1 + 3);
    assert!(matches!(append(&mut log, &[record(4, 1400)]), Err(crate::log::AppendError::TailNotCut(_))));
    assert_eq!(storage.unsynced_sectors(), [first, first + 1, first + 2]);
    for from in storage.unsynced_sectors() {
        for to in 1..first {
            for keep in [false, true] {
                let mut storage = storage.fork();
                storage.crash_with(|_| keep, Some((from, to)));
                corruption(&storage);
            }
        }
    }
}
