//! A renewal: a node asks for its next certificate, signed with the key of one it has. For 7 days after
//! expiry that key still serves, for this and nothing else.

use super::answer::{Granted, JoinError, Refused};
use super::{from_frame, issue};
use kernel::db::Tx;
use kernel::join::{Certificate, node_certificates};
use kernel::nodes::get_node;
use model::limits::CERT_GRACE_MS;
use model::{Lifecycle, NodeId};
use pki::roles::JoinKeys;
use pki::{NodeCertificate, Purpose, csr};
use proto::{Message, v1};

/// Longest request, bytes.
const REQUEST_BYTES_MAX: usize = 64 << 10;

pub(crate) fn renew(tx: &mut Tx<'_>, keys: &JoinKeys, bytes: &[u8]) -> Result<Granted, JoinError> {
    let (signed, body) = decode(bytes)?;
    let node_id = NodeId::parse(&body.node_id).map_err(|_| Refused::bad_request("the renewal names no node"))?;
    // 1. Whose: a key that was certified for this node signed exactly this request.
    let node = get_node(tx, &node_id)?.ok_or_else(|| unsigned(&node_id))?;
    let certificates = node_certificates(tx, &node_id)?;
    let signer = signer(&certificates, &signed).ok_or_else(|| unsigned(&node_id))?;
    signed.verify(Purpose::RenewalRequest, &signer.1.public_key).map_err(|_| unsigned(&node_id))?;
    // 2. Still trusted.
    if node.revoked_at.is_some() || node.lifecycle == Lifecycle::Retired || signer.0.revoked {
        return Err(Refused::new("node-revoked", "the node or its certificate was revoked or retired").into());
    }
    // 3. In time.
    let now = tx.now()?;
    if now > signer.0.not_after.plus(CERT_GRACE_MS) {
        let text = "the certificate expired more than 7 days ago; join again: bcd join --reset";
        return Err(Refused::new("certificate-expired", text).into());
    }
    // 4. The next key: the node holds it too, and it is another one.
    let key = csr::verify(&body.csr).map_err(|error| Refused::bad_request(error.to_string()))?;
    if key == signer.1.public_key {
        return Err(Refused::bad_request("a renewal needs a new key").into());
    }
    let certificate = issue::certificate(tx, keys, &node_id, node.role, &key)?;
    Ok(Granted { csr: body.csr, node: node_id, site: node.site, pool: node.pool, role: node.role, certificate })
}

fn decode(bytes: &[u8]) -> Result<(pki::Signed, v1::RenewalBody), Refused> {
    if bytes.len() > REQUEST_BYTES_MAX {
        return Err(Refused::bad_request(format!("a renewal has at most {REQUEST_BYTES_MAX} bytes")));
    }
    let broken = || Refused::bad_request("the renewal does not decode");
    let request = v1::RenewRequest::decode(bytes).map_err(|_| broken())?;
    let signed = model::frame::Signed::try_from(request.signed.ok_or_else(broken)?).map_err(|_| broken())?;
    let body = v1::RenewalBody::decode(signed.body.as_slice()).map_err(|_| broken())?;
    Ok((from_frame(signed), body))
}

/// The certificate whose key the signature names, the newest if there are several.
fn signer<'a>(certificates: &'a [Certificate], signed: &pki::Signed) -> Option<(&'a Certificate, NodeCertificate)> {
    certificates
        .iter()
        .rev()
        .filter_map(|certificate| Some((certificate, NodeCertificate::parse(&certificate.der).ok()?)))
        .find(|(_, parsed)| parsed.public_key.kid() == signed.kid)
}

/// One answer for an unknown node and for a wrong signature, so that it tells nothing about either.
fn unsigned(node: &NodeId) -> Refused {
    Refused::bad_request(format!("the renewal is not signed by a key that this fleet certified for {node}"))
}
