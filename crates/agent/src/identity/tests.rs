use super::*;
use crate::testing::{Fleet, identity_of};
use std::os::unix::fs::PermissionsExt;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("stat").permissions().mode() & 0o7777
}

struct Bed {
    directory: tempfile::TempDir,
    fleet: Fleet,
}

impl Bed {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("tempdir"), fleet: Fleet::new() }
    }

    fn store(&self) -> IdentityStore {
        IdentityStore::new(&self.directory.path().join("data"))
    }

    /// A machine that has joined.
    fn joined(&self) -> (IdentityStore, Identity, KeyPair) {
        let store = self.store();
        let pending = store.prepare_join().expect("prepare");
        let identity = identity_of(&self.fleet, pending.key.public());
        store.install(&identity).expect("install");
        (store, identity, pending.key)
    }
}

#[test]
fn a_join_leaves_a_private_key_and_an_identity_and_nothing_else() {
    let bed = Bed::new();
    assert!(bed.store().load().expect("load").is_none());
    let (store, identity, key) = bed.joined();
    let loaded = store.load().expect("load").expect("joined");
    assert_eq!(loaded.identity, identity);
    assert_eq!(loaded.key.public(), key.public());
    assert_eq!(mode(store.data_dir()), 0o700);
    assert_eq!(mode(&store.path(KEY_FILE)), 0o600);
    assert_eq!(mode(&store.path(IDENTITY_FILE)), 0o600);
    let names: Vec<_> =
        std::fs::read_dir(store.data_dir()).expect("list").map(|e| e.expect("entry").file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let pem = std::fs::read_to_string(store.path(KEY_FILE)).expect("read");
    assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----\n"), "PKCS#8");
}

#[test]
fn an_interrupted_join_asks_again_with_the_same_request() {
    let bed = Bed::new();
    let first = bed.store().prepare_join().expect("first");
    let second = bed.store().prepare_join().expect("second");
    assert_eq!(first.csr, second.csr);
    durable::remove(&bed.store().path(CSR_FILE)).expect("as if stopped before the request was written");
    let third = bed.store().prepare_join().expect("third");
    assert_eq!(third.key.public(), first.key.public());
    assert_eq!(pki::csr::verify(&third.csr).expect("csr"), *first.key.public());
    durable::write_file(&bed.store().path(CSR_FILE), &pki::csr::create(&KeyPair::generate()), 0o600).expect("foreign");
    let fourth = bed.store().prepare_join().expect("fourth");
    assert_eq!(
        pki::csr::verify(&fourth.csr).expect("csr"),
        *first.key.public(),
        "a request of another key is replaced"
    );
}

/// The renewal's three writes, stopped after each: `node.key.next`, `identity.json`, the rename.
#[test]
fn a_renewal_stopped_anywhere_leaves_a_certificate_with_its_key() {
    for writes in 0..=3 {
        let bed = Bed::new();
        let (store, old, old_key) = bed.joined();
        let mut next_key = None;
        if writes >= 1 {
            next_key = Some(store.prepare_renewal().expect("next key"));
        }
        let renewed = next_key.as_ref().map(|key| identity_of(&bed.fleet, key.public()));
        if writes == 2 {
            store.write(renewed.as_ref().expect("renewed")).expect("stopped between the two");
        }
        if writes == 3 {
            store.renew(renewed.as_ref().expect("renewed")).expect("renew");
        }
        let loaded = store.load().expect("load").expect("joined");
        assert_eq!(loaded.identity.leaf().public_key, *loaded.key.public(), "after {writes} writes");
        if writes >= 2 {
            assert_eq!(loaded.key.public(), next_key.expect("key").public());
            assert!(!store.path(NEXT_KEY_FILE).exists(), "promoted");
            let again = store.load().expect("load").expect("joined");
            assert_eq!(again.key.public(), loaded.key.public(), "settling twice changes nothing");
        } else {
            assert_eq!((loaded.identity, loaded.key.public()), (old, old_key.public()));
        }
    }
}

#[test]
fn a_renewal_that_was_cut_short_goes_on_with_the_key_it_had() {
    let bed = Bed::new();
    let (store, ..) = bed.joined();
    let first = store.prepare_renewal().expect("first");
    store.load().expect("a restart").expect("joined");
    assert_eq!(store.prepare_renewal().expect("second").public(), first.public());
    assert_eq!(mode(&store.path(NEXT_KEY_FILE)), 0o600);
    durable::write_file(&store.path(NEXT_KEY_FILE), b"not a key", 0o600).expect("spoil");
    assert_ne!(store.prepare_renewal().expect("third").public(), first.public(), "a spoiled next key is replaced");
}

#[test]
fn damage_is_an_error_and_never_an_unjoined_machine() {
    let bed = Bed::new();
    let (store, identity, _) = bed.joined();
    let write = |name: &str, bytes: &[u8]| durable::write_file(&store.path(name), bytes, 0o600).expect("write");

    write(KEY_FILE, KeyPair::generate().to_pem().as_bytes());
    assert!(matches!(store.load(), Err(IdentityError::KeyMismatch { .. })));
    write(KEY_FILE, b"-----BEGIN BCD TPM NODE KEY-----");
    assert!(matches!(store.load(), Err(IdentityError::Key { .. })));
    durable::remove(&store.path(KEY_FILE)).expect("remove");
    assert!(matches!(store.load(), Err(IdentityError::KeyMissing { .. })));

    for bad in [&b"{}"[..], b"", b"\xff", br#"{"version":2}"#] {
        write(IDENTITY_FILE, bad);
        assert!(matches!(store.load(), Err(IdentityError::Malformed { .. })), "{bad:?}");
    }
    store.write(&Identity { node_id: NodeId::new("node_other"), ..identity.clone() }).expect("write");
    assert!(matches!(store.load(), Err(IdentityError::Malformed { .. })), "the leaf names another node");
    store.write(&Identity { chain: vec![vec![1, 2, 3]], ..identity.clone() }).expect("write");
    assert!(matches!(store.load(), Err(IdentityError::Leaf { .. })));
    store.write(&Identity { chain: vec![], ..identity }).expect("write");
    assert!(matches!(store.load(), Err(IdentityError::Leaf { .. })));
}

#[test]
fn every_part_of_an_identity_is_read_back() {
    let bed = Bed::new();
    let (store, mut identity, _) = bed.joined();
    identity.time_mark = ServerTimeMs(i64::MAX);
    identity.journal_id = Some(JournalId::new("j1"));
    identity.trust_bundle =
        Some(Signed { body: vec![0, 255], kid: "k".into(), chain: vec![vec![1], vec![]], signature: vec![9; 64] });
    store.write(&identity).expect("write");
    assert_eq!(store.load().expect("load").expect("joined").identity, identity);
    let text = std::fs::read_to_string(store.path(IDENTITY_FILE)).expect("read");
    let newer = text.replacen('{', "{\n  \"from_a_later_version\": [1],", 1);
    durable::write_file(&store.path(IDENTITY_FILE), newer.as_bytes(), 0o600).expect("write");
    assert_eq!(store.load().expect("load").expect("joined").identity, identity, "unknown members are passed over");
}
