//! A child process: its log, its end, and that it never outlives this process.

use anyhow::Context;
use rustix::process::{Pid, Signal};
use std::ffi::OsString;
use std::fs::File;
use std::future::Future;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{ChildStdout, Command};

/// A child that does not end on SIGTERM by then is killed.
const END_WITHIN: Duration = Duration::from_secs(15);
/// Last lines of a log shown when its child ends by itself.
const LOG_LINES_SHOWN: usize = 15;
/// Bytes of the end of a log that are read for them.
const LOG_BYTES_SHOWN: usize = 64 << 10;

pub(crate) struct Child {
    name: &'static str,
    process: tokio::process::Child,
    stdout: Option<BufReader<ChildStdout>>,
    log: PathBuf,
}

impl Child {
    /// Starts `program` in a process group of its own, so that Ctrl-C reaches only this process, with its
    /// log in `logs`. Must be called on the main thread.
    pub fn spawn(name: &'static str, program: &Path, arguments: &[OsString], logs: &Path) -> anyhow::Result<Self> {
        let log = logs.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log);
        let file = file.with_context(|| format!("cannot open {}", log.display()))?;
        let mut command = std::process::Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file).process_group(0);
        let parent = rustix::process::getpid();
        // SAFETY: between fork and exec only prctl(2), getppid(2) and _exit-by-error happen, all of them
        // async-signal-safe; nothing is allocated.
        unsafe {
            command.pre_exec(move || die_with(parent));
        }
        let mut process =
            Command::from(command).spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let stdout = process.stdout.take().map(BufReader::new);
        Ok(Self { name, process, stdout, log })
    }

    /// The first line of its standard output.
    pub async fn ready_line(&mut self) -> anyhow::Result<String> {
        let stdout = self.stdout.as_mut().context("the child has no standard output")?;
        let mut line = String::new();
        stdout.read_line(&mut line).await.context("cannot read from the child")?;
        if line.is_empty() {
            let status = self.process.wait().await.context("cannot wait for the child")?;
            return Err(self.why(Ok(status)));
        }
        Ok(line)
    }

    /// Ready once the child has ended.
    pub fn poll_end(&mut self, context: &mut TaskContext<'_>) -> Poll<std::io::Result<ExitStatus>> {
        // A new future each time: waiting is cancel-safe, and the child's state lives in the process handle.
        let wait = self.process.wait();
        let mut wait = std::pin::pin!(wait);
        Pin::as_mut(&mut wait).poll(context)
    }

    /// Its end in words, with the end of its log.
    pub fn why(&self, status: std::io::Result<ExitStatus>) -> anyhow::Error {
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_BYTES_SHOWN)..]).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let shown = lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n  ");
        anyhow::anyhow!("{} ended by itself ({status}); the end of {}:\n  {shown}", self.name, self.log.display())
    }

    /// Asks it to end, waits, and kills it if it does not.
    pub async fn end(mut self) {
        if let Some(pid) = self.process.id().and_then(|id| Pid::from_raw(id as i32)) {
            // One that has just ended needs no signal.
            rustix::process::kill_process(pid, Signal::TERM).unwrap_or_default();
        }
        match tokio::time::timeout(END_WITHIN, self.process.wait()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => eprintln!("cannot wait for {}: {error}", self.name),
            Err(_) => {
                eprintln!("{} did not end within {} s and is killed", self.name, END_WITHIN.as_secs());
                if let Err(error) = self.process.kill().await {
                    eprintln!("cannot kill {}: {error}", self.name);
                }
            }
        }
    }
}

/// Runs in the child: it gets SIGTERM when the parent's thread is gone, whatever ended it (prctl(2)).
fn die_with(parent: Pid) -> std::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    // The parent may have died before the call.
    if rustix::process::getppid() != Some(parent) {
        return Err(std::io::ErrorKind::Interrupted.into());
    }
    Ok(())
}
