//! A certificate for a node's key: the one issued before for the same key while it holds, so that a
//! request asked again gets the same answer; a new one otherwise.

use super::answer::{JoinError, Refused};
use kernel::db::Tx;
use kernel::join::{node_certificates, store_certificate};
use model::{Kind, NodeId, Role, ServerTimeMs};
use pki::ca::NodeRequest;
use pki::roles::JoinKeys;
use pki::{NodeCertificate, PublicKey};

/// The node's certificate for `key`, DER, recorded before it is handed out.
pub(crate) fn certificate(
    tx: &mut Tx<'_>,
    keys: &JoinKeys,
    node: &NodeId,
    role: Role,
    key: &PublicKey,
) -> Result<Vec<u8>, JoinError> {
    let now = tx.now()?;
    let earlier = node_certificates(tx, node)?;
    let same = earlier.into_iter().rev().find(|certificate| certificate.spki == key.spki());
    match same {
        Some(same) if same.revoked => {
            return Err(Refused::new("node-revoked", "the certificate of this key was revoked").into());
        }
        Some(same) if now < same.not_after => return Ok(same.der),
        _ => {}
    }
    let mut allowed_kinds: Vec<String> = Kind::allowed_for(role).map(str::to_owned).collect();
    allowed_kinds.sort_unstable();
    let request = NodeRequest { node_id: node, role, allowed_kinds: &allowed_kinds, public_key: key };
    let unavailable = |error: &dyn std::error::Error| {
        tracing::error!(node = %node, error = %stdx::error::chain(error), "a node's certificate cannot be issued");
        Refused { code: "unavailable", message: "the certificate cannot be issued".to_owned(), retryable: true }
    };
    let der = keys.node_ca.issue_node(&keys.public.fleet_id, &request, now.0).map_err(|error| unavailable(&error))?;
    let issued = NodeCertificate::parse(&der).map_err(|error| unavailable(&error))?;
    let not_after = ServerTimeMs(issued.not_after_ms);
    store_certificate(tx, node, &issued.serial_hex, &der, key.spki(), not_after)?;
    Ok(der.to_vec())
}
