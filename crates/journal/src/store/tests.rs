use super::*;
use crate::sim::{Misdirect, SimStorage};
use model::frame::Event;
use model::{EventClass, limits};
use rand::{Rng, SeedableRng, rngs::SmallRng};

fn birth(journal: &str) -> Birth {
    Birth {
        node_id: NodeId::new("node_1"),
        journal_id: JournalId::new(journal),
        birth: ServerTimeMs(5),
        time_mark: ServerTimeMs(7),
    }
}

fn event(seq: u64, bytes: usize) -> Mutation {
    Mutation::Event(Event { seq, class: EventClass::Transition, report: vec![seq as u8; bytes], node_sig: None })
}

#[test]
fn what_was_committed_is_what_is_opened_after_any_crash() {
    for seed in 0..300 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut disk = SimStorage::new(seed);
        let mut journal = Journal::open(disk.clone(), &birth("j1")).expect("begin");
        let mut seq = 0;
        for _ in 0..rng.random_range(1..12) {
            let count = rng.random_range(1..5);
            let mutations: Vec<Mutation> = (0..count)
                .map(|_| {
                    seq += 1;
                    event(seq, rng.random_range(1..900))
                })
                .collect();
            journal.commit(&mutations).expect("commit");
        }
        let durable = journal.state().clone();
        drop(journal);
        disk.crash(&mut rng, Misdirect::Never);
        let reopened = Journal::open(disk, &birth("j2")).expect("reopen");
        assert_eq!(*reopened.state(), durable, "seed {seed}");
        assert_eq!(reopened.state().meta().journal_id.as_str(), "j1");
    }
}

#[test]
fn a_mostly_dead_journal_is_rewritten_and_reads_the_same() {
    let disk = SimStorage::new(1);
    let mut journal = Journal::open(disk.clone(), &birth("j1")).expect("begin");
    for seq in 1..=200 {
        journal.commit(&[event(seq, limits::EVENT_BYTES_MAX), Mutation::EventsAcked(seq)]).expect("commit");
    }
    assert!(journal.log.bytes() < 2 * DEAD_BYTES_MIN, "{} bytes for an empty state", journal.log.bytes());
    let state = journal.state().clone();
    assert_eq!(state.meta().event_seq, 200);
    drop(journal);
    assert_eq!(*Journal::open(disk, &birth("j2")).expect("reopen").state(), state);
}

#[test]
fn a_commit_above_one_batch_is_split() {
    let disk = SimStorage::new(2);
    let mut journal = Journal::open(disk.clone(), &birth("j1")).expect("begin");
    let mutations: Vec<Mutation> = (1..=100).map(|seq| event(seq, limits::EVENT_BYTES_MAX)).collect();
    journal.commit(&mutations).expect("commit");
    drop(journal);
    assert_eq!(Journal::open(disk, &birth("j2")).expect("reopen").state().event_count(), 100);
}

#[test]
fn a_damaged_journal_is_moved_aside_and_a_new_one_begins() {
    let directory = tempfile::tempdir().expect("tempdir");
    let open = |name: &str| open_directory(directory.path(), 1_790_422_920_000, |_| birth(name));
    let mut opened = open("j1").expect("begin");
    opened.journal.commit(&[event(1, 300)]).expect("commit");
    drop(opened);
    let path = directory.path().join("journal.db");
    let sound = std::fs::read(&path).expect("read");
    let written = sound.iter().rposition(|byte| *byte != 0).expect("bytes") + 1;
    for at in [3, written / 2, written - 1] {
        let mut damaged = sound.clone();
        damaged[at] ^= 1;
        stdx::durable::write_file(&path, &damaged, 0o600).expect("damage");
        let opened = open("j2").expect("a new journal");
        let moved = opened.moved_aside.expect("moved aside");
        assert_eq!(moved.path, directory.path().join("journal.db.corrupt-20260926T114200Z"), "{}", moved.why);
        assert_eq!(std::fs::read(&moved.path).expect("kept"), damaged);
        assert_eq!(opened.journal.state().meta().journal_id.as_str(), "j2");
        assert_eq!(opened.journal.state().event_count(), 0);
        std::fs::remove_file(&moved.path).expect("clean");
    }
}

#[test]
fn a_journal_of_another_node_is_refused_and_kept() {
    let directory = tempfile::tempdir().expect("tempdir");
    drop(open_directory(directory.path(), 0, |_| birth("j1")).expect("begin"));
    let other = || Birth { node_id: NodeId::new("node_2"), ..birth("j2") };
    let error = open_directory(directory.path(), 0, |_| other()).expect_err("another node's");
    assert_eq!(error.to_string(), "the journal belongs to node `node_1`, not `node_2`");
    assert!(open_directory(directory.path(), 0, |_| birth("j3")).expect("still there").moved_aside.is_none());
}

#[test]
fn a_failed_sync_is_never_a_commit() {
    let mut disk = SimStorage::new(3);
    let mut journal = Journal::open(disk.clone(), &birth("j1")).expect("begin");
    disk.fail_next_sync();
    assert!(journal.commit(&[event(1, 10)]).is_err());
    assert!(journal.commit(&[event(2, 10)]).is_err(), "nothing is written after a failed sync");
}
