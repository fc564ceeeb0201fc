//! The first API token of a store: for whoever can write its folder.

use crate::args::BootstrapArgs;
use anyhow::{Context, ensure};
use api::ApiSecret;
use kernel::db::{HintBus, Store, StoreOptions, SystemClock};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reader threads of a store.
const READERS: usize = 2;

pub(crate) fn store_path(data_dir: &Path) -> PathBuf {
    data_dir.join("store.db")
}

pub(crate) fn blob_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("blobs")
}

/// Opens the store of a data directory; one process at a time can.
pub(crate) fn open_store(data_dir: &Path, hints: HintBus) -> anyhow::Result<Store> {
    stdx::durable::create_directory(data_dir, 0o700)?;
    let options = StoreOptions { path: store_path(data_dir), clock: Arc::new(SystemClock), hints, readers: READERS };
    Store::open(options).context("cannot open the store")
}

/// Makes a token with a new id and returns its bearer.
pub(crate) async fn first_token(store: &Store) -> anyhow::Result<String> {
    let secret = ApiSecret::generate();
    let id = format!("at_{}", stdx::id::random(&mut rand::rng()));
    let bearer = secret.reveal(&id);
    store.write(move |tx| api::ensure_first_token(tx, &id, &secret)).await.context("cannot store the token")?;
    Ok(bearer)
}

pub(crate) fn run(args: &BootstrapArgs) -> anyhow::Result<()> {
    ensure!(
        args.out.symlink_metadata().is_err(),
        "FILE_EXISTS: {} is there already; remove it or name another file",
        args.out.display()
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let bearer = runtime.block_on(async {
        let store = open_store(&args.data_dir, HintBus::new())?;
        first_token(&store).await
    })?;
    stdx::durable::write_file(&args.out, format!("{bearer}\n").as_bytes(), 0o600)?;
    eprintln!("token written to {}; it acts for the root tenant", args.out.display());
    Ok(())
}
