//! `join-tokens` and `api-tokens`: made once, shown once, revoked by id.

use crate::args::{ApiTokensCommand, JoinTokensCommand};
use crate::{CliError, Session, key, output, secret_file, table, time};
use api_types::{
    ApiToken, ApiTokensCreate, ApiTokensList, ApiTokensRevoke, JoinExpect, JoinToken, JoinTokensCreate, JoinTokensList,
    JoinTokensRevoke,
};
use std::process::ExitCode;

pub(crate) async fn run_join(session: &Session, command: JoinTokensCommand) -> Result<ExitCode, CliError> {
    let tenant_id = session.tenant.clone();
    match command {
        JoinTokensCommand::Create { pool, uses, ttl, expect_mac, allow_reclaim, out, key: given } => {
            secret_file::check_new(out.as_deref())?;
            let request = JoinTokensCreate {
                tenant_id,
                pool_id: pool,
                ttl_seconds: ttl,
                max_uses: Some(uses),
                expect: expect_mac.map(|mac| JoinExpect { mac: Some(mac) }),
                allow_reclaim,
                idempotency_key: key(given.key),
            };
            let mut token = session.client.call(&request).await?;
            if let Some(path) = out {
                secret_file::write(&path, token.token.take().as_deref())?;
                eprintln!("token {} written to {}", token.id, path.display());
            }
            session.print(&token, |token| one_join(token, time::now_ms()))
        }
        JoinTokensCommand::List { pool, page } => {
            let mut request = JoinTokensList { tenant_id, pool_id: pool, cursor: page.cursor, limit: page.limit };
            let mut all = session.client.call(&request).await?;
            while page.limit.is_none() && all.next_cursor.is_some() {
                request.cursor = all.next_cursor.take();
                let more = session.client.call(&request).await?;
                all.items.extend(more.items);
                all.next_cursor = more.next_cursor;
            }
            output::print(session.format, &all, |page| list_join(&page.items, time::now_ms()))?;
            Ok(ExitCode::SUCCESS)
        }
        JoinTokensCommand::Revoke { id, key: given } => {
            secret_file::check_id(&id)?;
            let request = JoinTokensRevoke { tenant_id, token_id: id, idempotency_key: key(given.key) };
            let token = session.client.call(&request).await?;
            session.print(&token, |token| one_join(token, time::now_ms()))
        }
    }
}

pub(crate) async fn run_api(session: &Session, command: ApiTokensCommand) -> Result<ExitCode, CliError> {
    let tenant_id = session.tenant.clone();
    match command {
        ApiTokensCommand::Create { name, ttl, out, key: given } => {
            secret_file::check_new(out.as_deref())?;
            let request = ApiTokensCreate { tenant_id, name, ttl_seconds: ttl, idempotency_key: key(given.key) };
            let mut token = session.client.call(&request).await?;
            if let Some(path) = out {
                secret_file::write(&path, token.token.take().as_deref())?;
                eprintln!("token {} written to {}", token.id, path.display());
            }
            session.print(&token, |token| one_api(token, time::now_ms()))
        }
        ApiTokensCommand::List { page } => {
            let mut request = ApiTokensList { tenant_id, cursor: page.cursor, limit: page.limit };
            let mut all = session.client.call(&request).await?;
            while page.limit.is_none() && all.next_cursor.is_some() {
                request.cursor = all.next_cursor.take();
                let more = session.client.call(&request).await?;
                all.items.extend(more.items);
                all.next_cursor = more.next_cursor;
            }
            session.print(&all, |page| list_api(&page.items, time::now_ms()))
        }
        ApiTokensCommand::Revoke { id, key: given } => {
            secret_file::check_id(&id)?;
            let request = ApiTokensRevoke { tenant_id, token_id: id, idempotency_key: key(given.key) };
            let token = session.client.call(&request).await?;
            session.print(&token, |token| one_api(token, time::now_ms()))
        }
    }
}

fn validity(revoked_at: Option<&str>, expires_at: Option<&str>, now_ms: i64) -> String {
    match (revoked_at, expires_at) {
        (Some(_), _) => "revoked".to_owned(),
        (None, Some(expires_at)) => time::until(expires_at, now_ms),
        (None, None) => "never".to_owned(),
    }
}

pub(crate) fn list_join(tokens: &[JoinToken], now_ms: i64) -> String {
    let rows = tokens.iter().map(|token| {
        vec![
            token.id.clone(),
            token.pool_id.clone().unwrap_or_default(),
            token.site_id.clone(),
            format!("{} of {}", token.uses_left, token.max_uses),
            validity(token.revoked_at.as_deref(), Some(&token.expires_at), now_ms),
        ]
    });
    table::render(&["ID", "POOL", "SITE", "USES LEFT", "EXPIRES"], rows)
}

pub(crate) fn one_join(token: &JoinToken, now_ms: i64) -> String {
    let mut rows = vec![
        ("id", token.id.clone()),
        ("role", token.role.clone()),
        ("site", token.site_id.clone()),
        ("pool", token.pool_id.clone().unwrap_or_default()),
        ("uses left", format!("{} of {}", token.uses_left, token.max_uses)),
        ("expires", validity(token.revoked_at.as_deref(), Some(&token.expires_at), now_ms)),
    ];
    rows.extend(token.expect.as_ref().and_then(|expect| expect.mac.clone()).map(|mac| ("expects mac", mac)));
    rows.extend(token.token.clone().map(|token| ("token", token)));
    table::record(&rows)
}

fn list_api(tokens: &[ApiToken], now_ms: i64) -> String {
    let rows = tokens.iter().map(|token| {
        let expires = validity(token.revoked_at.as_deref(), token.expires_at.as_deref(), now_ms);
        vec![token.id.clone(), token.name.clone(), token.principal_id.clone(), expires]
    });
    table::render(&["ID", "NAME", "PRINCIPAL", "EXPIRES"], rows)
}

fn one_api(token: &ApiToken, now_ms: i64) -> String {
    let mut rows = vec![
        ("id", token.id.clone()),
        ("name", token.name.clone()),
        ("principal", token.principal_id.clone()),
        ("expires", validity(token.revoked_at.as_deref(), token.expires_at.as_deref(), now_ms)),
    ];
    rows.extend(token.token.clone().map(|token| ("token", token)));
    table::record(&rows)
}
