//! Help texts and tables, word for word.

use crate::args::{Command, Format, Globals};
use api_types::*;
use clap::{CommandFactory, Parser};
use expect_test::{Expect, expect};
use serde_json::json;

#[derive(Parser)]
#[command(name = "better-compute", term_width = 100)]
struct Program {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

const NOW_MS: i64 = 1_796_126_400_000; // 2026-12-01T12:00:00Z

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
        Usage: better-compute [OPTIONS] <COMMAND>

        Commands:
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
          -h, --help  Print help (see more with '--help')

        Global options:
              --format <FORMAT>  How to print results [default: table] [possible values: table, json, yaml]
              --context <NAME>   Context to use instead of the selected one
              --tenant <ID>      Tenant to act for, when it is not the token's own
    "#]],
    );
}

#[test]
fn help_of_commands_run() {
    help(
        &["commands", "run"],
        expect![[r#"
        Send a command to a node

        Usage: better-compute commands run [OPTIONS] <NODE> <KIND>

        Arguments:
          <NODE>  Id or unique name of the node
          <KIND>  As `diag.nvml`, `node.reboot`, `inventory.refresh`, `gpu.reset`, `logs.collect`

        Options:
              --payload <JSON|@FILE>  The kind's request as JSON, or @FILE, or @- for standard input
              --wait                  Wait until the command is settled; the exit status is 0 only if it
                                      succeeded
              --timeout <SECONDS>     Seconds to wait at most; the command itself goes on
              --out <FILE>            Write the output that the result names (logs.collect) to this file,
                                      checked; needs --wait
              --not-after <SECONDS>   Seconds from now after which the command must not start [default: 300]
              --min-generation <N>    Spec generation the command presupposes
              --key <KEY>             Idempotency key: repeating a command with the same key has no second
                                      effect [default: random]
          -h, --help                  Print help (see more with '--help')

        Global options:
              --format <FORMAT>  How to print results [default: table] [possible values: table, json, yaml]
              --context <NAME>   Context to use instead of the selected one
              --tenant <ID>      Tenant to act for, when it is not the token's own
    "#]],
    );
}

#[test]
fn help_of_join_tokens_create() {
    help(
        &["join-tokens", "create"],
        expect![[r#"
        Make a join token

        Usage: better-compute join-tokens create [OPTIONS] --pool <POOL>

        Options:
              --pool <POOL>       Pool the node will belong to (id or unique name)
              --uses <N>          Machines that may join with it [default: 1]
              --ttl <SECONDS>     Seconds until it expires, 60 to 86400 [default: 3600]
              --expect-mac <MAC>  Only a machine with this MAC address may use it
              --allow-reclaim     A machine that is a node already may come back as the same node
              --out <FILE>        Write the token to a new 0600 file and do not print it
              --key <KEY>         Idempotency key: repeating a command with the same key has no second
                                  effect [default: random]
          -h, --help              Print help (see more with '--help')

        Global options:
              --format <FORMAT>  How to print results [default: table] [possible values: table, json, yaml]
              --context <NAME>   Context to use instead of the selected one
              --tenant <ID>      Tenant to act for, when it is not the token's own
    "#]],
    );
}

#[test]
fn help_of_events_watch() {
    help(
        &["events", "watch"],
        expect![[r#"
        Print events as they happen, one line each, until interrupted

        Usage: better-compute events watch [OPTIONS]

        Options:
              --topic <TOPIC>     A topic, or a prefix that ends in a dot, as `node.`
              --node <NODE>       Only those about this node (id or unique name)
              --after <POSITION>  Start after this position instead of now; 0 for the oldest kept event
          -h, --help              Print help (see more with '--help')

        Global options:
              --format <FORMAT>  How to print results [default: table] [possible values: table, json, yaml]
              --context <NAME>   Context to use instead of the selected one
              --tenant <ID>      Tenant to act for, when it is not the token's own
    "#]],
    );
}

fn parse(line: &str) -> Result<Program, clap::Error> {
    Program::try_parse_from(line.split(' '))
}

#[test]
fn what_the_issue_pastes_parses() {
    for line in [
        "better-compute nodes list",
        "better-compute commands run NODE diag.nvml --wait",
        "better-compute commands list --node NODE",
        "better-compute events watch",
        "better-compute join-tokens create --pool dev --out ./token",
        "better-compute commands run NODE logs.collect --wait --out logs.tar.zst",
        "better-compute --format yaml commands list --state running",
        "better-compute commands run n gpu.reset --payload {} --wait --timeout 5 --not-after 60 --key k",
    ] {
        assert!(parse(line).is_ok(), "{line}");
    }
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    for line in [
        "better-compute nodes",
        "better-compute commands run NODE",
        "better-compute commands run NODE logs.collect --out x",
        "better-compute commands list --state sleeping",
        "better-compute join-tokens create",
        "better-compute --format xml nodes list",
    ] {
        let error = parse(line).err().unwrap_or_else(|| panic!("{line}"));
        assert_eq!(error.exit_code(), 2, "{line}");
    }
}

fn node() -> Node {
    serde_json::from_value(json!({
        "id": "node_01", "name": "gpu-a\u{1b}[31m", "tenantId": "root", "siteId": "site_1", "poolId": "pool_1", "role": "node",
        "lifecycle": "ready", "connection": {"state": "connected", "connectedSince": "2026-12-01T11:58:00.000Z"},
        "daemonVersion": "0.1.0", "bootId": "b1", "generations": {"desired": 1, "applied": 1, "observed": 1},
        "conditions": [{"kind": "JournalFull", "reason": "bytes", "message": "64 MiB used", "since": "2026-12-01T11:00:00.000Z"}],
        "createdAt": "2026-12-01T00:00:00.000Z",
        "inventory": {
            "digest": "aa", "hostname": "gpu-a", "os": {"name": "Debian 13", "kernel": "6.12", "architecture": "x86_64"},
            "firmware": {"vendor": "ACME", "product": "HGX", "productUuid": "", "productSerial": ""},
            "cpus": {"model": "EPYC", "sockets": 2, "cores": 64, "threads": 128, "numaNodes": 2},
            "memoryBytes": 2_199_023_255_552_u64, "driverVersion": "580.1", "gpus": [
                {"uuid": "GPU-1", "name": "NVIDIA H100", "pciAddress": "0000:01:00.0", "memoryBytes": 85_899_345_920_u64, "migEnabled": true,
                 "migInstances": [{"uuid": "MIG-1", "profile": "1g.10gb", "gpuInstanceId": 1, "computeInstanceId": 0}]},
                {"uuid": "GPU-2", "name": "NVIDIA H100", "pciAddress": "0000:02:00.0", "migInstances": []}],
            "nics": [{"name": "eth0", "mac": "02:00:00:00:00:01", "state": "up", "speedMbps": 100000}],
            "disks": [{"name": "nvme0n1", "model": "M", "serial": "S", "sizeBytes": 1_000_000_000_000_u64, "transport": "nvme"}],
            "problems": []
        }
    }))
    .expect("a node")
}

#[test]
fn a_list_of_nodes_shows_their_gpus_and_no_control_characters() {
    let mut lost = node();
    lost.inventory = None;
    lost.connection = Connection {
        state: ConnectionState::Lost,
        connected_since: None,
        lost_since: Some("2026-12-01T09:00:00Z".into()),
    };
    expect![[r#"
        ID       NAME        LIFECYCLE  CONNECTION    ROLE  VERSION  GPUS
        node_01  gpu-a�[31m  ready      connected 2m  node  0.1.0    2 x NVIDIA H100, 1 with MIG
        node_01  gpu-a�[31m  ready      lost 3h       node  0.1.0    (no inventory yet)
    "#]]
    .assert_eq(&crate::nodes::list(&[node(), lost], NOW_MS));
    expect![[r#"
        none
    "#]]
    .assert_eq(&crate::nodes::list(&[], NOW_MS));
}

#[test]
fn a_node_in_full() {
    expect![[r#"
        id           node_01
        name         gpu-a�[31m
        role         node
        lifecycle    ready
        connection   connected 2m
        site         site_1
        pool         pool_1
        daemon       0.1.0
        boot         b1
        generations  desired 1, applied 1, observed 1
        conditions   JournalFull (bytes) for 1h: 64 MiB used
        machine      ACME HGX
        system       Debian 13, kernel 6.12 (x86_64)
        cpus         EPYC (2 sockets, 64 cores, 128 threads, 2 NUMA nodes)
        memory       2.0 TiB
        gpu driver   580.1
        gpus         GPU-1  NVIDIA H100  0000:01:00.0  80.0 GiB
                       MIG-1  MIG 1g.10gb
                     GPU-2  NVIDIA H100  0000:02:00.0
        disks        nvme0n1  931.3 GiB  M  nvme
        nics         eth0  02:00:00:00:00:01  up  100000 Mb/s
    "#]]
    .assert_eq(&crate::nodes::one(&node(), NOW_MS));
}

fn command() -> Command_ {
    serde_json::from_value(json!({
        "id": "01J", "tenantId": "root", "nodeId": "node_01", "seq": 3, "kind": "diag.nvml", "lane": "control", "state": "succeeded",
        "outcome": "succeeded", "code": "", "message": "", "result": {"driverVersion": "580.1"}, "attested": "verified", "attempts": 1,
        "minGeneration": 0, "cancelRequested": false, "createdAt": "2026-12-01T11:59:30.000Z", "notAfter": "2026-12-01T12:04:30.000Z"
    }))
    .expect("a command")
}
use api_types::Command as Command_;

#[test]
fn a_settled_command_says_its_state_and_whether_its_result_is_proven() {
    expect![[r#"
        id        01J
        node      node_01
        kind      diag.nvml
        state     SUCCEEDED
        attested  verified
        attempts  1
        created   30s ago
        result    {
                    "driverVersion": "580.1"
                  }
    "#]]
    .assert_eq(&crate::commands::one(&command(), NOW_MS));
    let mut pending = command();
    (pending.state, pending.result, pending.code) = (CommandState::Pending, None, None);
    pending.attested = Attested::None;
    expect![[r#"
        ID   NODE     KIND       STATE      CODE  ATTESTED  AGE
        01J  node_01  diag.nvml  SUCCEEDED        verified  30s
        01J  node_01  diag.nvml  PENDING          none      30s
    "#]]
    .assert_eq(&crate::commands::list(&[command(), pending], NOW_MS));
}

#[test]
fn an_event_is_one_line() {
    let event = Event {
        position: 41,
        topic: "node.connected".into(),
        tenant_id: "root".into(),
        key: "node_01".into(),
        node_id: Some("node_01".into()),
        at: "2026-12-01T11:59:30.120Z".into(),
        payload: json!({"epoch": 3, "text": "a\nb"}),
    };
    expect![[r#"     41 11:59:30.120 node.connected         node_01 {"epoch":3,"text":"a\nb"}"#]]
        .assert_eq(&crate::events::line(&event));
    expect![[r#"
        POSITION  AT                        TOPIC           KEY      PAYLOAD
        41        2026-12-01T11:59:30.120Z  node.connected  node_01  {"epoch":3,"text":"a\nb"}
    "#]]
    .assert_eq(&crate::events::list(&[event]));
}

#[test]
fn a_join_token_is_shown_only_when_the_answer_has_it() {
    let token: JoinToken = serde_json::from_value(json!({
        "id": "jt_1", "tenantId": "root", "siteId": "site_1", "poolId": "pool_1", "role": "node", "usesLeft": 3, "maxUses": 4,
        "allowReclaim": false, "createdAt": "2026-12-01T12:00:00Z", "expiresAt": "2026-12-01T13:00:00Z", "token": "bcjt_1.s"
    }))
    .expect("a token");
    expect![[r#"
        id         jt_1
        role       node
        site       site_1
        pool       pool_1
        uses left  3 of 4
        expires    in 1h
        token      bcjt_1.s
    "#]]
    .assert_eq(&crate::access::one_join(&token, NOW_MS));
    assert!(!crate::access::list_join(&[token], NOW_MS).contains("bcjt_"));
}

#[test]
fn a_refusal_shows_the_ids_an_ambiguous_name_stands_for() {
    let error = ApiError {
        code: ErrorCode::InvalidInput,
        message: "two nodes are named gpu".into(),
        details: json!({"ids": ["node_1", "node_2"]}),
        request_id: "req_1".into(),
    };
    let error = crate::CliError::from(client::ClientError::Refused(Box::new(error)));
    assert_eq!(error.exit_status(), 1);
    assert_eq!(error.hints(), ["ids: node_1, node_2"]);
}

#[test]
fn yaml_and_json_are_the_apis_own_shapes() {
    assert_eq!(Globals::default().format, Format::Table);
    let value = serde_json::to_value(command()).expect("json");
    let yaml = serde_saphyr::to_string(&value).expect("yaml");
    assert!(yaml.contains("nodeId: node_01") && yaml.contains("driverVersion: "), "{yaml}");
}
