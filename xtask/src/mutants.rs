//! `mutants`: breaks a copy of the tree on purpose, one rule at a time, and sees how soon the simulation
//! notices. The copy and what is built from it stay in the target folder, so that only what a mutant
//! changes is built again.

use crate::process::{cargo, repo_root, show, target_dir};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

pub const HELP: &str = "\
Usage: cargo xtask mutants [NAME...]

Copies the tree, applies mutants/NAME.patch to the copy, and runs at most 2000 simulated worlds until one
breaks a rule; then the next patch. Without NAMEs, all of them. Prints which world caught each mutant, how
soon, and by which rule. First the tree as it is must hold for 500 worlds. A mutant that survives fails the run.
";

/// Worlds a mutant may survive.
const SEEDS: &str = "2000";
/// Worlds the unchanged tree must hold for, or being caught means nothing.
const SEEDS_SOUND: &str = "500";

struct Verdict {
    /// Worlds until one broke; `None` when none did.
    caught_after: Option<u64>,
    seconds: f64,
    violation: String,
}

pub fn run(names: &[String]) -> Result<ExitCode> {
    let patches = patches(names)?;
    let tree = target_dir().join("mutants").join("tree");
    copy_tree(&tree)?;
    let sound = simulate(&tree, SEEDS_SOUND).context("the tree as it is")?;
    ensure!(sound.caught_after.is_none(), "the tree as it is breaks a rule: {}", sound.violation);
    let mut survivors = Vec::new();
    let mut lines = vec![format!("{:<34} {:>12} {:>9}  rule", "mutant", "caught after", "seconds")];
    for (name, patch) in &patches {
        copy_tree(&tree)?;
        apply(&tree, patch)?;
        eprintln!("{name}");
        let verdict = simulate(&tree, SEEDS).with_context(|| format!("mutant {name}"))?;
        let caught = verdict.caught_after.map_or_else(|| "SURVIVED".to_owned(), |count| format!("{count} worlds"));
        lines.push(format!("{name:<34} {caught:>12} {:>9.1}  {}", verdict.seconds, verdict.violation));
        if verdict.caught_after.is_none() {
            survivors.push(name.as_str());
        }
    }
    copy_tree(&tree)?;
    lines.iter().for_each(|line| println!("{line}"));
    if survivors.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "error: {} of {} mutants survived {SEEDS} worlds: {}",
        survivors.len(),
        patches.len(),
        survivors.join(", ")
    );
    Ok(ExitCode::from(1))
}

/// The patches by name.
fn patches(names: &[String]) -> Result<Vec<(String, PathBuf)>> {
    let folder = repo_root().join("mutants");
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "patch") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            found.push((name, path));
        }
    }
    found.sort();
    if let Some(unknown) = names.iter().find(|name| !found.iter().any(|(known, _)| known == *name)) {
        bail!("there is no mutants/{unknown}.patch");
    }
    if !names.is_empty() {
        found.retain(|(name, _)| names.contains(name));
    }
    ensure!(!found.is_empty(), "there are no patches in {}", folder.display());
    Ok(found)
}

/// Makes `to` what git would take of the tree. A file that is the same stays untouched, so that cargo does
/// not build it again.
fn copy_tree(to: &Path) -> Result<()> {
    let root = repo_root();
    let listed = Command::new("git")
        .current_dir(&root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start git")?;
    ensure!(listed.status.success(), "git ls-files failed: mutants need a git checkout");
    let names: BTreeSet<PathBuf> = listed
        .stdout
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned()))
        .filter(|name| root.join(name).is_file())
        .collect();
    for name in &names {
        copy_if_other(&root.join(name), &to.join(name))?;
    }
    remove_others(to, to, &names)
}

fn copy_if_other(from: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    if fs::read(to).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::copy(from, to).with_context(|| format!("cannot write {}", to.display()))?;
    // A copy keeps no time, but a restored file must look newer than what was built from its mutant.
    let file = fs::File::options().write(true).open(to)?;
    file.set_modified(std::time::SystemTime::now()).with_context(|| format!("cannot touch {}", to.display()))
}

fn remove_others(root: &Path, folder: &Path, names: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(root, &path, names)?;
        } else if path.strip_prefix(root).is_ok_and(|name| !names.contains(name)) {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

fn apply(tree: &Path, patch: &Path) -> Result<()> {
    let mut command = Command::new("git");
    // The copy lies inside the checkout's target folder, and is none itself.
    command.env("GIT_CEILING_DIRECTORIES", tree.parent().unwrap_or(tree)).current_dir(tree);
    command.arg("apply").arg(patch);
    let status = command.status().with_context(|| format!("cannot start {}", show(&command)))?;
    ensure!(status.success(), "{} does not apply", patch.display());
    Ok(())
}

fn simulate(tree: &Path, seeds: &str) -> Result<Verdict> {
    let target = target_dir().join("mutants").join("target");
    let in_tree = |arguments: &[&str]| {
        let mut command = cargo();
        command.current_dir(tree).env("CARGO_TARGET_DIR", &target).args(arguments);
        command
    };
    let package = ["--quiet", "--package", "simtest", "--bin", "bc-simulate"];
    let mut build = in_tree(&["build"]);
    build.args(package);
    ensure!(build.status()?.success(), "it does not build");
    let start = Instant::now();
    let mut command = in_tree(&["run"]);
    command.args(package).args(["--", "--seeds", seeds]).stderr(Stdio::null());
    let output = command.output().with_context(|| format!("cannot start {}", show(&command)))?;
    let seconds = start.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().next_back().unwrap_or_default();
    let number = |name: &str| field(last, name).and_then(|text| text.parse::<u64>().ok());
    let base = number("base").with_context(|| format!("the simulation ended without its line: {}", output.status))?;
    let caught_after = number("brokenSeed").map(|seed| seed - base + 1);
    Ok(Verdict { caught_after, seconds, violation: violation(last) })
}

/// A number of a flat JSON object that this project's own program wrote.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let rest = &line[line.find(&format!("\"{name}\":"))? + name.len() + 3..];
    Some(rest.split([',', '}']).next().unwrap_or_default())
}

fn violation(line: &str) -> String {
    let start = line.find("\"violation\":\"").map_or(line.len(), |at| at + 13);
    line[start..].trim_end_matches(['"', '}']).replace("\\\"", "\"")
}
