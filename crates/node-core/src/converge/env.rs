//! The rules for an assignment's extra environment lines (D-Q16). They reach a file and a CDI spec as they
//! are, so a line that could be read as two, or as one of ours, fails the hold.

use std::collections::BTreeSet;

/// Names that a hold sets itself.
pub const RESERVED_ENV: [&str; 4] =
    ["BCD_ALLOCATION_ID", "BCD_CGROUP_PARENT", "CUDA_MPS_PIPE_DIRECTORY", "NVIDIA_VISIBLE_DEVICES"];

/// What is wrong with the lines, without any value in it: a value may be a secret.
pub fn check_env(lines: &[String]) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for (line, number) in lines.iter().zip(1..) {
        if line.chars().any(char::is_control) {
            return Err(format!("environment line {number} contains a control character"));
        }
        let Some((name, _)) = line.split_once('=').filter(|(name, _)| is_name(name)) else {
            return Err(format!("environment line {number} is not of the form KEY=VALUE"));
        };
        if RESERVED_ENV.contains(&name) {
            return Err(format!("environment line {number} sets {name}, which is set by the hold itself"));
        }
        if !names.insert(name) {
            return Err(format!("environment line {number} sets {name} a second time"));
        }
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    let starts_well = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    starts_well && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
