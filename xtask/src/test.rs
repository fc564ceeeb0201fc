//! `test`: sets up, builds, and runs every test and lint, ending with the runner's closing line.

use crate::process::{cargo, run as run_command, show};
use crate::{dev, setup};
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::process::{ChildStderr, ExitCode, Stdio};

pub const HELP: &str = "\
Usage: cargo xtask test [FILTER...]

Installs what the tests need and this machine lacks (says what and why; needs no network when all is
there), builds the programs that the end-to-end tests start, runs all tests with cargo-nextest, then
clippy with warnings as errors. Formatting, layering and the mutants' patches are tests like the others.
The last line printed is nextest's closing line.

With FILTERs only the tests whose names contain one of them run, and no lints. A FILTER that begins with a
dash goes to nextest as it is:

    cargo xtask test a_late_cancel
    cargo xtask test -E 'package(journal)' --no-capture

BC_FIXTURES=DIR lets the tests that compare with recordings of real machines find them (DIR/nvidia-smi/*.xml);
without it they skip and say so. Logs of end-to-end tests that fail are kept; the failure names their folder.
";

pub fn run(filters: &[String]) -> Result<ExitCode> {
    setup::everything()?;
    dev::build(false)?;
    let (passed, closing) = nextest(filters)?;
    let mut code = if passed { ExitCode::SUCCESS } else { ExitCode::from(1) };
    if filters.is_empty() {
        let what = ["--workspace", "--all-targets", "--features", dev::SIMULATED];
        let arguments = [&["clippy"], &what[..], &["--", "-D", "warnings"]].concat();
        if let Err(error) = run_command(cargo().args(arguments)) {
            eprintln!("error: {error:#}");
            code = ExitCode::from(1);
        }
        println!("{closing}");
    }
    Ok(code)
}

/// Runs the tests; returns whether all passed, and the closing line.
fn nextest(filters: &[String]) -> Result<(bool, String)> {
    let mut command = cargo();
    command.args(["nextest", "run", "--workspace", "--features", dev::SIMULATED, "--no-fail-fast"]).args(filters);
    if std::io::stderr().is_terminal() {
        command.args(["--color", "always"]);
    }
    eprintln!("+ {}", show(&command));
    let mut child = command.stderr(Stdio::piped()).spawn().context("cannot start cargo nextest")?;
    let stderr = child.stderr.take().context("its output cannot be read")?;
    let closing = pass_on(stderr)?;
    let status = child.wait().context("cargo nextest cannot be waited for")?;
    Ok((status.success(), closing.unwrap_or_else(|| format!("cargo nextest ended without a summary: {status}"))))
}

/// Copies the runner's lines to ours and keeps its summary.
fn pass_on(from: ChildStderr) -> Result<Option<String>> {
    let mut closing = None;
    let mut line = Vec::new();
    let mut from = BufReader::new(from);
    while from.read_until(b'\n', &mut line)? > 0 {
        std::io::stderr().write_all(&line)?;
        let text = String::from_utf8_lossy(&line);
        if text.contains("Summary") && text.contains("tests run:") {
            closing = Some(text.trim_end().to_owned());
        }
        line.clear();
    }
    Ok(closing)
}
