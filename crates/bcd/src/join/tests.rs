use super::*;
use crate::args::{Args, Command};
use agent::identity::Identity;
use clap::Parser;
use model::{NodeId, ServerTimeMs};
use pki::ca::NodeRequest;
use pki::{Bundle, FleetId};
use std::path::PathBuf;

struct Machine {
    directory: tempfile::TempDir,
    keys: Bundle,
}

impl Machine {
    /// A machine with its configuration, not joined.
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("tempdir");
        let names = ["localhost".to_owned()];
        let keys = Bundle::create(FleetId::random(), &names, stdx::clock::wall_unix_ms()).expect("fleet");
        let pins = keys.pins();
        let config = format!(
            "gateway_url = \"https://127.0.0.1:1\"\nsite = \"dev\"\nserving_ca_spki_pin = \"{}\"\n\
             join_signing_key_pin = \"{}\"\njoin_encryption_key_pin = \"{}\"\ndata_dir = \"{}\"\n",
            pins.serving_ca_spki_pin,
            pins.join_signing_key_pin,
            pins.join_encryption_key_pin,
            directory.path().join("data").display()
        );
        let machine = Self { directory, keys };
        machine.write("config.toml", config.as_bytes(), 0o600);
        machine.write("join-encryption.jwk", pki::jwk::export(machine.keys.join_encryption.public()).as_bytes(), 0o644);
        machine
    }

    fn write(&self, name: &str, bytes: &[u8], mode: u32) -> PathBuf {
        let path = self.directory.path().join(name);
        stdx::durable::write_file(&path, bytes, mode).expect("write");
        path
    }

    fn join(&self) {
        let store = IdentityStore::new(&self.directory.path().join("data"));
        let pending = store.prepare_join().expect("prepare");
        let node_id = NodeId::new("node_1");
        let public_key = pending.key.public();
        let request = NodeRequest { node_id: &node_id, role: Role::Node, allowed_kinds: &[], public_key };
        let fleet_id = self.keys.public.fleet_id.clone();
        let leaf = self.keys.node_ca.issue_node(&fleet_id, &request, stdx::clock::wall_unix_ms()).expect("leaf");
        let identity = Identity {
            node_id,
            fleet_id,
            role: Role::Node,
            site: "dev".to_owned(),
            pool: "pool".to_owned(),
            chain: vec![leaf.to_vec()],
            trust_bundle: None,
            time_mark: ServerTimeMs(0),
            joined_at: ServerTimeMs(0),
            journal_id: None,
        };
        store.install(&identity).expect("install");
    }

    fn call(&self, rest: &[&str]) -> ExitCode {
        let config = self.directory.path().join("config.toml");
        let mut all = vec!["bcd", "join", "--config", config.to_str().expect("utf-8")];
        all.extend(rest);
        let Command::Join(args) = Args::try_parse_from(all).expect("parses").command else { panic!("join") };
        run(&args, Build::Host)
    }
}

#[test]
fn a_second_join_answers_the_first_and_deletes_the_token_file() {
    let machine = Machine::new();
    machine.join();
    let token = machine.write("token", b"whatever was in it", 0o644);
    assert_eq!(machine.call(&["--token-file", token.to_str().expect("utf-8")]), ExitCode::SUCCESS);
    assert!(!token.exists());
    assert_eq!(machine.call(&[]), ExitCode::SUCCESS, "and needs no token");
}

#[test]
fn a_bad_token_is_a_mistake_in_the_call_and_a_bad_file_a_refusal() {
    let machine = Machine::new();
    let path = machine.write("token", b"bcjt_not-a-token", 0o600);
    let token = path.to_str().expect("utf-8");
    assert_eq!(machine.call(&["--token-file", token]), ExitCode::from(USAGE));
    machine.write("token", b"bcjt_not-a-token", 0o640);
    assert_eq!(machine.call(&["--token-file", token]), ExitCode::from(FAILED));
    assert!(path.exists(), "a token that was not used stays");
    assert_eq!(machine.call(&["bcjt_jt_secret"]), ExitCode::from(USAGE));
    assert_eq!(machine.call(&["--reset"]), ExitCode::from(USAGE));
}

#[test]
fn without_the_pinned_key_nothing_is_asked_for() {
    let machine = Machine::new();
    let other = pki::jwk::export(pki::KeyPair::generate().public());
    machine.write("join-encryption.jwk", other.as_bytes(), 0o644);
    assert_eq!(machine.call(&[]), ExitCode::from(FAILED));
    std::fs::remove_file(machine.directory.path().join("join-encryption.jwk")).expect("remove");
    assert_eq!(machine.call(&[]), ExitCode::from(FAILED));
}

#[test]
fn an_identity_that_does_not_load_is_not_joined_over() {
    let machine = Machine::new();
    machine.join();
    machine.write("data/identity.json", b"{", 0o600);
    assert_eq!(machine.call(&[]), ExitCode::from(FAILED));
}
