//! The data directory of `dev`: what is in it, made once and found again.

use crate::args::{DevArgs, GATEWAY_LISTEN, LISTEN, Unseal};
use crate::bootstrap::{first_token, open_store};
use crate::keys::{EXTENSION, sealing_key};
use crate::pki_files;
use anyhow::{Context, ensure};
use kernel::db::HintBus;
use pki::bundle::Pins;
use pki::{FileKind, FleetId, jwk};
use serde::{Deserialize, Serialize};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

/// The name in the gateway's certificate by which nodes on this machine check it.
pub(crate) const SERVER_NAME: &str = "localhost";
const SMALL_FILE_BYTES_MAX: u64 = 64 << 10;

pub(crate) struct Layout {
    pub root: PathBuf,
    pub listen: SocketAddr,
    pub gateway_listen: SocketAddr,
}

/// `dev.json`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Addresses {
    listen: SocketAddr,
    gateway_listen: SocketAddr,
}

/// The line `serve` prints once it listens.
#[derive(Deserialize)]
struct Ready {
    api: SocketAddr,
    gateway: SocketAddr,
}

impl Layout {
    pub fn prepare(args: &DevArgs) -> anyhow::Result<Self> {
        let root = std::path::absolute(&args.data_dir).context("cannot tell where the data directory is")?;
        stdx::durable::create_directory(&root, 0o700)?;
        for folder in ["pki", "keys", "sim", "node", "logs"] {
            stdx::durable::create_directory(&root.join(folder), 0o700)?;
        }
        let earlier: Option<Addresses> =
            match stdx::durable::read_bounded(&root.join("dev.json"), SMALL_FILE_BYTES_MAX)? {
                Some(bytes) => Some(serde_json::from_slice(&bytes).context("dev.json does not parse; remove it")?),
                None => None,
            };
        let choose =
            |given: Option<SocketAddr>, earlier: Option<SocketAddr>, default: &str| -> anyhow::Result<SocketAddr> {
                match given.or(earlier) {
                    Some(address) => Ok(address),
                    None => free_or_any(default.parse()?),
                }
            };
        let listen = choose(args.listen, earlier.as_ref().map(|earlier| earlier.listen), LISTEN)?;
        let gateway_listen =
            choose(args.gateway_listen, earlier.as_ref().map(|earlier| earlier.gateway_listen), GATEWAY_LISTEN)?;
        Ok(Self { root, listen, gateway_listen })
    }

    /// The same with the addresses that are listened on, which the next start uses again.
    pub fn listening(&self, ready: &str) -> anyhow::Result<Self> {
        let ready: Ready = serde_json::from_str(ready).context("the control plane did not say where it listens")?;
        let addresses = Addresses { listen: ready.api, gateway_listen: ready.gateway };
        let bytes = serde_json::to_vec_pretty(&addresses)?;
        stdx::durable::write_file(&self.root.join("dev.json"), &bytes, 0o600)?;
        Ok(Self { root: self.root.clone(), listen: ready.api, gateway_listen: ready.gateway })
    }

    pub fn keys(&self) -> PathBuf {
        self.root.join("keys")
    }

    pub fn key_file(&self) -> PathBuf {
        self.root.join("pki/seal.key")
    }

    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    pub fn sim(&self) -> PathBuf {
        self.root.join("sim")
    }

    pub fn sim_token_path(&self) -> PathBuf {
        self.root.join("sim-join-token")
    }

    pub fn jwk(&self) -> PathBuf {
        self.root.join("node/join-encryption.jwk")
    }

    pub fn node_config(&self) -> PathBuf {
        self.root.join("node/config.toml")
    }

    pub fn api_url(&self) -> String {
        format!("http://{}", reachable(self.listen))
    }

    pub fn gateway_url(&self) -> String {
        format!("https://{}", reachable(self.gateway_listen))
    }

    fn bundle(&self) -> PathBuf {
        self.root.join(format!("pki/bundle.{EXTENSION}"))
    }

    fn unseal(&self) -> Unseal {
        Unseal { key_file: Some(self.key_file()), passphrase_file: None }
    }

    /// The PKI, made once; the role files are written again when one is missing.
    pub fn ensure_keys(&self) -> anyhow::Result<()> {
        if !self.bundle().exists() {
            let names = [SERVER_NAME, "127.0.0.1", "::1"].map(str::to_owned);
            pki_files::init(&self.bundle(), FleetId::random(), &names, &self.unseal())?;
        }
        let role_files = [FileKind::Gateway, FileKind::Join, FileKind::Api, FileKind::Controllers];
        let path = |kind: &FileKind| self.keys().join(format!("{kind}.{EXTENSION}"));
        let offline = self.root.join(format!("pki/{}.{EXTENSION}", FileKind::Offline));
        if role_files.iter().all(|kind| path(kind).exists()) && offline.exists() {
            return Ok(());
        }
        let key = sealing_key(&self.unseal())?;
        let bundle = pki_files::open_bundle(&self.bundle(), &key)?;
        pki_files::split(&bundle, &self.keys(), &key)?;
        // No server loads the offline keys, and `serve` refuses to.
        Ok(stdx::durable::rename(&path(&FileKind::Offline), &offline)?)
    }

    pub fn pins(&self) -> anyhow::Result<Pins> {
        Ok(self.open_bundle()?.pins())
    }

    fn open_bundle(&self) -> anyhow::Result<pki::Bundle> {
        pki_files::open_bundle(&self.bundle(), &sealing_key(&self.unseal())?)
    }

    /// The API token of this fleet, made before anything serves.
    pub async fn ensure_token(&self) -> anyhow::Result<String> {
        let path = self.root.join("api-token");
        if let Some(bytes) = stdx::durable::read_bounded(&path, SMALL_FILE_BYTES_MAX)? {
            return Ok(String::from_utf8(bytes).context("api-token is not text; remove it")?.trim().to_owned());
        }
        let store = open_store(&self.root, HintBus::new())?;
        let bearer = first_token(&store).await?;
        stdx::durable::write_file(&path, format!("{bearer}\n").as_bytes(), 0o600)?;
        Ok(bearer)
    }

    /// Writes and selects the CLI's context `dev`.
    pub fn select_context(&self, bearer: &str) -> anyhow::Result<()> {
        let path = cli::Contexts::default_path()?;
        let mut contexts = cli::Contexts::read(&path)?;
        let dev = cli::Context { url: self.api_url(), token: bearer.to_owned(), tenant: None };
        let before = contexts.clone();
        contexts.contexts.insert("dev".to_owned(), dev);
        contexts.current = Some("dev".to_owned());
        if contexts != before {
            contexts.write(&path)?;
        }
        Ok(())
    }

    /// What a real `bcd` on this machine needs to join. A file that still points here is left alone, since
    /// somebody may have added to it.
    pub fn write_node_config(&self, site: &str) -> anyhow::Result<()> {
        let bundle = self.open_bundle()?;
        stdx::durable::write_file(&self.jwk(), jwk::export(&bundle.public.join_encryption).as_bytes(), 0o644)?;
        let text = node_config(&self.root.join("node"), &self.gateway_url(), site, &bundle.pins());
        let path = self.node_config();
        if let Some(bytes) = stdx::durable::read_bounded(&path, SMALL_FILE_BYTES_MAX)? {
            let there = String::from_utf8_lossy(&bytes).into_owned();
            if text.lines().all(|line| line.starts_with('#') || there.lines().any(|other| other == line)) {
                return Ok(());
            }
        }
        Ok(stdx::durable::write_file(&path, text.as_bytes(), 0o600)?)
    }
}

fn node_config(directory: &Path, gateway_url: &str, site: &str, pins: &Pins) -> String {
    let text = |value: &str| serde_json::Value::from(value).to_string();
    let path = |name: &str| text(&directory.join(name).display().to_string());
    let lines = [
        "# A node of the development fleet. bcd refuses unknown keys.".to_owned(),
        format!("gateway_url = {}", text(gateway_url)),
        format!("site = {}", text(site)),
        format!("serving_ca_spki_pin = {}", text(&pins.serving_ca_spki_pin.to_string())),
        format!("join_signing_key_pin = {}", text(&pins.join_signing_key_pin.to_string())),
        format!("join_encryption_key_pin = {}", text(&pins.join_encryption_key_pin.to_string())),
        format!("gateway_server_name = {}", text(SERVER_NAME)),
        format!("data_dir = {}", path("data")),
        format!("socket_path = {}", path("bcd.sock")),
    ];
    lines.join("\n") + "\n"
}

/// The address if nobody listens there, else one on the same host that the system chooses.
fn free_or_any(address: SocketAddr) -> anyhow::Result<SocketAddr> {
    match TcpListener::bind(address) {
        Ok(_) => Ok(address),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Ok(SocketAddr::new(address.ip(), 0)),
        Err(error) => Err(error).with_context(|| format!("cannot listen on {address}")),
    }
}

/// An address to connect to: a server that listens everywhere is reached on loopback.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() {
            std::net::Ipv4Addr::LOCALHOST.into()
        } else {
            std::net::Ipv6Addr::LOCALHOST.into()
        });
    }
    address
}

/// A program beside this one, or on the PATH.
pub(crate) fn find_program(name: &str) -> anyhow::Result<PathBuf> {
    let beside = std::env::current_exe()?.with_file_name(name);
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::iter::once(beside.clone())
        .chain(std::env::split_paths(&on_path).map(|folder| folder.join(name)))
        .find(|path| path.is_file());
    ensure!(found.is_some(), "{name} is neither beside {} nor on the PATH", beside.display());
    found.context("a program was found")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn a_node_config_has_the_five_required_keys_and_stays_in_its_folder() {
        let bundle = pki::Bundle::create(FleetId::random(), &[SERVER_NAME.into()], 1_796_126_400_000).expect("pki");
        let text = node_config(Path::new("/x y/node"), "https://127.0.0.1:8421", "site_1", &bundle.pins());
        let pins = bundle.pins();
        let text = text
            .replace(&pins.serving_ca_spki_pin.to_string(), "PIN1")
            .replace(&pins.join_signing_key_pin.to_string(), "PIN2")
            .replace(&pins.join_encryption_key_pin.to_string(), "PIN3");
        expect![[r##"
            # A node of the development fleet. bcd refuses unknown keys.
            gateway_url = "https://127.0.0.1:8421"
            site = "site_1"
            serving_ca_spki_pin = "PIN1"
            join_signing_key_pin = "PIN2"
            join_encryption_key_pin = "PIN3"
            gateway_server_name = "localhost"
            data_dir = "/x y/node/data"
            socket_path = "/x y/node/bcd.sock"
        "##]]
        .assert_eq(&text);
    }

    #[test]
    fn a_wildcard_address_is_reached_on_loopback() {
        let reached = |text: &str| reachable(text.parse().expect("address")).to_string();
        assert_eq!(reached("0.0.0.0:1"), "127.0.0.1:1");
        assert_eq!(reached("[::]:1"), "[::1]:1");
        assert_eq!(reached("127.0.0.2:1"), "127.0.0.2:1");
    }
}
