use super::*;
use std::path::PathBuf;

fn fuzz_directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Every kept input, and every one-byte change of the small ones.
#[test]
fn the_kept_corpus_runs_clean() {
    for target in TARGETS {
        let directory = fuzz_directory().join("corpus").join(target.name);
        let mut count = 0;
        for entry in std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display())) {
            let bytes = std::fs::read(entry.expect("entry").path()).expect("a corpus file");
            (target.run)(&bytes);
            for at in 0..bytes.len().min(512) {
                let mut changed = bytes.clone();
                changed[at] ^= 0x41;
                (target.run)(&changed);
                (target.run)(&bytes[..at]);
            }
            count += 1;
        }
        assert!(count > 0, "{} has no corpus", target.name);
    }
}

#[test]
fn every_target_has_its_fuzzer() {
    for target in TARGETS {
        let path = fuzz_directory().join("fuzz_targets").join(format!("{}.rs", target.name));
        let source = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(source.contains(&format!("fuzzing::{}(data)", target.name)));
    }
}
