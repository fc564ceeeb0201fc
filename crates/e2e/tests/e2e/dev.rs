//! `better-compute dev` with a home of its own, for tests that use it as a person does.

use e2e::fleet::process::Process;
use e2e::fleet::scratch::Scratch;
use e2e::fleet::{free_port, output, programs};
use e2e::wait;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What `dev` prints once everything is up.
const UP: &str = "better-compute events watch";

pub struct Dev {
    scratch: Scratch,
    programs: PathBuf,
    ports: [u16; 2],
    sims: usize,
}

impl Dev {
    pub fn new(sims: usize) -> Self {
        let scratch = Scratch::new().expect("a folder");
        let ports = [free_port().expect("a port"), free_port().expect("a port")];
        Self { scratch, programs: programs().expect("programs"), ports, sims }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env_remove("BETTER_COMPUTE_URL")
            .env_remove("BETTER_COMPUTE_TOKEN")
            .env("PATH", std::env::join_paths([&self.programs]).expect("a path"))
            .current_dir(self.scratch.path());
        command
    }

    /// `better-compute dev` itself.
    pub fn dev(&self) -> Command {
        let mut command = self.command("better-compute");
        command
            .args(["dev", "--sim", &self.sims.to_string(), "--data-dir"])
            .arg(self.path("dev"))
            .args(["--listen", &format!("127.0.0.1:{}", self.ports[0])])
            .args(["--gateway-listen", &format!("127.0.0.1:{}", self.ports[1])]);
        command
    }

    pub fn is_up(&self, log: &str) -> bool {
        std::fs::read_to_string(self.path(log)).is_ok_and(|text| text.contains(UP))
    }

    /// Starts it and waits until it has printed what to paste.
    pub fn start(&self, log: &str) -> Process {
        let mut dev = Process::spawn(self.dev(), &self.path(log)).expect("dev starts");
        wait::until("what to paste", wait::LONG, || {
            dev.check()?;
            Ok(self.is_up(log).then_some(()))
        })
        .expect("dev comes up");
        dev
    }

    /// One command line, which must succeed; its standard output.
    pub fn type_in(&self, line: &str) -> String {
        let mut words = line.split(' ');
        let mut command = self.command(words.next().expect("a program"));
        output(command.args(words).stdin(Stdio::null())).expect("it succeeds")
    }

    pub fn type_in_json(&self, line: &str) -> Value {
        serde_json::from_str(&self.type_in(&format!("{line} --format json"))).expect("JSON")
    }

    pub fn nodes(&self) -> Vec<Value> {
        self.type_in_json("better-compute nodes list")["items"].as_array().expect("items").clone()
    }

    /// Waits until no process names a file of this home on its command line.
    pub fn wait_gone(&self) {
        let home = self.scratch.path().display().to_string();
        let names_it = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&home)
        };
        wait::until("the end of its processes", wait::LONG, || Ok((!parents().keys().any(names_it)).then_some(())))
            .expect("they end");
    }
}

/// Every process and the one that started it.
fn parents() -> BTreeMap<i32, i32> {
    let mut parents = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(child) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // Behind the name in parentheses: state, parent (proc_pid_stat(5)).
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse::<i32>().ok());
        parents.extend(parent.map(|parent| (child, parent)));
    }
    parents
}

/// All processes that `pid` started, and what those started.
fn descendants(pid: i32) -> BTreeSet<i32> {
    let parents = parents();
    let mut found = BTreeSet::from([pid]);
    let is_new = |found: &BTreeSet<i32>, child: i32, parent: i32| found.contains(&parent) && !found.contains(&child);
    while let Some((child, _)) = parents.iter().find(|(child, parent)| is_new(&found, **child, **parent)) {
        found.insert(*child);
    }
    found.remove(&pid);
    found
}

/// Ctrl-C, and everything is gone.
pub fn interrupt(mut dev: Process) {
    let started = descendants(dev.pid().as_raw());
    assert!(started.len() >= 2, "a control plane and simulated nodes: {started:?}");
    dev.signal(Signal::SIGINT).expect("it is there");
    let status = dev.wait_ended(wait::LONG).expect("it ends");
    assert!(status.success(), "{status}");
    let left: Vec<&i32> = started.iter().filter(|pid| Path::new(&format!("/proc/{pid}")).exists()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}
