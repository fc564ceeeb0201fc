//! Modules' tables beside the kernel's, and what people say of nodes.

use super::world::*;
use crate::db::{MemoryStore, Store, StoreError, StoreOptions, args};
use crate::module::{Migration, Module};
use crate::standing::{self, CordonOwner, LabelError};
use std::collections::BTreeMap;
use std::sync::Arc;

struct Example(&'static [Migration]);

impl Module for Example {
    fn name(&self) -> &'static str {
        "example"
    }

    fn migrations(&self) -> &'static [Migration] {
        self.0
    }
}

const FIRST: Migration = ("example/0001_things", "CREATE TABLE example_things (id TEXT PRIMARY KEY)");
const SECOND: Migration = ("example/0002_more", "ALTER TABLE example_things ADD COLUMN more TEXT");

#[test]
fn a_module_has_its_tables_beside_the_kernels() {
    let store = MemoryStore::with_modules(Arc::new(ManualClock::at(START)), &[&Example(&[FIRST, SECOND])]).unwrap();
    let insert = "INSERT INTO example_things (id, more) VALUES (?1, ?2)";
    assert_eq!(store.run(|tx| tx.execute(insert, args!["a", "b"])).unwrap().0, 1);
}

#[test]
fn a_module_writes_under_its_own_name_only() {
    let clock = Arc::new(ManualClock::at(START));
    for bad in [("core/0009_things", "SELECT 1"), ("example", "SELECT 1"), ("other/0001_things", "SELECT 1")] {
        let migrations: &'static [Migration] = Box::leak(Box::new([bad]));
        assert!(MemoryStore::with_modules(clock.clone(), &[&Example(migrations)]).is_err(), "{}", bad.0);
    }
    assert!(MemoryStore::with_modules(clock, &[&Example(&[FIRST, FIRST])]).is_err());
}

#[test]
fn a_database_with_a_modules_tables_opens_only_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let options = || StoreOptions {
        path: directory.path().join("db"),
        clock: Arc::new(ManualClock::at(START)),
        hints: Default::default(),
        readers: 1,
    };
    Store::open(options()).unwrap();
    Store::open_with_modules(options(), &[&Example(&[FIRST])]).unwrap();
    Store::open_with_modules(options(), &[&Example(&[FIRST, SECOND])]).unwrap();
    let older = Store::open_with_modules(options(), &[&Example(&[FIRST])]);
    assert!(matches!(older.err(), Some(StoreError::NewerSchema(name)) if name == SECOND.0));
    assert!(matches!(Store::open(options()).err(), Some(StoreError::NewerSchema(_))));
}

#[test]
fn cordons_are_a_set_by_owner_and_reason() {
    let (world, node) = World::with_node();
    let cordon = |owner, reason: &str| world.run(|tx| standing::cordon(tx, &node, owner, reason));
    assert!(cordon(CordonOwner::Operator, "cables"));
    assert!(!cordon(CordonOwner::Operator, "cables"));
    assert!(cordon(CordonOwner::Health, "xid 79"));
    assert!(cordon(CordonOwner::Health, "ecc"));
    let reasons = || {
        let cordons = world.run(|tx| standing::cordons(tx, &node));
        cordons.into_iter().map(|cordon| cordon.reason).collect::<Vec<_>>()
    };
    assert_eq!(reasons(), ["ecc", "xid 79", "cables"]);
    assert!(world.run(|tx| standing::uncordon(tx, &node, CordonOwner::Health, Some("ecc"))));
    assert_eq!(reasons(), ["xid 79", "cables"]);
    assert!(world.run(|tx| standing::uncordon(tx, &node, CordonOwner::Operator, None)));
    assert!(!world.run(|tx| standing::uncordon(tx, &node, CordonOwner::Operator, None)));
    assert_eq!(reasons(), ["xid 79"]);
    assert_eq!((world.count("node.cordoned"), world.count("node.uncordoned")), (3, 2));
    let nobody = model::NodeId::new("node_x");
    assert!(!world.run(|tx| standing::cordon(tx, &nobody, CordonOwner::Operator, "x")));
}

#[test]
fn people_set_labels_outside_the_systems_prefix() {
    let (world, node) = World::with_node();
    let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let set = |labels: BTreeMap<String, String>| world.store.run(|tx| standing::set_labels(tx, &node, &labels));
    set(labels(&[("zone", "a"), ("rack", "1")])).unwrap();
    set(labels(&[("zone", "b")])).unwrap();
    assert_eq!(world.run(|tx| standing::labels(tx, &node)), labels(&[("zone", "b")]));
    let reserved = set(labels(&[("bc.dev/cap.devices.limits", "1")]));
    assert!(matches!(reserved, Err(LabelError::Reserved(_))));
    let many = (0..=standing::LABELS_MAX).map(|number| (number.to_string(), String::new())).collect();
    assert!(matches!(set(many), Err(LabelError::TooMany)));
    assert_eq!(world.run(|tx| standing::labels(tx, &node)), labels(&[("zone", "b")]));
}

#[test]
fn a_capability_is_a_system_label() {
    let labels: Vec<_> = standing::capability_labels(&["devices.limits".to_owned()]).collect();
    assert_eq!(labels, [("bc.dev/cap.devices.limits".to_owned(), "1".to_owned())]);
}
