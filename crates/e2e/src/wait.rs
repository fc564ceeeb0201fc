//! Waiting for a value. The one place where the tests let time pass: a process cannot be awaited otherwise.

use anyhow::{Result, bail};
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(15);
/// Far beyond what anything here takes, so that only what never comes fails.
pub const LONG: Duration = Duration::from_secs(60);

/// Looks until there is a value; fails with `what` and the last reason after `within`.
pub fn until<T>(what: &str, within: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let begun = Instant::now();
    let mut last = None;
    loop {
        match look() {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => {}
            Err(error) => last = Some(error),
        }
        if begun.elapsed() >= within {
            match last {
                Some(error) => return Err(error.context(format!("{what} did not come within {within:?}"))),
                None => bail!("{what} did not come within {within:?}"),
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
