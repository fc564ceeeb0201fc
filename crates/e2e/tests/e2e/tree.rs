//! Habits of the tree that nobody should have to remember: formatting, and patches that still apply.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn repo_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(repo_root());
    command
}

#[test]
fn the_tree_is_formatted() {
    let output = cargo().args(["fmt", "--all", "--check"]).output().expect("cargo fmt starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "run cargo fmt --all\n{text}{}", String::from_utf8_lossy(&output.stderr));
}

/// A patch of the mutants that no longer applies proves nothing any more.
#[test]
fn every_mutant_still_applies_to_the_tree() {
    let patches = patches_in(&repo_root().join("crates/simtest/mutants"));
    assert!(!patches.is_empty(), "there are no mutants");
    let applies = |patch: &&PathBuf| {
        let mut git = Command::new("git");
        let output = git.current_dir(repo_root()).args(["apply", "--check"]).arg(patch).output().expect("git starts");
        output.status.success()
    };
    let broken: Vec<&PathBuf> = patches.iter().filter(|patch| !applies(patch)).collect();
    assert!(broken.is_empty(), "no longer apply: {broken:?}");
}

fn patches_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
    paths.sort();
    paths
}
