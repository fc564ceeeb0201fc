//! A whole fleet of real processes in a folder of its own: keys made by `better-compute pki`, a control plane run
//! by `better-compute serve`, nodes run by `bcd-sim sim`.
//!
//! ```text
//! DIR/key             opens the sealed files
//! DIR/cp              data directory of the control plane, keys included
//! DIR/sim             the simulated nodes
//! DIR/effects.log     what their machines did to the world
//! DIR/cp.log, sim.log what the processes printed
//! ```

pub mod api;
pub mod process;
pub mod raw_node;
pub mod scratch;

use agent::transport::Gateway;
use anyhow::{Context, Result, bail, ensure};
use api::Api;
use pki::SealingKey;
use pki::roles::{JoinKeys, KeyFile};
use process::Process;
use scratch::Scratch;
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Every process listens here.
const HOST: &str = "127.0.0.1";
/// Below the kernel's ephemeral ports (32768 and up, ip(7)), so that no outgoing connection takes one while its
/// owner restarts.
const PORTS: std::ops::Range<u16> = 12_000..32_000;
/// Sealed files that `serve` with all roles needs.
const SERVED: [&str; 4] = ["gateway", "join", "api", "controllers"];

/// Where nodes of this fleet belong.
#[derive(Clone, Debug)]
pub struct Place {
    pub site: String,
    pub pool: String,
}

/// A line of the effects log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The boot it happened in.
    pub boot_id: String,
    /// A GPU's UUID, or `reboot`.
    pub what: String,
    pub command_id: String,
}

impl Effect {
    fn parse(line: &str) -> Result<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [boot_id, _, what, command_id] = words[..] else { bail!("no effect: {line:?}") };
        Ok(Self { boot_id: boot_id.into(), what: what.into(), command_id: command_id.into() })
    }
}

pub struct Fleet {
    scratch: Scratch,
    programs: PathBuf,
    pub api: Api,
    pub gateway_port: u16,
}

impl Fleet {
    /// Keys and the first token; nothing runs yet.
    pub fn create() -> Result<Self> {
        Self::create_in(Scratch::new()?)
    }

    /// The same in a folder of the caller's choice.
    pub fn create_in(scratch: Scratch) -> Result<Self> {
        let programs = programs()?;
        let dir = scratch.path();
        write_secret(&dir.join("key"), SealingKey::generate_key_file().as_slice())?;
        let program = programs.join("better-compute");
        let (key, bundle) = (dir.join("key"), dir.join("fleet.sealed"));
        let init = ["pki", "init", "--serving-name", HOST, "--serving-name", "localhost", "--out"];
        output(Command::new(&program).args(init).arg(&bundle).arg("--key-file").arg(&key))?;
        let mut split = Command::new(&program);
        split.args(["pki", "split", "--bundle"]).arg(&bundle).arg("--out").arg(dir.join("split"));
        output(split.arg("--key-file").arg(&key))?;
        let keys = dir.join("cp/keys");
        std::fs::create_dir_all(&keys)?;
        for name in SERVED {
            let file = format!("{name}.sealed");
            std::fs::copy(dir.join("split").join(&file), keys.join(&file))?;
        }
        let token = dir.join("admin-token");
        let bootstrap = ["bootstrap", "--data-dir"];
        output(Command::new(&program).args(bootstrap).arg(dir.join("cp")).arg("--out").arg(&token))?;
        Self::in_scratch(scratch, programs)
    }

    /// Another fleet with the same keys and the same store, as they are now, on ports of its own.
    pub fn copy(&self) -> Result<Self> {
        let scratch = Scratch::new()?;
        copy_tree(self.scratch.path(), scratch.path())?;
        Self::in_scratch(scratch, self.programs.clone())
    }

    fn in_scratch(scratch: Scratch, programs: PathBuf) -> Result<Self> {
        let token = std::fs::read_to_string(scratch.path().join("admin-token"))?.trim().to_owned();
        let api = Api { address: SocketAddr::new(HOST.parse()?, free_port()?), token };
        Ok(Self { scratch, programs, api, gateway_port: free_port()? })
    }

    pub fn dir(&self) -> &Path {
        self.scratch.path()
    }

    /// Leaves the folder behind for whoever looks into a failure.
    pub fn keep(&self) -> PathBuf {
        self.scratch.keep()
    }

    pub fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// `better-compute` as a person types it, against this control plane.
    pub fn cli(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program("better-compute"));
        command
            .args(arguments)
            .env("BETTER_COMPUTE_URL", format!("http://{}", self.api.address))
            .env("BETTER_COMPUTE_TOKEN", &self.api.token)
            .stdin(Stdio::null());
        command
    }

    pub fn control_plane(&self) -> Command {
        let mut command = Command::new(self.program("better-compute"));
        command
            .args(["serve", "--drain-seconds", "1", "--data-dir"])
            .arg(self.dir().join("cp"))
            .args(["--listen", &self.api.address.to_string()])
            .args(["--gateway-listen", &format!("{HOST}:{}", self.gateway_port), "--key-file"])
            .arg(self.dir().join("key"));
        command
    }

    pub fn control_plane_log(&self) -> PathBuf {
        self.dir().join("cp.log")
    }

    /// Starts it and waits until the API answers.
    pub fn start_control_plane(&self) -> Result<Process> {
        let mut process = Process::spawn(self.control_plane(), &self.control_plane_log())?;
        self.wait_answers(|| process.check())?;
        Ok(process)
    }

    /// Waits until the API answers; `check` says whether waiting still makes sense.
    pub fn wait_answers(&self, mut check: impl FnMut() -> Result<()>) -> Result<()> {
        crate::wait::until("the API", crate::wait::LONG, || {
            check()?;
            self.api.attempt("fleet.get", &json!({})).map(|_| Some(()))
        })
    }

    /// The site and pool `dev`, made if they are not there yet.
    pub fn place(&self) -> Result<Place> {
        let site = json!({ "name": "dev", "kind": "shared", "region": "here", "idempotencyKey": "site" });
        let site = id_of(&self.api.call("sites.create", &site)?)?;
        let pool = json!({ "name": "dev", "siteId": site, "idempotencyKey": "pool" });
        Ok(Place { pool: id_of(&self.api.call("pools.create", &pool)?)?, site })
    }

    /// A token for `uses` machines. A lost answer loses the token and not more: the next key makes another.
    pub fn join_token(&self, place: &Place, uses: u32, key: &str) -> Result<String> {
        for attempt in 1.. {
            let request = json!({
                "poolId": place.pool, "ttlSeconds": 3600, "maxUses": uses, "idempotencyKey": format!("{key}-{attempt}"),
            });
            if let Some(token) = self.api.call("joinTokens.create", &request)?["token"].as_str() {
                return Ok(token.to_owned());
            }
        }
        unreachable!("the loop ends by returning")
    }

    /// `config.toml` for a real `bcd`, with the key its token is sealed to beside it.
    pub fn node_config(&self, place: &Place) -> Result<PathBuf> {
        let directory = self.dir().join("node");
        std::fs::create_dir_all(&directory)?;
        let public = self.join_keys()?.public;
        write_secret(&directory.join("join-encryption.jwk"), pki::jwk::export(&public.join_encryption).as_bytes())?;
        let pins = public.pins();
        let lines = [
            ("gateway_url", format!("https://{HOST}:{}", self.gateway_port)),
            ("site", place.site.clone()),
            ("serving_ca_spki_pin", pins.serving_ca_spki_pin.to_string()),
            ("join_signing_key_pin", pins.join_signing_key_pin.to_string()),
            ("join_encryption_key_pin", pins.join_encryption_key_pin.to_string()),
            ("data_dir", directory.join("data").display().to_string()),
            ("socket_path", directory.join("bcd.sock").display().to_string()),
        ];
        let text: String = lines.iter().map(|(key, value)| format!("{key} = \"{value}\"\n")).collect();
        let path = directory.join("config.toml");
        write_secret(&path, text.as_bytes())?;
        Ok(path)
    }

    /// Nodes of `place`. The token in DIR/token is theirs to use.
    pub fn sim(&self, place: &Place, count: u32) -> Result<Command> {
        let public = self.join_keys()?.public;
        let jwk = self.dir().join("join-encryption.jwk");
        write_secret(&jwk, pki::jwk::export(&public.join_encryption).as_bytes())?;
        let pins = public.pins();
        let mut command = Command::new(self.program("bcd-sim"));
        command
            .args(["sim", "--count", &count.to_string(), "--root"])
            .arg(self.dir().join("sim"))
            .args(["--gateway-url", &format!("https://{HOST}:{}", self.gateway_port), "--site", &place.site])
            .args(["--serving-ca-pin", &pins.serving_ca_spki_pin.to_string()])
            .args(["--join-signing-pin", &pins.join_signing_key_pin.to_string()])
            .args(["--join-encryption-pin", &pins.join_encryption_key_pin.to_string(), "--join-encryption-jwk"])
            .arg(&jwk)
            .arg("--token-file")
            .arg(self.dir().join("token"))
            .arg("--effects-log")
            .arg(self.effects_log());
        Ok(command)
    }

    pub fn sim_log(&self) -> PathBuf {
        self.dir().join("sim.log")
    }

    /// Makes a token, starts `count` nodes and waits until all are ready.
    pub fn start_sim(&self, place: &Place, count: u32) -> Result<Process> {
        self.write_token(&self.join_token(place, count, "sim")?)?;
        let mut process = Process::spawn(self.sim(place, count)?, &self.sim_log())?;
        self.wait_ready(count as usize, || process.check())?;
        Ok(process)
    }

    pub fn write_token(&self, token: &str) -> Result<()> {
        write_secret(&self.dir().join("token"), token.as_bytes())
    }

    /// Waits until `count` nodes are ready and connected, and answers them.
    pub fn wait_ready(&self, count: usize, mut check: impl FnMut() -> Result<()>) -> Result<Vec<Value>> {
        crate::wait::until("nodes that are ready", crate::wait::LONG, || {
            check()?;
            let nodes = self.api.nodes()?;
            let ready = nodes.iter().filter(|node| is_ready(node)).count();
            Ok((ready >= count).then_some(nodes))
        })
    }

    pub fn effects_log(&self) -> PathBuf {
        self.dir().join("effects.log")
    }

    /// What the simulated machines did to the world, in order.
    pub fn effects(&self) -> Result<Vec<Effect>> {
        let path = self.effects_log();
        let text = if path.exists() { std::fs::read_to_string(path)? } else { String::new() };
        text.lines().map(Effect::parse).collect()
    }

    /// The keys of JoinService, for certificates that no honest service would issue.
    pub fn join_keys(&self) -> Result<JoinKeys> {
        let key = SealingKey::key_file(&std::fs::read(self.dir().join("key"))?)?;
        Ok(JoinKeys::open(&std::fs::read(self.dir().join("cp/keys/join.sealed"))?, &key)?)
    }

    pub fn gateway(&self) -> Result<Gateway> {
        Ok(Gateway {
            host: HOST.to_owned(),
            port: self.gateway_port,
            is_cleartext: false,
            server_name: None,
            serving_ca_pin: self.join_keys()?.public.pins().serving_ca_spki_pin,
        })
    }
}

/// Ready for commands and there.
pub fn is_ready(node: &Value) -> bool {
    node["lifecycle"] == "ready" && node["connection"]["state"] == "connected"
}

pub fn id_of(object: &Value) -> Result<String> {
    Ok(object["id"].as_str().with_context(|| format!("no id in {object}"))?.to_owned())
}

/// Runs it to its end and answers what it printed; a failure carries both outputs.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let stdout = String::from_utf8(output.stdout)?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed, {}:\n{stdout}{stderr}", output.status);
    Ok(stdout)
}

/// A port that nothing listens on.
pub fn free_port() -> Result<u16> {
    loop {
        let port = rand::random_range(PORTS);
        if TcpListener::bind((HOST, port)).is_ok() {
            return Ok(port);
        }
    }
}

/// The folder of the programs under test: the nearest one above this executable that holds them.
pub fn programs() -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    let found = here.ancestors().find(|directory| directory.join("better-compute").is_file());
    found.map(Path::to_owned).context("better-compute, bcd and bcd-sim are not built; `cargo xtask test` builds them")
}

pub fn write_secret(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::io::Write;
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    Ok(file.with_context(|| format!("cannot write {}", path.display()))?.write_all(bytes)?)
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            std::fs::create_dir_all(&target)?;
            copy_tree(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
