//! `cargo xtask`: everything a person would otherwise remember. Compiles in seconds: it only starts other
//! programs.

mod bench;
mod dev;
mod mutants;
mod process;
mod setup;
mod simulate;
mod test;

use anyhow::Result;
use std::process::ExitCode;

type Run = fn(&[String]) -> Result<ExitCode>;

/// Name, one line, whole help, what it does.
const TASKS: &[(&str, &str, &str, Run)] = &[
    ("dev", "build and start a control plane with simulated nodes on this machine", dev::HELP, dev::run),
    ("test", "install what the tests need and run all of them", test::HELP, test::run),
    ("simulate", "run thousands of simulated worlds, or one seed again", simulate::HELP, simulate::run),
    ("mutants", "break a copy of the tree and see how soon the simulation notices", mutants::HELP, mutants::run),
    ("bench", "measure the journal, or the delivery of commands", bench::HELP, bench::run),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(1)
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<ExitCode> {
    let Some((name, rest)) = arguments.split_first() else {
        print!("{}", overview());
        return Ok(ExitCode::from(2));
    };
    if is_help(name) {
        match rest.first().and_then(|wanted| find(wanted)) {
            Some((_, _, help, _)) => print!("{help}"),
            None => print!("{}", overview()),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let Some((_, _, help, run)) = find(name) else {
        eprintln!("error: there is no task {name:?}\n\n{}", overview());
        return Ok(ExitCode::from(2));
    };
    // Behind `--` the arguments are another program's.
    if rest.iter().take_while(|argument| *argument != "--").any(|argument| is_help(argument)) {
        print!("{help}");
        return Ok(ExitCode::SUCCESS);
    }
    run(rest)
}

fn find(name: &str) -> Option<&'static (&'static str, &'static str, &'static str, Run)> {
    TASKS.iter().find(|(known, ..)| *known == name)
}

fn is_help(argument: &str) -> bool {
    matches!(argument, "help" | "--help" | "-h")
}

fn overview() -> String {
    let mut text = String::from("Usage: cargo xtask TASK [ARGUMENTS]\n\nTasks:\n");
    for (name, about, ..) in TASKS {
        text.push_str(&format!("  {name:<10} {about}\n"));
    }
    text.push_str("\n`cargo xtask help TASK` says more about one of them.\n");
    text
}
