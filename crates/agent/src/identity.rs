//! Who this daemon is: the node key and what the control plane certified about it, in `data_dir`.
//!
//! ```text
//! no identity ──prepare_join──▶ node.key, join.csr ──install──▶ identity.json
//!                                                                   │ prepare_renewal
//!                    node.key.next, promoted by a rename ◀──renew── node.key.next
//! ```
//!
//! A crash between any two of these writes leaves files that [`IdentityStore::load`] can tell apart: the
//! leaf of `identity.json` names one key, and the file that holds that key is the node's, whatever its name.
//!
//! Not here: asking for a certificate (`join`, `renew`) and any judgement of one.

mod file;

use file::{decode, encode};
use model::frame::Signed;
use model::{JournalId, NodeId, Role, ServerTimeMs};
use pki::{FleetId, KeyPair, NodeCertificate};
use std::path::{Path, PathBuf};
use stdx::durable::{self, DurableError};
use zeroize::Zeroizing;

const IDENTITY_FILE: &str = "identity.json";
const KEY_FILE: &str = "node.key";
const NEXT_KEY_FILE: &str = "node.key.next";
/// The request whose answer a join waits for. A token's use binds to its request, so a join that was cut
/// short asks again with the very same bytes.
const CSR_FILE: &str = "join.csr";
const PRIVATE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// A trust bundle with sixteen roots of each kind fits many times over.
const IDENTITY_BYTES_MAX: u64 = 1 << 20;
const KEY_BYTES_MAX: u64 = 8 << 10;

#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error(transparent)]
    Disk(#[from] DurableError),
    #[error("{} is not an identity: {what}", path.display())]
    Malformed { path: PathBuf, what: String },
    #[error("the leaf certificate in {} cannot be read", path.display())]
    Leaf {
        path: PathBuf,
        #[source]
        source: pki::certificate::CertificateError,
    },
    #[error("{} holds no key that can be used", path.display())]
    Key {
        path: PathBuf,
        #[source]
        source: pki::key::KeyError,
    },
    #[error("{} is missing, and so is the key of the certificate in identity.json", path.display())]
    KeyMissing { path: PathBuf },
    #[error("neither node.key nor node.key.next in {} is the key of the certificate in identity.json", data_dir.display())]
    KeyMismatch { data_dir: PathBuf },
}

/// What `identity.json` holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub node_id: NodeId,
    pub fleet_id: FleetId,
    pub role: Role,
    pub site: String,
    pub pool: String,
    /// X.509 DER, the node's leaf first.
    pub chain: Vec<Vec<u8>>,
    /// Purpose `trust-bundle`, by the join signing key.
    pub trust_bundle: Option<Signed>,
    /// The highest server time seen, mirrored from the journal.
    pub time_mark: ServerTimeMs,
    /// Server time of the join: the birth of this node's first journal (F-Q13).
    pub joined_at: ServerTimeMs,
    /// The journal this identity last opened; one of another id replaces a lost one.
    pub journal_id: Option<JournalId>,
}

impl Identity {
    /// The node's own certificate. The file is checked when it is read and when it is written.
    pub fn leaf(&self) -> NodeCertificate {
        parse_leaf(&self.chain).expect("an identity always holds a leaf that reads")
    }
}

fn parse_leaf(chain: &[Vec<u8>]) -> Result<NodeCertificate, pki::certificate::CertificateError> {
    NodeCertificate::parse(chain.first().map_or(&[], Vec::as_slice))
}

/// An identity with its private key.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub identity: Identity,
    pub key: KeyPair,
}

/// A key and the request made from it, both on disk.
#[derive(Clone, Debug)]
pub struct PendingJoin {
    pub key: KeyPair,
    /// PKCS#10, DER.
    pub csr: Vec<u8>,
}

/// The files. One owner at a time: nothing here locks.
#[derive(Clone, Debug)]
pub struct IdentityStore {
    data_dir: PathBuf,
}

impl IdentityStore {
    pub fn new(data_dir: &Path) -> Self {
        Self { data_dir: data_dir.to_owned() }
    }

    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Makes the data directory, closed to everybody else.
    pub fn create_directory(&self) -> Result<(), IdentityError> {
        Ok(durable::create_directory(&self.data_dir, DIRECTORY_MODE)?)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.data_dir.join(name)
    }

    /// Reads the identity, `None` when this machine has not joined, and settles what a crash left: a next
    /// key whose certificate is stored is promoted, and a join's request goes once it was answered.
    pub fn load(&self) -> Result<Option<Loaded>, IdentityError> {
        let path = self.path(IDENTITY_FILE);
        let Some(bytes) = durable::read_bounded(&path, IDENTITY_BYTES_MAX)? else { return Ok(None) };
        let malformed = |what: String| IdentityError::Malformed { path: path.clone(), what };
        let identity = decode(&bytes).map_err(malformed)?;
        let leaf = parse_leaf(&identity.chain).map_err(|source| IdentityError::Leaf { path: path.clone(), source })?;
        if leaf.node_id != identity.node_id || leaf.role != identity.role || leaf.fleet_id != identity.fleet_id {
            return Err(malformed("its certificate names another node, role or fleet".to_owned()));
        }
        let key = self.settle(&leaf)?;
        Ok(Some(Loaded { identity, key }))
    }

    /// Finds the key of `leaf` and leaves it as `node.key`.
    fn settle(&self, leaf: &NodeCertificate) -> Result<KeyPair, IdentityError> {
        if self.path(CSR_FILE).exists() {
            durable::remove(&self.path(CSR_FILE))?;
        }
        let current = self.read_key(KEY_FILE)?;
        if let Some(key) = &current
            && *key.public() == leaf.public_key
        {
            return Ok(key.clone());
        }
        match self.read_key(NEXT_KEY_FILE)? {
            Some(next) if *next.public() == leaf.public_key => {
                durable::rename(&self.path(NEXT_KEY_FILE), &self.path(KEY_FILE))?;
                Ok(next)
            }
            _ if current.is_none() => Err(IdentityError::KeyMissing { path: self.path(KEY_FILE) }),
            _ => Err(IdentityError::KeyMismatch { data_dir: self.data_dir.clone() }),
        }
    }

    fn read_key(&self, name: &str) -> Result<Option<KeyPair>, IdentityError> {
        let path = self.path(name);
        let Some(bytes) = durable::read_bounded(&path, KEY_BYTES_MAX)?.map(Zeroizing::new) else { return Ok(None) };
        let text = std::str::from_utf8(&bytes).map_err(|_| pki::key::KeyError::Pem);
        let key = text.and_then(KeyPair::from_pem).map_err(|source| IdentityError::Key { path, source })?;
        Ok(Some(key))
    }

    fn write_key(&self, name: &str, key: &KeyPair) -> Result<(), IdentityError> {
        Ok(durable::write_file(&self.path(name), key.to_pem().as_bytes(), PRIVATE_MODE)?)
    }

    /// The key and request of a join, made durable before anybody is asked. An interrupted join gets the
    /// same two again.
    pub fn prepare_join(&self) -> Result<PendingJoin, IdentityError> {
        self.create_directory()?;
        let key = match self.read_key(KEY_FILE)? {
            Some(key) => key,
            None => {
                let key = KeyPair::generate();
                self.write_key(KEY_FILE, &key)?;
                key
            }
        };
        let stored = durable::read_bounded(&self.path(CSR_FILE), pki::csr::CSR_BYTES_MAX as u64)?;
        let is_of_key = |csr: &Vec<u8>| pki::csr::verify(csr).is_ok_and(|public| public == *key.public());
        let csr = match stored.filter(is_of_key) {
            Some(csr) => csr,
            None => {
                let csr = pki::csr::create(&key);
                durable::write_file(&self.path(CSR_FILE), &csr, PRIVATE_MODE)?;
                csr
            }
        };
        Ok(PendingJoin { key, csr })
    }

    /// Stores the identity a join answered. From here on the machine has joined.
    pub fn install(&self, identity: &Identity) -> Result<(), IdentityError> {
        self.write(identity)?;
        Ok(durable::remove(&self.path(CSR_FILE))?)
    }

    /// Replaces `identity.json`, for a change that keeps the certificate.
    pub fn write(&self, identity: &Identity) -> Result<(), IdentityError> {
        Ok(durable::write_file(&self.path(IDENTITY_FILE), &encode(identity), PRIVATE_MODE)?)
    }

    /// The key of the next certificate, on disk as `node.key.next` before the request leaves. One that an
    /// interrupted renewal left is used again.
    pub fn prepare_renewal(&self) -> Result<KeyPair, IdentityError> {
        match self.read_key(NEXT_KEY_FILE) {
            Ok(Some(key)) => return Ok(key),
            Ok(None) | Err(IdentityError::Key { .. }) => {}
            Err(error) => return Err(error),
        }
        let key = KeyPair::generate();
        self.write_key(NEXT_KEY_FILE, &key)?;
        Ok(key)
    }

    /// Stores the renewed certificate, and only then promotes its key.
    pub fn renew(&self, identity: &Identity) -> Result<(), IdentityError> {
        self.write(identity)?;
        Ok(durable::rename(&self.path(NEXT_KEY_FILE), &self.path(KEY_FILE))?)
    }
}

#[cfg(test)]
mod tests;
