//! Files that are no longer this node's, or cannot be believed, keep their bytes under another name for a
//! person to look at: `journal.db.corrupt-20260926T114200Z`.

use std::path::{Path, PathBuf};
use stdx::durable::{self, DurableError};

/// Names tried within one second before the move is given up.
const NAMES_MAX: u32 = 100;

/// Moves `journal.db` of `data_dir` aside with `reason` in its new name. `None` when there is no journal.
pub fn journal(data_dir: &Path, reason: &str) -> Result<Option<PathBuf>, DurableError> {
    let from = data_dir.join(journal::storage::JOURNAL_NAME);
    if !from.exists() {
        return Ok(None);
    }
    let to = free_name(&from, reason, stdx::clock::wall_unix_ms());
    durable::rename(&from, &to)?;
    tracing::warn!(from = %from.display(), to = %to.display(), reason, "the journal is moved aside");
    Ok(Some(to))
}

fn free_name(from: &Path, reason: &str, now_ms: i64) -> PathBuf {
    let name = from.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stamp = utc(now_ms);
    let first = from.with_file_name(format!("{name}.{reason}-{stamp}"));
    if !first.exists() {
        return first;
    }
    (2..NAMES_MAX)
        .map(|number| from.with_file_name(format!("{name}.{reason}-{stamp}-{number}")))
        .find(|path| !path.exists())
        .unwrap_or(first)
}

/// `20260926T114200Z`.
fn utc(unix_ms: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(unix_ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y%m%dT%H%M%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_keeps_its_bytes_under_a_name_of_its_own() {
        let directory = tempfile::tempdir().expect("tempdir");
        assert_eq!(journal(directory.path(), "corrupt").expect("none"), None);
        let mut moved = Vec::new();
        for round in 0..3u8 {
            durable::write_file(&directory.path().join("journal.db"), &[round], 0o600).expect("write");
            moved.push(journal(directory.path(), "corrupt").expect("move").expect("there was one"));
        }
        for (round, path) in moved.iter().enumerate() {
            assert_eq!(durable::read_bounded(path, 9).expect("read"), Some(vec![round as u8]));
        }
        assert!(!directory.path().join("journal.db").exists());
    }

    #[test]
    fn the_name_carries_the_time_in_utc() {
        assert_eq!(utc(1_790_422_920_000), "20260926T114200Z");
        assert_eq!(
            free_name(Path::new("/d/journal.db"), "corrupt", 0),
            Path::new("/d/journal.db.corrupt-19700101T000000Z")
        );
    }
}
