//! `sites.*` and `pools.*`.

use super::access::created;
use crate::auth::ROOT_TENANT;
use crate::call::{Call, Handle};
use crate::page;
use crate::refusal::Refusal;
use crate::shape;
use api_types::*;
use kernel::db::Tx;
use kernel::places::{self, NewPool, NewSite};
use model::{PoolId, SiteId, TenantId};

/// A region label, characters.
const REGION_CHARS_MAX: usize = 64;

impl Handle for SitesCreate {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<Site, Refusal> {
        if let Some(name) = &self.name {
            super::check_name("name", name)?;
        }
        super::check_text("region", &self.region, REGION_CHARS_MAX)?;
        if let Some(region) = &self.iam_region {
            super::check_text("iamRegion", region, REGION_CHARS_MAX)?;
        }
        let kind = match self.kind {
            SiteKind::Shared => "shared",
            SiteKind::Dedicated => "dedicated",
            SiteKind::Owned => "owned",
        };
        if self.kind != SiteKind::Owned && call.tenant.as_str() != ROOT_TENANT {
            return Err(Refusal::invalid(format!("a {kind} site belongs to the tenant {ROOT_TENANT:?}")));
        }
        let dedicated_tenant = match (&self.dedicated_tenant_id, self.kind) {
            (Some(tenant), SiteKind::Dedicated) => {
                Some(TenantId::parse(tenant).map_err(|_| Refusal::not_found("tenant", tenant))?)
            }
            (None, SiteKind::Dedicated) => {
                return Err(Refusal::invalid("a dedicated site needs dedicatedTenantId, the tenant it is for"));
            }
            (Some(_), _) => return Err(Refusal::invalid("dedicatedTenantId is for dedicated sites only")),
            (None, _) => None,
        };
        let new = NewSite {
            id: SiteId::new(format!("site_{}", call.object_id())),
            tenant: call.tenant.clone(),
            name: self.name.clone(),
            kind: kind.to_owned(),
            region: self.region.clone(),
            iam_region: self.iam_region.clone(),
            dedicated_tenant,
        };
        Ok(shape::site(places::create_site(tx, &new).map_err(created)?))
    }

    fn resource(&self) -> String {
        "compute-site/new".to_owned()
    }
}

impl Handle for SitesGet {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<Site, Refusal> {
        Ok(shape::site(shape::find_site(tx, &call.tenant, &self.site_id)?))
    }

    fn resource(&self) -> String {
        format!("compute-site/{}", self.site_id)
    }
}

impl Handle for SitesList {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<SitePage, Refusal> {
        let limit = page::limit(self.limit)?;
        let rows = places::list_sites(tx, None, self.cursor.as_deref(), limit + 1)?;
        let (rows, next_cursor) = page::cut(rows, limit, |row| row.id.to_string());
        let visible = rows.into_iter().filter(|row| shape::sees_site(&call.tenant, row));
        Ok(SitePage { items: visible.map(shape::site).collect(), next_cursor })
    }

    fn resource(&self) -> String {
        "compute-site/*".to_owned()
    }
}

impl Handle for PoolsCreate {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<Pool, Refusal> {
        super::check_name("name", &self.name)?;
        let site = shape::find_site(tx, &call.tenant, &self.site_id)?;
        let policy =
            serde_json::to_value(&self.policy).map_err(|error| Refusal::new(ErrorCode::Internal, error.to_string()))?;
        let new = NewPool {
            id: PoolId::new(format!("pool_{}", call.object_id())),
            tenant: call.tenant.clone(),
            site: site.id,
            name: self.name.clone(),
            policy,
            tenant_controlled: self.tenant_controlled,
        };
        Ok(shape::pool(places::create_pool(tx, &new).map_err(created)?))
    }

    fn resource(&self) -> String {
        format!("compute-site/{}", self.site_id)
    }
}

impl Handle for PoolsGet {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<Pool, Refusal> {
        Ok(shape::pool(shape::find_pool(tx, &call.tenant, &self.pool_id)?))
    }

    fn resource(&self) -> String {
        format!("compute-pool/{}", self.pool_id)
    }
}

impl Handle for PoolsList {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<PoolPage, Refusal> {
        let limit = page::limit(self.limit)?;
        let rows = places::list_pools(tx, Some(&call.tenant), self.cursor.as_deref(), limit + 1)?;
        let (rows, next_cursor) = page::cut(rows, limit, |row| row.id.to_string());
        Ok(PoolPage { items: rows.into_iter().map(shape::pool).collect(), next_cursor })
    }

    fn resource(&self) -> String {
        "compute-pool/*".to_owned()
    }
}
