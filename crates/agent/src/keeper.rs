//! The identity while the daemon runs: one owner of `identity.json`, shared by whoever connects, signs,
//! renews or mirrors the time. A change is on disk before anybody sees it.

use crate::identity::{Identity, IdentityError, IdentityStore, Loaded};
use crate::transport::tls_identity;
use model::frame::Signed;
use model::{JournalId, ServerTimeMs};
use pki::tls::TlsIdentity;
use pki::{KeyPair, NodeCertificate};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What signs and connects: the certificate and its key, always of each other.
#[derive(Clone, Debug)]
pub struct Credentials {
    pub chain: Vec<Vec<u8>>,
    pub key: KeyPair,
}

impl Credentials {
    pub fn leaf(&self) -> NodeCertificate {
        NodeCertificate::parse(self.chain.first().map_or(&[], Vec::as_slice)).expect("the identity's leaf was read")
    }

    pub fn tls(&self) -> TlsIdentity {
        tls_identity(&self.chain, &self.key)
    }
}

#[derive(Clone, Debug)]
pub struct Keeper(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: IdentityStore,
    /// Held while `identity.json` is written, so that no change is lost.
    identity: Mutex<Identity>,
    credentials: Mutex<Credentials>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Keeper {
    pub fn new(store: IdentityStore, loaded: Loaded) -> Self {
        let credentials = Credentials { chain: loaded.identity.chain.clone(), key: loaded.key };
        Self(Arc::new(Inner { store, identity: Mutex::new(loaded.identity), credentials: Mutex::new(credentials) }))
    }

    /// A copy of the identity as it is on disk.
    pub fn identity(&self) -> Identity {
        lock(&self.0.identity).clone()
    }

    /// What to connect and sign with now. Never waits for the disk.
    pub fn credentials(&self) -> Credentials {
        lock(&self.0.credentials).clone()
    }

    /// Stores a newer trust bundle. Blocks until it is durable.
    pub fn store_bundle(&self, bundle: Signed) -> Result<(), IdentityError> {
        self.change(|identity| identity.trust_bundle = Some(bundle))
    }

    /// Mirrors the time mark, which only moves forward. Blocks until it is durable.
    pub fn store_mark(&self, mark: ServerTimeMs) -> Result<(), IdentityError> {
        self.change(|identity| identity.time_mark = identity.time_mark.max(mark))
    }

    /// Remembers which journal is this node's. Blocks until it is durable.
    pub fn store_journal_id(&self, id: JournalId) -> Result<(), IdentityError> {
        self.change(|identity| identity.journal_id = Some(id))
    }

    fn change(&self, change: impl FnOnce(&mut Identity)) -> Result<(), IdentityError> {
        let mut identity = lock(&self.0.identity);
        let mut changed = identity.clone();
        change(&mut changed);
        if changed != *identity {
            self.0.store.write(&changed)?;
            *identity = changed;
        }
        Ok(())
    }

    /// The key for the next certificate, durable. Blocks.
    pub fn prepare_renewal(&self) -> Result<KeyPair, IdentityError> {
        self.0.store.prepare_renewal()
    }

    /// Stores a renewed certificate, promotes its key, and uses both from now on. Blocks.
    pub fn renewed(
        &self,
        chain: Vec<Vec<u8>>,
        bundle: Signed,
        mark: ServerTimeMs,
        key: KeyPair,
    ) -> Result<(), IdentityError> {
        let mut identity = lock(&self.0.identity);
        let mut changed = identity.clone();
        changed.chain.clone_from(&chain);
        changed.trust_bundle = Some(bundle);
        changed.time_mark = changed.time_mark.max(mark);
        self.0.store.renew(&changed)?;
        *identity = changed;
        *lock(&self.0.credentials) = Credentials { chain, key };
        Ok(())
    }
}
