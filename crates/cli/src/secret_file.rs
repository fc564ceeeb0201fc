//! One-time secrets into files: a new file, 0600, durable, and the secret nowhere else.

use crate::CliError;
use std::path::Path;

/// Refuses a file that is there, before anything is asked of the API.
pub(crate) fn check_new(path: Option<&Path>) -> Result<(), CliError> {
    match path {
        Some(path) if path.symlink_metadata().is_ok() => Err(CliError::FileExists(path.to_owned())),
        _ => Ok(()),
    }
}

/// Writes the secret with a line break. Without a secret no file appears.
pub(crate) fn write(path: &Path, secret: Option<&str>) -> Result<(), CliError> {
    let secret = secret.ok_or(CliError::NoToken)?;
    check_new(Some(path))?;
    Ok(stdx::durable::write_file(path, format!("{secret}\n").as_bytes(), 0o600)?)
}

/// A bearer where an id belongs is refused without a copy of it in the message.
pub(crate) fn check_id(id: &str) -> Result<(), CliError> {
    if id.contains('.') {
        let text =
            "this looks like a token, not an id; pass only the part before the dot, without its `bcjt_` or `bct_`";
        return Err(CliError::Usage(text.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_secret_gets_a_new_private_file_or_none() {
        let directory = tempfile::tempdir().expect("tempdir");
        let path = directory.path().join("token");
        assert!(matches!(write(&path, None), Err(CliError::NoToken)));
        assert!(!path.exists(), "a replay leaves no file");
        write(&path, Some("bcjt_1.s")).expect("write");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "bcjt_1.s\n");
        assert_eq!(std::fs::metadata(&path).expect("stat").mode() & 0o777, 0o600);
        assert!(matches!(check_new(Some(&path)), Err(CliError::FileExists(_))));
        assert!(matches!(write(&path, Some("other")), Err(CliError::FileExists(_))));
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "bcjt_1.s\n");
    }

    #[test]
    fn a_pasted_token_is_a_usage_error_that_does_not_repeat_it() {
        let error = check_id("bcjt_1.SECRET").expect_err("refused");
        assert_eq!(error.exit_status(), 2);
        assert!(!error.to_string().contains("SECRET"));
        assert!(check_id("jt_01ABC").is_ok());
    }
}
