//! The deterministic simulation: the real cores of daemon and gateway, the real journal on a disk that
//! lies, the real operations of the store, over a simulated network and clock, from one seed.
//!
//! `docs/simulation.md` says what is simulated, which faults there are, and what must hold.

mod client;
mod coverage;
mod describe;
mod faults;
mod gate;
mod keys;
mod lie;
mod many;
mod net;
mod node;
mod oracle;
mod outside;
mod plan;
mod trace;
mod work;
mod world;

pub use coverage::{Coverage, EXPECTED};
pub use many::{Summary, run_many};

use std::panic::{AssertUnwindSafe, catch_unwind};
use world::World;

/// What came of one world.
#[derive(Debug)]
pub struct Outcome {
    pub seed: u64,
    /// Equal for every run of the seed.
    pub digest: String,
    /// What must not be, and was.
    pub violation: Option<String>,
    /// The newest lines of what happened.
    pub trace: Vec<String>,
    pub coverage: Coverage,
    /// How long the world lasted, in its own milliseconds.
    pub simulated_ms: u64,
}

/// Runs the world of `seed` to its end. A panic of the simulated code is a violation.
pub fn run(seed: u64) -> Outcome {
    run_in(World::new(seed))
}

/// Runs the world of `seed` and keeps the whole trace.
pub fn replay(seed: u64) -> Outcome {
    let mut world = World::new(seed);
    world.trace.keep_all();
    run_in(world)
}

fn run_in(mut world: World) -> Outcome {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| world.live())) {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("something panicked");
        world.fail(format!("panic: {text}"));
    }
    Outcome {
        seed: world.seed,
        digest: world.trace.digest(),
        violation: world.violation.take(),
        trace: world.trace.last_lines(),
        coverage: std::mem::take(&mut world.coverage),
        simulated_ms: world.now,
    }
}

impl Outcome {
    /// What a person needs to see of a world that broke a rule.
    pub fn report(&self) -> String {
        let violation = self.violation.as_deref().unwrap_or("nothing");
        format!(
            "{}\n\nseed {} broke a rule: {violation}\nreplay it with: cargo xtask simulate --seed {}",
            self.trace.join("\n"),
            self.seed,
            self.seed
        )
    }
}
