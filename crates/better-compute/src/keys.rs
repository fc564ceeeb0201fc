//! Sealed key files on disk: opening them, and that a process gets exactly the keys its roles need.

use crate::args::{Role, Unseal};
use anyhow::{Context, bail, ensure};
use pki::envelope::{self, FILE_BYTES_MAX};
use pki::roles::{ApiKeys, ControllersKeys, GatewayKeys, JoinKeys, KeyFile};
use pki::{FileKind, SealingKey};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How sealed files are named.
pub(crate) const EXTENSION: &str = "sealed";
/// Longest key or passphrase file read, bytes.
const SECRET_BYTES_MAX: u64 = 4096;

/// What opens the sealed files, as the flags say.
pub(crate) fn sealing_key(unseal: &Unseal) -> anyhow::Result<SealingKey> {
    sealing_key_opt(unseal)?.context("say what opens the sealed keys: --key-file FILE or --passphrase-file FILE")
}

pub(crate) fn sealing_key_opt(unseal: &Unseal) -> anyhow::Result<Option<SealingKey>> {
    if let Some(path) = &unseal.key_file {
        let bytes = read_secret(path)?;
        return SealingKey::key_file(&bytes).with_context(|| format!("{} is no key file", path.display())).map(Some);
    }
    let Some(path) = &unseal.passphrase_file else { return Ok(None) };
    let bytes = read_secret(path)?;
    let text = std::str::from_utf8(&bytes).with_context(|| format!("{} is not text", path.display()))?;
    let line = text.lines().next().unwrap_or_default();
    let key = SealingKey::passphrase(line).with_context(|| format!("the passphrase in {}", path.display()))?;
    Ok(Some(key))
}

/// A secret that others can read is refused before it is used.
fn read_secret(path: &Path) -> anyhow::Result<Vec<u8>> {
    let stat = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mode = stat.mode() & 0o777;
    ensure!(mode & 0o077 == 0, "{} is readable by others (mode {mode:o}); run: chmod 600 {0}", path.display());
    let bytes = stdx::durable::read_bounded(path, SECRET_BYTES_MAX)?;
    bytes.with_context(|| format!("{} does not exist", path.display()))
}

pub(crate) fn read_sealed(path: &Path) -> anyhow::Result<Vec<u8>> {
    let bytes = stdx::durable::read_bounded(path, FILE_BYTES_MAX as u64)?;
    bytes.with_context(|| format!("{} does not exist", path.display()))
}

/// The kinds of key file a role needs.
pub(crate) fn needed(role: Role) -> &'static [FileKind] {
    match role {
        Role::Api => &[FileKind::Api],
        Role::Gateway => &[FileKind::Gateway],
        Role::Controllers => &[FileKind::Join, FileKind::Controllers],
        Role::Console => &[],
    }
}

/// The keys of one process: those of its roles and no others.
#[derive(Default)]
pub(crate) struct RoleKeys {
    pub api: Option<ApiKeys>,
    pub gateway: Option<GatewayKeys>,
    pub controllers: Option<(JoinKeys, ControllersKeys)>,
}

/// Opens the key files for `roles`. A file that no role needs is refused, so that a process that is
/// broken into gives away nothing it did not use.
pub(crate) fn load(paths: &[PathBuf], roles: &[Role], key: &SealingKey) -> anyhow::Result<RoleKeys> {
    let needed: Vec<FileKind> = roles.iter().flat_map(|role| needed(*role)).copied().collect();
    let mut files: BTreeMap<FileKind, (PathBuf, Vec<u8>)> = BTreeMap::new();
    for path in expand(paths)? {
        let bytes = read_sealed(&path)?;
        let (kind, _) = envelope::read_public(&bytes).with_context(|| path.display().to_string())?;
        ensure!(
            kind != FileKind::Bundle,
            "{} is the whole bundle; split it, and keep it away from servers",
            path.display()
        );
        ensure!(kind != FileKind::Offline, "{} is the offline file; no server loads it", path.display());
        if !needed.contains(&kind) {
            bail!(
                "{} holds the {kind} keys, which none of the roles {} needs; take it away",
                path.display(),
                names(roles)
            );
        }
        if let Some((other, _)) = files.insert(kind, (path.clone(), bytes)) {
            bail!("{} and {} both hold the {kind} keys", other.display(), path.display());
        }
    }
    let mut keys = RoleKeys::default();
    if needed.contains(&FileKind::Api) {
        keys.api = Some(open(&mut files, key)?);
    }
    if needed.contains(&FileKind::Gateway) {
        keys.gateway = Some(open(&mut files, key)?);
    }
    if needed.contains(&FileKind::Join) {
        keys.controllers = Some((open(&mut files, key)?, open(&mut files, key)?));
    }
    check_one_fleet(&keys)?;
    Ok(keys)
}

fn open<K: KeyFile>(files: &mut BTreeMap<FileKind, (PathBuf, Vec<u8>)>, key: &SealingKey) -> anyhow::Result<K> {
    let kind = K::KIND;
    let (path, bytes) = files.remove(&kind).with_context(|| {
        format!("the {kind} keys are missing; `better-compute pki split` writes {kind}.{EXTENSION}")
    })?;
    K::open(&bytes, key).with_context(|| format!("cannot open {}", path.display()))
}

/// Files as they are; of a folder, every sealed file in it.
fn expand(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        for entry in std::fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))? {
            let path = entry.with_context(|| format!("cannot list {}", path.display()))?.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                all.push(path);
            }
        }
    }
    all.sort();
    Ok(all)
}

fn check_one_fleet(keys: &RoleKeys) -> anyhow::Result<()> {
    let mut fleets: Vec<String> = Vec::new();
    fleets.extend(keys.api.iter().map(|keys| keys.public.fleet_id.to_string()));
    fleets.extend(keys.gateway.iter().map(|keys| keys.public.fleet_id.to_string()));
    if let Some((join, controllers)) = &keys.controllers {
        fleets.extend([join.public.fleet_id.to_string(), controllers.public.fleet_id.to_string()]);
    }
    fleets.dedup();
    ensure!(fleets.len() <= 1, "the key files are of several fleets: {}", fleets.join(", "));
    Ok(())
}

fn names(roles: &[Role]) -> String {
    let names: Vec<String> = roles.iter().map(|role| format!("{role:?}").to_lowercase()).collect();
    names.join(",")
}
