//! `dev`: builds the programs and becomes `better-compute dev`.

use crate::process::{cargo, repo_root, target_dir};
use anyhow::{Context, Result, bail};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

pub const HELP: &str = "\
Usage: cargo xtask dev [--sim N] [--data-dir DIR] [--listen ADDR] [--release]

Builds better-compute, bcd and bcd-sim and starts a whole fleet on this machine: a control plane with its
own PKI, and N simulated nodes that join it over mutual TLS. It selects the CLI context `dev` and prints
commands to paste into another terminal. Ctrl-C ends everything it started; the next start with the same
data directory resumes the same fleet.

  --sim N          simulated nodes, each the real daemon over a made-up machine [default: 3]
  --data-dir DIR   where everything is kept; remove it to start afresh [default: ./.dev]
  --listen ADDR    address of the API [default: chosen by `better-compute dev`]
  --release        build with optimizations (takes longer)
";

/// The feature that `bcd-sim` needs.
pub const SIMULATED: &str = "bcd/fakehw";

pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let options = Options::parse(arguments)?;
    build(options.release)?;
    let programs = programs_dir(options.release);
    let mut command = Command::new(programs.join("better-compute"));
    command.arg("dev").arg("--data-dir").arg(&options.data_dir).arg("--sim").arg(&options.sim);
    if let Some(listen) = &options.listen {
        command.arg("--listen").arg(listen);
    }
    command.env("PATH", path_with(&programs)?);
    // From here on signals and the exit status are its own.
    let error = command.exec();
    Err(error).context("cannot start better-compute dev")
}

/// The whole workspace, with the same features as the tests are built with, so that nothing is compiled twice.
/// An optimized build is in two steps, for there `bcd` must be what a machine of a fleet gets: built by itself, and
/// without simulated hardware, which only `bcd-sim` holds.
pub fn build(release: bool) -> Result<()> {
    if !release {
        return run_build(&["--workspace", "--bins", "--features", SIMULATED]);
    }
    run_build(&["--release", "--package", "bcd", "--bin", "bcd"])?;
    let others = ["--bin", "better-compute", "--bin", "bcd-sim", "--bin", "bc-bench"];
    run_build(&[&["--release", "--workspace", "--features", SIMULATED], &others[..]].concat())
}

fn run_build(what: &[&str]) -> Result<()> {
    crate::process::run(cargo().arg("build").args(what))
}

pub fn programs_dir(release: bool) -> PathBuf {
    target_dir().join(if release { "release" } else { "debug" })
}

pub fn path_with(programs: &Path) -> Result<std::ffi::OsString> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(programs.to_owned()).chain(std::env::split_paths(&paths));
    std::env::join_paths(all).context("PATH cannot be extended")
}

struct Options {
    sim: String,
    data_dir: PathBuf,
    listen: Option<String>,
    release: bool,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self { sim: "3".into(), data_dir: repo_root().join(".dev"), listen: None, release: false };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let (name, inline) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            let mut value =
                || inline.clone().or_else(|| rest.next().cloned()).with_context(|| format!("{name} needs a value"));
            match name {
                "--sim" => options.sim = value()?,
                "--data-dir" => options.data_dir = std::path::absolute(value()?)?,
                "--listen" => options.listen = Some(value()?),
                "--release" => options.release = true,
                _ => bail!("unknown argument {argument:?}; see cargo xtask dev --help"),
            }
        }
        Ok(options)
    }
}
