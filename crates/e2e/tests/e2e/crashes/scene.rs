//! One short life of a fleet: a node joins, resets a GPU, diagnoses its GPUs, sends its logs, reboots. One of the two processes is
//! supervised and may be killed once; it is started again at once. Then everything is compared with what may be.

use anyhow::{Context, Result, ensure};
use e2e::fleet::api::is_settled;
use e2e::fleet::process::{Process, redirect, tail};
use e2e::fleet::{Effect, Fleet, Place, id_of};
use e2e::supervisor::{Ending, KillAt, Report, Supervised};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    Agent,
    ControlPlane,
}

/// A process that is started again, unsupervised, when its supervisor killed it.
struct Restarted {
    supervised: Supervised,
    next: Arc<Mutex<Next>>,
    log: PathBuf,
}

#[derive(Default)]
struct Next {
    is_over: bool,
    started: Option<Result<Process>>,
}

impl Restarted {
    fn start(make: impl Fn() -> Result<Command> + Send + 'static, log: &Path, kill_at: KillAt) -> Result<Self> {
        let next = Arc::new(Mutex::new(Next::default()));
        let mut command = make()?;
        redirect(&mut command, log)?;
        let (shared, again) = (next.clone(), log.to_owned());
        let supervised = Supervised::spawn_then(command, kill_at, move |report| {
            let mut next = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if report.killed && !next.is_over {
                next.started = Some(make().and_then(|command| Process::spawn(command, &again)));
            }
        })?;
        Ok(Self { supervised, next, log: log.to_owned() })
    }

    /// Ends whichever process runs, in order, and answers what the supervisor saw.
    fn finish(self) -> Result<Report> {
        let started = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            next.is_over = true;
            next.started.take()
        };
        match started {
            Some(process) => {
                let status = process?.stop()?;
                // It may have been started a moment ago, and not listen for signals yet.
                let is_fine = status.success() || status.signal() == Some(Signal::SIGTERM as i32);
                ensure!(is_fine, "the second process ended badly, {status}:\n{}", tail(&self.log));
            }
            None => self.supervised.signal(Signal::SIGTERM),
        }
        e2e::wait::until("the end of the supervised process", e2e::wait::LONG, || {
            Ok(self.supervised.is_over().then_some(()))
        })?;
        let report = self.supervised.wait()?;
        let is_expected = report.killed || report.ending == Ending::Exited(0);
        ensure!(is_expected, "it ended by itself, {:?}:\n{}", report.ending, tail(&self.log));
        Ok(report)
    }
}

enum Actor {
    Plain(Process),
    Victim(Restarted),
}

impl Actor {
    fn start(make: impl Fn() -> Result<Command> + Send + 'static, log: &Path, kill_at: Option<KillAt>) -> Result<Self> {
        Ok(match kill_at {
            Some(kill_at) => Self::Victim(Restarted::start(make, log, kill_at)?),
            None => Self::Plain(Process::spawn(make()?, log)?),
        })
    }

    fn finish(self) -> Result<Option<Report>> {
        match self {
            Self::Victim(victim) => victim.finish().map(Some),
            Self::Plain(process) => {
                let status = process.stop()?;
                ensure!(status.success(), "a process that nobody killed ended badly: {status}");
                Ok(None)
            }
        }
    }
}

/// Plays the scene in a copy of `template`, and answers what the supervisor saw of the victim. The folder stays
/// behind a failure.
pub fn play(template: &Fleet, victim: Victim, kill_at: KillAt) -> Result<Report> {
    let fleet = Arc::new(template.copy()?);
    act(&fleet, victim, kill_at).map_err(|error| {
        let kept = fleet.keep();
        error.context(format!("{victim:?}, {kill_at:?}; the folder is kept: {}", kept.display()))
    })
}

fn act(fleet: &Arc<Fleet>, victim: Victim, kill_at: KillAt) -> Result<Report> {
    let kill_of = |actor: Victim| (actor == victim).then_some(kill_at);
    let shared = fleet.clone();
    let make = move || Ok(shared.control_plane());
    let control_plane = Actor::start(make, &fleet.control_plane_log(), kill_of(Victim::ControlPlane))?;
    fleet.wait_answers(|| Ok(()))?;
    let place = fleet.place()?;
    fleet.write_token(&fleet.join_token(&place, 1, "scene")?)?;
    let (shared, there) = (fleet.clone(), place.clone());
    let agent = Actor::start(move || shared.sim(&there, 1), &fleet.sim_log(), kill_of(Victim::Agent))?;
    commands(fleet)?;
    // The nodes first, so that their sessions end in order.
    let reports = [agent.finish()?, control_plane.finish()?];
    let report = reports.into_iter().flatten().next().context("nobody was supervised")?;
    if report.killed {
        afterwards(fleet, &place)?;
    }
    Ok(report)
}

/// One command after the other, each retried with its key until the API has it, and waited for.
fn commands(fleet: &Fleet) -> Result<()> {
    let node = fleet.wait_ready(1, || Ok(()))?.remove(0);
    let id = id_of(&node)?;
    let gpu = node["inventory"]["gpus"][0]["uuid"].clone();
    ensure!(gpu.is_string(), "the node has no GPU: {node}");
    let orders = [
        ("gpu.reset", json!({ "gpuUuids": [gpu] })),
        ("diag.nvml", Value::Null),
        ("logs.collect", Value::Null),
        ("node.reboot", json!({ "reason": "a test" })),
    ];
    let sent: Vec<String> = orders
        .iter()
        .map(|(kind, payload)| id_of(&fleet.api.run(&id, kind, payload.clone(), kind)?))
        .collect::<Result<_>>()?;
    sent.iter().try_for_each(|id| fleet.api.settled(id).map(|_| ()))?;
    check(fleet)
}

/// What may be, whatever happened.
fn check(fleet: &Fleet) -> Result<()> {
    let nodes = fleet.api.nodes()?;
    ensure!(nodes.len() == 1, "one machine joined as {} nodes: {nodes:?}", nodes.len());
    let commands = fleet.api.list("commands.list", json!({}))?;
    ensure!(commands.len() == 4, "four commands became {}: {commands:?}", commands.len());
    let effects = fleet.effects()?;
    commands.iter().try_for_each(|command| check_command(&effects, command))?;
    let logs = commands.iter().find(|command| command["kind"] == "logs.collect").context("no logs")?;
    let digest = logs["result"]["blobSha256"].as_str().context("no digest")?;
    let blob = fleet.api.connect()?.blob(digest)?;
    ensure!(stdx::hex::sha256_hex(&blob) == digest, "the blob is not the one that was sent");
    Ok(())
}

/// A command is over, its result is there, and it acted at most once, exactly once if it says so.
pub fn check_command(effects: &[Effect], command: &Value) -> Result<()> {
    let (id, state) = (id_of(command)?, command["state"].as_str().unwrap_or_default());
    ensure!(is_settled(command), "it is not settled: {command}");
    let own: Vec<&Effect> = effects.iter().filter(|effect| effect.command_id == id).collect();
    match command["kind"].as_str().unwrap_or_default() {
        "gpu.reset" => {
            ensure!(own.len() <= 1, "it acted {} times: {command}", own.len());
            let is_interrupted = state == "failed" && command["code"] == "interrupted";
            ensure!(state == "succeeded" || is_interrupted, "an odd end: {command}");
            ensure!(is_interrupted || own.len() == 1, "it succeeded without acting: {command}");
        }
        // Retry-safe: asked for again as long as the boot it was asked in lasts, never in the next one. Another
        // reboot of the same boot completes it too.
        "node.reboot" => {
            let boots: BTreeSet<&str> = own.iter().map(|effect| effect.boot_id.as_str()).collect();
            ensure!(boots.len() <= 1, "it rebooted {} times: {command}", boots.len());
            ensure!(state == "succeeded" && command["code"] == "rebooted", "an odd end: {command}");
            // Absent where the node never had it: the control plane saw a new boot at the next session.
            let previous = &command["result"]["previousBootId"];
            let is_of = |effect: &Effect| previous.is_null() || *previous == effect.boot_id;
            let ended = |effect: &Effect| effect.what == "reboot" && is_of(effect);
            ensure!(!own.is_empty() || effects.iter().any(ended), "it succeeded without a reboot: {command}");
        }
        _ => {
            ensure!(own.is_empty(), "it has no business acting: {command}");
            ensure!(state == "succeeded", "nothing may keep it from succeeding: {command}");
        }
    }
    if state == "succeeded" && command["kind"] == "diag.nvml" {
        ensure!(command["attested"] == "verified", "it is not attested: {command}");
        ensure!(command["result"].is_object(), "its result is lost: {command}");
    }
    Ok(())
}

/// After a kill at the very end: both come back, and nothing has changed.
fn afterwards(fleet: &Fleet, place: &Place) -> Result<()> {
    let control_plane = fleet.start_control_plane()?;
    let agent = Process::spawn(fleet.sim(place, 1)?, &fleet.sim_log())?;
    fleet.wait_ready(1, || Ok(()))?;
    check(fleet)?;
    agent.stop()?;
    control_plane.stop()?;
    Ok(())
}
