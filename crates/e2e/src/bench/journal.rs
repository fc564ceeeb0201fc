//! Appends of 300 bytes to the journal's log, each acknowledged only once it is on disk, against the least that
//! such a promise costs on this disk: pwrite and fdatasync into a file whose blocks are already written.

use super::samples::{Samples, median};
use anyhow::{Context, Result};
use journal::file::FileStorage;
use journal::log::Log;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const RECORD_BYTES: usize = 300;
const AT_ONCE: usize = 16;
const ROUNDS: usize = 24;
/// Syncs of each kind in one round.
const SYNCS: usize = 60;
/// One round to warm up, the others counted.
const PLAIN_BYTES: usize = (ROUNDS + 1) * SYNCS * RECORD_BYTES * (1 + AT_ONCE);

/// What the journal is compared with.
struct Plain {
    file: File,
    offset: u64,
}

impl Plain {
    fn create(directory: &Path) -> Result<Self> {
        let file = File::create(directory.join("plain"))?;
        file.write_all_at(&vec![0; PLAIN_BYTES], 0)?;
        file.sync_all()?;
        Ok(Self { file, offset: 0 })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, self.offset)?;
        self.offset += bytes.len() as u64;
        Ok(self.file.sync_data()?)
    }
}

/// Samples of the four kinds: one or sixteen at once, plain or journal.
#[derive(Default)]
struct Round {
    plain: Samples,
    journal: Samples,
    plain_many: Samples,
    journal_many: Samples,
}

/// A journal of its own, for other measurements to compare with.
pub struct Appender(Log<FileStorage>);

impl Appender {
    pub fn open(directory: &Path) -> Result<Self> {
        open(directory).map(Self)
    }

    /// `count` fsynced appends, one after the other.
    pub fn append(&mut self, count: usize, samples: &mut Samples) -> Result<()> {
        let record = record(0);
        for _ in 0..count {
            samples.time(|| self.0.append(&[&record]))?;
        }
        Ok(())
    }
}

fn open(directory: &Path) -> Result<Log<FileStorage>> {
    let path = directory.join("journal");
    std::fs::create_dir_all(&path)?;
    Ok(Log::open(FileStorage::open(&path)?).context("a fresh journal opens")?.log)
}

fn record(seed: usize) -> Vec<u8> {
    (0..RECORD_BYTES).map(|index| (index * 31 + seed * 7) as u8).collect()
}

fn round(plain: &mut Plain, log: &mut Log<FileStorage>, journal_first: bool) -> Result<Round> {
    let records: Vec<Vec<u8>> = (0..AT_ONCE).map(record).collect();
    let slices: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    let joined = records.concat();
    let mut round = Round::default();
    for kind in if journal_first { [1, 0, 3, 2] } else { [0, 1, 2, 3] } {
        for _ in 0..SYNCS {
            match kind {
                0 => round.plain.time(|| plain.append(&records[0]))?,
                1 => round.journal.time(|| log.append(&slices[..1]))?,
                2 => round.plain_many.time(|| plain.append(&joined))?,
                _ => round.journal_many.time(|| log.append(&slices))?,
            }
        }
    }
    Ok(round)
}

/// Measures in a new folder below `directory` and prints.
pub fn run(directory: &Path) -> Result<()> {
    let directory = tempfile::tempdir_in(directory).context("no folder to measure in")?;
    let mut plain = Plain::create(directory.path())?;
    let mut log = open(directory.path())?;
    round(&mut plain, &mut log, false)?;
    let mut all = Round::default();
    let (mut alone, mut at_once, mut own_gain) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..ROUNDS {
        let round = round(&mut plain, &mut log, number % 2 == 1)?;
        alone.push(round.journal.total_us() / round.plain.total_us());
        let records_per_us = |samples: &Samples, each: usize| (samples.len() * each) as f64 / samples.total_us();
        at_once.push(records_per_us(&round.journal_many, AT_ONCE) / records_per_us(&round.plain, 1));
        own_gain.push(records_per_us(&round.journal_many, AT_ONCE) / records_per_us(&round.journal, 1));
        all.plain.extend(&round.plain);
        all.journal.extend(&round.journal);
        all.plain_many.extend(&round.plain_many);
        all.journal_many.extend(&round.journal_many);
    }
    println!("appends of {RECORD_BYTES} bytes, each on disk before the next; {ROUNDS} interleaved rounds of {SYNCS}\n");
    println!("{:<42} {:>9} {:>9} {:>11}", "", "p50 us", "p99 us", "records/s");
    for (name, samples, each) in [
        ("pwrite + fdatasync, preallocated, 1", &all.plain, 1),
        ("journal, 1", &all.journal, 1),
        ("pwrite + fdatasync, preallocated, 16 joined", &all.plain_many, AT_ONCE),
        ("journal, 16 at once", &all.journal_many, AT_ONCE),
    ] {
        let rate = (samples.len() * each) as f64 / samples.total_us() * 1e6;
        println!("{name:<42} {:>9.1} {:>9.1} {rate:>11.0}", samples.p50(), samples.p99());
    }
    let (alone, at_once, own_gain) = (median(&alone), median(&at_once), median(&own_gain));
    println!("\njournal alone / plain alone, time       {alone:>6.2}   (goal: 1.3 or less)");
    println!("journal at 16 / plain alone, throughput {at_once:>6.2}   (goal: 8 or more)");
    println!("journal at 16 / journal alone           {own_gain:>6.2}");
    let line = serde_json::json!({
        "bench": "journal",
        "recordBytes": RECORD_BYTES,
        "rounds": ROUNDS,
        "syncsPerRound": SYNCS,
        "plainUsP50": rounded(all.plain.p50()),
        "journalUsP50": rounded(all.journal.p50()),
        "journal16UsP50": rounded(all.journal_many.p50()),
        "ratioAlone": rounded(alone),
        "throughputRatioAt16": rounded(at_once),
        "throughputGainAt16": rounded(own_gain),
    });
    println!("{line}");
    Ok(())
}

pub(super) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
