//! Damage to acknowledged data: flips of every byte, lost and stale sectors, truncation, foreign files.

use super::*;
use crate::log::encode::{Encoder, Tail};
use crate::log::format::{FORMAT_VERSION, LogTag, file_header, seal_sector, versioned_file_header};
use crate::log::format::{SectorHeader, SectorKind};
use crate::log::{GROW_STEP_BYTES, JOURNAL_FILE_BYTES_MAX};

fn batches() -> Vec<Vec<Vec<u8>>> {
    vec![
        vec![record(1, 1), record(2, 300)],
        vec![record(3, 1500)],
        vec![record(0, 1100)],
        vec![record(4, 472), record(5, 20)],
        vec![record(6, 90), record(7, 430), record(8, 33)],
    ]
}

fn flips_are_corrupt(storage: &SimStorage, bytes: u64) {
    let journal = storage.journal_bytes().expect("there");
    for offset in 0..bytes {
        let byte = journal[offset as usize];
        // One bit, all bits, and to zero.
        for mask in [1, 0x10, 0x80, 0xff, byte] {
            if mask != 0 {
                let mut storage = storage.fork();
                storage.flip(offset, mask);
                corruption(&storage);
            }
        }
    }
}

#[test]
fn a_flip_in_any_byte_of_a_journal_is_corrupt() {
    let storage = small_journal(&batches());
    assert_eq!(open(&storage).records, batches().concat());
    let bytes = storage.journal_bytes().expect("there").len() as u64;
    flips_are_corrupt(&storage, bytes);
}

#[test]
fn a_flip_in_any_byte_of_a_rewritten_journal_is_corrupt() {
    let mut storage = SimStorage::new(3);
    let mut log = open(&storage).log;
    log.rewrite(batches().concat().into_iter()).expect("rewrite");
    storage.truncate(log.bytes() + 2 * SECTOR_BYTES as u64);
    assert_eq!(open(&storage).records, batches().concat());
    flips_are_corrupt(&storage, log.bytes());
}

#[test]
fn a_flip_in_acknowledged_data_is_corrupt_whatever_tail_a_crash_left() {
    let mut storage = small_journal(&batches());
    storage.truncate(storage.journal_bytes().expect("there").len() as u64 + 6 * SECTOR_BYTES as u64);
    let mut log = open(&storage).log;
    let acked = log.bytes();
    storage.fail_after(1);
    append(&mut log, &[record(9, 200), record(10, 900), record(11, 900)]).expect_err("the sync fails");
    let unsynced = storage.unsynced_sectors();
    for lost in [unsynced[1], unsynced[2]] {
        let mut storage = storage.fork();
        storage.crash_with(|index| index != lost, None);
        assert!(open(&storage.fork()).sectors_cut > 0);
        // The last of them shares its sector with the tail: any damage there is damage to both.
        flips_are_corrupt(&storage, acked);
    }
}

/// The journal after each batch.
fn generations() -> Vec<Vec<u8>> {
    let storage = SimStorage::new(7);
    let mut log = open(&storage).log;
    let mut images = vec![storage.journal_bytes().expect("there")];
    for batch in batches() {
        append(&mut log, &batch).expect("append");
        images.push(storage.journal_bytes().expect("there"));
    }
    images.iter().map(|image| image[..20 * SECTOR_BYTES].to_vec()).collect()
}

fn with_sector(image: &[u8], index: usize, from: &[u8], from_index: usize) -> SimStorage {
    let mut image = image.to_vec();
    let from = &from[from_index * SECTOR_BYTES..(from_index + 1) * SECTOR_BYTES];
    image[index * SECTOR_BYTES..(index + 1) * SECTOR_BYTES].copy_from_slice(from);
    SimStorage::with_journal(1, &image)
}

fn used_sectors(image: &[u8]) -> usize {
    image.chunks(SECTOR_BYTES).rposition(|sector| sector.iter().any(|byte| *byte != 0)).expect("a header") + 1
}

#[test]
fn a_sector_that_went_back_in_time_is_corrupt_once_something_was_written_later() {
    let images = generations();
    let last = images.last().expect("some");
    let before_last = &images[images.len() - 2];
    let mut tried = 0;
    for older in &images {
        for index in 0..used_sectors(before_last) - 1 {
            let sector = index * SECTOR_BYTES..(index + 1) * SECTOR_BYTES;
            if older[sector.clone()] != last[sector] {
                corruption(&with_sector(last, index, older, index));
                tried += 1;
            }
        }
    }
    assert!(tried > 10, "{tried}");
}

#[test]
fn a_sector_in_another_ones_place_is_corrupt() {
    let last = generations().pop().expect("some");
    let used = used_sectors(&last);
    let before_last = batches().concat().len() - batches().last().expect("some").len();
    for index in 0..used {
        for other in (0..used).filter(|other| *other != index) {
            match Log::open(with_sector(&last, index, &last, other)) {
                Err(OpenError::Corrupt { .. }) => {}
                // A sector older than the last batch, on that batch's, reads as a write of it gone astray.
                Ok(opened) => assert!(opened.records.len() >= before_last, "sector {other} over {index}"),
                Err(error) => panic!("{error:?}"),
            }
        }
    }
}

#[test]
fn a_sector_of_another_log_is_corrupt() {
    let last = generations().pop().expect("some");
    let other = SimStorage::new(99);
    let mut log = open(&other).log;
    batches().iter().for_each(|batch| append(&mut log, batch).expect("append"));
    let other = other.journal_bytes().expect("there");
    for index in 1..used_sectors(&last) {
        assert_eq!(corruption(&with_sector(&last, index, &other, index)), Corruption::OtherLog);
    }
}

/// A file whose sectors are sound and whose records have `sequences`; `patch` changes the records' sector.
fn written_by_another_hand(sequences: &[u64], patch: impl FnOnce(&mut [u8])) -> SimStorage {
    let tag = LogTag::of(&[6; 16]);
    let mut encoder = Encoder::resume(tag, 0, &Tail::at_start_of(1), Vec::new());
    sequences.iter().for_each(|sequence| encoder.record(*sequence, b"payload"));
    let mut sectors = encoder.finish().bytes;
    patch(&mut sectors);
    seal_sector(&mut sectors, SectorHeader { kind: SectorKind::Data, index: 1, durable: 0 }, tag);
    SimStorage::with_journal(1, &[file_header(&[6; 16]).as_slice(), &sectors, &[0; 2 * SECTOR_BYTES]].concat())
}

#[test]
fn sound_sectors_with_unsound_records_are_corrupt() {
    assert_eq!(open(&written_by_another_hand(&[1, 2], |_| {})).records.len(), 2);
    let stale = written_by_another_hand(&[1, 2, 2], |_| {});
    assert_eq!(corruption(&stale), Corruption::Sequence { expected: 3, found: 2 });
    let skipped = written_by_another_hand(&[1, 3], |_| {});
    assert_eq!(corruption(&skipped), Corruption::Sequence { expected: 2, found: 3 });

    let at = |record: usize, byte: usize| 20 + record * 27 + byte;
    let check = |byte: usize, to: u8| corruption(&written_by_another_hand(&[1, 2], |sector| sector[byte] = to));
    assert_eq!(check(at(1, 21), b'P'), Corruption::RecordChecksum { sequence: 2 });
    assert_eq!(check(at(1, 17), 0), Corruption::RecordChecksum { sequence: 2 });
    assert_eq!(check(at(1, 0), 1), Corruption::RecordMagic);
    assert_eq!(check(at(1, 4), 0), Corruption::RecordLength { length: 0 });
    assert_eq!(check(at(1, 7), 1), Corruption::RecordLength { length: 7 + (1 << 24) });
    assert_eq!(check(300, 1), Corruption::BytesAfterEnd);
}

#[test]
fn a_truncated_file_is_corrupt_unless_only_free_space_is_gone() {
    let storage = small_journal(&batches());
    let end = open(&storage).log.bytes();
    let (mut refused, mut opened) = (0, 0);
    for bytes in 0..storage.journal_bytes().expect("there").len() as u64 {
        let mut storage = storage.fork();
        storage.truncate(bytes);
        match Log::open(storage) {
            Ok(sound) => {
                assert_eq!(sound.records, batches().concat());
                opened += 1;
            }
            Err(OpenError::Corrupt { .. }) => refused += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(refused > end && opened > 0);
}

#[test]
fn other_files_are_told_apart() {
    let text = SimStorage::with_journal(1, b"# not a journal\n".repeat(100).as_slice());
    assert_eq!(corruption(&text), Corruption::FileMagic);
    assert_eq!(corruption(&SimStorage::with_journal(1, &[0; 4096])), Corruption::FileMagic);
    assert_eq!(corruption(&SimStorage::with_journal(1, &[])), Corruption::Truncated);

    let mut newer = generations().pop().expect("some");
    newer[..SECTOR_BYTES].copy_from_slice(&versioned_file_header(&[5; 16], FORMAT_VERSION + 1));
    let found = match Log::open(SimStorage::with_journal(1, &newer)) {
        Err(OpenError::Version { found, .. }) => found,
        other => panic!("{other:?}"),
    };
    assert_eq!(found, FORMAT_VERSION + 1);
}

#[test]
fn a_file_over_the_bound_is_refused_unread() {
    let storage = SimStorage::new(1);
    let log = open(&storage).log;
    let mut storage = log.into_storage();
    crate::storage::Storage::grow(&mut storage, GROW_STEP_BYTES, JOURNAL_FILE_BYTES_MAX + SECTOR_BYTES as u64)
        .expect("grow");
    assert!(matches!(Log::open(storage), Err(OpenError::TooLarge { .. })));
}
