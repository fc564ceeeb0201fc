//! Keys, signatures, certificates and the join token: what each side of a fleet trusts, and why.
//!
//! | module | owns |
//! |---|---|
//! | [`key`] | P-256 key pairs, public keys, key ids |
//! | [`purpose`], [`signed`] | signatures that are valid for one purpose only |
//! | [`pin`] | `sha256/...` pins of public keys |
//! | [`ca`], [`csr`], [`certificate`] | issuing and reading certificates |
//! | [`verify`] | whether a certificate belongs to this fleet now |
//! | [`tls`] | both rustls configurations |
//! | [`hpke`], [`token`], [`jwk`] | sealing to a key, the join token, the published key |
//! | [`envelope`], [`bundle`], [`roles`], [`serve`], [`show`] | the sealed key files of `better-compute pki` |
//!
//! Nothing here reads a clock, a file or the network, and nothing sees protobuf: times come from the
//! caller in Unix milliseconds, and what is signed or sealed is bytes. One crypto backend, aws-lc-rs.

pub mod bundle;
pub mod ca;
pub mod certificate;
pub mod csr;
mod der;
pub mod envelope;
mod fields;
pub mod fleet;
pub mod hpke;
pub mod jwk;
pub mod key;
pub mod pin;
pub mod purpose;
pub mod roles;
pub mod serve;
pub mod show;
pub mod signed;
#[cfg(test)]
mod testing;
pub mod tls;
pub mod token;
pub mod verify;

pub use bundle::{Bundle, PublicPart};
pub use certificate::{NodeCertificate, WorkerCertificate};
pub use envelope::{FileKind, SealingKey};
pub use fleet::FleetId;
pub use hpke::{EncryptionKey, Sealed};
pub use key::{KeyPair, PublicKey};
pub use pin::Pin;
pub use purpose::Purpose;
pub use rustls_pki_types::CertificateDer;
pub use signed::{Signed, SigningIdentity};
pub use token::{JoinSecret, JoinToken};
