//! The main job, as a person does it: `dev`, the commands it prints, this very machine as a node, and a second
//! start that goes on where the first one ended.

use crate::dev::{Dev, interrupt};
use e2e::fleet::output;
use e2e::fleet::process::{Process, tail};
use e2e::wait;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

const SIMS: usize = 3;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

#[test]
fn the_main_job_works_as_pasted_and_a_second_start_resumes_it() {
    let dev = Dev::new(SIMS);
    let running = dev.start("dev-1.log");

    let nodes = dev.nodes();
    assert_eq!(nodes.len(), SIMS, "{nodes:?}");
    assert!(nodes.iter().all(|node| node["inventory"]["gpus"].as_array().is_some_and(|gpus| gpus.len() == 8)));
    let table = dev.type_in("better-compute nodes list");
    assert!(nodes.iter().all(|node| table.contains(text(&node["name"]))), "{table}");
    let node = text(&nodes[0]["id"]).to_owned();

    let watched = dev.path("watched");
    let watch = dev.command("better-compute");
    let watch = with_arguments(watch, &["events", "watch", "--after", "0"]);
    let watch = Process::spawn(watch, &watched).expect("a watch");

    let diag = dev.type_in_json(&format!("better-compute commands run {node} diag.nvml --wait"));
    assert_eq!((&diag["state"], &diag["attested"]), (&json!("succeeded"), &json!("verified")), "{diag}");
    let shown = dev.type_in(&format!("better-compute commands get {}", text(&diag["id"])));
    assert!(shown.contains("SUCCEEDED") && shown.contains("verified"), "{shown}");

    let reboot = dev.type_in_json(&format!("better-compute commands run {node} node.reboot --wait"));
    assert_eq!((&reboot["state"], &reboot["code"]), (&json!("succeeded"), &json!("rebooted")), "{reboot}");
    let again = dev.type_in_json(&format!("better-compute nodes get {node}"));
    assert_ne!(again["bootId"], nodes[0]["bootId"], "a new boot");
    assert_eq!(reboot["result"]["previousBootId"], nodes[0]["bootId"], "{reboot}");

    let listed = dev.type_in_json(&format!("better-compute commands list --node {node}"));
    let kinds: Vec<&str> = listed["items"].as_array().expect("items").iter().map(|item| text(&item["kind"])).collect();
    assert_eq!(kinds, ["node.reboot", "diag.nvml"], "newest first");

    wait::until("both commands in the watch", wait::LONG, || {
        let lines = std::fs::read_to_string(&watched)?;
        let settled = lines.lines().filter(|line| line.contains("command.settled")).count();
        Ok((settled >= 2).then_some(()))
    })
    .expect("a live watch");
    drop(watch);

    this_machine_joins(&dev);
    interrupt(running);

    let fleet_before = std::fs::read(dev.path("dev/dev.json")).expect("addresses");
    let running = dev.start("dev-2.log");
    assert_eq!(std::fs::read(dev.path("dev/dev.json")).expect("addresses"), fleet_before, "the same addresses");
    let ids = |nodes: &[Value]| nodes.iter().map(|node| text(&node["id"]).to_owned()).collect::<BTreeSet<_>>();
    let resumed = dev.nodes();
    assert_eq!(resumed.len(), SIMS + 1, "the same nodes, and this machine, which is away");
    assert!(ids(&nodes).is_subset(&ids(&resumed)));
    let kept = dev.type_in_json(&format!("better-compute commands get {}", text(&diag["id"])));
    assert_eq!(kept, diag, "what was settled stays as it was");
    let diag = dev.type_in_json(&format!("better-compute commands run {node} diag.nvml --wait"));
    assert_eq!(diag["attested"], "verified", "{diag}");
    interrupt(running);
}

fn with_arguments(mut command: Command, arguments: &[&str]) -> Command {
    command.args(arguments);
    command
}

/// A real `bcd`, joined with a token from its standard input, that says what is really here.
fn this_machine_joins(dev: &Dev) {
    dev.type_in("better-compute join-tokens create --pool dev --out ./token");
    let token = dev.path("token");
    assert_eq!(std::fs::metadata(&token).expect("a file").mode() & 0o777, 0o600);
    let config = dev.path("dev/node/config.toml");
    let mut join = dev.command("bcd");
    join.args(["join", "--config"]).arg(&config).stdin(std::fs::File::open(&token).expect("a token"));
    let joined = output(&mut join).expect("it joins");
    let id = joined.trim().strip_prefix("joined as ").unwrap_or_else(|| panic!("{joined}")).to_owned();

    let mut node = dev.command("bcd");
    node.args(["node", "--config"]).arg(&config);
    let log = dev.path("bcd.log");
    let mut node = Process::spawn(node, &log).expect("bcd starts");
    wait::until("this machine", wait::LONG, || {
        node.check()?;
        Ok(dev.nodes().iter().any(|node| node["id"] == *id && e2e::fleet::is_ready(node)).then_some(()))
    })
    .expect("it is ready");

    let refreshed = dev.type_in_json(&format!("better-compute commands run {id} inventory.refresh --wait"));
    assert_eq!(refreshed["state"], "succeeded", "{refreshed}");
    let shown = dev.type_in_json(&format!("better-compute nodes get {id}"));
    let inventory = &shown["inventory"];
    assert_eq!(refreshed["result"]["digest"], inventory["digest"], "the inventory shown is the one just collected");
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a hostname");
    assert_eq!(inventory["hostname"], hostname.trim());
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").expect("CPUs");
    let threads = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    assert_eq!(inventory["cpus"]["threads"], threads, "{inventory}");

    dev.type_in(&format!("better-compute commands run {id} logs.collect --wait --out logs.tar.zst"));
    let files = archive(&dev.path("logs.tar.zst"));
    let manifest = String::from_utf8(files.get("MANIFEST").expect("a manifest").clone()).expect("text");
    assert!(!manifest.trim().is_empty() && files.len() > 1, "{:?}\n{manifest}", files.keys());
    for name in files.keys().filter(|name| *name != "MANIFEST") {
        assert!(manifest.contains(name.as_str()), "{name} is not in the manifest:\n{manifest}");
    }

    let status = node.stop().expect("it ends");
    assert!(status.success(), "{status}\n{}", tail(&log));
}

/// Names and contents of a tar under zstd.
fn archive(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let file = std::fs::File::open(path).expect("an archive");
    let mut tar = tar::Archive::new(zstd::Decoder::new(file).expect("zstd"));
    let mut files = BTreeMap::new();
    for entry in tar.entries().expect("a tar") {
        let mut entry = entry.expect("an entry");
        let name = entry.path().expect("a name").display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("a body");
        files.insert(name, bytes);
    }
    files
}
