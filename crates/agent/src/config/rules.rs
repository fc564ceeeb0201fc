//! What a value must look like, one function a rule. Each takes the text as written and answers the
//! typed value or what is wrong with it; the caller adds the key's name and its line.

use pki::Pin;
use rustls_pki_types::ServerName;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Component, Path, PathBuf};

/// A network, `address/bits`. Bits of the host part are kept as written and never compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    pub address: IpAddr,
    pub bits: u8,
}

impl Network {
    /// Whether `address` is in this network. An IPv4 address never is in an IPv6 network.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                (u32::from(network) ^ u32::from(address)) & mask == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                (u128::from(network) ^ u128::from(address)) & mask == 0
            }
            _ => false,
        }
    }
}

/// A cluster that `k8s-join` may join: `https://host[:port]` and the SHA-256 of its CA's key (I-Q10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    pub url: Url,
    pub ca_spki_sha256: String,
}

/// A URL of the few forms the file has, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub scheme: &'static str,
    /// Without brackets.
    pub host: String,
    pub port: u16,
    /// Empty or starting with `/`.
    pub path: String,
    /// As written.
    pub text: String,
}

/// Longest list of one key.
const LIST_ENTRIES_MAX: usize = 64;
/// Roots of `command_root_sha256` (`install.md`).
const COMMAND_ROOTS_MAX: usize = 16;

/// `scheme://host[:port][/path]` with one of `schemes`; never credentials, a query or a fragment.
pub fn url(text: &str, schemes: &[&'static str]) -> Result<Url, String> {
    let expected = || format!("must be {} URL without credentials", article(schemes));
    let (scheme, rest) = schemes
        .iter()
        .find_map(|scheme| Some((*scheme, text.strip_prefix(scheme)?.strip_prefix("://")?)))
        .ok_or_else(expected)?;
    let split = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(split);
    if authority.contains('@') {
        return Err(expected());
    }
    if rest.contains(['?', '#']) || rest.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("may hold neither a query, a fragment nor blanks".to_owned());
    }
    let default_port = if matches!(scheme, "http" | "ws") { 80 } else { 443 };
    let (host, port) = host_port(authority, Some(default_port)).ok_or_else(expected)?;
    Ok(Url { scheme, host, port, path: path.to_owned(), text: text.to_owned() })
}

fn article(schemes: &[&str]) -> String {
    let listed: Vec<String> = schemes.iter().map(|scheme| format!("{scheme}://")).collect();
    let article = if listed[0].starts_with('h') { "an" } else { "a" };
    format!("{article} {}", listed.join(" or "))
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`.
fn host_port(authority: &str, default_port: Option<u16>) -> Option<(String, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            (host, after.strip_prefix(':').map_or_else(|| after.is_empty().then_some(None), |port| Some(Some(port)))?)
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    ServerName::try_from(host).ok()?;
    let port = match port {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok().filter(|p| *p != 0)?,
        Some(_) => return None,
        None => default_port?,
    };
    Some((host.to_owned(), port))
}

pub fn site(text: &str) -> Result<String, String> {
    if text.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("must be a site id without whitespace".to_owned());
    }
    Ok(text.to_owned())
}

pub fn pin(text: &str) -> Result<Pin, String> {
    text.parse().map_err(|_| "must be sha256/ and the standard base64 of 32 bytes".to_owned())
}

/// An absolute path, kept as written.
pub fn absolute_path(text: &str) -> Result<PathBuf, String> {
    if !text.starts_with('/') || text.chars().any(char::is_control) {
        return Err("must be an absolute path".to_owned());
    }
    Ok(PathBuf::from(text))
}

/// A path without `.`, `..` and doubled slashes, by its text alone.
pub fn cleaned(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => {
                out.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    out
}

/// A path below `/sys/fs/cgroup`.
pub fn cgroup_path(text: &str) -> Result<PathBuf, String> {
    let path = absolute_path(text)?;
    let root = Path::new("/sys/fs/cgroup");
    let clean = cleaned(&path);
    if clean == root || !clean.starts_with(root) {
        return Err("must be an absolute path under /sys/fs/cgroup".to_owned());
    }
    Ok(clean)
}

/// The name of a certificate: a DNS name or an IP address.
pub fn server_name(text: &str) -> Result<String, String> {
    ServerName::try_from(text).map_err(|_| "must be a DNS name or an IP address".to_owned())?;
    Ok(text.to_owned())
}

/// A public host as a proof names it.
pub fn audience(text: &str) -> Result<String, String> {
    let ok = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'));
    if text.is_empty() || text.len() > 253 || !ok {
        return Err("must be a host of letters, digits, . and -, at most 253".to_owned());
    }
    Ok(text.to_owned())
}

pub fn sha256_hex(text: &str) -> Result<String, String> {
    match stdx::hex::decode(text) {
        Some(bytes) if bytes.len() == 32 => Ok(text.to_owned()),
        _ => Err("must be 64 lower-case hex digits".to_owned()),
    }
}

/// The entries of a comma-separated list, blanks around them dropped.
fn entries<T>(text: &str, rule: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    let list: Vec<T> = text.split(',').map(|entry| rule(entry.trim_matches([' ', '\t']))).collect::<Result<_, _>>()?;
    if list.len() > LIST_ENTRIES_MAX {
        return Err(format!("has {} entries, at most {LIST_ENTRIES_MAX} are allowed", list.len()));
    }
    Ok(list)
}

/// As [`entries`], where an empty value grants nothing and so may stand for "none".
fn optional_entries<T>(text: &str, rule: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    if text.trim_matches([' ', '\t']).is_empty() { Ok(Vec::new()) } else { entries(text, rule) }
}

/// An empty value is refused: somebody meant to pin the roots and did not.
pub fn command_roots(text: &str) -> Result<Vec<String>, String> {
    let roots =
        entries(text, |entry| sha256_hex(entry).map_err(|_| "lists what is not 64 lower-case hex digits".into()))?;
    if roots.len() > COMMAND_ROOTS_MAX {
        return Err(format!("has {} digests, at most {COMMAND_ROOTS_MAX} are allowed", roots.len()));
    }
    Ok(roots)
}

pub fn release_pins(text: &str) -> Result<Vec<Pin>, String> {
    let mut pins = optional_entries(text, pin)?;
    pins.sort();
    pins.dedup();
    Ok(pins)
}

/// Linux interface names as the project takes them: 1 to 15 of letters, digits, `.`, `_`, `-`.
pub fn bridges(text: &str) -> Result<Vec<String>, String> {
    optional_entries(text, |name| {
        let ok = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        if name.is_empty() || name.len() > 15 || !ok || matches!(name, "." | "..") {
            return Err(format!("{name:?} is not an interface name"));
        }
        Ok(name.to_owned())
    })
}

/// An empty value is refused: it would open what it was meant to close.
pub fn networks(text: &str) -> Result<Vec<Network>, String> {
    entries(text, |entry| {
        let network = entry.split_once('/').and_then(|(address, bits)| {
            let address: IpAddr = address.parse().ok()?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            let bits: u8 = Some(bits).filter(|b| b.bytes().all(|d| d.is_ascii_digit()))?.parse().ok()?;
            (bits <= most).then_some(Network { address, bits })
        });
        network.ok_or_else(|| format!("{entry:?} is not a network in CIDR form"))
    })
}

pub fn clusters(text: &str) -> Result<Vec<Cluster>, String> {
    optional_entries(text, |entry| {
        let malformed = || format!("{entry:?} is not https://host[:port]#sha256:<64 lower-case hex digits>");
        let (address, digest) = entry.split_once("#sha256:").ok_or_else(malformed)?;
        let url = url(address, &["https"]).map_err(|_| malformed())?;
        if !url.path.is_empty() {
            return Err(malformed());
        }
        Ok(Cluster { url, ca_spki_sha256: sha256_hex(digest).map_err(|_| malformed())? })
    })
}

/// Names of plugins, as of pools and sites.
pub fn plugin_names(text: &str) -> Result<Vec<String>, String> {
    optional_entries(text, |name| {
        let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let rest = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        if !first || !rest || name.len() > 128 {
            return Err(format!("{name:?} is not a plugin name"));
        }
        Ok(name.to_owned())
    })
}

/// The name of an account that is not root's.
pub fn unprivileged_account(text: &str) -> Result<String, String> {
    let ok = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if text.is_empty() || text.len() > 32 || !ok || text.starts_with('-') || is_root(text) {
        return Err("must be the name of an unprivileged account, not root".to_owned());
    }
    Ok(text.to_owned())
}

/// `root`, or a number that would be taken for uid 0.
pub fn is_root(account: &str) -> bool {
    account == "root" || (!account.is_empty() && account.bytes().all(|byte| byte == b'0'))
}

/// `address:port`, where the address must be there: a metadata service never listens everywhere.
pub fn listen_on_address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse::<SocketAddr>()
        .ok()
        .filter(|address| address.port() != 0)
        .map(Some)
        .ok_or_else(|| "must be an address and a port, as 169.254.169.254:80".to_owned())
}

/// `address:port` or `:port`, which listens on every address.
pub fn listen(text: &str) -> Result<Option<SocketAddr>, String> {
    match text.strip_prefix(':') {
        Some(port) => listen_on_address(&format!("[::]:{port}")).map_err(|_| listen_message()),
        None => listen_on_address(text).map_err(|_| listen_message()),
    }
}

fn listen_message() -> String {
    "must be an address and a port, as 0.0.0.0:8080 or :69".to_owned()
}

pub fn ipv4(text: &str) -> Result<Ipv4Addr, String> {
    text.parse().map_err(|_| "must be an IPv4 address".to_owned())
}

/// Text that goes onto a kernel command line.
pub fn one_line(text: &str) -> Result<String, String> {
    if text.chars().any(char::is_control) {
        Err("may not hold control characters".to_owned())
    } else {
        Ok(text.to_owned())
    }
}
