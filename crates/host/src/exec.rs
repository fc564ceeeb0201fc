//! Runs one program of the host with a time limit and bounded output.
//!
//! The program gets a process group of its own, no standard input and the C locale. At the limit the
//! whole group is killed. A program stuck in the kernel (a GPU that fell off the bus leaves
//! `nvidia-smi` in uninterruptible sleep) cannot be killed: it is left to a thread that reaps it
//! whenever it ends, and only so many may be left at once.

use crate::bounds::clean;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// How long a killed program and its pipes get to go away.
const KILL_GRACE: Duration = Duration::from_secs(2);
/// Programs that did not die and are still waited for.
const STUCK_MAX: usize = 8;
/// Standard error kept, bytes.
const STDERR_BYTES_MAX: usize = 4096;
const READ_BYTES: usize = 64 << 10;

static STUCK: AtomicUsize = AtomicUsize::new(0);

/// What to do with output above the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The program is killed and the run fails.
    AllOrFail(usize),
    /// The last bytes are kept.
    Tail(usize),
}

#[derive(Clone, Debug)]
pub struct Run<'a> {
    pub program: &'a OsStr,
    pub arguments: Vec<OsString>,
    pub timeout: Duration,
    pub keep: Keep,
}

impl<'a> Run<'a> {
    pub fn new(program: &'a OsStr, arguments: &[&str], timeout: Duration, keep: Keep) -> Self {
        Self { program, arguments: arguments.iter().map(OsString::from).collect(), timeout, keep }
    }
}

/// What a program that ended left behind, whatever its status.
#[derive(Clone, Debug)]
pub struct Output {
    /// Exit status; a signal counts as 128 and its number, as a shell has it.
    pub code: i32,
    pub stdout: Vec<u8>,
    /// Whether `Keep::Tail` dropped the beginning.
    pub cut: bool,
    pub stderr: String,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{program} is not installed")]
    NotInstalled { program: String },
    #[error("cannot start {program}")]
    Start {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("{program} did not end within {} s and was killed", after.as_secs())]
    Timeout { program: String, after: Duration },
    #[error("{program} wrote more than {bytes_max} bytes and was killed")]
    TooLong { program: String, bytes_max: usize },
    #[error("{program} was not started: {STUCK_MAX} programs hang and cannot be killed")]
    Stuck { program: String },
}

enum Message {
    Out(Vec<u8>),
    Err(Vec<u8>),
    OutEnd,
    ErrEnd,
    Exited(i32),
}

/// Runs a program to its end. Blocks for at most the timeout and a short grace.
pub fn run(run: &Run<'_>) -> Result<Output, RunError> {
    let program = run.program.to_string_lossy().into_owned();
    if STUCK.load(Ordering::Relaxed) >= STUCK_MAX {
        return Err(RunError::Stuck { program });
    }
    let mut child = spawn(run).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => RunError::NotInstalled { program: program.clone() },
        _ => RunError::Start { program: program.clone(), source },
    })?;
    let group = Pid::from_child(&child);
    let (sender, messages) = mpsc::channel();
    if let Some(pipe) = child.stdout.take() {
        pump(pipe, sender.clone(), Message::Out, Message::OutEnd);
    }
    if let Some(pipe) = child.stderr.take() {
        pump(pipe, sender.clone(), Message::Err, Message::ErrEnd);
    }
    let finished = reap(child, sender);
    let result = collect(run, &program, group, &messages);
    // The zombie is the group's leader until `finished` goes, so the id cannot be another's.
    kill_group(group);
    drop(finished);
    result
}

fn spawn(run: &Run<'_>) -> io::Result<Child> {
    Command::new(run.program)
        .args(&run.arguments)
        .env("LC_ALL", "C")
        .env_remove("BCD_JOIN_TOKEN")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

fn pump(mut pipe: impl Read + Send + 'static, sender: Sender<Message>, wrap: fn(Vec<u8>) -> Message, end: Message) {
    std::thread::spawn(move || {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) if sender.send(wrap(buffer[..count].to_vec())).is_err() => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // The receiver may have given up already; then nobody wants the end either.
        drop(sender.send(end));
    });
}

/// Waits for the program without reaping it, says so, and reaps it once the returned sender is gone.
fn reap(mut child: Child, sender: Sender<Message>) -> Sender<()> {
    let (finished, finish) = mpsc::channel::<()>();
    STUCK.fetch_add(1, Ordering::Relaxed);
    std::thread::spawn(move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = loop {
            match rustix::process::waitid(WaitId::Pid(Pid::from_child(&child)), options) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other,
            }
        };
        let code = match status {
            Ok(Some(status)) => status.exit_status().or(status.terminating_signal().map(|signal| 128 + signal)),
            _ => None,
        };
        drop(sender.send(Message::Exited(code.unwrap_or(255))));
        // Nothing is ever sent: this returns once the other side is gone.
        while finish.recv().is_ok() {}
        drop(child.wait());
        STUCK.fetch_sub(1, Ordering::Relaxed);
    });
    finished
}

fn collect(run: &Run<'_>, program: &str, group: Pid, messages: &Receiver<Message>) -> Result<Output, RunError> {
    let mut deadline = Instant::now() + run.timeout;
    let mut stdout = Vec::new();
    let mut cut = false;
    let mut stderr = Vec::new();
    let (mut code, mut out_open, mut err_open) = (None, true, true);
    while code.is_none() || out_open || err_open {
        let Ok(message) = messages.recv_timeout(deadline.saturating_duration_since(Instant::now())) else {
            // Ended, but a child of its own keeps a pipe open: what came is the output.
            if code.is_some() {
                break;
            }
            return Err(RunError::Timeout { program: program.to_owned(), after: run.timeout });
        };
        match message {
            Message::Out(bytes) => match run.keep {
                Keep::AllOrFail(bytes_max) if stdout.len() + bytes.len() > bytes_max => {
                    return Err(RunError::TooLong { program: program.to_owned(), bytes_max });
                }
                Keep::AllOrFail(_) => stdout.extend(bytes),
                Keep::Tail(bytes_max) => {
                    stdout.extend(bytes);
                    if stdout.len() > 2 * bytes_max {
                        stdout.drain(..stdout.len() - bytes_max);
                        cut = true;
                    }
                }
            },
            Message::Err(bytes) => {
                let room = STDERR_BYTES_MAX.saturating_sub(stderr.len());
                stderr.extend(&bytes[..bytes.len().min(room)]);
            }
            Message::OutEnd => out_open = false,
            Message::ErrEnd => err_open = false,
            Message::Exited(status) => {
                code = Some(status);
                deadline = deadline.min(Instant::now() + KILL_GRACE);
                kill_group(group);
            }
        }
    }
    if let Keep::Tail(bytes_max) = run.keep
        && stdout.len() > bytes_max
    {
        stdout.drain(..stdout.len() - bytes_max);
        cut = true;
    }
    Ok(Output { code: code.unwrap_or(255), stdout, cut, stderr: clean(&String::from_utf8_lossy(&stderr)) })
}

fn kill_group(group: Pid) {
    match rustix::process::kill_process_group(group, Signal::KILL) {
        // ESRCH: all of it has ended, which is what was wanted. EPERM: what is left is not ours to end.
        Ok(()) | Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, timeout: Duration, keep: Keep) -> Result<Output, RunError> {
        run(&Run::new(OsStr::new("sh"), &["-c", script], timeout, keep))
    }

    #[test]
    fn output_status_and_standard_error_come_back() {
        let output =
            shell("echo out; echo err >&2; exit 14", Duration::from_secs(10), Keep::AllOrFail(100)).expect("ran");
        assert_eq!((output.code, output.stdout.as_slice(), output.stderr.as_str()), (14, b"out\n".as_slice(), "err"));
        let killed = shell("kill -TERM $$", Duration::from_secs(10), Keep::AllOrFail(100)).expect("ran");
        assert_eq!(killed.code, 128 + 15);
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_its_children() {
        let directory = tempfile::tempdir().expect("tempdir");
        let fifo = directory.path().join("held");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .expect("mkfifo");
        // The child's child holds the fifo open for writing; our read ends only when it is dead.
        let script = format!("(exec 9<>{0}; sleep 1000) & sleep 1000", fifo.display());
        let started = Instant::now();
        let error = shell(&script, Duration::from_millis(500), Keep::AllOrFail(100)).expect_err("killed");
        assert!(matches!(error, RunError::Timeout { .. }), "{error}");
        assert!(started.elapsed() < Duration::from_secs(10));
        let mut reader = std::fs::File::from(
            rustix::fs::open(
                &fifo,
                rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK,
                rustix::fs::Mode::empty(),
            )
            .expect("open"),
        );
        // EOF, not EAGAIN, once no writer is left. The kill is sent before run returns.
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match reader.read(&mut [0; 1]) {
                Ok(count) => break assert_eq!(count, 0),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => assert!(Instant::now() < deadline),
                Err(error) => panic!("{error}"),
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn endless_output_is_cut_off_or_its_tail_kept() {
        let error = shell("yes", Duration::from_secs(20), Keep::AllOrFail(1 << 20)).expect_err("killed");
        assert!(matches!(error, RunError::TooLong { bytes_max: 1_048_576, .. }), "{error}");
        let output = shell("seq 1 100000", Duration::from_secs(20), Keep::Tail(14)).expect("ran");
        assert_eq!((output.cut, output.stdout.as_slice()), (true, b"\n99999\n100000\n".as_slice()));
    }

    #[test]
    fn a_missing_program_is_said_to_be_missing() {
        let name = OsStr::new("no-such-program-here");
        let error = run(&Run::new(name, &[], Duration::from_secs(1), Keep::AllOrFail(1))).expect_err("missing");
        assert!(matches!(error, RunError::NotInstalled { .. }), "{error}");
    }

    #[test]
    fn a_grandchild_that_keeps_the_pipe_does_not_hold_the_result_up() {
        let started = Instant::now();
        let output = shell("setsid sleep 5 & echo done", Duration::from_secs(60), Keep::AllOrFail(100)).expect("ran");
        assert_eq!(output.stdout, b"done\n");
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}
