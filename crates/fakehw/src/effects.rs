//! The effects log: append only, durable line by line, shared by any number of simulated hosts.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Appends one line. Returns after fsync. The line goes in one write, so lines of several writers
/// never mix (O_APPEND, open(2)).
pub fn append(path: &Path, line: &str) -> io::Result<()> {
    let is_new = !path.exists();
    let mut file = File::options().append(true).create(true).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_all()?;
    if is_new {
        stdx::durable::sync_directory_of(path).map_err(io::Error::other)?;
    }
    Ok(())
}
