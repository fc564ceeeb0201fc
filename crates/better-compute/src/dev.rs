//! `dev`: a whole fleet on one machine. `better-compute serve` and `bcd-sim sim` run as children; this
//! process only prepares what they need, speaks the API as any client would, and ends them.
//!
//! ```text
//! DIR/dev.json      addresses, so that the next start uses the same
//! DIR/api-token     0600
//! DIR/pki/          the bundle, the offline keys and the key file
//! DIR/keys/         what serve loads
//! DIR/store.db      and DIR/blobs
//! DIR/sim/          the simulated nodes
//! DIR/node/         config.toml and join-encryption.jwk for a real bcd
//! DIR/logs/         of both children
//! ```

mod child;
mod fleet;
mod layout;
mod paste;

use crate::args::DevArgs;
use anyhow::{Context, ensure};
use child::Child;
use layout::Layout;
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long `serve` may take until it listens.
const READY_WITHIN: Duration = Duration::from_secs(60);

pub(crate) fn run(args: &DevArgs) -> anyhow::Result<()> {
    // One thread: a child asks to die with the thread that started it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(dev(args))
}

/// Ends whatever is running, however this goes.
async fn dev(args: &DevArgs) -> anyhow::Result<()> {
    let listen_for = |kind| signal(kind).context("cannot listen for signals");
    let mut signals = (listen_for(SignalKind::terminate())?, listen_for(SignalKind::interrupt())?);
    let layout = Layout::prepare(args)?;
    let _lock = lock(&layout.root)?;
    let mut children = Vec::new();
    let outcome = tokio::select! {
        outcome = up(args, &layout, &mut children) => outcome,
        () = interrupted(&mut signals) => Ok(Outcome::Interrupted),
    };
    let outcome = match outcome {
        Ok(Outcome::Up) => watch_over(&mut children, &mut signals).await,
        Ok(Outcome::Interrupted) => Ok(()),
        Err(error) => Err(error),
    };
    eprintln!("ending what was started ...");
    // The nodes first, so that their sessions end in order.
    for child in children.into_iter().rev() {
        child.end().await;
    }
    outcome
}

enum Outcome {
    Up,
    Interrupted,
}

async fn interrupted((terminate, interrupt): &mut (Signal, Signal)) {
    tokio::select! {
        // Cancel-safe, both: a signal stays noticed.
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Brings everything up and prints what to paste.
async fn up(args: &DevArgs, layout: &Layout, children: &mut Vec<Child>) -> anyhow::Result<Outcome> {
    layout.ensure_keys()?;
    let bearer = layout.ensure_token().await?;
    let mut serve = Child::spawn("serve", &std::env::current_exe()?, &serve_arguments(layout), &layout.logs())?;
    let ready = tokio::time::timeout(READY_WITHIN, serve.ready_line()).await;
    children.push(serve);
    let ready = ready.context("the control plane did not start in time")??;
    let layout = layout.listening(&ready)?;
    let fleet = fleet::Fleet::prepare(&layout, &bearer).await?;
    layout.select_context(&bearer)?;
    layout.write_node_config(&fleet.site)?;
    if args.sim > 0 {
        let token = layout.sim_token_path();
        fleet.write_join_token(args.sim, &token).await?;
        let program = layout::find_program("bcd-sim")?;
        children.push(Child::spawn(
            "bcd-sim",
            &program,
            &sim_arguments(args.sim, &layout, &fleet.site)?,
            &layout.logs(),
        )?);
    }
    let nodes = tokio::select! {
        nodes = fleet.wait_for_nodes(args.sim) => nodes?,
        // A child that ends while nodes are waited for says why in its log.
        error = first_end(children) => return Err(error),
    };
    paste::print(&layout, &nodes)?;
    Ok(Outcome::Up)
}

/// Stays until a signal, or until a child ends by itself.
async fn watch_over(children: &mut [Child], signals: &mut (Signal, Signal)) -> anyhow::Result<()> {
    tokio::select! {
        () = interrupted(signals) => Ok(()),
        error = first_end(children) => Err(error),
    }
}

/// Why a child ended, once one does.
async fn first_end(children: &mut [Child]) -> anyhow::Error {
    std::future::poll_fn(|context| {
        for child in children.iter_mut() {
            if let std::task::Poll::Ready(status) = child.poll_end(context) {
                return std::task::Poll::Ready(child.why(status));
            }
        }
        std::task::Poll::Pending
    })
    .await
}

fn serve_arguments(layout: &Layout) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["serve".into(), "--data-dir".into(), layout.root.clone().into()];
    for (flag, value) in [("--keys", layout.keys()), ("--key-file", layout.key_file())] {
        arguments.extend([flag.into(), value.into()]);
    }
    for (flag, address) in [("--listen", layout.listen), ("--gateway-listen", layout.gateway_listen)] {
        arguments.extend([flag.into(), address.to_string().into()]);
    }
    // Nothing else could take the sessions over, so agents need no time to leave.
    arguments.extend(["--drain-seconds".into(), "2".into()]);
    arguments
}

fn sim_arguments(count: u32, layout: &Layout, site: &str) -> anyhow::Result<Vec<OsString>> {
    let pins = layout.pins()?;
    let mut arguments: Vec<OsString> = vec!["sim".into(), "--count".into(), count.to_string().into()];
    let texts = [
        ("--gateway-url", layout.gateway_url()),
        ("--gateway-server-name", layout::SERVER_NAME.to_owned()),
        ("--site", site.to_owned()),
        ("--serving-ca-pin", pins.serving_ca_spki_pin.to_string()),
        ("--join-signing-pin", pins.join_signing_key_pin.to_string()),
        ("--join-encryption-pin", pins.join_encryption_key_pin.to_string()),
    ];
    for (flag, value) in texts {
        arguments.extend([flag.into(), value.into()]);
    }
    let paths =
        [("--root", layout.sim()), ("--join-encryption-jwk", layout.jwk()), ("--token-file", layout.sim_token_path())];
    for (flag, path) in paths {
        arguments.extend([flag.into(), path.into()]);
    }
    Ok(arguments)
}

/// One `dev` a data directory.
fn lock(root: &Path) -> anyhow::Result<File> {
    let path = root.join("dev.lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            ensure!(
                false,
                "another `better-compute dev` runs with {}; end it first, or name another --data-dir",
                root.display()
            );
            Ok(file)
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(|| path.display().to_string()),
    }
}
