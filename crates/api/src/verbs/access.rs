//! `apiTokens.*` and `joinTokens.*`: secrets are made here, shown once, and stored as hashes.

use crate::auth::ApiSecret;
use crate::call::{Call, Handle};
use crate::page;
use crate::refusal::Refusal;
use crate::shape;
use api_types::*;
use kernel::access::{self, NewApiToken};
use kernel::db::Tx;
use kernel::places::{self, CreateError, NewJoinToken};
use model::{Role, TokenId};
use pki::JoinToken as JoinSecret;

/// Shortest life of any token, seconds.
const TTL_S_MIN: u64 = 60;
/// Longest life of a join token, seconds.
const JOIN_TTL_S_MAX: u64 = 86_400;
/// Longest life of an API token that has one, seconds: ten years.
const API_TTL_S_MAX: u64 = 10 * 365 * 86_400;
/// Machines one join token may admit.
const JOIN_USES_MAX: u32 = 10_000;
/// A token's name, characters.
const NAME_CHARS_MAX: usize = 100;

impl Handle for ApiTokensCreate {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<ApiToken, Refusal> {
        super::check_text("name", &self.name, NAME_CHARS_MAX)?;
        let expires_at = match self.ttl_seconds {
            None => None,
            Some(ttl) => Some(tx.now()?.plus(ttl_ms("ttlSeconds", ttl, API_TTL_S_MAX)?)),
        };
        let secret = ApiSecret::generate();
        let id = format!("at_{}", call.object_id());
        let new = NewApiToken {
            id: id.clone(),
            tenant: call.tenant.clone(),
            principal: call.caller.principal.clone(),
            name: self.name.clone(),
            secret_sha256: secret.sha256(),
            expires_at,
        };
        access::create_api_token(tx, &new)?;
        let row = access::get_api_token(tx, &id)?.ok_or_else(|| Refusal::not_found("API token", &id))?;
        Ok(shape::api_token(row, Some(secret.reveal(&id))))
    }

    fn resource(&self) -> String {
        "compute-api-token/new".to_owned()
    }

    fn without_secrets(response: ApiToken) -> ApiToken {
        ApiToken { token: None, ..response }
    }
}

impl Handle for ApiTokensList {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<ApiTokenPage, Refusal> {
        let limit = page::limit(self.limit)?;
        let rows = access::list_api_tokens(tx, &call.tenant, self.cursor.as_deref(), limit + 1)?;
        let (rows, next_cursor) = page::cut(rows, limit, |row| row.id.clone());
        Ok(ApiTokenPage { items: rows.into_iter().map(|row| shape::api_token(row, None)).collect(), next_cursor })
    }

    fn resource(&self) -> String {
        "compute-api-token/*".to_owned()
    }
}

impl Handle for ApiTokensRevoke {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<ApiToken, Refusal> {
        let missing = || Refusal::not_found("API token", &self.token_id);
        let row = access::get_api_token(tx, &self.token_id)?.filter(|row| row.tenant == call.tenant);
        row.ok_or_else(missing)?;
        access::revoke_api_token(tx, &self.token_id)?;
        let row = access::get_api_token(tx, &self.token_id)?.ok_or_else(missing)?;
        Ok(shape::api_token(row, None))
    }

    fn resource(&self) -> String {
        format!("compute-api-token/{}", self.token_id)
    }
}

impl Handle for JoinTokensCreate {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<JoinToken, Refusal> {
        let ttl_ms = ttl_ms("ttlSeconds", self.ttl_seconds, JOIN_TTL_S_MAX)?;
        let uses_max = self.max_uses.unwrap_or(1);
        if !(1..=JOIN_USES_MAX).contains(&uses_max) {
            return Err(Refusal::invalid(format!("maxUses is {uses_max}; 1 to {JOIN_USES_MAX} are possible")));
        }
        let expect_mac = self.expect.as_ref().and_then(|expect| expect.mac.clone());
        if let Some(mac) = &expect_mac {
            check_mac(mac)?;
        }
        let pool = shape::find_pool(tx, &call.tenant, &self.pool_id)?;
        let id = TokenId::new(format!("jt_{}", call.object_id()));
        let secret =
            JoinSecret::generate(id.clone()).map_err(|error| Refusal::new(ErrorCode::Internal, error.to_string()))?;
        let new = NewJoinToken {
            id,
            tenant: call.tenant.clone(),
            pool: pool.id,
            role: Role::Node,
            secret_sha256: secret.secret.hash(),
            uses_max,
            expires_at: tx.now()?.plus(ttl_ms),
            expect_mac,
            allow_reclaim: self.allow_reclaim,
        };
        let row = places::create_join_token(tx, &new).map_err(created)?;
        Ok(shape::join_token(row, Some(secret.reveal().to_string())))
    }

    fn resource(&self) -> String {
        format!("compute-pool/{}", self.pool_id)
    }

    fn without_secrets(response: JoinToken) -> JoinToken {
        JoinToken { token: None, ..response }
    }
}

impl Handle for JoinTokensList {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<JoinTokenPage, Refusal> {
        let limit = page::limit(self.limit)?;
        let pool = match &self.pool_id {
            Some(given) => Some(shape::find_pool(tx, &call.tenant, given)?.id),
            None => None,
        };
        let rows = places::list_join_tokens(tx, &call.tenant, pool.as_ref(), self.cursor.as_deref(), limit + 1)?;
        let (rows, next_cursor) = page::cut(rows, limit, |row| row.id.to_string());
        Ok(JoinTokenPage { items: rows.into_iter().map(|row| shape::join_token(row, None)).collect(), next_cursor })
    }

    fn resource(&self) -> String {
        "compute-join-token/*".to_owned()
    }
}

impl Handle for JoinTokensRevoke {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<JoinToken, Refusal> {
        let missing = || Refusal::not_found("join token", &self.token_id);
        if self.token_id.contains('.') {
            let message =
                "tokenId is the id, jt_..., and never the token itself; if the token was shown to others, revoke it";
            return Err(Refusal::invalid(message));
        }
        let id = TokenId::parse(&self.token_id).map_err(|_| missing())?;
        places::get_join_token(tx, &id)?.filter(|row| row.tenant == call.tenant).ok_or_else(missing)?;
        places::revoke_join_token(tx, &id)?;
        let row = places::get_join_token(tx, &id)?.ok_or_else(missing)?;
        Ok(shape::join_token(row, None))
    }

    fn resource(&self) -> String {
        // A pasted bearer must not reach the audit.
        format!("compute-join-token/{}", self.token_id.split('.').next().unwrap_or_default())
    }
}

/// A life in milliseconds, within its bounds.
fn ttl_ms(field: &str, ttl_s: u64, most_s: u64) -> Result<i64, Refusal> {
    if (TTL_S_MIN..=most_s).contains(&ttl_s) {
        return Ok(ttl_s as i64 * 1000);
    }
    Err(Refusal::invalid(format!("{field} is {ttl_s}; {TTL_S_MIN} to {most_s} are possible")))
}

fn check_mac(mac: &str) -> Result<(), Refusal> {
    let parts: Vec<&str> = mac.split(':').collect();
    let is_octet =
        |part: &&str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if parts.len() == 6 && parts.iter().all(is_octet) {
        return Ok(());
    }
    Err(Refusal::invalid(format!("expect.mac is {mac:?}; it looks like 02:00:5e:10:00:01, in lower case")))
}

/// What making a site, a pool or a token can be refused for.
pub(super) fn created(error: CreateError) -> Refusal {
    match error {
        CreateError::NoSuch(_) => Refusal::new(ErrorCode::NotFound, error.to_string()),
        CreateError::NameTaken(_) => Refusal::new(ErrorCode::Conflict, error.to_string()),
        CreateError::Store(error) => error.into(),
    }
}
