//! Generates the wire code from `proto/` without a system `protoc`, and leaves the descriptors beside
//! it for the test that pins every field number.

use protox::prost::Message;
use std::io::Write;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new("proto");
    let directory = root.join("bettercompute/node/v1");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", directory.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path);
        }
    }
    files.sort();
    let descriptors = protox::compile(&files, [root])?;

    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::File::create(out.join("descriptors.bin"))?.write_all(&descriptors.encode_to_vec())?;

    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    config.type_name_domain(["."], "type.googleapis.com");
    tonic_prost_build::configure().compile_fds_with_config(descriptors, config)?;
    Ok(())
}
