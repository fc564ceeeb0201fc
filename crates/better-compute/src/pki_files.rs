//! `pki init|split|show|pins`: the fleet's keys as files.

use crate::args::{PkiCommand, Unseal};
use crate::keys::{EXTENSION, read_sealed, sealing_key, sealing_key_opt};
use anyhow::{Context, ensure};
use pki::bundle::Pins;
use pki::envelope;
use pki::roles::{ApiKeys, ControllersKeys, GatewayKeys, JoinKeys, KeyFile, OfflineKeys};
use pki::show::{Show, Summary};
use pki::{Bundle, FileKind, FleetId, PublicPart, SealingKey};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

pub(crate) fn run(format: cli::Format, command: PkiCommand) -> anyhow::Result<()> {
    match command {
        PkiCommand::Init { out, serving_names, fleet_id, unseal } => {
            let fleet_id = match fleet_id {
                Some(text) => FleetId::parse(&text)?,
                None => FleetId::random(),
            };
            init(&out, fleet_id, &serving_names, &unseal)
        }
        PkiCommand::Split { bundle, out, unseal } => {
            let key = sealing_key(&unseal)?;
            let bundle = open_bundle(&bundle, &key)?;
            for path in split(&bundle, &out, &key)? {
                eprintln!("{} written", path.display());
            }
            eprintln!("move offline.{EXTENSION} and the bundle away from every server");
            Ok(())
        }
        PkiCommand::Show { file, unseal } => print(format, &summary(&summarize(&file, &unseal)?), text_of_summary),
        PkiCommand::Pins { file, unseal } => {
            let public = match sealing_key_opt(&unseal)? {
                Some(key) => open_any(&file, &key)?.1,
                None => read_public(&file)?.1,
            };
            print(format, &pins(&public.pins()), text_of_pins)
        }
    }
}

/// Writes a new bundle; the key file is made if it is not there.
pub(crate) fn init(out: &Path, fleet: FleetId, serving_names: &[String], unseal: &Unseal) -> anyhow::Result<()> {
    ensure!(
        out.symlink_metadata().is_err(),
        "FILE_EXISTS: {} is there already; a fleet's keys are made once",
        out.display()
    );
    if let Some(path) = unseal.key_file.as_ref().filter(|path| path.symlink_metadata().is_err()) {
        make_parent(path)?;
        stdx::durable::write_file(path, SealingKey::generate_key_file().as_ref(), 0o600)?;
        eprintln!("{} written: it opens the bundle; keep it apart from it", path.display());
    }
    let key = sealing_key(unseal)?;
    let bundle = Bundle::create(fleet, serving_names, stdx::clock::wall_unix_ms())?;
    make_parent(out)?;
    stdx::durable::write_file(out, &bundle.seal(&key), 0o600)?;
    eprintln!("{} written: the keys of fleet {}", out.display(), bundle.public.fleet_id);
    Ok(())
}

fn make_parent(path: &Path) -> anyhow::Result<()> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => Ok(stdx::durable::create_directory(parent, 0o700)?),
        None => Ok(()),
    }
}

pub(crate) fn open_bundle(path: &Path, key: &SealingKey) -> anyhow::Result<Bundle> {
    Bundle::open(&read_sealed(path)?, key).with_context(|| format!("cannot open {}", path.display()))
}

/// Writes one sealed file for each role into `out`; returns their paths.
pub(crate) fn split(bundle: &Bundle, out: &Path, key: &SealingKey) -> anyhow::Result<Vec<PathBuf>> {
    stdx::durable::create_directory(out, 0o700)?;
    let keys = bundle.split();
    let files = [
        (FileKind::Gateway, keys.gateway.seal(key)),
        (FileKind::Join, keys.join.seal(key)),
        (FileKind::Api, keys.api.seal(key)),
        (FileKind::Controllers, keys.controllers.seal(key)),
        (FileKind::Offline, keys.offline.seal(key)),
    ];
    let mut written = Vec::new();
    for (kind, bytes) in files {
        let path = out.join(format!("{kind}.{EXTENSION}"));
        stdx::durable::write_file(&path, &bytes, 0o600)?;
        written.push(path);
    }
    Ok(written)
}

fn read_public(path: &Path) -> anyhow::Result<(FileKind, PublicPart)> {
    let read = envelope::read_public(&read_sealed(path)?);
    let read = read.with_context(|| format!("cannot read {}", path.display()))?;
    eprintln!("note: {} was not opened, so nothing proves that it was not changed", path.display());
    Ok(read)
}

/// Opens a file of whatever kind it says it is.
fn open_any(path: &Path, key: &SealingKey) -> anyhow::Result<(Summary, PublicPart)> {
    fn opened<K: Show>(bytes: &[u8], key: &SealingKey) -> anyhow::Result<(Summary, PublicPart)> {
        let keys = K::open(bytes, key)?;
        Ok((keys.summary(), keys.public().clone()))
    }
    let bytes = read_sealed(path)?;
    let (kind, _) = envelope::read_public(&bytes).with_context(|| format!("cannot read {}", path.display()))?;
    let opened = match kind {
        FileKind::Bundle => opened::<Bundle>(&bytes, key),
        FileKind::Gateway => opened::<GatewayKeys>(&bytes, key),
        FileKind::Join => opened::<JoinKeys>(&bytes, key),
        FileKind::Api => opened::<ApiKeys>(&bytes, key),
        FileKind::Controllers => opened::<ControllersKeys>(&bytes, key),
        FileKind::Offline => opened::<OfflineKeys>(&bytes, key),
    };
    opened.with_context(|| format!("cannot open {}", path.display()))
}

fn summarize(path: &Path, unseal: &Unseal) -> anyhow::Result<Summary> {
    if let Some(key) = sealing_key_opt(unseal)? {
        return Ok(open_any(path, &key)?.0);
    }
    let (kind, public) = read_public(path)?;
    Ok(public.summary(kind))
}

fn summary(summary: &Summary) -> Value {
    let date = |ms: i64| jiff::Timestamp::from_millisecond(ms).map(|time| time.to_string()).unwrap_or_default();
    let entries = summary.entries.iter().map(|entry| {
        let mut shown = json!({
            "name": entry.name, "kid": entry.kid, "pin": entry.pin.to_string(), "private": entry.private,
        });
        if let Some(certificate) = &entry.certificate {
            shown["sha256"] = json!(certificate.sha256);
            shown["serial"] = json!(certificate.serial_hex);
            shown["subject"] = json!(certificate.subject);
            shown["names"] = json!(certificate.names);
            shown["notBefore"] = json!(date(certificate.not_before_ms));
            shown["notAfter"] = json!(date(certificate.not_after_ms));
        }
        shown
    });
    json!({"file": summary.file.name(), "fleetId": summary.fleet_id, "keys": entries.collect::<Vec<_>>()})
}

fn text_of_summary(value: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut out = format!("file   {}\nfleet  {}\n", text(&value["file"]), text(&value["fleetId"]));
    for entry in value["keys"].as_array().into_iter().flatten() {
        let private = if entry["private"] == true { "with its private key" } else { "public part only" };
        out.push_str(&format!("\n{} ({private})\n  {}\n", text(&entry["name"]), text(&entry["pin"])));
        if let Some(sha256) = entry["sha256"].as_str() {
            let (from, until) = (text(&entry["notBefore"]), text(&entry["notAfter"]));
            out.push_str(&format!("  certificate {sha256}\n  valid {from} to {until}\n"));
        }
        let names: Vec<String> = entry["names"].as_array().into_iter().flatten().map(text).collect();
        if !names.is_empty() {
            out.push_str(&format!("  for {}\n", names.join(", ")));
        }
    }
    out
}

fn pins(pins: &Pins) -> Value {
    json!({
        "serving_ca_spki_pin": pins.serving_ca_spki_pin.to_string(),
        "join_signing_key_pin": pins.join_signing_key_pin.to_string(),
        "join_encryption_key_pin": pins.join_encryption_key_pin.to_string(),
        "command_root_sha256": pins.command_root_sha256.join(","),
    })
}

/// Lines for `config.toml`.
fn text_of_pins(value: &Value) -> String {
    let lines = value.as_object().into_iter().flatten().map(|(name, value)| format!("{name} = {value}\n"));
    lines.collect()
}

fn print(format: cli::Format, value: &Value, text: impl Fn(&Value) -> String) -> anyhow::Result<()> {
    let text = match format {
        cli::Format::Table => text(value),
        cli::Format::Json => serde_json::to_string_pretty(value)? + "\n",
        cli::Format::Yaml => cli::to_yaml(value).map_err(|error| anyhow::anyhow!("{error}"))?,
    };
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
