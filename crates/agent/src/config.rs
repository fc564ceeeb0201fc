//! `config.toml`: what a person tells the daemon, checked whole before anything starts. An unknown
//! key, a wrong type or a value outside its rule is an error with the number of its line.
//!
//! Sections of features that this version does not have yet are read and checked all the same, so
//! that a file written for a later version is either right or refused today.
//!
//! Not here: reading `join-encryption.jwk` (see `join`) and anything done with a value.

mod rules;
mod syntax;
mod table;

pub use rules::{Cluster, Network, Url, cleaned};
pub use syntax::LineError;

use model::limits::{CONFIG_BYTES_MAX, JOURNAL_BYTES_MAX, JOURNAL_EVENTS_MAX};
use pki::Pin;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use table::Keys;

pub const DATA_DIR_DEFAULT: &str = "/var/lib/bcd";
pub const SOCKET_PATH_DEFAULT: &str = "/run/bcd/bcd.sock";
const ENTRYPOINT_DEFAULT: &str = "/usr/local/bin/bcd";
const HELPER_SLOTS_DIR: &str = "/usr/local/lib/bcd";
/// A journal below this could not hold one command body of the largest size and its result.
const JOURNAL_BYTES_LEAST: u64 = 4 << 20;
/// Release keys that may have to sign (`install.md`, `--release-threshold`).
const RELEASE_THRESHOLD_MAX: u64 = 16;

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: stdx::durable::DurableError,
    },
    #[error("{} does not exist", path.display())]
    Missing { path: PathBuf },
    #[error("{}", path.display())]
    Invalid {
        path: PathBuf,
        #[source]
        source: LineError,
    },
}

/// Which relaxations this build knows. Only builds with simulated hardware have the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    Host,
    Development,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `https`, or `http` in a development build with `dev_insecure_h2c`.
    pub gateway_url: Url,
    pub site: String,
    pub serving_ca_pin: Pin,
    pub join_signing_pin: Pin,
    pub join_encryption_pin: Pin,
    pub data_dir: PathBuf,
    pub socket_path: PathBuf,
    pub gateway_server_name: Option<String>,
    pub dev_insecure_h2c: bool,
    pub approver_set_sha256: Option<String>,
    /// At most 16, lower-case hex.
    pub command_roots: Vec<String>,
    pub journal: Journal,
    pub log: Log,
    pub update: Update,
    pub helper: Option<Helper>,
    pub instance_bridges: Vec<String>,
    pub bmc_networks: Vec<Network>,
    pub websocket: Websocket,
    pub balloon_floor_percent: u8,
    pub emulation: bool,
    pub imds_listen: Option<SocketAddr>,
    pub host_units: bool,
    pub kubernetes: Kubernetes,
    pub boot: Boot,
    pub plugins: Plugins,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Journal {
    pub bytes_max: u64,
    pub events_max: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    pub level: Level,
    /// JSON lines; else text for people.
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Distinct and sorted; empty refuses every self-update.
    pub release_pins: Vec<Pin>,
    pub release_threshold: u32,
    pub release_sequence: u64,
    pub entrypoint: PathBuf,
    pub slots_dir: PathBuf,
    /// Where `upgrade.json` and `update.json` are.
    pub records_dir: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Helper {
    pub socket: PathBuf,
    pub user: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Websocket {
    pub url: Option<Url>,
    pub proxy_ca_file: Option<PathBuf>,
    /// The gateway's public host that the node's proof names; always there when `url` is.
    pub audience: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubernetes {
    pub allowed_clusters: Vec<Cluster>,
    pub gpu_api: GpuApi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuApi {
    DevicePlugin,
    Dra,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boot {
    /// `None` turns the boot server off.
    pub listen: Option<SocketAddr>,
    pub url: Option<Url>,
    pub kernel: Option<Url>,
    pub initrd: Option<Url>,
    pub cmdline: String,
    pub server_ip: Option<Ipv4Addr>,
    pub proxy_dhcp: bool,
    pub tftp: Option<SocketAddr>,
    pub tftp_root: Option<PathBuf>,
    /// 0 is unbounded.
    pub cache_bytes_max: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugins {
    /// `None` runs no plugin.
    pub dir: Option<PathBuf>,
    pub user: Option<String>,
    pub privileged: Vec<String>,
    pub sandbox: bool,
    pub cgroup: Option<PathBuf>,
    /// Bytes; 0 is no limit.
    pub memory_max: u64,
    /// 0 is no limit.
    pub pids_max: u64,
}

/// Reads and checks a file.
pub fn load(path: &Path, build: Build) -> Result<Config, ConfigError> {
    let bytes = stdx::durable::read_bounded(path, CONFIG_BYTES_MAX)
        .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?
        .ok_or_else(|| ConfigError::Missing { path: path.to_owned() })?;
    parse(&bytes, build).map_err(|source| ConfigError::Invalid { path: path.to_owned(), source })
}

/// Checks a file's content.
pub fn parse(bytes: &[u8], build: Build) -> Result<Config, LineError> {
    if bytes.len() as u64 > CONFIG_BYTES_MAX {
        let line = 1 + bytes[..CONFIG_BYTES_MAX as usize].iter().filter(|byte| **byte == b'\n').count();
        return Err(LineError::new(line, format!("the file is larger than {CONFIG_BYTES_MAX} bytes")));
    }
    let document = syntax::parse(bytes)?;
    table::check(&document)?;
    let keys = Keys(&document);
    let dev_insecure_h2c = keys.boolean("", "dev_insecure_h2c", false);
    if dev_insecure_h2c && build == Build::Host {
        let line = keys.line("", "dev_insecure_h2c");
        return Err(LineError::new(line, "dev_insecure_h2c is only for development builds"));
    }
    let gateway_schemes: &[&'static str] = if dev_insecure_h2c { &["https", "http"] } else { &["https"] };
    let gateway_url = keys.required("gateway_url", |text| gateway_url(text, gateway_schemes))?;
    let gateway_server_name = keys.text("", "gateway_server_name", rules::server_name)?;
    let data_dir = path_or(&keys, "", "data_dir", DATA_DIR_DEFAULT)?;
    let helper = helper(&keys)?;
    Ok(Config {
        site: keys.required("site", rules::site)?,
        serving_ca_pin: keys.required("serving_ca_spki_pin", rules::pin)?,
        join_signing_pin: keys.required("join_signing_key_pin", rules::pin)?,
        join_encryption_pin: keys.required("join_encryption_key_pin", rules::pin)?,
        socket_path: path_or(&keys, "", "socket_path", SOCKET_PATH_DEFAULT)?,
        approver_set_sha256: keys.text("", "approver_set_sha256", rules::sha256_hex)?,
        command_roots: keys.text("", "command_root_sha256", rules::command_roots)?.unwrap_or_default(),
        journal: journal(&keys)?,
        log: log(&keys)?,
        update: update(&keys, &data_dir, helper.is_some())?,
        instance_bridges: keys.text("helper", "instance_bridges", rules::bridges)?.unwrap_or_default(),
        bmc_networks: keys.text("site", "bmc_networks", rules::networks)?.unwrap_or_default(),
        websocket: websocket(&keys, dev_insecure_h2c, gateway_server_name.as_deref())?,
        balloon_floor_percent: keys.integer("instances", "balloon_floor_percent", 50, 10..=100)? as u8,
        emulation: keys.boolean("instances", "emulation", false),
        imds_listen: keys.text("imds", "listen", rules::listen_on_address)?.flatten(),
        host_units: keys.boolean("host", "units", true),
        kubernetes: kubernetes(&keys)?,
        boot: boot(&keys)?,
        plugins: plugins(&keys)?,
        gateway_url,
        gateway_server_name,
        dev_insecure_h2c,
        data_dir,
        helper,
    })
}

/// A gateway serves gRPC at its root, so a path would be ignored: it is refused.
fn gateway_url(text: &str, schemes: &[&'static str]) -> Result<Url, String> {
    let url = rules::url(text, schemes)?;
    if url.path.is_empty() || url.path == "/" { Ok(url) } else { Err("may not hold a path".to_owned()) }
}

fn path_or(keys: &Keys<'_>, section: &str, key: &str, default: &str) -> Result<PathBuf, LineError> {
    Ok(keys.text(section, key, rules::absolute_path)?.unwrap_or_else(|| PathBuf::from(default)))
}

fn journal(keys: &Keys<'_>) -> Result<Journal, LineError> {
    let bytes = JOURNAL_BYTES_LEAST..=JOURNAL_BYTES_MAX;
    let events = 1..=u64::from(JOURNAL_EVENTS_MAX);
    Ok(Journal {
        bytes_max: keys.integer("journal", "max_bytes", JOURNAL_BYTES_MAX, bytes)?,
        events_max: keys.integer("journal", "max_events", u64::from(JOURNAL_EVENTS_MAX), events)? as u32,
    })
}

fn log(keys: &Keys<'_>) -> Result<Log, LineError> {
    let level = keys.text("log", "level", |text| match text {
        "debug" => Ok(Level::Debug),
        "info" => Ok(Level::Info),
        "warn" => Ok(Level::Warn),
        "error" => Ok(Level::Error),
        _ => Err("must be debug, info, warn or error".to_owned()),
    })?;
    Ok(Log { level: level.unwrap_or(Level::Info), json: keys.boolean("log", "json", true) })
}

fn helper(keys: &Keys<'_>) -> Result<Option<Helper>, LineError> {
    const MESSAGE: &str =
        "helper.socket needs an absolute path and helper.user, the unprivileged account bcd node runs as";
    let refused = |key| LineError::new(keys.line("helper", key), MESSAGE);
    let socket = keys.text("helper", "socket", |text| Ok(rules::absolute_path(text).ok()))?;
    let user = keys.text("helper", "user", |text| Ok(rules::unprivileged_account(text).ok()))?;
    match (socket, user) {
        (None, None) => Ok(None),
        (Some(Some(socket)), Some(Some(user))) => Ok(Some(Helper { socket, user })),
        (Some(_), None) | (Some(None), _) => Err(refused("socket")),
        (_, Some(_)) => Err(refused("user")),
    }
}

fn update(keys: &Keys<'_>, data_dir: &Path, under_helper: bool) -> Result<Update, LineError> {
    let release_pins = keys.text("update", "release_pins", rules::release_pins)?.unwrap_or_default();
    let release_threshold = keys.integer("update", "release_threshold", 1, 1..=RELEASE_THRESHOLD_MAX)?;
    if !release_pins.is_empty() && release_threshold > release_pins.len() as u64 {
        let message = "update.release_threshold is above the number of distinct update.release_pins";
        return Err(LineError::new(keys.line("update", "release_threshold"), message));
    }
    let entrypoint = path_or(keys, "update", "entrypoint", ENTRYPOINT_DEFAULT)?;
    let slots_dir_set = keys.text("update", "slots_dir", rules::absolute_path)?;
    let records_in_slots = slots_dir_set.is_some() || under_helper;
    let slots_dir = slots_dir_set
        .unwrap_or_else(|| if under_helper { PathBuf::from(HELPER_SLOTS_DIR) } else { data_dir.join("bin") });
    if under_helper {
        let refuse = |key: &str| {
            let line = match keys.0.entries.contains_key(&("update".to_owned(), key.to_owned())) {
                true => keys.line("update", key),
                false => keys.line("", "data_dir"),
            };
            Err(LineError::new(line, format!("under bcd helper, update.{key} may not be inside data_dir")))
        };
        let (data, slots) = (cleaned(data_dir), cleaned(&slots_dir));
        if cleaned(&entrypoint).starts_with(&data) {
            return refuse("entrypoint");
        }
        if slots.starts_with(&data) || data.starts_with(&slots) {
            return refuse("slots_dir");
        }
    }
    Ok(Update {
        release_pins,
        release_threshold: release_threshold as u32,
        release_sequence: keys.integer("update", "release_sequence", 0, 0..=u64::MAX)?,
        entrypoint,
        records_dir: if records_in_slots { slots_dir.clone() } else { data_dir.to_owned() },
        slots_dir,
    })
}

fn websocket(keys: &Keys<'_>, insecure: bool, server_name: Option<&str>) -> Result<Websocket, LineError> {
    let schemes: &[&'static str] = if insecure { &["wss", "ws"] } else { &["wss"] };
    let url = keys.text("websocket", "url", |text| {
        let url = rules::url(text, schemes)?;
        if url.path.ends_with("/v1/session") { Ok(url) } else { Err("must end in /v1/session".to_owned()) }
    })?;
    let audience = keys.text("websocket", "audience", rules::audience)?.or_else(|| {
        let url = url.as_ref()?;
        Some(server_name.unwrap_or(&url.host).to_owned())
    });
    Ok(Websocket { proxy_ca_file: keys.text("websocket", "proxy_ca_file", rules::absolute_path)?, url, audience })
}

fn kubernetes(keys: &Keys<'_>) -> Result<Kubernetes, LineError> {
    let gpu_api = keys.text("kubernetes", "gpu_api", |text| match text {
        "device-plugin" => Ok(GpuApi::DevicePlugin),
        "dra" => Ok(GpuApi::Dra),
        _ => Err("must be device-plugin or dra".to_owned()),
    })?;
    Ok(Kubernetes {
        allowed_clusters: keys.text("kubernetes", "allowed_clusters", rules::clusters)?.unwrap_or_default(),
        gpu_api: gpu_api.unwrap_or(GpuApi::DevicePlugin),
    })
}

fn boot(keys: &Keys<'_>) -> Result<Boot, LineError> {
    let web = |text: &str| rules::url(text, &["http", "https"]);
    Ok(Boot {
        listen: keys.text("boot", "listen", rules::listen)?.flatten(),
        url: keys.text("boot", "url", web)?,
        kernel: keys.text("boot", "kernel", web)?,
        initrd: keys.text("boot", "initrd", web)?,
        cmdline: keys.text("boot", "cmdline", rules::one_line)?.unwrap_or_default(),
        server_ip: keys.text("boot", "server_ip", rules::ipv4)?,
        proxy_dhcp: keys.boolean("boot", "proxy_dhcp", false),
        tftp: keys.text("boot", "tftp", rules::listen)?.flatten(),
        tftp_root: keys.text("boot", "tftp_root", rules::absolute_path)?,
        cache_bytes_max: keys.integer("boot", "cache_max_bytes", 0, 0..=u64::MAX)?,
    })
}

fn plugins(keys: &Keys<'_>) -> Result<Plugins, LineError> {
    let dir = |text: &str| if text.is_empty() { Ok(None) } else { rules::absolute_path(text).map(Some) };
    Ok(Plugins {
        dir: keys.text("plugins", "dir", dir)?.flatten(),
        user: keys.text("plugins", "user", rules::unprivileged_account)?,
        privileged: keys.text("plugins", "privileged", rules::plugin_names)?.unwrap_or_default(),
        sandbox: keys.boolean("plugins", "sandbox", true),
        cgroup: keys.text("plugins", "cgroup", rules::cgroup_path)?,
        memory_max: keys.integer("plugins", "memory_max", 0, 0..=u64::MAX)?,
        pids_max: keys.integer("plugins", "pids_max", 0, 0..=u64::MAX)?,
    })
}

#[cfg(test)]
mod tests;
