//! A join: a machine without a certificate shows a sealed token.

use super::answer::{Granted, JoinError, Refused};
use super::issue;
use kernel::db::Tx;
use kernel::join::{JoinFacts, Redeemed, redeem_token};
use kernel::nodes::get_node;
use model::{Role, SiteId};
use pki::roles::JoinKeys;
use pki::{Sealed, csr, token};
use proto::{Message, v1};

/// The one attestor a join comes by.
const ATTESTOR: &str = "join-token";
/// Longest request, claims included, bytes.
const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Longest text of one claim, bytes, and most MAC addresses.
const CLAIM_BYTES_MAX: usize = 256;
const MACS_MAX: usize = 64;

pub(crate) fn join(tx: &mut Tx<'_>, keys: &JoinKeys, bytes: &[u8]) -> Result<Granted, JoinError> {
    let request = decode(bytes)?;
    // 1. The key: whoever asks holds it.
    let key = csr::verify(&request.csr).map_err(|error| Refused::bad_request(error.to_string()))?;
    // 2. The token: sealed to this service, for this request and these claims.
    let sealed = Sealed { enc: request.sealed_enc, ciphertext: request.sealed_token };
    let token = token::open(&keys.encryption, &sealed, &request.csr, &request.claims).map_err(|_| {
        let text =
            "the token does not open for this request: it was sealed to another fleet's key, or changed on its way";
        Refused::new("token-invalid", text)
    })?;
    // 3. Its use, which binds to the request.
    let facts = facts(&request.claims)?;
    let csr_sha256 = stdx::hex::sha256(&request.csr);
    let node = match redeem_token(tx, &token.id, &token.secret.hash(), &csr_sha256, &facts)? {
        Redeemed::New(node) | Redeemed::Same(node) => node,
        Redeemed::Refused(refusal) => return Err(Refused::new(refusal.code(), refusal.to_string()).into()),
    };
    // 4. The certificate.
    let row = get_node(tx, &node)?
        .ok_or_else(|| kernel::db::StoreError::Corrupt(format!("the node {node} just joined is missing")))?;
    let certificate = issue::certificate(tx, keys, &node, row.role, &key)?;
    Ok(Granted { csr: request.csr, node, site: row.site, pool: row.pool, role: row.role, certificate })
}

fn decode(bytes: &[u8]) -> Result<v1::JoinRequest, Refused> {
    if bytes.len() > REQUEST_BYTES_MAX {
        return Err(Refused::bad_request(format!("a join request has at most {REQUEST_BYTES_MAX} bytes")));
    }
    let request =
        v1::JoinRequest::decode(bytes).map_err(|_| Refused::bad_request("the join request does not decode"))?;
    if request.attestor != ATTESTOR {
        return Err(Refused::bad_request(format!(
            "the attestor {:?} is not one of this fleet's: {ATTESTOR}",
            request.attestor
        )));
    }
    Ok(request)
}

/// What the machine says about itself, within bounds.
fn facts(bytes: &[u8]) -> Result<JoinFacts, Refused> {
    let claims = v1::JoinClaims::decode(bytes).map_err(|_| Refused::bad_request("the claims do not decode"))?;
    let role = match v1::Role::try_from(claims.role) {
        Ok(v1::Role::Node) => Role::Node,
        Ok(v1::Role::Site) => Role::Site,
        Ok(v1::Role::Ramdisk) => Role::Ramdisk,
        Ok(v1::Role::Unspecified) | Err(_) => return Err(Refused::bad_request("the claims name no role")),
    };
    if claims.macs.len() > MACS_MAX {
        return Err(Refused::bad_request(format!("the claims name more than {MACS_MAX} MAC addresses")));
    }
    let texts = [&claims.hostname, &claims.daemon_version, &claims.product_uuid, &claims.product_serial];
    for text in texts.into_iter().chain(&claims.macs) {
        if text.len() > CLAIM_BYTES_MAX || text.chars().any(char::is_control) {
            let rule = format!("a claim is at most {CLAIM_BYTES_MAX} bytes of text without control characters");
            return Err(Refused::bad_request(rule));
        }
    }
    let site = SiteId::parse(&claims.site)
        .map_err(|_| Refused::new("site-mismatch", "the claims name no site: `site` in config.toml is a site's id"))?;
    Ok(JoinFacts {
        site,
        role,
        hostname: claims.hostname,
        daemon_version: claims.daemon_version,
        product_uuid: claims.product_uuid,
        product_serial: claims.product_serial,
        macs: claims.macs,
        hardware_key: None,
    })
}
