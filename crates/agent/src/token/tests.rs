use super::*;
use model::TokenId;
use std::os::unix::fs::PermissionsExt;

fn token() -> String {
    let token = JoinToken::generate(TokenId::new(format!("jt_{}", stdx::id::encode(7)))).expect("token");
    token.reveal().to_string()
}

fn write(path: &Path, bytes: &[u8], mode: u32) {
    stdx::durable::write_file(path, bytes, mode).expect("write");
}

#[test]
fn a_token_is_the_first_line_in_its_one_spelling() {
    let text = token();
    for spelled in [text.clone(), format!("{text}\n"), format!("{text}\r\n"), format!("{text}\nsecond line")] {
        assert_eq!(parse(spelled.as_bytes()).expect("token").reveal().as_str(), text);
        assert_eq!(from_input(spelled.as_bytes()).expect("token").reveal().as_str(), text);
    }
    for absent in ["", "\n", "\r\n"] {
        assert!(matches!(parse(absent.as_bytes()), Err(TokenReadError::Absent)), "{absent:?}");
    }
    for bad in [format!(" {text}"), format!("{text} "), text[1..].to_owned(), text.to_uppercase()] {
        assert!(matches!(parse(bad.as_bytes()), Err(TokenReadError::Malformed)));
    }
    assert!(matches!(parse(b"bcjt_\xff"), Err(TokenReadError::Malformed)));
}

#[test]
fn no_error_shows_what_was_given() {
    let secret = "bcjt_jt_secretsecretsecret";
    let error = parse(secret.as_bytes()).expect_err("malformed");
    assert!(!format!("{error} {error:?}").contains("secretsecret"));
}

#[test]
fn a_token_file_is_private_regular_and_small() {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join("token");
    let text = token();
    for mode in [0o600, 0o400] {
        write(&path, text.as_bytes(), mode);
        assert_eq!(from_file(&path).expect("token").reveal().as_str(), text);
    }
    for mode in [0o640, 0o604, 0o644, 0o700, 0o200, 0o4600, 0o000] {
        write(&path, text.as_bytes(), 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("mode");
        assert!(matches!(from_file(&path), Err(TokenReadError::File { .. } | TokenReadError::Open { .. })), "{mode:o}");
    }
    let mut padded = text.clone().into_bytes();
    padded.push(b'\n');
    padded.resize(4096, b'x');
    write(&path, &padded, 0o600);
    from_file(&path).expect("4 KiB is fine");
    padded.push(b'x');
    write(&path, &padded, 0o600);
    assert!(matches!(from_file(&path), Err(TokenReadError::File { rule: "at most 4 KiB", .. })));
    assert!(matches!(from_file(directory.path()), Err(TokenReadError::File { rule: "a regular file", .. })));
    assert!(matches!(from_file(&directory.path().join("none")), Err(TokenReadError::Open { .. })));
}

#[test]
fn a_pipe_is_refused_and_never_waited_for() {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("mkfifo");
    assert!(matches!(from_file(&path), Err(TokenReadError::File { rule: "a regular file", .. })));
}

/// A Secret volume: `token -> ..data/token`, `..data -> ..2026/`.
#[test]
fn the_links_of_a_secret_volume_are_followed() {
    let directory = tempfile::tempdir().expect("tempdir");
    let root = directory.path();
    std::fs::create_dir(root.join("..2026")).expect("mkdir");
    write(&root.join("..2026/token"), token().as_bytes(), 0o400);
    std::os::unix::fs::symlink("..2026", root.join("..data")).expect("link");
    std::os::unix::fs::symlink("..data/token", root.join("token")).expect("link");
    from_file(&root.join("token")).expect("token");
    std::fs::set_permissions(root.join("..2026/token"), std::fs::Permissions::from_mode(0o444)).expect("mode");
    assert!(matches!(from_file(&root.join("token")), Err(TokenReadError::File { .. })), "the target's mode counts");
}

#[test]
fn a_used_token_file_is_deleted_and_one_that_cannot_be_is_left() {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join("token");
    write(&path, token().as_bytes(), 0o600);
    discard(&path);
    assert!(!path.exists());
    discard(&path);
    discard(directory.path());
    assert!(directory.path().exists(), "what cannot be removed is a warning");
}
