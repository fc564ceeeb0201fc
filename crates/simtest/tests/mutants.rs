//! The patches of `mutants/` follow the tree.

use std::path::Path;
use std::process::Command;

#[test]
fn every_mutant_still_applies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let is_checkout = Command::new("git").current_dir(&root).args(["rev-parse", "--is-inside-work-tree"]).output();
    if !root.join(".git").exists() || !is_checkout.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: no git checkout, so whether the mutants apply is not known");
        return;
    }
    let mut patches: Vec<_> = std::fs::read_dir(root.join("mutants"))
        .expect("the folder of mutants")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "patch"))
        .collect();
    patches.sort();
    assert!(patches.len() >= 12, "the named mutants are there: {patches:?}");
    let mut stale = Vec::new();
    for patch in patches {
        let output = Command::new("git").current_dir(&root).args(["apply", "--check"]).arg(&patch).output();
        let output = output.expect("git starts");
        if !output.status.success() {
            stale.push(format!("{}: {}", patch.display(), String::from_utf8_lossy(&output.stderr)));
        }
    }
    assert!(stale.is_empty(), "{}", stale.join("\n"));
}
