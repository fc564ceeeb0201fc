//! The log on a real file system.

use crate::file::{FileError, FileStorage, suffix};
use crate::log::{GROW_STEP_BYTES, Log, OpenError, SECTOR_BYTES};
use crate::storage::{JOURNAL_NAME, STAGED_NAME};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;

fn log(directory: &Path) -> crate::log::Opened<FileStorage> {
    Log::open(FileStorage::open(directory).expect("lock")).expect("open")
}

#[test]
fn records_are_read_back_over_growth_and_rewrite() {
    let directory = tempfile::tempdir().expect("tempdir");
    let opened = log(directory.path());
    assert!(opened.created);
    let mut journal = opened.log;
    let records: Vec<Vec<u8>> = (0..40).map(|seed| super::record(seed, 13_000 + usize::from(seed))).collect();
    for pair in records.chunks(2) {
        journal.append(&[&pair[0], &pair[1]]).expect("append");
    }
    assert!(journal.file_bytes() > 2 * GROW_STEP_BYTES);
    drop(journal);

    let opened = log(directory.path());
    assert!(!opened.created && opened.sectors_cut == 0);
    assert_eq!(opened.records, records);
    let mut journal = opened.log;
    journal.rewrite(records[..3].iter().cloned()).expect("rewrite");
    journal.append(&[b"last"]).expect("append");
    drop(journal);

    assert_eq!(log(directory.path()).records, [records[..3].to_vec(), vec![b"last".to_vec()]].concat());
    let stat = std::fs::metadata(directory.path().join(JOURNAL_NAME)).expect("stat");
    assert_eq!((stat.mode() & 0o7777, stat.len() % GROW_STEP_BYTES), (0o600, 0));
    assert!(!directory.path().join(STAGED_NAME).exists());
}

#[test]
fn the_space_an_append_uses_is_allocated_before() {
    let directory = tempfile::tempdir().expect("tempdir");
    let mut journal = log(directory.path()).log;
    let stat = || std::fs::metadata(directory.path().join(JOURNAL_NAME)).expect("stat");
    let before = stat();
    journal.append(&[&[7; 300]]).expect("append");
    assert_eq!((before.len(), before.blocks()), (stat().len(), stat().blocks()));
    assert!(before.blocks() * 512 >= before.len());
}

#[test]
fn two_processes_never_share_a_journal() {
    let directory = tempfile::tempdir().expect("tempdir");
    let mut first = log(directory.path()).log;
    assert!(matches!(FileStorage::open(directory.path()), Err(FileError::InUse { .. })));
    first.rewrite(std::iter::empty()).expect("rewrite");
    assert!(matches!(FileStorage::open(directory.path()), Err(FileError::InUse { .. })));
    drop(first);
    FileStorage::open(directory.path()).expect("free again");
}

#[test]
fn a_corrupt_journal_is_moved_aside_and_kept() {
    let directory = tempfile::tempdir().expect("tempdir");
    log(directory.path()).log.append(&[b"one"]).expect("append");
    let path = directory.path().join(JOURNAL_NAME);
    let file = std::fs::File::options().write(true).open(&path).expect("open");
    file.write_all_at(&[0xff], SECTOR_BYTES as u64 + 45).expect("damage");
    let opened = Log::open(FileStorage::open(directory.path()).expect("lock"));
    assert!(matches!(opened, Err(OpenError::Corrupt { offset: 512, .. })), "{opened:?}");

    let mut storage = FileStorage::open(directory.path()).expect("lock");
    let aside = storage.move_aside(&suffix("corrupt", 1_790_422_920_000)).expect("move").expect("there was one");
    assert_eq!(aside, directory.path().join("journal.db.corrupt-20260926T114200Z"));
    let opened = Log::open(storage).expect("a new one");
    assert!(opened.created && aside.exists());
    drop(opened);

    let mut storage = FileStorage::open(directory.path()).expect("lock");
    storage.move_aside("corrupt-20260926T114200Z").expect_err("an older one is never replaced");
    assert!(path.exists());
}

#[test]
fn a_link_or_a_directory_in_the_journals_place_is_refused() {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join(JOURNAL_NAME);
    symlink("/dev/null", &path).expect("link");
    assert!(matches!(FileStorage::open(directory.path()), Err(FileError::Io { .. })));
    std::fs::remove_file(&path).expect("remove");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("fifo");
    assert!(matches!(FileStorage::open(directory.path()), Err(FileError::NotAFile { .. })));
}

#[test]
fn what_a_killed_rewrite_left_is_removed() {
    let directory = tempfile::tempdir().expect("tempdir");
    log(directory.path()).log.append(&[b"one"]).expect("append");
    let staged = std::fs::File::create(directory.path().join(STAGED_NAME)).expect("create");
    staged.set_len(5000).expect("length");
    assert_eq!(log(directory.path()).records, [b"one"]);
    assert!(!directory.path().join(STAGED_NAME).exists());
}
