//! Rewrites: what they keep, and a crash at each of their steps.

use super::*;
use crate::log::{RECORD_BYTES_MAX, RewriteError};
use crate::sim::Misdirect;
use rand::SeedableRng;
use rand::rngs::SmallRng;

fn old() -> Vec<Vec<u8>> {
    vec![record(1, 100), record(2, 900), record(3, 5000)]
}

fn new() -> Vec<Vec<u8>> {
    vec![record(2, 900), record(4, 300)]
}

fn written() -> (SimStorage, Log<SimStorage>) {
    let storage = SimStorage::new(5);
    let mut log = open(&storage).log;
    append(&mut log, &old()).expect("append");
    (storage, log)
}

#[test]
fn a_rewrite_replaces_all_records_and_the_log_goes_on() {
    let (storage, mut log) = written();
    let id = log.log_id();
    log.rewrite(new().into_iter()).expect("rewrite");
    assert_eq!(log.len(), 2);
    assert_ne!(log.log_id(), id);
    append(&mut log, &[record(9, 40)]).expect("append");
    let opened = open(&storage);
    assert_eq!(opened.records, [new(), vec![record(9, 40)]].concat());
    assert_eq!((opened.log.bytes(), opened.log.file_bytes()), (log.bytes(), log.file_bytes()));
}

#[test]
fn a_rewrite_of_nothing_and_one_of_many_pieces_read_back() {
    for records in [vec![], (0..30).map(|seed| record(seed, 50_000 + usize::from(seed))).collect::<Vec<_>>()] {
        let (storage, mut log) = written();
        log.rewrite(records.clone().into_iter()).expect("rewrite");
        append(&mut log, &[record(9, 40)]).expect("append");
        assert_eq!(open(&storage).records, [records, vec![record(9, 40)]].concat());
    }
}

#[test]
fn a_crash_at_any_step_of_a_rewrite_leaves_the_old_records_or_the_new() {
    let (mut old_seen, mut new_seen, mut done) = (0, 0, false);
    for calls in 0.. {
        for seed in 0..30 {
            let (mut storage, mut log) = written();
            storage.fail_after(calls);
            let result = log.rewrite(new().into_iter());
            match seed % 3 {
                0 => storage.kill(),
                _ => assert_eq!(storage.crash(&mut SmallRng::seed_from_u64(seed), Misdirect::Unsynced).misdirected, 0),
            }
            let records = open(&storage).records;
            if result.is_ok() {
                assert_eq!(records, new());
            } else {
                assert!(records == old() || records == new());
            }
            done |= result.is_ok();
            old_seen += u32::from(records == old());
            new_seen += u32::from(result.is_err() && records == new());
            // What was read is durable: another crash changes nothing.
            storage.crash(&mut SmallRng::seed_from_u64(seed), Misdirect::Unsynced);
            assert_eq!(open(&storage).records, records);
        }
        if done {
            assert!(calls >= 6, "{calls}");
            break;
        }
    }
    assert!(old_seen > 50 && new_seen > 5, "{old_seen} {new_seen}");
}

#[test]
fn a_rewrite_without_space_leaves_the_log_as_it_was() {
    let (mut storage, mut log) = written();
    storage.fail_next_write();
    let error = log.rewrite(new().into_iter()).expect_err("no space");
    assert!(matches!(&error, RewriteError::Stage { .. }) && error.is_no_space() && !log.is_poisoned());
    let refused = log.rewrite([record(1, RECORD_BYTES_MAX + 1)].into_iter());
    assert!(matches!(refused, Err(RewriteError::RecordSize { .. })));
    append(&mut log, &[record(9, 40)]).expect("append");
    assert_eq!(open(&storage).records, [old(), vec![record(9, 40)]].concat());
}

#[test]
fn a_failed_sync_in_a_rewrite_poisons() {
    for syncs in 0..2 {
        let (mut storage, mut log) = written();
        // stage, header, sectors, zeroes, sync, rename, sync of the directory
        storage.fail_after(if syncs == 0 { 4 } else { 6 });
        assert!(matches!(log.rewrite(new().into_iter()), Err(RewriteError::Sync { .. })));
        storage.kill();
        assert!(append(&mut log, &[record(9, 40)]).is_err());
        assert!(log.is_poisoned());
        assert_eq!(open(&storage).records, if syncs == 0 { old() } else { new() });
    }
}

#[test]
fn a_lost_sector_of_a_rewritten_file_is_corrupt() {
    let (storage, mut log) = written();
    log.rewrite(old().into_iter()).expect("rewrite");
    let image = storage.journal_bytes().expect("there");
    let last = (log.bytes() / SECTOR_BYTES as u64) as usize;
    assert!(!log.tail.is_fresh());
    // The last record reaches from its first sector into the last.
    for index in 1..=last {
        let mut image = image.clone();
        image[index * SECTOR_BYTES..(index + 1) * SECTOR_BYTES].fill(0);
        corruption(&SimStorage::with_journal(1, &image));
    }
}

#[test]
fn a_crash_while_the_log_is_made_leaves_none_or_an_empty_one() {
    let (mut none, mut empty) = (0, 0);
    for calls in 0..7 {
        for seed in 0..10 {
            let mut storage = SimStorage::new(seed);
            storage.fail_after(calls);
            let made = Log::open(storage.clone()).is_ok();
            assert_eq!(made, calls == 6);
            storage.crash(&mut SmallRng::seed_from_u64(seed), Misdirect::Unsynced);
            let opened = open(&storage);
            assert!(opened.records.is_empty() && !(made && opened.created));
            none += u32::from(opened.created);
            empty += u32::from(!opened.created);
        }
    }
    assert!(none >= 50 && empty >= 10, "{none} {empty}");
}
