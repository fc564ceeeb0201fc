//! Rows of the store as the API shows them, and names as ids.

use crate::refusal::Refusal;
use crate::time::{rfc3339, rfc3339_opt};
use crate::{inventory, kinds};
use api_types as api;
use kernel::access::ApiTokenRow;
use kernel::commands::{Attestation, CommandRow, StoredResult};
use kernel::db::Tx;
use kernel::nodes::{self, NodeRow};
use kernel::outbox;
use kernel::places::{self, JoinTokenRow, PoolRow, SiteRow};
use model::{CommandState, FailCode, NodeId, PoolId, ServerTimeMs, SiteId, TenantId};
use serde_json::{Value, json};

/// Rows looked at in one go when a name is resolved.
const NAMES_BATCH: u32 = 500;

/// The node of an id or a name, if the tenant may see it.
pub(crate) fn find_node(tx: &mut Tx<'_>, tenant: &TenantId, given: &str) -> Result<NodeRow, Refusal> {
    let by_id = match NodeId::parse(given) {
        Ok(id) => nodes::get_node(tx, &id)?,
        Err(_) => None,
    };
    let found = match by_id {
        Some(node) => Some(node),
        None => nodes::node_by_name(tx, given)?,
    };
    found.filter(|node| node.tenant == *tenant).ok_or_else(|| Refusal::not_found("node", given))
}

/// The pool of an id or a unique name.
pub(crate) fn find_pool(tx: &mut Tx<'_>, tenant: &TenantId, given: &str) -> Result<PoolRow, Refusal> {
    if let Ok(id) = PoolId::parse(given)
        && let Some(pool) = places::get_pool(tx, &id)?.filter(|pool| pool.tenant == *tenant)
    {
        return Ok(pool);
    }
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let rows = places::list_pools(tx, Some(tenant), cursor.as_deref(), NAMES_BATCH)?;
        cursor = rows.last().map(|pool| pool.id.to_string());
        let last = rows.len() < NAMES_BATCH as usize;
        found.extend(rows.into_iter().filter(|pool| pool.name == given));
        if last {
            break;
        }
    }
    only("pool", given, found, |pool| pool.id.as_str())
}

/// Whether a tenant sees a site: its own, a shared one, or one dedicated to it (S-Q2).
pub(crate) fn sees_site(tenant: &TenantId, site: &SiteRow) -> bool {
    site.tenant == *tenant || site.kind == "shared" || site.dedicated_tenant.as_ref() == Some(tenant)
}

/// The site of an id or a unique name.
pub(crate) fn find_site(tx: &mut Tx<'_>, tenant: &TenantId, given: &str) -> Result<SiteRow, Refusal> {
    if let Ok(id) = SiteId::parse(given)
        && let Some(site) = places::get_site(tx, &id)?.filter(|site| sees_site(tenant, site))
    {
        return Ok(site);
    }
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let rows = places::list_sites(tx, None, cursor.as_deref(), NAMES_BATCH)?;
        cursor = rows.last().map(|site| site.id.to_string());
        let last = rows.len() < NAMES_BATCH as usize;
        found.extend(rows.into_iter().filter(|site| site.name.as_deref() == Some(given) && sees_site(tenant, site)));
        if last {
            break;
        }
    }
    only("site", given, found, |site| site.id.as_str())
}

/// The one object of a name. Several are refused with their ids, so that the caller can choose.
fn only<T>(what: &str, given: &str, mut found: Vec<T>, id: impl Fn(&T) -> &str) -> Result<T, Refusal> {
    if found.len() > 1 {
        let ids: Vec<&str> = found.iter().map(&id).collect();
        let message = format!("{} {what}s are named {given:?}; pass an id instead", ids.len());
        return Err(Refusal::invalid(message).with(json!({ "ids": ids })));
    }
    found.pop().ok_or_else(|| Refusal::not_found(what, given))
}

pub(crate) fn event_filter(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    topic: Option<&str>,
    node: Option<&str>,
) -> Result<outbox::Filter, Refusal> {
    let about = match node {
        Some(node) => Some(find_node(tx, tenant, node)?.id.to_string()),
        None => None,
    };
    let topics = topic.iter().map(|topic| (*topic).to_owned()).collect();
    Ok(outbox::Filter { topics, tenants: vec![tenant.clone()], about })
}

pub(crate) fn event(event: outbox::Event) -> api::Event {
    let in_payload = event.payload.get("nodeId").and_then(Value::as_str).map(str::to_owned);
    let node_id = in_payload.or_else(|| event.key.starts_with("node_").then(|| event.key.clone()));
    api::Event {
        position: event.position,
        topic: event.topic,
        tenant_id: event.tenant.to_string(),
        key: event.key,
        node_id,
        at: rfc3339(event.at),
        payload: event.payload,
    }
}

pub(crate) fn site(row: SiteRow) -> api::Site {
    let kind = match row.kind.as_str() {
        "dedicated" => api::SiteKind::Dedicated,
        "owned" => api::SiteKind::Owned,
        _ => api::SiteKind::Shared,
    };
    api::Site {
        id: row.id.to_string(),
        name: row.name,
        owner_tenant_id: row.tenant.to_string(),
        kind,
        region: row.region,
        iam_region: row.iam_region,
        dedicated_tenant_id: row.dedicated_tenant.map(|tenant| tenant.to_string()),
        version: row.version,
        created_at: rfc3339(row.created_at),
    }
}

pub(crate) fn pool(row: PoolRow) -> api::Pool {
    api::Pool {
        id: row.id.to_string(),
        name: row.name,
        tenant_id: row.tenant.to_string(),
        site_id: row.site.to_string(),
        policy: serde_json::from_value(row.policy).unwrap_or_default(),
        tenant_controlled: row.tenant_controlled,
        version: row.version,
        created_at: rfc3339(row.created_at),
    }
}

pub(crate) fn join_token(row: JoinTokenRow, bearer: Option<String>) -> api::JoinToken {
    api::JoinToken {
        id: row.id.to_string(),
        tenant_id: row.tenant.to_string(),
        site_id: row.site.to_string(),
        pool_id: Some(row.pool.to_string()),
        role: row.role.name().to_owned(),
        uses_left: row.uses_max.saturating_sub(row.uses),
        max_uses: row.uses_max,
        expect: row.expect_mac.map(|mac| api::JoinExpect { mac: Some(mac) }),
        allow_reclaim: row.allow_reclaim,
        created_at: rfc3339(row.created_at),
        expires_at: rfc3339(row.expires_at),
        revoked_at: rfc3339_opt(row.revoked_at),
        token: bearer,
    }
}

pub(crate) fn api_token(row: ApiTokenRow, bearer: Option<String>) -> api::ApiToken {
    api::ApiToken {
        id: row.id,
        tenant_id: row.tenant.to_string(),
        principal_id: row.principal.to_string(),
        name: row.name,
        created_at: rfc3339(row.created_at),
        expires_at: rfc3339_opt(row.expires_at),
        revoked_at: rfc3339_opt(row.revoked_at),
        token: bearer,
    }
}

/// A node with its inventory, which is read beside it.
pub(crate) fn node(tx: &mut Tx<'_>, row: NodeRow) -> Result<api::Node, Refusal> {
    let stored = nodes::node_inventory(tx, &row.id)?;
    let connection = match &row.session {
        None => api::Connection { state: api::ConnectionState::Never, connected_since: None, lost_since: None },
        Some(session) if session.connected => api::Connection {
            state: api::ConnectionState::Connected,
            connected_since: Some(rfc3339(session.connected_at)),
            lost_since: None,
        },
        Some(session) => api::Connection {
            state: api::ConnectionState::Lost,
            connected_since: None,
            lost_since: rfc3339_opt(session.lost_since),
        },
    };
    Ok(api::Node {
        conditions: conditions(row.status.as_ref()),
        inventory: stored.and_then(|bytes| inventory::summary(&row.inventory_digest, &bytes)),
        id: row.id.to_string(),
        name: row.name,
        tenant_id: row.tenant.to_string(),
        site_id: row.site.to_string(),
        pool_id: Some(row.pool.to_string()),
        role: row.role.name().to_owned(),
        lifecycle: row.lifecycle.name().to_owned(),
        revoked_at: rfc3339_opt(row.revoked_at),
        connection,
        daemon_version: Some(row.daemon_version).filter(|version| !version.is_empty()),
        boot_id: row.session.map(|session| session.boot.to_string()),
        // No specs are written yet, so none is desired.
        generations: api::Generations {
            desired: 0,
            applied: row.applied_generation,
            observed: row.observed_generation,
        },
        created_at: rfc3339(row.created_at),
    })
}

fn conditions(status: Option<&Value>) -> Vec<api::NodeCondition> {
    let listed = status.and_then(|status| status.get("conditions")).and_then(Value::as_array);
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let one = |value: &Value| api::NodeCondition {
        kind: text(value, "kind"),
        reason: text(value, "reason"),
        message: text(value, "message"),
        since: rfc3339(ServerTimeMs(value.get("sinceMs").and_then(Value::as_i64).unwrap_or(0))),
    };
    listed.map(|listed| listed.iter().map(one).collect()).unwrap_or_default()
}

/// A command with its result. What an attested kind reported is shown once it is verified, and not
/// before: until then it is only a gateway's word.
pub(crate) fn command(row: CommandRow, stored: Option<StoredResult>) -> api::Command {
    let believed = matches!(row.attestation, Attestation::None | Attestation::Verified);
    let result = stored.filter(|_| believed).and_then(|stored| proto::decode_result(&stored.result).ok());
    let reported = result.as_ref().map(|result| result.message.clone()).filter(|message| !message.is_empty());
    let settled_by_server = row.state.is_terminal().then(|| explanation(&row)).flatten();
    api::Command {
        id: row.id.to_string(),
        tenant_id: row.tenant.to_string(),
        node_id: row.node.to_string(),
        seq: row.seq,
        kind: row.kind,
        lane: row.lane.name().to_owned(),
        state: state(row.state),
        outcome: row.reported_outcome.map(|outcome| outcome.name().to_owned()),
        message: reported.or(settled_by_server),
        code: Some(row.code).filter(|code| !code.is_empty()),
        result: result.and_then(|result| result.value).map(|value| kinds::result(&value)),
        attested: match row.attestation {
            Attestation::None => api::Attested::None,
            Attestation::Unverified => api::Attested::Unverified,
            Attestation::Verified => api::Attested::Verified,
            Attestation::Forged => api::Attested::Forged,
        },
        attempts: row.attempt,
        min_generation: row.min_generation,
        cancel_requested: row.cancel_requested_at.is_some(),
        boot_id: row.result_boot.map(|boot| boot.to_string()),
        created_at: rfc3339(row.created_at),
        not_after: rfc3339(row.not_after),
        dispatched_at: rfc3339_opt(row.dispatched_at),
        settled_at: rfc3339_opt(row.settled_at),
    }
}

/// Why the control plane itself ended a command, for people.
fn explanation(row: &CommandRow) -> Option<String> {
    if row.state == CommandState::Expired {
        return Some("it did not start before its deadline; is the node connected?".to_owned());
    }
    let text = match FailCode::ALL.iter().find(|code| code.name() == row.code)? {
        FailCode::Timeout => "no result came within the kind's timeout",
        FailCode::JournalLost => {
            "the node's journal was replaced while it was in flight, so nobody knows what happened"
        }
        FailCode::BadAttestation => "the result does not carry the node's own signature, so it is not believed",
        FailCode::CancelRequested => "cancelled before it was sent",
        FailCode::KindNotAllowed => "the node's certificate does not allow this kind",
        FailCode::TenantControlled => "the pool's tenant controls the machine, and the kind is destructive",
        FailCode::InvalidBody => "the stored command is damaged and was not sent",
        FailCode::NodeRetired => "the node was revoked or retired",
        _ => return None,
    };
    Some(text.to_owned())
}

pub(crate) fn state(state: CommandState) -> api::CommandState {
    match state {
        CommandState::Pending => api::CommandState::Pending,
        CommandState::Dispatched => api::CommandState::Dispatched,
        CommandState::Acked => api::CommandState::Acked,
        CommandState::Running => api::CommandState::Running,
        CommandState::Succeeded => api::CommandState::Succeeded,
        CommandState::Failed => api::CommandState::Failed,
        CommandState::Rejected => api::CommandState::Rejected,
        CommandState::Cancelled => api::CommandState::Cancelled,
        CommandState::Expired => api::CommandState::Expired,
    }
}

pub(crate) fn stored_state(state: api::CommandState) -> CommandState {
    match state {
        api::CommandState::Pending => CommandState::Pending,
        api::CommandState::Dispatched => CommandState::Dispatched,
        api::CommandState::Acked => CommandState::Acked,
        api::CommandState::Running => CommandState::Running,
        api::CommandState::Succeeded => CommandState::Succeeded,
        api::CommandState::Failed => CommandState::Failed,
        api::CommandState::Rejected => CommandState::Rejected,
        api::CommandState::Cancelled => CommandState::Cancelled,
        api::CommandState::Expired => CommandState::Expired,
    }
}
