//! The log on a simulated disk, and what the tests share.

mod damage;
mod failures;
mod histories;
mod real;
mod rewrites;
mod torn;

use super::{Corruption, Log, OpenError, Opened, SECTOR_BYTES};
use crate::sim::SimStorage;

/// A record of `size` bytes; `seed` 0 makes it all zeroes.
fn record(seed: u8, size: usize) -> Vec<u8> {
    (0..size).map(|at| if seed == 0 { 0 } else { seed.wrapping_add((at * 7) as u8) | 1 }).collect()
}

fn open(storage: &SimStorage) -> Opened<SimStorage> {
    Log::open(storage.clone()).expect("a sound journal opens")
}

#[track_caller]
fn corruption(storage: &SimStorage) -> Corruption {
    match Log::open(storage.clone()) {
        Err(OpenError::Corrupt { why, .. }) => why,
        Err(error) => panic!("not corrupt: {error:?}"),
        Ok(opened) => panic!("opened with {} records", opened.records.len()),
    }
}

fn append(log: &mut Log<SimStorage>, records: &[Vec<u8>]) -> Result<(), super::AppendError> {
    let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    log.append(&records)
}

/// A journal with `batches`, each durable; its last sectors of zeroes are dropped down to three, so
/// that exhaustive tests have little to read.
fn small_journal(batches: &[Vec<Vec<u8>>]) -> SimStorage {
    let mut storage = SimStorage::new(7);
    let mut log = open(&storage).log;
    for batch in batches {
        append(&mut log, batch).expect("append");
    }
    let used = log.bytes().next_multiple_of(SECTOR_BYTES as u64);
    storage.truncate(used + 3 * SECTOR_BYTES as u64);
    storage
}
