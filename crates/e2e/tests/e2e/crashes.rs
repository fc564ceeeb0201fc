//! Whatever is killed, whenever: no command is lost, done twice or stuck.
//!
//! The sweeps kill one of the two processes once before and once after every durable call that it makes while a
//! node joins and carries out commands, each in a fleet of its own; the storm kills both at random under load.

mod first_start;
mod scene;
mod storm;
mod sweep;

use scene::Victim;

#[test]
fn the_agent_may_be_killed_before_and_after_each_of_its_durable_calls() {
    sweep::every_call(Victim::Agent);
}

#[test]
fn the_control_plane_may_be_killed_before_and_after_each_of_its_durable_calls() {
    sweep::every_call(Victim::ControlPlane);
}

#[test]
fn the_first_start_of_dev_may_be_killed_before_and_after_each_of_its_durable_calls() {
    first_start::every_call();
}

#[test]
fn fifty_random_kills_under_load_lose_double_and_block_nothing() {
    storm::run(50);
}
