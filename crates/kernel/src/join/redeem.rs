//! The use of a join token. A use binds to its CSR: the same CSR gets the same node again, also after
//! the token expired or was used up; another CSR is another use.

use super::node;
use crate::db::{StoreError, Tx, args};
use model::{NodeId, PoolId, Role, ServerTimeMs, SiteId, TenantId, TokenId};
use serde_json::Value;

/// The attestor of a join by token, as a pool's `joinAttestors` names it.
const ATTESTOR: &str = "join-token";

/// What a joining machine says about itself, bound to its CSR by the sealed request.
#[derive(Clone, Debug)]
pub struct JoinFacts {
    pub site: SiteId,
    pub role: Role,
    pub hostname: String,
    pub daemon_version: String,
    pub product_uuid: String,
    pub product_serial: String,
    /// Lower-case, with colons.
    pub macs: Vec<String>,
    /// A key in hardware that an attestor proved; `None` for a key file.
    pub hardware_key: Option<String>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redeemed {
    /// A node made or reclaimed by this use.
    New(NodeId),
    /// The node of an earlier use with the same CSR.
    Same(NodeId),
    Refused(TokenRefusal),
}

/// Why a token does not admit a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// No such token, or another secret.
    #[error("the join token is not valid")]
    Invalid,
    #[error("the join token was revoked")]
    Revoked,
    #[error("the join token has expired")]
    Expired,
    #[error("the join token was used by other machines already")]
    Used,
    #[error("the join token is for another site")]
    SiteMismatch,
    #[error("the join token is for another role")]
    RoleMismatch,
    /// `expect.mac` is not among the machine's, or its hardware key belongs to another node.
    #[error("the join token is for another machine")]
    HardwareMismatch,
    #[error("the pool does not admit machines by token")]
    AttestorRefused,
    /// The node of this CSR was revoked or retired.
    #[error("the node was revoked or retired")]
    NodeRevoked,
}

impl TokenRefusal {
    /// The code on the wire.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Invalid => "token-invalid",
            Self::Revoked => "token-revoked",
            Self::Expired => "token-expired",
            Self::Used => "token-used",
            Self::SiteMismatch => "site-mismatch",
            Self::RoleMismatch => "role-mismatch",
            Self::HardwareMismatch => "hardware-mismatch",
            Self::AttestorRefused => "bad-request",
            Self::NodeRevoked => "node-revoked",
        }
    }
}

/// A token as far as a use looks at it.
pub(super) struct Token {
    pub id: TokenId,
    pub tenant: TenantId,
    pub site: SiteId,
    pub pool: PoolId,
    pub role: Role,
    pub allow_reclaim: bool,
    secret_sha256: [u8; 32],
    uses_max: u32,
    uses: u32,
    expires_at: ServerTimeMs,
    revoked: bool,
    expect_mac: Option<String>,
    policy: String,
}

/// Uses a token for the machine that holds the key of this CSR.
pub fn redeem_token(
    tx: &mut Tx<'_>,
    token: &TokenId,
    secret_sha256: &[u8; 32],
    csr_sha256: &[u8; 32],
    facts: &JoinFacts,
) -> Result<Redeemed, StoreError> {
    let Some(token) = read(tx, token)?.filter(|token| token.secret_sha256 == *secret_sha256) else {
        return Ok(Redeemed::Refused(TokenRefusal::Invalid));
    };
    if let Some((node, gone)) = earlier_use(tx, &token.id, csr_sha256)? {
        return Ok(if gone { Redeemed::Refused(TokenRefusal::NodeRevoked) } else { Redeemed::Same(node) });
    }
    let now = tx.now()?;
    if let Some(refusal) = check(&token, facts, now) {
        return Ok(Redeemed::Refused(refusal));
    }
    let node = match node::holder_of_key(tx, facts)? {
        Some(_) if !token.allow_reclaim => return Ok(Redeemed::Refused(TokenRefusal::HardwareMismatch)),
        Some(holder) => node::reclaim(tx, &holder, &token, facts)?,
        None => node::create(tx, &token, csr_sha256, facts)?,
    };
    tx.execute("UPDATE join_tokens SET uses = uses + 1 WHERE id = ?1", args![token.id])?;
    tx.execute(
        "INSERT INTO join_token_uses (token_id, csr_sha256, node_id, used_at) VALUES (?1, ?2, ?3, ?4)",
        args![token.id, csr_sha256, node, now],
    )?;
    Ok(Redeemed::New(node))
}

fn check(token: &Token, facts: &JoinFacts, now: ServerTimeMs) -> Option<TokenRefusal> {
    if token.revoked {
        return Some(TokenRefusal::Revoked);
    }
    if token.expires_at <= now {
        return Some(TokenRefusal::Expired);
    }
    if token.uses >= token.uses_max {
        return Some(TokenRefusal::Used);
    }
    if facts.site != token.site {
        return Some(TokenRefusal::SiteMismatch);
    }
    if facts.role != token.role {
        return Some(TokenRefusal::RoleMismatch);
    }
    if token.expect_mac.as_ref().is_some_and(|mac| !facts.macs.iter().any(|own| own.eq_ignore_ascii_case(mac))) {
        return Some(TokenRefusal::HardwareMismatch);
    }
    (!admits_tokens(&token.policy)).then_some(TokenRefusal::AttestorRefused)
}

/// A pool that lists `joinAttestors` admits these and no others.
fn admits_tokens(policy: &str) -> bool {
    let policy: Value = serde_json::from_str(policy).unwrap_or_default();
    let listed = policy.get("joinAttestors").and_then(Value::as_array);
    listed.is_none_or(|attestors| attestors.iter().any(|attestor| attestor == ATTESTOR))
}

fn read(tx: &mut Tx<'_>, id: &TokenId) -> Result<Option<Token>, StoreError> {
    tx.query_opt(
        "SELECT t.id, t.tenant_id, t.site_id, t.pool_id, t.role, t.allow_reclaim, t.secret_sha256, t.uses_max, t.uses,
             t.expires_at, t.revoked_at IS NOT NULL, t.expect_mac, p.policy
         FROM join_tokens t JOIN pools p ON p.id = t.pool_id WHERE t.id = ?1",
        args![id],
        |row| {
            Ok(Token {
                id: row.take()?,
                tenant: row.take()?,
                site: row.take()?,
                pool: row.take()?,
                role: row.take()?,
                allow_reclaim: row.take()?,
                secret_sha256: row.take()?,
                uses_max: row.take()?,
                uses: row.take()?,
                expires_at: row.take()?,
                revoked: row.take()?,
                expect_mac: row.take()?,
                policy: row.take()?,
            })
        },
    )
}

/// The node of an earlier use with this CSR, and whether it was revoked or retired since.
fn earlier_use(tx: &mut Tx<'_>, token: &TokenId, csr: &[u8; 32]) -> Result<Option<(NodeId, bool)>, StoreError> {
    tx.query_opt(
        "SELECT u.node_id, n.revoked_at IS NOT NULL OR n.lifecycle = 'retired'
         FROM join_token_uses u JOIN nodes n ON n.id = u.node_id WHERE u.token_id = ?1 AND u.csr_sha256 = ?2",
        args![token, csr],
        |row| Ok((row.take()?, row.take()?)),
    )
}
