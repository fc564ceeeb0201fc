//! What the tests need on a machine, installed only where it is missing and with the reason printed.

use crate::process::{cargo, run, succeeds};
use anyhow::{Context, Result, bail};
use std::process::Command;

/// Built from crates.io where it is missing; a version known to build with our `rust-version`.
const NEXTEST_VERSION: &str = "0.9.143";

/// A program the build or the tests start, the Debian package that brings it, and why.
struct Need {
    program: &'static str,
    package: &'static str,
    why: &'static str,
}

const NEEDS: &[Need] = &[
    Need { program: "cc", package: "build-essential", why: "compiles SQLite, zstd and aws-lc" },
    Need { program: "git", package: "git", why: "checks that every patch of the mutants still applies" },
];

/// Returns once everything is there.
pub fn everything() -> Result<()> {
    packages()?;
    component("rustfmt", "fmt")?;
    component("clippy", "clippy")?;
    nextest()
}

fn packages() -> Result<()> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !is_on_path(need.program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    for need in &missing {
        eprintln!("missing: {} (Debian package {}): {}", need.program, need.package, need.why);
    }
    let names: Vec<&str> = missing.iter().map(|need| need.package).collect();
    if !is_on_path("apt-get") {
        bail!("install {} with this machine's package manager and run this again", names.join(", "));
    }
    let root = succeeds(Command::new("sh").args(["-c", "test \"$(id -u)\" = 0"]));
    let apt = || {
        let mut command = Command::new(if root { "apt-get" } else { "sudo" });
        if !root {
            command.arg("apt-get");
        }
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    run(apt().arg("update"))?;
    run(apt().args(["install", "-y", "--no-install-recommends"]).args(&names))
        .with_context(|| format!("install {} and run this again", names.join(", ")))
}

fn component(name: &str, subcommand: &str) -> Result<()> {
    if succeeds(cargo().args([subcommand, "--version"])) {
        return Ok(());
    }
    eprintln!("missing: {name}, which the tests run over the whole tree");
    run(Command::new("rustup").args(["component", "add", name])).with_context(|| format!("install {name}"))
}

fn nextest() -> Result<()> {
    if succeeds(cargo().args(["nextest", "--version"])) {
        return Ok(());
    }
    eprintln!("missing: cargo-nextest, which runs the tests; building it takes some minutes, once");
    run(cargo().args(["install", "--locked", "cargo-nextest", "--version", NEXTEST_VERSION]))
}

fn is_on_path(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|directory| directory.join(program).is_file())
}
