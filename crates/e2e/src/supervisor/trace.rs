//! The tracer's loop: one `waitpid` at a time over every thread, until the process is gone.

use super::{DurableCall, Ending, KillAt, Report};
use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Tracer<'a> {
    /// The process that is counted and killed.
    leader: Pid,
    kill_at: KillAt,
    seen: &'a AtomicUsize,
    calls: Vec<DurableCall>,
    killed: bool,
    /// The thread that runs to the exit of the call after which the process dies.
    leaving: Option<Pid>,
    /// Threads and processes whose first stop, a SIGSTOP that nobody sent, was seen.
    started: BTreeSet<Pid>,
}

/// Traces `leader`, whose first stop is its exec, until it ends.
pub(super) fn run(leader: Pid, kill_at: KillAt, seen: &AtomicUsize) -> Result<Report> {
    match waitpid(leader, Some(WaitPidFlag::__WALL)).context("cannot wait for the exec")? {
        WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
        other => bail!("the program did not start: {other:?}"),
    }
    let options = Options::PTRACE_O_TRACESECCOMP
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_EXITKILL;
    ptrace::setoptions(leader, options).context("cannot trace the program")?;
    let calls = Vec::new();
    let started = BTreeSet::from([leader]);
    let mut tracer = Tracer { leader, kill_at, seen, calls, killed: false, leaving: None, started };
    tracer.go_on(leader, None)?;
    let ending = tracer.until_the_end()?;
    Ok(Report { calls: tracer.calls, ending, killed: tracer.killed })
}

impl Tracer<'_> {
    fn until_the_end(&mut self) -> Result<Ending> {
        loop {
            // __WNOTHREAD: other threads of this process have children of their own.
            match waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == self.leader => return Ok(Ending::Exited(code)),
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == self.leader => return Ok(Ending::Signaled(signal)),
                Ok(status) => self.stopped(status)?,
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error).context("cannot wait for the program"),
            }
        }
    }

    fn stopped(&mut self, status: WaitStatus) -> Result<()> {
        match status {
            WaitStatus::PtraceEvent(thread, _, event) if event == nix::libc::PTRACE_EVENT_SECCOMP => {
                self.at_call(thread)
            }
            // The exit of the call after which it dies.
            WaitStatus::PtraceSyscall(thread) if self.leaving == Some(thread) => self.kill(),
            WaitStatus::PtraceEvent(thread, ..) | WaitStatus::PtraceSyscall(thread) => self.go_on(thread, None),
            WaitStatus::Stopped(thread, Signal::SIGSTOP) if self.started.insert(thread) => self.go_on(thread, None),
            WaitStatus::Stopped(thread, signal) => self.go_on(thread, Some(signal)),
            // Threads and children that ended.
            _ => Ok(()),
        }
    }

    fn at_call(&mut self, thread: Pid) -> Result<()> {
        let message = match ptrace::getevent(thread) {
            Ok(message) => message,
            // Killed meanwhile.
            Err(Errno::ESRCH) => return Ok(()),
            Err(error) => return Err(error).context("cannot read which call it is"),
        };
        let call = DurableCall::from_message(message).context("the filter reported an unknown call")?;
        if !self.is_of_leader(thread) || self.killed {
            return self.go_on(thread, None);
        }
        self.calls.push(call);
        self.seen.store(self.calls.len(), Ordering::Relaxed);
        match self.kill_at {
            KillAt::Before(number) if number == self.calls.len() => self.kill(),
            KillAt::After(number) if number == self.calls.len() => {
                self.leaving = Some(thread);
                // Behind a seccomp stop the next one is the call's exit (ptrace(2)).
                match ptrace::syscall(thread, None) {
                    Ok(()) | Err(Errno::ESRCH) => Ok(()),
                    Err(error) => Err(error).context("cannot run to the call's exit"),
                }
            }
            _ => self.go_on(thread, None),
        }
    }

    fn kill(&mut self) -> Result<()> {
        self.killed = true;
        kill(self.leader, Signal::SIGKILL).context("cannot kill the program")
    }

    fn is_of_leader(&self, thread: Pid) -> bool {
        thread == self.leader || PathBuf::from(format!("/proc/{}/task/{thread}", self.leader)).exists()
    }

    fn go_on(&self, thread: Pid, signal: Option<Signal>) -> Result<()> {
        match ptrace::cont(thread, signal) {
            // Gone: a SIGKILL reaches even a stopped thread.
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(error) => Err(error).context("cannot let a thread go on"),
        }
    }
}
