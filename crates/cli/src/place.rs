//! `sites` and `pools`.

use crate::args::{AdoptionArg, PoolsCommand, SiteKindArg, SitesCommand};
use crate::{CliError, Session, key, table};
use api_types::{
    Adoption, Pool, PoolPolicy, PoolsCreate, PoolsGet, PoolsList, Site, SiteKind, SitesCreate, SitesGet, SitesList,
};
use std::process::ExitCode;

pub(crate) async fn run_sites(session: &Session, command: SitesCommand) -> Result<ExitCode, CliError> {
    let tenant_id = session.tenant.clone();
    match command {
        SitesCommand::Create { name, kind, region, iam_region, dedicated_tenant, key: given } => {
            let request = SitesCreate {
                tenant_id,
                name,
                kind: site_kind(kind),
                region,
                iam_region,
                dedicated_tenant_id: dedicated_tenant,
                idempotency_key: key(given.key),
            };
            let site = session.client.call(&request).await?;
            session.print(&site, |site| sites(std::slice::from_ref(site)))
        }
        SitesCommand::Get { site } => {
            let site = session.client.call(&SitesGet { tenant_id, site_id: site }).await?;
            session.print(&site, |site| sites(std::slice::from_ref(site)))
        }
        SitesCommand::List { page } => {
            let mut request = SitesList { tenant_id, cursor: page.cursor, limit: page.limit };
            let mut all = session.client.call(&request).await?;
            while page.limit.is_none() && all.next_cursor.is_some() {
                request.cursor = all.next_cursor.take();
                let more = session.client.call(&request).await?;
                all.items.extend(more.items);
                all.next_cursor = more.next_cursor;
            }
            session.print(&all, |page| sites(&page.items))
        }
    }
}

pub(crate) async fn run_pools(session: &Session, command: PoolsCommand) -> Result<ExitCode, CliError> {
    let tenant_id = session.tenant.clone();
    match command {
        PoolsCommand::Create { name, site, adoption, tenant_controlled, key: given } => {
            let adoption = match adoption {
                AdoptionArg::Auto => Adoption::Auto,
                AdoptionArg::Manual => Adoption::Manual,
            };
            let request = PoolsCreate {
                tenant_id,
                site_id: site,
                name,
                policy: PoolPolicy { adoption },
                tenant_controlled,
                idempotency_key: key(given.key),
            };
            let pool = session.client.call(&request).await?;
            session.print(&pool, |pool| pools(std::slice::from_ref(pool)))
        }
        PoolsCommand::Get { pool } => {
            let pool = session.client.call(&PoolsGet { tenant_id, pool_id: pool }).await?;
            session.print(&pool, |pool| pools(std::slice::from_ref(pool)))
        }
        PoolsCommand::List { page } => {
            let mut request = PoolsList { tenant_id, cursor: page.cursor, limit: page.limit };
            let mut all = session.client.call(&request).await?;
            while page.limit.is_none() && all.next_cursor.is_some() {
                request.cursor = all.next_cursor.take();
                let more = session.client.call(&request).await?;
                all.items.extend(more.items);
                all.next_cursor = more.next_cursor;
            }
            session.print(&all, |page| pools(&page.items))
        }
    }
}

fn site_kind(kind: SiteKindArg) -> SiteKind {
    match kind {
        SiteKindArg::Shared => SiteKind::Shared,
        SiteKindArg::Dedicated => SiteKind::Dedicated,
        SiteKindArg::Owned => SiteKind::Owned,
    }
}

fn sites(sites: &[Site]) -> String {
    let rows = sites.iter().map(|site| {
        let kind = match site.kind {
            SiteKind::Shared => "shared",
            SiteKind::Dedicated => "dedicated",
            SiteKind::Owned => "owned",
        };
        vec![
            site.id.clone(),
            site.name.clone().unwrap_or_default(),
            kind.to_owned(),
            site.region.clone(),
            site.owner_tenant_id.clone(),
        ]
    });
    table::render(&["ID", "NAME", "KIND", "REGION", "OWNER"], rows)
}

fn pools(pools: &[Pool]) -> String {
    let rows = pools.iter().map(|pool| {
        let adoption = match pool.policy.adoption {
            Adoption::Auto => "auto",
            Adoption::Manual => "manual",
        };
        let controlled = if pool.tenant_controlled { "tenant" } else { "fleet" };
        vec![pool.id.clone(), pool.name.clone(), pool.site_id.clone(), adoption.to_owned(), controlled.to_owned()]
    });
    table::render(&["ID", "NAME", "SITE", "ADOPTION", "CONTROLLED BY"], rows)
}
