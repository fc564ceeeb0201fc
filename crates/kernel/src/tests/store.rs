//! The store on a file: group commit, panics, a full disk, reopening, one process at a time.

use super::world::{ManualClock, START, populate, tenant};
use crate::access;
use crate::db::{Hint, HintBus, Store, StoreError, StoreOptions, args};
use crate::settings;
use std::path::Path;
use std::sync::Arc;

fn open(directory: &Path) -> Result<Store, StoreError> {
    Store::open(StoreOptions {
        path: directory.join("store.db"),
        clock: Arc::new(ManualClock::at(START)),
        hints: HintBus::new(),
        readers: 2,
    })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

async fn put(store: &Store, name: &'static str, bytes: usize) -> Result<(), StoreError> {
    store.write(move |tx| settings::put(tx, name, &vec![1; bytes])).await
}

async fn get(store: &Store, name: &'static str) -> Option<usize> {
    store.read(move |tx| settings::get(tx, name)).await.unwrap().map(|bytes| bytes.len())
}

#[test]
fn what_was_answered_is_there_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = runtime();
    let store = open(directory.path()).unwrap();
    runtime.block_on(async {
        store.write(|tx| populate(tx, false)).await.unwrap();
        put(&store, "a", 3).await.unwrap();
    });
    drop(store);
    let store = open(directory.path()).unwrap();
    runtime.block_on(async {
        assert_eq!(get(&store, "a").await, Some(3));
        assert!(store.read(|tx| access::get_tenant(tx, &tenant())).await.unwrap().is_some());
    });
}

#[test]
fn one_process_at_a_time_holds_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    assert!(matches!(open(directory.path()), Err(StoreError::InUse(_))));
    drop(store);
    assert!(open(directory.path()).is_ok());
}

#[test]
fn every_commit_is_synchronous_and_foreign_keys_hold() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    runtime().block_on(async {
        let pragmas = |name: &'static str| {
            store.write(move |tx| tx.query_one(&format!("PRAGMA {name}"), &[], |row| row.take::<i64>()))
        };
        assert_eq!(pragmas("synchronous").await.unwrap(), 2, "FULL");
        assert_eq!(pragmas("foreign_keys").await.unwrap(), 1);
        let mode: String = store.read(|tx| tx.query_one("PRAGMA journal_mode", &[], |row| row.take())).await.unwrap();
        assert_eq!(mode, "wal");
        let broken = store.write(|tx| tx.execute("INSERT INTO principals VALUES ('p', 'nobody', 'x', 1)", &[])).await;
        assert!(matches!(broken, Err(StoreError::Statement(_))), "{broken:?}");
    });
}

#[test]
fn operations_that_wait_together_share_a_commit_and_fail_alone() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    runtime().block_on(async {
        let (gate_tx, gate_rx) = std::sync::mpsc::channel::<()>();
        // Holds the writer until the others wait behind it.
        let blocker = store.write(move |tx| {
            gate_rx.recv().expect("the gate opens");
            settings::put(tx, "blocker", b"1")
        });
        let good = put(&store, "good", 1);
        let bad = store.write(|tx| {
            settings::put(tx, "bad", b"1")?;
            Err::<(), StoreError>(StoreError::Closed)
        });
        let panics = store.write(|tx| -> Result<(), StoreError> {
            settings::put(tx, "panics", b"1")?;
            panic!("a defect in an operation");
        });
        // Sees its predecessors' writes: the same transaction.
        let last = store.write(|tx| {
            let seen = (settings::get(tx, "good")?, settings::get(tx, "bad")?, settings::get(tx, "panics")?);
            tx.hint(Hint::Verify);
            Ok::<_, StoreError>(seen)
        });
        let opener = async {
            tokio::task::yield_now().await;
            gate_tx.send(()).expect("the writer waits");
        };
        let (blocker, good, bad, panics, last, ()) = tokio::join!(blocker, good, bad, panics, last, opener);
        blocker.unwrap();
        good.unwrap();
        assert!(matches!(bad, Err(StoreError::Closed)));
        match panics {
            Err(StoreError::Panicked(message)) => assert_eq!(message, "a defect in an operation"),
            other => panic!("{other:?}"),
        }
        assert_eq!(last.unwrap(), (Some(vec![1]), None, None));
        assert_eq!((get(&store, "good").await, get(&store, "bad").await), (Some(1), None));
        assert_eq!(get(&store, "panics").await, None);
        put(&store, "after", 1).await.unwrap();
    });
}

#[test]
fn hints_go_out_after_the_commit_and_never_for_what_failed() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let mut hints_rx = store.hints().subscribe();
    runtime().block_on(async {
        let failed = store.write(|tx| {
            tx.hint(Hint::Join);
            Err::<(), StoreError>(StoreError::Closed)
        });
        assert!(failed.await.is_err());
        let worked = store.write(|tx| {
            tx.hint(Hint::Verify);
            tx.hint(Hint::Verify);
            settings::put(tx, "a", b"1")
        });
        worked.await.unwrap();
        assert_eq!(hints_rx.recv().await.unwrap(), Hint::Verify);
        assert!(hints_rx.try_recv().is_err());
        assert_eq!(get(&store, "a").await, Some(1));
    });
}

#[test]
fn a_full_store_refuses_writes_and_goes_on_reading() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    runtime().block_on(async {
        put(&store, "small", 10).await.unwrap();
        let pages: i64 = store.write(|tx| tx.query_one("PRAGMA page_count", &[], |row| row.take())).await.unwrap();
        let limit = |pages: i64| {
            let sql = format!("PRAGMA max_page_count = {pages}");
            store.write(move |tx| tx.query_one(&sql, &[], |row| row.take::<i64>()))
        };
        limit(pages + 4).await.unwrap();
        for _ in 0..2 {
            let full = put(&store, "large", 1 << 20).await;
            assert!(matches!(full, Err(StoreError::Full)), "{full:?}");
            assert_eq!((get(&store, "small").await, get(&store, "large").await), (Some(10), None));
        }
        limit(pages + 1000).await.unwrap();
        put(&store, "large", 1 << 20).await.unwrap();
        assert_eq!(get(&store, "large").await, Some(1 << 20));
    });
}

#[test]
fn what_shares_a_batch_with_the_operation_that_fills_the_disk_is_not_half_stored() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    runtime().block_on(async {
        let pages: i64 = store.write(|tx| tx.query_one("PRAGMA page_count", &[], |row| row.take())).await.unwrap();
        let sql = format!("PRAGMA max_page_count = {}", pages + 4);
        store.write(move |tx| tx.query_one(&sql, &[], |row| row.take::<i64>())).await.unwrap();
        let (gate_tx, gate_rx) = std::sync::mpsc::channel::<()>();
        let first = store.write(move |tx| {
            gate_rx.recv().expect("the gate opens");
            settings::put(tx, "first", b"1")
        });
        let large = put(&store, "large", 1 << 20);
        let opener = async {
            tokio::task::yield_now().await;
            gate_tx.send(()).expect("the writer waits");
        };
        let (first, large, ()) = tokio::join!(first, large, opener);
        assert!(matches!(large, Err(StoreError::Full)), "{large:?}");
        match first {
            Ok(()) => assert_eq!(get(&store, "first").await, Some(1)),
            Err(error) => {
                assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
                assert_eq!(get(&store, "first").await, None);
            }
        }
        put(&store, "after", 1).await.unwrap();
        assert_eq!(get(&store, "after").await, Some(1));
    });
}

#[test]
fn an_operation_that_loses_the_transaction_fails_its_whole_batch_and_nothing_runs_outside_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    runtime().block_on(async {
        let (gate_tx, gate_rx) = std::sync::mpsc::channel::<()>();
        let first = store.write(move |tx| {
            gate_rx.recv().expect("the gate opens");
            tx.hint(Hint::Join);
            settings::put(tx, "first", b"1")
        });
        // What SQLite does by itself on some errors.
        let loses = store.write(|tx| {
            let nested = tx.savepoint(|tx| tx.execute("ROLLBACK", &[]));
            assert!(nested.is_err(), "a handler's error is not all that was lost");
            assert!(settings::put(tx, "outside", b"1").is_err());
            Err::<(), StoreError>(StoreError::Full)
        });
        let opener = async {
            tokio::task::yield_now().await;
            gate_tx.send(()).expect("the writer waits");
        };
        let mut hints_rx = store.hints().subscribe();
        let (first, loses, ()) = tokio::join!(first, loses, opener);
        assert!(matches!(loses, Err(StoreError::Full)), "{loses:?}");
        assert!(matches!(first, Err(StoreError::Unavailable(_))), "{first:?}");
        assert_eq!((get(&store, "first").await, get(&store, "outside").await), (None, None));
        put(&store, "after", 1).await.unwrap();
        assert_eq!(get(&store, "after").await, Some(1));
        assert!(hints_rx.try_recv().is_err(), "no hint of what was lost");
    });
}

#[test]
fn a_caller_that_goes_away_stops_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    runtime().block_on(async {
        let (gate_tx, gate_rx) = std::sync::mpsc::channel::<()>();
        let blocker = store.write(move |tx| {
            gate_rx.recv().expect("the gate opens");
            settings::put(tx, "blocker", b"1")
        });
        let gone = put(&store, "gone", 1);
        tokio::pin!(blocker);
        {
            tokio::pin!(gone);
            tokio::select! {
                biased;
                _ = &mut blocker => panic!("the gate is closed"),
                _ = &mut gone => panic!("the gate is closed"),
                () = tokio::task::yield_now() => {}
            }
        }
        gate_tx.send(()).expect("the writer waits");
        blocker.await.unwrap();
        put(&store, "after", 1).await.unwrap();
        assert_eq!(get(&store, "gone").await, Some(1));
    });
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    runtime().block_on(async {
        let sql = "INSERT INTO migrations (name, applied_at) VALUES ('core/9999_future', 1)";
        store.write(move |tx| tx.execute(sql, args![])).await.unwrap();
    });
    drop(store);
    for _ in 0..2 {
        match open(directory.path()).map(|_| ()) {
            Err(StoreError::NewerSchema(name)) => assert_eq!(name, "core/9999_future"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_reader_cannot_write_and_survives_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    runtime().block_on(async {
        for _ in 0..4 {
            let wrote = store.read(|tx| settings::put(tx, "a", b"1")).await;
            assert!(wrote.is_err());
            let panicked = store.read(|_| -> Result<(), StoreError> { panic!("a defect in a query") }).await;
            assert!(matches!(panicked, Err(StoreError::Panicked(_))));
        }
        assert_eq!(get(&store, "a").await, None);
    });
}

#[test]
fn a_file_that_is_no_database_is_damage_and_never_an_empty_store() {
    let directory = tempfile::tempdir().unwrap();
    stdx::durable::write_file(&directory.path().join("store.db"), &[0x5a; 8192], 0o600).unwrap();
    assert!(matches!(open(directory.path()), Err(StoreError::Corrupt(_))));
}
