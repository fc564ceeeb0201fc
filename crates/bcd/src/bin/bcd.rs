//! `bcd` as it runs on a machine of a fleet: the real host, and no relaxation.

fn main() -> std::process::ExitCode {
    bcd::main(agent::config::Build::Host)
}
