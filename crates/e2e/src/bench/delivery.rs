//! The round trip of a command, from the API's request until the API says that it is settled: API, store, gateway,
//! network, journal, host, and back. And what an idle `bcd node` costs its machine.

use super::journal::{Appender, rounded};
use super::samples::Samples;
use crate::fleet::api::{Connection, is_settled};
use crate::fleet::process::Process;
use crate::fleet::scratch::Scratch;
use crate::fleet::{Fleet, Place, id_of, is_ready, output};
use crate::wait;
use anyhow::{Context, Result};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

const FLEETS: [u32; 2] = [3, 300];
/// Commands of one kind, one after the other, over all nodes in turn.
const COMMANDS: usize = 300;
const COMMANDS_WARM: usize = 20;
/// Appends to a journal of our own on the same disk, before and after each fleet, while none runs: what a fleet
/// still writes behind a command would slow them, and flatter the ratio.
const APPENDS: usize = 500;
/// Between two looks at a command; far below a round trip.
const LOOK_EVERY: Duration = Duration::from_micros(300);
/// `inventory.refresh` is settled by its update; `diag.nvml` once its signature is verified.
const KINDS: [&str; 2] = ["inventory.refresh", "diag.nvml"];
/// Memory is read once it has not changed for so many looks.
const STEADY_LOOKS: usize = 10;
const MEMORY_LOOK_EVERY: Duration = Duration::from_secs(1);
const JOIN_WITHIN: Duration = Duration::from_secs(300);

struct Trips {
    nodes: u32,
    kinds: Vec<Trip>,
}

struct Trip {
    kind: &'static str,
    /// Until the API has answered that it stored the command.
    stored: Samples,
    /// Until the API says that it is settled.
    settled: Samples,
}

pub fn run(directory: &Path) -> Result<()> {
    let mut trips = Vec::new();
    let mut disk = Samples::default();
    let mut idle = None;
    for count in FLEETS {
        let fleet = Fleet::create_in(Scratch::new_in(directory)?)?;
        let mut journal = Appender::open(&fleet.dir().join("compared"))?;
        journal.append(APPENDS, &mut disk)?;
        let mut control_plane = fleet.start_control_plane()?;
        let place = fleet.place()?;
        if idle.is_none() {
            idle = Some(idle_memory(&fleet, &place)?);
        }
        let sims = start(&fleet, &place, count, &mut control_plane)?;
        trips.push(Trips { nodes: count, kinds: measure(&fleet, count)? });
        sims.stop()?;
        control_plane.stop()?;
        journal.append(APPENDS, &mut disk)?;
    }
    let idle_bytes = idle.context("no fleet was measured")?;
    let size = std::fs::metadata(crate::fleet::programs()?.join("bcd"))?.len();
    print(&trips, &disk, idle_bytes, size)
}

fn start(fleet: &Fleet, place: &Place, count: u32, control_plane: &mut Process) -> Result<Process> {
    fleet.write_token(&fleet.join_token(place, count, "sims")?)?;
    let mut sims = Process::spawn(fleet.sim(place, count)?, &fleet.sim_log())?;
    let begun = Instant::now();
    wait::until("the simulated nodes", JOIN_WITHIN, || {
        sims.check()?;
        control_plane.check()?;
        let ready = sim_nodes(fleet)?.len();
        Ok((ready >= count as usize).then_some(()))
    })?;
    eprintln!("{count} nodes joined and were ready after {:.1} s", begun.elapsed().as_secs_f64());
    Ok(sims)
}

fn sim_nodes(fleet: &Fleet) -> Result<Vec<Value>> {
    let is_sim = |node: &Value| node["name"].as_str().is_some_and(|name| name.starts_with("sim-"));
    Ok(fleet.api.nodes()?.into_iter().filter(|node| is_sim(node) && is_ready(node)).collect())
}

fn measure(fleet: &Fleet, count: u32) -> Result<Vec<Trip>> {
    let nodes: Vec<String> = sim_nodes(fleet)?.iter().map(id_of).collect::<Result<_>>()?;
    let mut api = fleet.api.connect()?;
    let mut all = Vec::new();
    for kind in KINDS {
        let mut trip = Trip { kind, stored: Samples::default(), settled: Samples::default() };
        for number in 0..COMMANDS_WARM + COMMANDS {
            let node = &nodes[number % nodes.len()];
            let (stored, settled) = round_trip(&mut api, node, kind, &format!("{kind}-{number}"))?;
            if number >= COMMANDS_WARM {
                trip.stored.push(stored);
                trip.settled.push(settled);
            }
        }
        eprintln!("{count} nodes, {kind}: p50 {:.0} us", trip.settled.p50());
        all.push(trip);
    }
    Ok(all)
}

/// Until the API has stored it, and until it is settled.
fn round_trip(api: &mut Connection, node: &str, kind: &str, key: &str) -> Result<(Duration, Duration)> {
    let request = json!({ "nodeId": node, "kind": kind, "idempotencyKey": key });
    let begun = Instant::now();
    let mut command = api.must("commands.run", &request)?;
    let stored = begun.elapsed();
    let look = json!({ "commandId": id_of(&command)? });
    while !is_settled(&command) {
        std::thread::sleep(LOOK_EVERY);
        command = api.must("commands.get", &look)?;
    }
    let settled = begun.elapsed();
    anyhow::ensure!(command["state"] == "succeeded", "it did not succeed: {command}");
    Ok((stored, settled))
}

/// Resident bytes of a real `bcd node` that is connected and has nothing to do.
fn idle_memory(fleet: &Fleet, place: &Place) -> Result<u64> {
    let config = fleet.node_config(place)?;
    let token = fleet.join_token(place, 1, "idle")?;
    let mut join = std::process::Command::new(fleet.program("bcd"));
    output(join.args(["join", "--config"]).arg(&config).env("BCD_JOIN_TOKEN", token))?;
    let mut node = std::process::Command::new(fleet.program("bcd"));
    node.args(["node", "--config"]).arg(&config);
    let mut node = Process::spawn(node, &fleet.dir().join("bcd.log"))?;
    fleet.wait_ready(1, || node.check())?;
    let (mut last, mut steady) = (0, 0);
    while steady < STEADY_LOOKS {
        std::thread::sleep(MEMORY_LOOK_EVERY);
        node.check()?;
        let now = resident(node.pid())?;
        steady = if now == last { steady + 1 } else { 0 };
        last = now;
    }
    node.stop()?;
    Ok(last)
}

fn resident(pid: Pid) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib << 10)
}

fn print(trips: &[Trips], disk: &Samples, idle_bytes: u64, size: u64) -> Result<()> {
    println!(
        "a command from request to settled, {COMMANDS} each, one at a time; an append is one of 300 bytes, fsynced\n"
    );
    println!("{:<28} {:>10} {:>9} {:>9} {:>11} {:>11}", "", "stored p50", "p50 us", "p99 us", "/ p50 append", "/ mean");
    let mut figures = serde_json::Map::new();
    for Trips { nodes, kinds } in trips {
        for Trip { kind, stored, settled } in kinds {
            let (p50, p99) = (settled.p50(), settled.p99());
            let (appends, appends_mean) = (p50 / disk.p50(), p50 / disk.mean());
            let name = format!("{kind}, {nodes} nodes");
            println!("{name:<28} {:>10.0} {p50:>9.0} {p99:>9.0} {appends:>11.1} {appends_mean:>11.1}", stored.p50());
            let each = json!({
                "storedUsP50": rounded(stored.p50()), "p50Us": rounded(p50), "p99Us": rounded(p99),
                "p50InAppends": rounded(appends), "p50InMeanAppends": rounded(appends_mean),
            });
            figures.insert(format!("{kind}/{nodes}"), each);
        }
    }
    println!("{:<28} {:>10} {:>9.0} {:>9.0}", "an append", "", disk.p50(), disk.p99());
    let mib = idle_bytes as f64 / f64::from(1 << 20);
    println!("\nround trip at 3 nodes: the goal is 20 appends or less at p50");
    println!("an idle bcd node: {mib:.1} MiB resident (goal: 14 MiB)");
    println!("bcd, stripped: {:.1} MB (goal: 12 MB)", size as f64 / 1e6);
    let line = json!({
        "bench": "delivery",
        "commands": COMMANDS,
        "roundTrips": figures,
        "appendUsP50": rounded(disk.p50()),
        "appendUsMean": rounded(disk.mean()),
        "idleNodeResidentBytes": idle_bytes,
        "bcdStrippedBytes": size,
    });
    println!("{line}");
    Ok(())
}
