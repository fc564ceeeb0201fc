//! A journal of an identity that is gone keeps its bytes under another name for a person to look at:
//! `journal.db.earlier-20260926T114200Z`. The name of a damaged one begins with `corrupt`.

use journal::file::{FileError, FileStorage, suffix};
use std::io;
use std::path::PathBuf;

/// Names tried within one second before the move is given up.
const NAMES_MAX: u32 = 100;

/// Moves the journal of `storage` aside. `None` when there is none. Holds nothing afterwards.
pub fn earlier_journal(storage: &mut FileStorage, wall_unix_ms: i64) -> Result<Option<PathBuf>, FileError> {
    let stamp = suffix("earlier", wall_unix_ms);
    for number in 1.. {
        let name = if number == 1 { stamp.clone() } else { format!("{stamp}-{number}") };
        match storage.move_aside(&name) {
            Err(FileError::Io { source, .. })
                if source.kind() == io::ErrorKind::AlreadyExists && number < NAMES_MAX => {}
            Ok(Some(path)) => {
                tracing::warn!(path = %path.display(), "an earlier identity's journal is moved aside");
                return Ok(Some(path));
            }
            other => return other,
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::durable;

    #[test]
    fn every_journal_keeps_its_bytes_under_a_name_of_its_own() {
        let directory = tempfile::tempdir().expect("tempdir");
        let open = || FileStorage::open(directory.path()).expect("open");
        assert!(earlier_journal(&mut open(), 0).expect("none").is_none());
        let mut moved = Vec::new();
        for round in 0..3u8 {
            durable::write_file(&directory.path().join("journal.db"), &[round], 0o600).expect("write");
            moved.push(earlier_journal(&mut open(), 1_790_422_920_000).expect("move").expect("there was one"));
        }
        for (round, path) in moved.iter().enumerate() {
            assert_eq!(durable::read_bounded(path, 9).expect("read"), Some(vec![round as u8]));
        }
        let name = moved[1].file_name().and_then(|name| name.to_str());
        assert_eq!(name, Some("journal.db.earlier-20260926T114200Z-2"));
        assert!(!directory.path().join("journal.db").exists());
    }
}
