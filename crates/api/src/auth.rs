//! Who is calling: `Authorization: Bearer bct_<id>.<secret>`. The store has the hash of the secret.

use crate::refusal::Refusal;
use axum::http::{HeaderMap, header};
use data_encoding::BASE64URL_NOPAD;
use kernel::access::{self, NewApiToken};
use kernel::db::{Store, StoreError, Tx};
use model::{PrincipalId, TenantId};
use rand::RngCore;
use std::fmt;

/// The tenant all others are under.
pub const ROOT_TENANT: &str = "root";
/// The principal of a fleet's first token.
pub const FIRST_PRINCIPAL: &str = "principal_operator";

const PREFIX: &str = "bct_";
const SECRET_BYTES: usize = 32;
/// Longest bearer looked at, bytes.
const BEARER_BYTES_MAX: usize = 200;

/// An authenticated caller, for one request or one watch.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub tenant: TenantId,
    pub principal: PrincipalId,
    token_id: String,
    secret_sha256: [u8; 32],
}

/// The secret half of an API token. `Debug` does not show it.
#[derive(Clone)]
pub struct ApiSecret(String);

impl ApiSecret {
    pub fn generate() -> Self {
        let mut bytes = [0; SECRET_BYTES];
        rand::rng().fill_bytes(&mut bytes);
        Self(BASE64URL_NOPAD.encode(&bytes))
    }

    /// What the store keeps.
    pub fn sha256(&self) -> [u8; 32] {
        stdx::hex::sha256(self.0.as_bytes())
    }

    /// The whole bearer token with its public half.
    pub fn reveal(&self, id: &str) -> String {
        format!("{PREFIX}{id}.{}", self.0)
    }

    /// The public half and the secret of a bearer token.
    pub fn parse(bearer: &str) -> Option<(&str, Self)> {
        if bearer.len() > BEARER_BYTES_MAX {
            return None;
        }
        let (id, secret) = bearer.strip_prefix(PREFIX)?.split_once('.')?;
        (!id.is_empty() && !secret.is_empty()).then(|| (id, Self(secret.to_owned())))
    }
}

impl fmt::Debug for ApiSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiSecret(..)")
    }
}

/// The caller of a request, or `UNAUTHENTICATED`.
pub(crate) async fn caller(store: &Store, headers: &HeaderMap) -> Result<Caller, Refusal> {
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = header.and_then(|header| header.strip_prefix("Bearer ")).ok_or_else(Refusal::unauthenticated)?;
    let (id, secret) = ApiSecret::parse(bearer.trim()).ok_or_else(Refusal::unauthenticated)?;
    look_up(store, id.to_owned(), secret.sha256()).await
}

/// Whether a token that was good is still good: a long stream asks again.
pub(crate) async fn still_valid(store: &Store, caller: &Caller) -> Result<(), Refusal> {
    look_up(store, caller.token_id.clone(), caller.secret_sha256).await.map(|_| ())
}

async fn look_up(store: &Store, token_id: String, secret_sha256: [u8; 32]) -> Result<Caller, Refusal> {
    let id = token_id.clone();
    let identity = store.read(move |tx| access::authenticate(tx, &id, &secret_sha256)).await?;
    let identity = identity.ok_or_else(Refusal::unauthenticated)?;
    Ok(Caller { tenant: identity.tenant, principal: identity.principal, token_id, secret_sha256 })
}

/// The way into an empty store: the root tenant, its first principal, and a token for it. For whoever
/// can write the data directory, since nobody can call the API yet.
pub fn ensure_first_token(tx: &mut Tx<'_>, token_id: &str, secret: &ApiSecret) -> Result<(), StoreError> {
    let (tenant, principal) = (TenantId::new(ROOT_TENANT), PrincipalId::new(FIRST_PRINCIPAL));
    access::create_tenant(tx, &tenant, None, ROOT_TENANT)?;
    access::create_principal(tx, &principal, &tenant, "operator")?;
    access::create_api_token(
        tx,
        &NewApiToken {
            id: token_id.to_owned(),
            tenant,
            principal,
            name: "first".to_owned(),
            secret_sha256: secret.sha256(),
            expires_at: None,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_round_trips_and_its_secret_is_not_shown() {
        let secret = ApiSecret::generate();
        let bearer = secret.reveal("at_1");
        let (id, read) = ApiSecret::parse(&bearer).expect("parses");
        assert_eq!((id, read.sha256()), ("at_1", secret.sha256()));
        assert!(!format!("{read:?}").contains(&secret.0));
        for bad in ["", "bct_", "bct_x", "bct_.s", "bct_x.", "bcjt_x.s", &format!("bct_x.{}", "s".repeat(300))] {
            assert!(ApiSecret::parse(bad).is_none(), "{bad}");
        }
    }
}
