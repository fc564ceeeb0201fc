use super::*;
use crate::bounds::LOG_ARCHIVE_RAW_BYTES_MAX;
use model::limits::BLOB_BYTES_MAX;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

fn script(directory: &Path, name: &str, body: &str) -> OsString {
    let path = directory.join(name);
    stdx::durable::write_file(&path, format!("#!/bin/sh\n{body}\n").as_bytes(), 0o700).expect("script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).expect("mode");
    path.into_os_string()
}

fn made_up(directory: &Path) -> Sources {
    let proc = directory.join("proc");
    std::fs::create_dir_all(&proc).expect("proc");
    for (name, text) in [("meminfo", "MemTotal: 1 kB\n"), ("cmdline", "quiet bc.token=bcjt_id.secretsecret\n")] {
        stdx::durable::write_file(&proc.join(name), text.as_bytes(), 0o644).expect("write");
    }
    Sources {
        tree: Tree::new(directory),
        journal: Source::Program(script(directory, "journalctl", "echo \"args: $@\"")),
        kernel: Source::Program(script(directory, "dmesg", "echo oops; exit 0")),
        nvidia_smi: Source::Program("no-such-nvidia-smi".into()),
    }
}

fn unpack(bytes: &[u8]) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(zstd::Decoder::new(bytes).expect("zstd"));
    let mut files = BTreeMap::new();
    for entry in archive.entries().expect("entries") {
        let mut entry = entry.expect("entry");
        let name = entry.path().expect("path").to_string_lossy().into_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("content");
        files.insert(name, String::from_utf8_lossy(&bytes).into_owned());
    }
    files
}

#[test]
fn the_archive_holds_what_was_there_and_its_manifest_says_what_was_not() {
    let directory = tempfile::tempdir().expect("tempdir");
    let sources = made_up(directory.path());
    let log = directory.path().join("bcd.log");
    stdx::durable::write_file(&log, b"line\n-----BEGIN PRIVATE KEY-----\nM\n-----END PRIVATE KEY-----\n", 0o600)
        .expect("log");
    let link = directory.path().join("link.log");
    std::os::unix::fs::symlink("/etc/passwd", &link).expect("link");
    let request = LogsRequest { since_s: 60, files: vec![log, link, directory.path().join("gone.log")] };
    let mut bytes = Vec::new();
    let summary = sources.collect(&request, &mut bytes).expect("collected");
    let files = unpack(&bytes);
    assert_eq!(summary.bytes, bytes.len() as u64);
    assert_eq!(files["proc/cmdline"], "quiet bc.token=bcjt_[redacted]\n");
    assert_eq!(files["files/00-bcd.log"], "line\n[redacted private key]\n");
    assert_eq!(files["kernel.txt"], "oops\n");
    assert!(files["journal.txt"].starts_with("args: --since=-60s --unit=bcd.service"), "{}", files["journal.txt"]);
    assert!(!files.contains_key("nvidia-smi.txt") && !files.contains_key("files/01-link.log"));
    let manifest = &files["MANIFEST"];
    for line in [
        "proc/meminfo: 15 bytes, 0 secrets taken out",
        "files/00-bcd.log: 28 bytes, 1 secrets taken out",
        "PROBLEM nvidia-smi.txt: no-such-nvidia-smi is not installed",
        "PROBLEM proc/interrupts: not there",
    ] {
        assert!(manifest.contains(line), "{line} is not in\n{manifest}");
    }
    assert!(summary.problems.iter().any(|problem| problem.starts_with("files/01-link.log: ")));
    assert!(summary.problems.iter().any(|problem| problem.starts_with("files/02-gone.log: ")));
    assert_eq!(summary.items, files.len() - 1, "all but the MANIFEST");
}

#[test]
fn what_a_failing_program_says_is_redacted_too() {
    let directory = tempfile::tempdir().expect("tempdir");
    let mut sources = made_up(directory.path());
    sources.journal = Source::Program(script(directory.path(), "failing", "echo bad bcjt_id.secretsecret >&2; exit 3"));
    let mut bytes = Vec::new();
    let summary = sources.collect(&LogsRequest::default(), &mut bytes).expect("collected");
    let manifest = &unpack(&bytes)["MANIFEST"];
    assert!(manifest.contains("ended with status 3: bad bcjt_[redacted]"), "{manifest}");
    assert!(!summary.problems.iter().any(|problem| problem.contains("secretsecret")));
}

#[test]
fn a_secret_cut_in_half_by_the_bound_does_not_get_through() {
    let directory = tempfile::tempdir().expect("tempdir");
    let sources = made_up(directory.path());
    let log = directory.path().join("big.log");
    // The bound falls inside the token of the first line.
    let mut text = b"token bcjt_id.".to_vec();
    text.resize(1000, b's');
    text.push(b'\n');
    text.resize(LOG_ITEM_BYTES_MAX + 500 - 5, b'x');
    text.extend_from_slice(b"\nend\n");
    stdx::durable::write_file(&log, &text, 0o600).expect("log");
    let mut bytes = Vec::new();
    let summary = sources.collect(&LogsRequest { since_s: 0, files: vec![log] }, &mut bytes).expect("collected");
    let kept = &unpack(&bytes)["files/00-big.log"];
    assert!(!kept.contains('s'), "half a token came through");
    assert!(kept.ends_with("\nend\n"));
    assert!(summary.problems.iter().any(|problem| problem.starts_with("files/00-big.log: longer than its bound")));
}

#[test]
fn items_that_do_not_compress_stay_below_a_blob() {
    let directory = tempfile::tempdir().expect("tempdir");
    let sources = made_up(directory.path());
    let noise = directory.path().join("noise.log");
    let mut state = 1u64;
    let mut bytes = Vec::with_capacity(LOG_ITEM_BYTES_MAX);
    while bytes.len() < LOG_ITEM_BYTES_MAX {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state >> 16).to_le_bytes()[..6]);
    }
    bytes.truncate(LOG_ITEM_BYTES_MAX);
    stdx::durable::write_file(&noise, &bytes, 0o600).expect("noise");
    let request = LogsRequest { since_s: 0, files: vec![noise; 9] };
    let mut archive = Vec::new();
    let summary = sources.collect(&request, &mut archive).expect("collected");
    assert!(
        archive.len() as u64 <= BLOB_BYTES_MAX && archive.len() > LOG_ARCHIVE_RAW_BYTES_MAX / 2,
        "{}",
        archive.len()
    );
    assert!(!summary.problems.is_empty(), "what did not fit is said");
}

#[test]
fn a_writer_that_fails_fails_the_collection() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let directory = tempfile::tempdir().expect("tempdir");
    let error = made_up(directory.path()).collect(&LogsRequest::default(), &mut Full).expect_err("full");
    assert_eq!(error.source.kind(), io::ErrorKind::StorageFull);
}
