//! Quotas: the most a tenant and its descendants may have at once, of devices, host resources and
//! reservations. What is counted is every reservation that is not over, waiting ones too.

use crate::placement::{DeviceClass, Request};
use kernel::db::{StoreError, Tx, args};
use model::TenantId;
use std::fmt;

/// What a quota bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    Reservations,
    Gpus,
    Migs,
    Slots,
    Vcpu,
    MemoryGib,
    Hugepages1Gi,
}

impl Resource {
    pub const ALL: [Self; 7] =
        [Self::Reservations, Self::Gpus, Self::Migs, Self::Slots, Self::Vcpu, Self::MemoryGib, Self::Hugepages1Gi];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Reservations => "reservations",
            Self::Gpus => "gpu",
            Self::Migs => "gpu.mig",
            Self::Slots => "gpu.slot",
            Self::Vcpu => "vcpu",
            Self::MemoryGib => "memoryGiB",
            Self::Hugepages1Gi => "hugepages1Gi",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| resource.name() == text)
    }

    fn of(self, request: &Request) -> u64 {
        u64::from(match self {
            Self::Reservations => 1,
            Self::Gpus => request.count(DeviceClass::Gpu),
            Self::Migs => request.count(DeviceClass::Mig),
            Self::Slots => request.count(DeviceClass::Slot),
            Self::Vcpu => request.host.vcpu,
            Self::MemoryGib => request.host.memory_gib,
            Self::Hugepages1Gi => request.host.hugepages_1gi,
        })
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    pub tenant: TenantId,
    pub resource: Resource,
    pub most: u64,
}

/// `QUOTA_EXCEEDED`, or the store failed.
#[derive(Debug, thiserror::Error)]
pub enum QuotaError {
    #[error("the quota of {tenant} is {most} {resource}: {used} are in use and {wanted} more were asked for")]
    Exceeded { tenant: TenantId, resource: Resource, most: u64, used: u64, wanted: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a tenant and its descendants have, in the order of [`Resource::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage([u64; 7]);

impl Usage {
    pub fn of(&self, resource: Resource) -> u64 {
        self.0[resource as usize]
    }
}

/// Sets a tenant's quota, or with `None` takes it away.
pub fn set_quota(tx: &mut Tx<'_>, tenant: &TenantId, resource: Resource, most: Option<u64>) -> Result<(), StoreError> {
    match most {
        Some(most) => tx.execute(
            "INSERT INTO capacity_quotas (tenant_id, resource, most, version) VALUES (?1, ?2, ?3, 1)
             ON CONFLICT (tenant_id, resource) DO UPDATE SET most = excluded.most,
                 version = capacity_quotas.version + 1",
            args![tenant, resource.name(), most.min(model::limits::COUNTER_MAX)],
        )?,
        None => tx.execute(
            "DELETE FROM capacity_quotas WHERE tenant_id = ?1 AND resource = ?2",
            args![tenant, resource.name()],
        )?,
    };
    Ok(())
}

/// The tenant's own quotas.
pub fn list_quotas(tx: &mut Tx<'_>, tenant: &TenantId) -> Result<Vec<Quota>, StoreError> {
    let sql = "SELECT tenant_id, resource, most FROM capacity_quotas WHERE tenant_id = ?1 ORDER BY resource";
    quotas(tx, sql, tenant)
}

/// What the tenant and its descendants have.
pub fn usage(tx: &mut Tx<'_>, tenant: &TenantId) -> Result<Usage, StoreError> {
    tx.query_one(
        "WITH RECURSIVE down (id) AS (
             SELECT id FROM tenants WHERE id = ?1
             UNION SELECT t.id FROM tenants t JOIN down ON t.parent_id = down.id
         ) SELECT count(*), COALESCE(sum(gpus), 0), COALESCE(sum(migs), 0), COALESCE(sum(slots), 0),
             COALESCE(sum(vcpu), 0), COALESCE(sum(memory_gib), 0), COALESCE(sum(hugepages_1gi), 0)
         FROM capacity_reservations WHERE over_at IS NULL AND tenant_id IN (SELECT id FROM down)",
        args![tenant],
        |row| {
            let mut usage = Usage::default();
            for amount in &mut usage.0 {
                *amount = row.take()?;
            }
            Ok(usage)
        },
    )
}

/// Refuses a request that goes beyond a quota of the tenant or of one above it.
pub(super) fn check(tx: &mut Tx<'_>, tenant: &TenantId, request: &Request) -> Result<(), QuotaError> {
    // Takes the rows that bound this tenant, so that two creations never both pass on the last of it.
    tx.execute(
        "UPDATE capacity_quotas SET version = version WHERE tenant_id IN (
             WITH RECURSIVE up (id, parent_id) AS (
                 SELECT id, parent_id FROM tenants WHERE id = ?1
                 UNION SELECT t.id, t.parent_id FROM tenants t JOIN up ON t.id = up.parent_id
             ) SELECT id FROM up)",
        args![tenant],
    )?;
    would_fit(tx, tenant, request)
}

/// The same question without taking anything.
pub(super) fn would_fit(tx: &mut Tx<'_>, tenant: &TenantId, request: &Request) -> Result<(), QuotaError> {
    let quotas = quotas(
        tx,
        "WITH RECURSIVE up (id, parent_id) AS (
             SELECT id, parent_id FROM tenants WHERE id = ?1
             UNION SELECT t.id, t.parent_id FROM tenants t JOIN up ON t.id = up.parent_id
         ) SELECT q.tenant_id, q.resource, q.most FROM capacity_quotas q JOIN up ON up.id = q.tenant_id
         ORDER BY q.tenant_id, q.resource",
        tenant,
    )?;
    let mut last: Option<(TenantId, Usage)> = None;
    for quota in quotas {
        let known = last.take().filter(|(tenant, _)| *tenant == quota.tenant);
        let (holder, used) = match known {
            Some(known) => known,
            None => (quota.tenant.clone(), usage(tx, &quota.tenant)?),
        };
        let (in_use, wanted) = (used.of(quota.resource), quota.resource.of(request));
        if wanted > 0 && in_use + wanted > quota.most {
            let Quota { tenant, resource, most } = quota;
            return Err(QuotaError::Exceeded { tenant, resource, most, used: in_use, wanted });
        }
        last = Some((holder, used));
    }
    Ok(())
}

fn quotas(tx: &mut Tx<'_>, sql: &str, tenant: &TenantId) -> Result<Vec<Quota>, StoreError> {
    tx.query(sql, args![tenant], |row| {
        let tenant = row.take()?;
        let resource: String = row.take()?;
        let resource =
            Resource::parse(&resource).ok_or_else(|| StoreError::Corrupt(format!("a quota of {resource}")))?;
        Ok(Quota { tenant, resource, most: row.take()? })
    })
}
