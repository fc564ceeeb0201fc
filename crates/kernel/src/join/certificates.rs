//! Certificates issued to nodes. They are kept after they expire: an attested result may be older
//! than its node's newest certificate.

use crate::db::{StoreError, Tx, args};
use model::{NodeId, ServerTimeMs};

/// A certificate as it was issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Lower-case hex.
    pub serial: String,
    pub der: Vec<u8>,
    /// DER of the subject's public key.
    pub spki: Vec<u8>,
    pub not_after: ServerTimeMs,
    pub issued_at: ServerTimeMs,
    pub revoked: bool,
}

/// Records a certificate before it is handed out; recording it again changes nothing.
pub fn store_certificate(
    tx: &mut Tx<'_>,
    node: &NodeId,
    serial: &str,
    der: &[u8],
    spki: &[u8],
    not_after: ServerTimeMs,
) -> Result<(), StoreError> {
    let now = tx.now()?;
    tx.execute(
        "INSERT INTO node_certificates (serial, node_id, der, spki, not_after, issued_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (serial) DO NOTHING",
        args![serial, node, der, spki, not_after, now],
    )?;
    Ok(())
}

/// Every certificate of a node, oldest first.
pub fn node_certificates(tx: &mut Tx<'_>, node: &NodeId) -> Result<Vec<Certificate>, StoreError> {
    tx.query(
        "SELECT serial, der, spki, not_after, issued_at, revoked_at IS NOT NULL
         FROM node_certificates WHERE node_id = ?1 ORDER BY issued_at, serial",
        args![node],
        |row| {
            Ok(Certificate {
                serial: row.take()?,
                der: row.take()?,
                spki: row.take()?,
                not_after: row.take()?,
                issued_at: row.take()?,
                revoked: row.take()?,
            })
        },
    )
}
