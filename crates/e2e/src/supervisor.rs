//! A ptrace supervisor: runs a program, sees every durable call of all its threads in the order in which the
//! kernel stops them, and kills the process with SIGKILL right before or right after one of them.
//!
//! ```text
//! exec ──▶ running ──durable call k──▶ stopped at its entry ──▶ running            (any other k)
//!                                          ├─ SIGKILL                               Before(k)
//!                                          └─ run to its exit, stopped ─ SIGKILL    After(k)
//! ```
//!
//! Stops cost only at those calls: a seccomp filter names them and the kernel stops nothing else (seccomp(2),
//! `SECCOMP_RET_TRACE`). Children are traced, for under the filter their calls would fail without a tracer, but
//! they are not counted and not killed.
//!
//! SIGKILL keeps the page cache: this finds wrong orders and missing recovery, never a missing fsync.

mod filter;
mod trace;

pub use filter::DurableCall;

use anyhow::{Context, Result};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// At which durable call, counted from 1, the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillAt {
    /// It runs untouched.
    Never,
    /// The call is not carried out.
    Before(usize),
    /// The call returned inside the kernel; the process has not run since.
    After(usize),
}

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Exited(i32),
    Signaled(Signal),
}

/// What a supervised run was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The durable calls in order, the one that was killed at included.
    pub calls: Vec<DurableCall>,
    pub ending: Ending,
    /// Whether the process was killed at the call that was asked for.
    pub killed: bool,
}

/// A process that runs under the supervisor.
#[derive(Debug)]
pub struct Supervised {
    pid: Pid,
    seen: Arc<AtomicUsize>,
    /// `None` once it was waited for.
    tracer: Option<JoinHandle<Result<Report>>>,
}

impl Supervised {
    /// Starts `command`. Its tracer is a thread of its own, for only the thread that attached may ask for
    /// anything (ptrace(2)).
    pub fn spawn(command: Command, kill_at: KillAt) -> Result<Self> {
        Self::spawn_then(command, kill_at, |_| {})
    }

    /// As [`Supervised::spawn`]; `ended` runs as soon as the process has ended, on the tracer's thread.
    pub fn spawn_then(
        mut command: Command,
        kill_at: KillAt,
        ended: impl FnOnce(&Report) + Send + 'static,
    ) -> Result<Self> {
        let seen = Arc::new(AtomicUsize::new(0));
        let counter = seen.clone();
        let (pid_tx, pid_rx) = mpsc::channel();
        let tracer = std::thread::Builder::new().name("tracer".to_owned()).spawn(move || {
            let started = start(&mut command);
            match started {
                Ok(pid) => {
                    pid_tx.send(Ok(pid)).context("nobody waits for the start")?;
                    let report = trace::run(pid, kill_at, &counter)?;
                    ended(&report);
                    Ok(report)
                }
                Err(error) => {
                    pid_tx.send(Err(error)).context("nobody waits for the start")?;
                    anyhow::bail!("not started")
                }
            }
        })?;
        let pid = pid_rx.recv().context("the tracer died")??;
        Ok(Self { pid, seen, tracer: Some(tracer) })
    }

    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Durable calls so far.
    pub fn calls(&self) -> usize {
        self.seen.load(Ordering::Relaxed)
    }

    /// Whether the process has ended.
    pub fn is_over(&self) -> bool {
        self.tracer.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Sends a signal to the process, if it is still there.
    pub fn signal(&self, signal: Signal) {
        // While the tracer has not returned, the pid may be a zombie's but is nobody else's.
        if !self.is_over() && kill(self.pid, signal).is_err() {
            // It ended in between.
        }
    }

    /// Waits for the end.
    pub fn wait(mut self) -> Result<Report> {
        let tracer = self.tracer.take().context("it was waited for already")?;
        tracer.join().map_err(|_| anyhow::anyhow!("the tracer panicked"))?
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

fn start(command: &mut Command) -> Result<Pid> {
    let filter = filter::program();
    // SAFETY: between fork and exec only system calls are made: ptrace(2), prctl(2) and seccomp(2) on memory that
    // was allocated before the fork. Nothing allocates, locks or panics.
    unsafe {
        command.pre_exec(move || {
            ptrace::traceme().map_err(std::io::Error::from)?;
            filter::install(&filter)
        });
    }
    let child = command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    Ok(Pid::from_raw(i32::try_from(child.id()).context("a pid fits in i32")?))
}
