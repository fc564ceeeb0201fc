//! What the supervisor's own tests run: makes the durable calls it is told to, in the folder it is told, and
//! after each appends the word to `done` there.
//!
//!     durable-calls DIR WORD...    fsync, fdatasync, rename, thread (a fsync in another thread), child (an fsync
//!                                  in another process), signal (SIGUSR1 to itself, survived)

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

extern "C" fn ignore(_: i32) {}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (directory, words) = arguments.split_first().context("a folder is needed")?;
    let directory = Path::new(directory);
    for word in words {
        perform(directory, word)?;
        let mut done = File::options().append(true).create(true).open(directory.join("done"))?;
        writeln!(done, "{word}")?;
    }
    Ok(())
}

fn perform(directory: &Path, word: &str) -> Result<()> {
    let create = |name: &str| File::create(directory.join(name));
    match word {
        "fsync" => create("synced")?.sync_all()?,
        "fdatasync" => create("synced")?.sync_data()?,
        "rename" => {
            create("from")?;
            std::fs::rename(directory.join("from"), directory.join("to"))?;
        }
        "thread" => {
            let file = create("synced")?;
            let synced = std::thread::spawn(move || file.sync_all()).join();
            synced.map_err(|_| anyhow::anyhow!("the thread panicked"))??;
        }
        "child" => {
            let nested = directory.join("child");
            std::fs::create_dir_all(&nested)?;
            let status = Command::new(std::env::current_exe()?).arg(nested).arg("fsync").status()?;
            anyhow::ensure!(status.success(), "the child failed: {status}");
        }
        "signal" => {
            let action = SigAction::new(SigHandler::Handler(ignore), SaFlags::empty(), SigSet::empty());
            // SAFETY: the handler does nothing.
            unsafe { sigaction(Signal::SIGUSR1, &action)? };
            raise(Signal::SIGUSR1)?;
        }
        _ => bail!("unknown word {word}"),
    }
    Ok(())
}
