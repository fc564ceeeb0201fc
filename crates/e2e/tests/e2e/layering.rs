//! The layers of ARCHITECTURE.md, held over `cargo metadata`: arrows only go up, the two sides meet only in
//! the vocabulary and the wire, and the cores see neither a runtime nor protobuf nor SQL.

use crate::tree::cargo;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Which half of the system a crate runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Both,
    ControlPlane,
    Node,
    People,
    /// May look at everything, and nothing that runs may look at it.
    Tests,
}

/// From the top down: a crate uses crates of its own layer and of those above.
const LAYERS: &[(Side, &[&str])] = &[
    (Side::Both, &["model", "stdx"]),
    (Side::Both, &["proto", "pki", "api-types"]),
    (Side::Node, &["node-core"]),
    (Side::ControlPlane, &["kernel"]),
    (Side::ControlPlane, &["mod-capacity"]),
    (Side::ControlPlane, &["gateway", "api", "controllers"]),
    (Side::Node, &["fakehw", "journal", "host", "agent"]),
    (Side::People, &["client", "cli"]),
    (Side::ControlPlane, &["better-compute"]),
    (Side::Node, &["bcd"]),
    (Side::Tests, &["simtest", "fuzzing", "e2e", "xtask"]),
];

/// Cores that decide and do nothing else: no runtime, no protobuf, no SQL, no TLS.
const PURE: &[&str] = &["model", "node-core"];
const IMPURE: &[&str] = &["tokio", "prost", "tonic", "rusqlite", "libsqlite3-sys", "rustls", "hyper", "reqwest"];

struct Workspace {
    /// Name to the names it is built from, in the whole tree; dev-dependencies are left out.
    uses: BTreeMap<String, BTreeSet<String>>,
    members: BTreeSet<String>,
}

impl Workspace {
    fn read() -> Self {
        // One platform: the packages of others need not be on this machine.
        let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let arguments = ["metadata", "--format-version", "1", "--offline", "--filter-platform", &platform];
        let output = cargo().args(arguments).output().expect("cargo metadata starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self::of(&serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON"))
    }

    fn of(metadata: &Value) -> Self {
        let text = |value: &Value| value.as_str().expect("a string").to_owned();
        let list = |value: &Value| value.as_array().expect("an array").clone();
        let names: BTreeMap<String, String> =
            list(&metadata["packages"]).iter().map(|package| (text(&package["id"]), text(&package["name"]))).collect();
        let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for node in list(&metadata["resolve"]["nodes"]) {
            let built_from = list(&node["deps"]).into_iter().filter(|dependency| {
                list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].as_str() != Some("dev"))
            });
            let built_from = built_from.map(|dependency| names[&text(&dependency["pkg"])].clone());
            uses.entry(names[&text(&node["id"])].clone()).or_default().extend(built_from);
        }
        let members = list(&metadata["workspace_members"]).iter().map(|id| names[&text(id)].clone()).collect();
        Self { uses, members }
    }

    /// Everything `name` is built from, however far down.
    fn all_of(&self, name: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut open = vec![name.to_owned()];
        while let Some(name) = open.pop() {
            for used in self.uses.get(&name).into_iter().flatten() {
                if found.insert(used.clone()) {
                    open.push(used.clone());
                }
            }
        }
        found
    }
}

fn place(name: &str) -> Option<(usize, Side)> {
    let row = LAYERS.iter().position(|(_, crates)| crates.contains(&name))?;
    Some((row, LAYERS[row].0))
}

/// What is wrong with the arrows of `workspace`, one line each.
fn violations(workspace: &Workspace) -> Vec<String> {
    let mut wrong = Vec::new();
    for name in &workspace.members {
        let Some((row, side)) = place(name) else {
            wrong.push(format!("{name} has no layer"));
            continue;
        };
        for used in workspace.uses.get(name).into_iter().flatten() {
            if let Some((other, Side::Tests)) = place(used)
                && side != Side::Tests
            {
                wrong.push(format!("{name} uses {used}, of layer {other}, which is for tests"));
            } else if let Some((other, _)) = place(used)
                && other > row
            {
                wrong.push(format!("{name} uses {used}, which is below it"));
            }
        }
        for used in workspace.all_of(name) {
            match (side, place(&used).map(|(_, side)| side)) {
                (Side::ControlPlane, Some(Side::Node))
                | (Side::Node | Side::People, Some(Side::ControlPlane))
                | (Side::Node, Some(Side::People))
                | (Side::People, Some(Side::Node)) => {
                    wrong.push(format!("{name} is built from {used}, of the other side"));
                }
                _ => {}
            }
        }
        if PURE.contains(&name.as_str()) {
            let all = workspace.all_of(name);
            let impure = IMPURE.iter().filter(|impure| all.contains(**impure));
            wrong.extend(impure.map(|impure| format!("{name} is pure and is built from {impure}")));
        }
    }
    wrong
}

#[test]
fn arrows_only_go_up_and_the_two_sides_meet_only_in_the_wire() {
    let wrong = violations(&Workspace::read());
    assert!(wrong.is_empty(), "see the layers in ARCHITECTURE.md:\n{}", wrong.join("\n"));
}

#[test]
fn an_arrow_across_or_down_is_seen() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let check = |name: &str, used: &str, expected: &str| {
        let uses = BTreeMap::from([(name.to_owned(), set(&[used])), ("tower".to_owned(), set(&["tokio"]))]);
        let wrong = violations(&Workspace { uses, members: set(&[name]) });
        assert!(wrong.iter().any(|line| line == expected), "{name} uses {used}: {wrong:?}");
    };
    check("kernel", "gateway", "kernel uses gateway, which is below it");
    check("gateway", "journal", "gateway is built from journal, of the other side");
    check("agent", "kernel", "agent is built from kernel, of the other side");
    check("node-core", "tower", "node-core is pure and is built from tokio");
    check("agent", "e2e", "agent uses e2e, of layer 10, which is for tests");
    check("newcomer", "model", "newcomer has no layer");
}
