//! Failing calls, bounds, growth, and the cost of an append in disk operations.

use super::*;
use crate::log::{AppendError, BATCH_BYTES_MAX, GROW_STEP_BYTES, JOURNAL_FILE_BYTES_MAX, RECORD_BYTES_MAX};

fn fresh() -> (SimStorage, Log<SimStorage>) {
    let storage = SimStorage::new(11);
    let log = open(&storage).log;
    (storage, log)
}

#[test]
fn an_append_costs_one_write_and_one_sync_alone_and_in_a_batch() {
    let (storage, mut log) = fresh();
    for batch in [1, 16] {
        let before = storage.counters();
        append(&mut log, &vec![record(1, 300); batch]).expect("append");
        let after = storage.counters();
        assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (1, 1));
    }
    let before = storage.counters();
    append(&mut log, &[]).expect("nothing");
    assert_eq!(storage.counters(), before);
}

#[test]
fn a_failed_write_is_cut_and_the_append_can_be_tried_again() {
    for seed in 0..50 {
        let mut storage = SimStorage::new(seed);
        let mut log = open(&storage).log;
        append(&mut log, &[record(1, 100)]).expect("append");
        storage.fail_next_write();
        let error = append(&mut log, &[record(2, 50), record(3, 2000)]).expect_err("no space");
        assert!(matches!(&error, AppendError::Write(_)) && error.is_no_space() && !log.is_poisoned());
        assert_eq!(open(&storage.fork()).records, [record(1, 100)]);
        append(&mut log, &[record(4, 30)]).expect("tried again");
        assert_eq!(open(&storage).records, [record(1, 100), record(4, 30)]);
    }
}

#[test]
fn a_failed_write_that_cannot_be_cut_poisons() {
    let (mut storage, mut log) = fresh();
    append(&mut log, &[record(1, 100)]).expect("append");
    storage.fail_after(0);
    assert!(matches!(append(&mut log, &[record(2, 50)]), Err(AppendError::TailNotCut(_))));
    storage.kill();
    assert!(matches!(append(&mut log, &[record(2, 50)]), Err(AppendError::Poisoned)));
    assert_eq!(open(&storage).records[0], record(1, 100));
}

#[test]
fn a_failed_sync_poisons_and_what_it_left_in_the_cache_is_not_taken_for_durable() {
    let (mut seen_lost, mut seen_kept) = (false, false);
    for seed in 0..40 {
        let mut storage = SimStorage::new(seed);
        let mut log = open(&storage).log;
        append(&mut log, &[record(1, 100)]).expect("append");
        storage.fail_next_sync();
        assert!(matches!(append(&mut log, &[record(2, 50)]), Err(AppendError::Sync(_))));
        assert!(log.is_poisoned());
        assert!(matches!(append(&mut log, &[record(3, 50)]), Err(AppendError::Poisoned)));
        assert!(log.rewrite(std::iter::empty()).is_err());

        let read = open(&storage).records;
        seen_lost |= read.len() == 1;
        seen_kept |= read.len() == 2;
        storage.crash_with(|_| false, None);
        assert_eq!(open(&storage).records, read);
    }
    assert!(seen_lost && seen_kept);
}

#[test]
fn no_space_to_grow_leaves_the_log_usable() {
    let (mut storage, mut log) = fresh();
    let big = record(1, GROW_STEP_BYTES as usize);
    append(&mut log, &[record(2, 10)]).expect("append");
    storage.fail_next_grow();
    let error = append(&mut log, std::slice::from_ref(&big)).expect_err("no space");
    assert!(matches!(&error, AppendError::Grow(_)) && error.is_no_space());
    append(&mut log, &[record(3, 10)]).expect("there is room for a small one");
    assert_eq!(open(&storage.fork()).records, [record(2, 10), record(3, 10)]);
    append(&mut log, std::slice::from_ref(&big)).expect("room again");
    assert_eq!(open(&storage).records, [record(2, 10), record(3, 10), big]);
}

#[test]
fn a_failed_sync_of_new_space_poisons() {
    let (mut storage, mut log) = fresh();
    storage.fail_next_sync();
    assert!(matches!(append(&mut log, &[record(1, GROW_STEP_BYTES as usize)]), Err(AppendError::Sync(_))));
    assert!(log.is_poisoned());
    assert_eq!(open(&storage).records.len(), 0);
}

#[test]
fn records_go_on_over_the_growth_boundary_and_never_use_the_last_sector() {
    // Every position of the last record around the end of the first step.
    let per_sector = SECTOR_BYTES - 20;
    let sectors = GROW_STEP_BYTES as usize / SECTOR_BYTES;
    let filled = (sectors - 4) * per_sector;
    for size in (0..4 * per_sector).step_by(41) {
        let (storage, mut log) = fresh();
        let records = [record(1, filled), record(2, size + 1), record(3, 700)];
        for record in &records {
            append(&mut log, std::slice::from_ref(record)).expect("append");
            // At most the header of the last sector is before the tail.
            assert!(log.bytes() <= log.file_bytes() - SECTOR_BYTES as u64 + 20);
        }
        assert_eq!(log.file_bytes() % GROW_STEP_BYTES, 0);
        let opened = open(&storage);
        assert_eq!(opened.records, records);
        assert_eq!((opened.log.bytes(), opened.log.len()), (log.bytes(), 3));
    }
}

#[test]
fn growth_is_durable_before_it_is_used() {
    let (storage, mut log) = fresh();
    let before = storage.counters();
    append(&mut log, &[record(1, 2 * GROW_STEP_BYTES as usize)]).expect("append");
    let after = storage.counters();
    assert_eq!(after.grows - before.grows, 1);
    assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (1, 2));
}

#[test]
fn bounds_are_refused_and_leave_the_log_usable() {
    let (_, mut log) = fresh();
    assert!(matches!(append(&mut log, &[vec![]]), Err(AppendError::RecordSize { bytes: 0, .. })));
    assert!(matches!(append(&mut log, &[record(1, RECORD_BYTES_MAX + 1)]), Err(AppendError::RecordSize { .. })));
    let over = vec![record(1, RECORD_BYTES_MAX); BATCH_BYTES_MAX / RECORD_BYTES_MAX + 1];
    assert!(matches!(append(&mut log, &over), Err(AppendError::BatchSize { .. })));
    append(&mut log, &[record(1, RECORD_BYTES_MAX)]).expect("the longest record");
    assert_eq!(log.len(), 1);
}

#[test]
fn a_full_journal_refuses_and_can_be_rewritten() {
    let (storage, mut log) = fresh();
    let batch = vec![record(0, RECORD_BYTES_MAX); BATCH_BYTES_MAX / RECORD_BYTES_MAX];
    let full = std::iter::repeat_with(|| append(&mut log, &batch)).find_map(Result::err).expect("it fills up");
    assert!(matches!(full, AppendError::Full { .. }));
    assert!(log.file_bytes() <= JOURNAL_FILE_BYTES_MAX && log.file_bytes() > JOURNAL_FILE_BYTES_MAX * 3 / 4);
    log.rewrite([record(1, 5)].into_iter()).expect("rewrite");
    append(&mut log, &[record(2, 5)]).expect("append");
    assert_eq!(open(&storage).records, [record(1, 5), record(2, 5)]);
}
