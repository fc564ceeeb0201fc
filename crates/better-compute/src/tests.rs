//! The command line of the whole program, and which keys a process takes.

use crate::args::{Program, Role};
use crate::keys;
use crate::pki_files;
use clap::{CommandFactory, Parser};
use expect_test::{Expect, expect};
use pki::{Bundle, FleetId, SealingKey};
use std::path::PathBuf;

#[track_caller]
fn help(path: &[&str], expected: Expect) {
    let mut command = Program::command();
    command.build();
    let mut at = &mut command;
    for name in path {
        at = at.find_subcommand_mut(name).expect("a subcommand");
    }
    expected.assert_eq(&at.clone().term_width(100).render_help().to_string());
}

#[test]
fn the_definitions_are_consistent() {
    Program::command().debug_assert();
}

#[test]
fn help_of_the_program() {
    help(
        &[],
        expect![[r#"
        Bare-metal GPU fleets: the control plane, and the commands to operate it

        Usage: better-compute [OPTIONS] <COMMAND>

        Commands:
          serve        Run roles of the control plane
          dev          Run a whole fleet on this machine: a control plane and simulated nodes
          pki          Make, split and show the keys of a fleet
          bootstrap    Make the first API token of a new store, before anybody can call the API
          nodes        Nodes: list them, look at one, revoke one
          commands     Commands: send one to a node, wait for it, look at what became of it
          events       Events: what happened, and what happens now
          join-tokens  Join tokens: what a machine shows once to become a node
          api-tokens   API tokens: how programs prove who they are
          sites        Sites: rooms, cages and labs
          pools        Pools: nodes that belong together
          fleet        Show the fleet: its id, its version, how many nodes are there
          context      Contexts: which control plane these commands talk to
          completions  Print a completion script for a shell
          help         Print this message or the help of the given subcommand(s)

        Options:
          -h, --help     Print help (see more with '--help')
          -V, --version  Print version

        Global options:
              --format <FORMAT>  How to print results [default: table] [possible values: table, json, yaml]
              --context <NAME>   Context to use instead of the selected one
              --tenant <ID>      Tenant to act for, when it is not the token's own
    "#]],
    );
}

#[test]
fn help_of_serve() {
    help(
        &["serve"],
        expect![[r#"
        Run roles of the control plane

        Usage: better-compute serve [OPTIONS] --data-dir <DIR>

        Options:
              --roles <ROLES>            Roles of this process [default: api gateway controllers] [possible
                                         values: api, gateway, controllers, console]
              --data-dir <DIR>           Where the store and the blobs are
              --listen <ADDR>            Address of the API (HTTP without TLS: loopback, or behind a TLS
                                         proxy) [default: 127.0.0.1:8420]
              --gateway-listen <ADDR>    Address of the gateway (mutual TLS), where nodes connect [default:
                                         127.0.0.1:8421]
              --keys <PATH>              Sealed key file of a role, or a folder of them; exactly those that
                                         the roles need [default: DIR/keys]
              --key-file <FILE>          Key file that opens the sealed keys
              --passphrase-file <FILE>   File with the passphrase that opens the sealed keys (its first
                                         line)
              --base-path <PATH>         Where the API is mounted [default: /api/compute]
              --insecure-listen          Let the API listen beyond loopback, without TLS
              --drain-seconds <SECONDS>  Seconds in which sessions and requests may end after SIGTERM
                                         [default: 5]
              --log-format <FORMAT>      [default: text] [possible values: text, json]
              --log-level <LEVEL>        Log level, or directives as `info,gateway=debug` [env:
                                         BETTER_COMPUTE_LOG=] [default: info]
          -h, --help                     Print help (see more with '--help')

        Global options:
              --format <FORMAT>  How to print results [default: table] [possible values: table, json, yaml]
              --context <NAME>   Context to use instead of the selected one
              --tenant <ID>      Tenant to act for, when it is not the token's own
    "#]],
    );
}

#[test]
fn help_of_dev() {
    help(
        &["dev"],
        expect![[r#"
        Run a whole fleet on this machine: a control plane and simulated nodes

        Usage: better-compute dev [OPTIONS]

        Options:
              --sim <N>                Simulated nodes [default: 3]
              --data-dir <DIR>         Where everything is kept; the next start with it resumes the same
                                       fleet [default: .dev]
              --listen <ADDR>          Address of the API [default: 127.0.0.1:8420, or a free port]
              --gateway-listen <ADDR>  Address of the gateway [default: 127.0.0.1:8421, or a free port]
          -h, --help                   Print help (see more with '--help')

        Global options:
              --format <FORMAT>  How to print results [default: table] [possible values: table, json, yaml]
              --context <NAME>   Context to use instead of the selected one
              --tenant <ID>      Tenant to act for, when it is not the token's own
    "#]],
    );
}

#[test]
fn help_of_pki_init() {
    help(
        &["pki", "init"],
        expect![[r#"
        Make the keys of a new fleet and seal them into one bundle

        Usage: better-compute pki init [OPTIONS] --out <FILE> --serving-name <NAME>

        Options:
              --out <FILE>              The bundle to write
              --serving-name <NAME>     A DNS name or address under which nodes reach the gateways; may be
                                        repeated
              --fleet-id <ID>           Id of the fleet [default: random]
              --key-file <FILE>         Key file that opens the sealed keys
              --passphrase-file <FILE>  File with the passphrase that opens the sealed keys (its first line)
          -h, --help                    Print help (see more with '--help')

        Global options:
              --format <FORMAT>  How to print results [default: table] [possible values: table, json, yaml]
              --context <NAME>   Context to use instead of the selected one
              --tenant <ID>      Tenant to act for, when it is not the token's own
    "#]],
    );
}

struct Files {
    directory: tempfile::TempDir,
    key: SealingKey,
}

impl Files {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("tempdir");
        let key = SealingKey::key_file(SealingKey::generate_key_file().as_ref()).expect("key");
        let bundle =
            Bundle::create(FleetId::random(), &["localhost".into()], stdx::clock::wall_unix_ms()).expect("pki");
        pki_files::split(&bundle, directory.path(), &key).expect("split");
        Self { directory, key }
    }

    fn paths(&self, kinds: &[&str]) -> Vec<PathBuf> {
        kinds.iter().map(|kind| self.directory.path().join(format!("{kind}.sealed"))).collect()
    }

    fn load(&self, kinds: &[&str], roles: &[Role]) -> anyhow::Result<keys::RoleKeys> {
        keys::load(&self.paths(kinds), roles, &self.key)
    }
}

#[test]
fn a_process_takes_the_keys_of_its_roles_and_refuses_all_others() {
    let files = Files::new();
    let all = [Role::Api, Role::Gateway, Role::Controllers];
    let keys = files.load(&["api", "gateway", "join", "controllers"], &all).expect("all");
    assert!(keys.api.is_some() && keys.gateway.is_some() && keys.controllers.is_some());
    let keys = files.load(&["gateway"], &[Role::Gateway]).expect("gateway alone");
    assert!(keys.api.is_none() && keys.controllers.is_none());
    for (kinds, roles, word) in [
        (vec!["gateway", "api"], vec![Role::Gateway], "none of the roles gateway needs"),
        (vec!["api", "join"], vec![Role::Api], "none of the roles api needs"),
        (vec!["join"], vec![Role::Controllers], "the controllers keys are missing"),
        (vec![], vec![Role::Api], "the api keys are missing"),
        (vec!["offline", "api"], vec![Role::Api], "no server loads it"),
        (vec!["api", "api"], vec![Role::Api], "both hold"),
    ] {
        let error = files.load(&kinds, &roles).err().unwrap_or_else(|| panic!("{kinds:?}"));
        assert!(format!("{error:#}").contains(word), "{kinds:?}: {error:#}");
    }
    // The folder as a whole holds the offline file.
    let folder = [files.directory.path().to_owned()];
    assert!(keys::load(&folder, &all, &files.key).is_err());
}

#[test]
fn keys_of_two_fleets_or_a_wrong_key_file_are_refused() {
    let (files, others) = (Files::new(), Files::new());
    let mut paths = files.paths(&["api"]);
    let other = SealingKey::key_file(&[7; 32]).expect("key");
    assert!(keys::load(&paths, &[Role::Api], &other).is_err());
    paths.extend(others.paths(&["gateway"]));
    assert!(keys::load(&paths, &[Role::Api, Role::Gateway], &files.key).is_err());
}

#[test]
fn the_console_role_is_named_and_refused() {
    let program = Program::try_parse_from(["better-compute", "serve", "--data-dir", "/x", "--roles", "api,console"]);
    assert!(program.is_ok(), "the role is known");
    assert!(Program::try_parse_from(["better-compute", "serve", "--data-dir", "/x", "--roles", "apis"]).is_err());
}
