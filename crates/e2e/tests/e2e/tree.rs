//! Habits of the tree that nobody should have to remember: formatting.

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
