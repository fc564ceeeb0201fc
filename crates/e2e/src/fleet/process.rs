//! One process of a fleet: its output goes to a file, and it does not outlive its owner.

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; both its outputs are appended to `log`.
    pub fn spawn(mut command: Command, log: &Path) -> Result<Self> {
        redirect(&mut command, log)?;
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name, child, log: log.to_owned() })
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill(self.pid(), signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Asks it to end and waits for that.
    pub fn stop(mut self) -> Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        self.wait_ended(crate::wait::LONG)
    }

    pub fn wait_ended(&mut self, within: Duration) -> Result<ExitStatus> {
        let what = format!("the end of {}", self.name);
        crate::wait::until(&what, within, || Ok(self.child.try_wait()?))
    }

    /// As a power cut would, but for what the kernel holds. Returns once it is gone.
    pub fn kill_now(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Fails with the end of its log if it has ended by itself.
    pub fn check(&mut self) -> Result<()> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => bail!("{} ended, {status}:\n{}", self.name, tail(&self.log)),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None))
            && let Err(error) = self.kill_now()
        {
            eprintln!("{} is left behind: {error}", self.name);
        }
    }
}

/// Sends both outputs of `command` to the end of `log`.
pub fn redirect(command: &mut Command, log: &Path) -> Result<()> {
    let file = File::options().append(true).create(true).open(log).with_context(|| format!("cannot open {log:?}"))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    Ok(())
}

/// The last lines of a log, for a message.
pub fn tail(log: &Path) -> String {
    const LINES: usize = 30;
    let text = std::fs::read_to_string(log).unwrap_or_else(|error| error.to_string());
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
