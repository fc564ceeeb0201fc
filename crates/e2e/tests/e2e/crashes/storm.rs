//! Kills at random moments while a client keeps sending commands with keys of its own and repeats what it got no
//! answer to.

use super::scene::check_command;
use anyhow::{Result, ensure};
use e2e::fleet::process::Process;
use e2e::fleet::{Fleet, Place, id_of};
use e2e::wait;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const NODES: u32 = 3;
/// Commands open at once: enough that most kills hit some.
const OPEN_MOST: usize = 12;
/// The longest time between an answer and the kill it waits for.
const DELAY_MOST: Duration = Duration::from_millis(400);

pub fn run(kills: usize) {
    let seed = rand::rng().next_u64();
    println!("seed {seed}");
    let fleet = Fleet::create().expect("a fleet");
    if let Err(error) = storm(&fleet, kills, seed) {
        panic!("seed {seed}: {error:#}");
    }
}

fn storm(fleet: &Fleet, kills: usize, seed: u64) -> Result<()> {
    let mut control_plane = fleet.start_control_plane()?;
    let place = fleet.place()?;
    let mut agent = fleet.start_sim(&place, NODES)?;
    let (answers, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let sent = std::thread::scope(|scope| {
        let load = scope.spawn(|| load(fleet, seed, &answers, &is_over));
        let killed = kill(fleet, &place, kills, seed, &answers, &mut control_plane, &mut agent);
        is_over.store(true, Ordering::Relaxed);
        let sent = load.join().expect("the client does not panic")?;
        killed.map(|()| sent)
    })?;
    fleet.wait_ready(NODES as usize, || Ok(()))?;
    println!("{} commands sent, {kills} kills", sent.len());
    for id in sent.values() {
        fleet.api.settled(id)?;
    }
    let stored = fleet.api.list("commands.list", json!({}))?;
    ensure!(stored.len() == sent.len(), "{} commands were sent and {} are stored", sent.len(), stored.len());
    let effects = fleet.effects()?;
    for command in &stored {
        ensure!(sent.values().any(|id| command["id"] == **id), "nobody sent {command}");
        check_command(&effects, command)?;
    }
    ensure!(fleet.api.nodes()?.len() == NODES as usize, "nodes were lost or doubled");
    Ok(())
}

/// Kills one of the two, each time after some more answers and a random while.
fn kill(
    fleet: &Fleet,
    place: &Place,
    kills: usize,
    seed: u64,
    answers: &AtomicUsize,
    control_plane: &mut Process,
    agent: &mut Process,
) -> Result<()> {
    let mut random = SmallRng::seed_from_u64(seed);
    for _ in 0..kills {
        let target = answers.load(Ordering::Relaxed) + random.random_range(1..=4);
        wait::until("answers to the client", wait::LONG, || {
            Ok((answers.load(Ordering::Relaxed) >= target).then_some(()))
        })?;
        std::thread::sleep(DELAY_MOST.mul_f64(random.random()));
        if random.random() {
            let again = || Process::spawn(fleet.control_plane(), &fleet.control_plane_log());
            replace(control_plane, again)?;
        } else {
            replace(agent, || Process::spawn(fleet.sim(place, NODES)?, &fleet.sim_log()))?;
        }
    }
    Ok(())
}

/// The old process is gone before the new one starts: both hold locks.
fn replace(process: &mut Process, again: impl FnOnce() -> Result<Process>) -> Result<()> {
    process.check()?;
    process.kill_now()?;
    *process = again()?;
    Ok(())
}

/// Sends until told otherwise. Answers every key with the id it became.
fn load(fleet: &Fleet, seed: u64, answers: &AtomicUsize, is_over: &AtomicBool) -> Result<BTreeMap<String, String>> {
    let mut random = SmallRng::seed_from_u64(!seed);
    let nodes: Vec<Value> = fleet.api.nodes()?;
    let mut sent = BTreeMap::new();
    let mut open: Vec<String> = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let node = &nodes[random.random_range(0..nodes.len())];
        let gpus = node["inventory"]["gpus"].as_array().map_or(0, Vec::len);
        let gpu = &node["inventory"]["gpus"][random.random_range(0..gpus.max(1))]["uuid"];
        let (kind, payload) = match random.random_range(0..10) {
            0..=4 => ("gpu.reset", json!({ "gpuUuids": [gpu] })),
            5..=6 => ("diag.nvml", Value::Null),
            7..=8 => ("inventory.refresh", Value::Null),
            _ => ("node.reboot", Value::Null),
        };
        let key = format!("load-{}", sent.len());
        let id = id_of(&fleet.api.run(&id_of(node)?, kind, payload, &key)?)?;
        answers.fetch_add(1, Ordering::Relaxed);
        sent.insert(key, id.clone());
        open.push(id);
        if open.len() > OPEN_MOST {
            let oldest = open.remove(0);
            fleet.api.settled(&oldest)?;
        }
    }
    Ok(sent)
}
