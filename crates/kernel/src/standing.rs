//! What people and controllers say of a node beside its lifecycle: labels, and the set of cordons that
//! keep new work off it.
//!
//! Not here: what a cordon stops; each module that places work reads them.

use crate::db::{Row, StoreError, Tx, args};
use crate::outbox::{self, EventRow};
use model::{NodeId, ServerTimeMs, TenantId};
use serde_json::json;
use std::collections::BTreeMap;

/// Labels under this prefix are the system's; people set none.
pub const SYSTEM_LABEL_PREFIX: &str = "bc.dev/";
/// Before the name of a capability that the daemon advertises (`bc.dev/cap.<capability>=1`).
pub const CAPABILITY_LABEL_PREFIX: &str = "bc.dev/cap.";
/// The value of such a label.
pub const CAPABILITY_LABEL_VALUE: &str = "1";
/// Labels a person may set on one node.
pub const LABELS_MAX: usize = 64;

/// Who keeps new work off a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CordonOwner {
    Operator,
    Health,
    Rollout,
}

impl CordonOwner {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Health => "health",
            Self::Rollout => "rollout",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Operator, Self::Health, Self::Rollout].into_iter().find(|owner| owner.name() == text)
    }
}

/// One reason not to place on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cordon {
    pub owner: CordonOwner,
    pub reason: String,
    pub at: ServerTimeMs,
}

#[derive(Debug, thiserror::Error)]
pub enum LabelError {
    #[error("there is no such node")]
    NoSuch,
    #[error("labels under {SYSTEM_LABEL_PREFIX} are set by the system: {0}")]
    Reserved(String),
    #[error("a node has at most {LABELS_MAX} labels")]
    TooMany,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Adds a cordon. `false` when it stands already, or there is no such node.
pub fn cordon(tx: &mut Tx<'_>, node: &NodeId, owner: CordonOwner, reason: &str) -> Result<bool, StoreError> {
    let now = tx.now()?;
    let added = tx.execute(
        "INSERT INTO node_cordons (node_id, owner, reason, at) SELECT id, ?2, ?3, ?4 FROM nodes WHERE id = ?1
         ON CONFLICT (node_id, owner, reason) DO NOTHING",
        args![node, owner.name(), reason, now],
    )?;
    if added > 0 {
        publish(tx, "node.cordoned", node, owner, reason)?;
    }
    Ok(added > 0)
}

/// Takes back an owner's cordons: the one with this reason, or all. `false` when there was none.
pub fn uncordon(tx: &mut Tx<'_>, node: &NodeId, owner: CordonOwner, reason: Option<&str>) -> Result<bool, StoreError> {
    let removed = tx.execute(
        "DELETE FROM node_cordons WHERE node_id = ?1 AND owner = ?2 AND (?3 IS NULL OR reason = ?3)",
        args![node, owner.name(), reason],
    )?;
    if removed > 0 {
        publish(tx, "node.uncordoned", node, owner, reason.unwrap_or_default())?;
    }
    Ok(removed > 0)
}

/// The node's cordons, by owner and reason.
pub fn cordons(tx: &mut Tx<'_>, node: &NodeId) -> Result<Vec<Cordon>, StoreError> {
    let sql = "SELECT owner, reason, at FROM node_cordons WHERE node_id = ?1 ORDER BY owner, reason";
    tx.query(sql, args![node], read_cordon)
}

/// Reads `owner, reason, at`.
pub fn read_cordon(row: &mut Row<'_>) -> Result<Cordon, StoreError> {
    let owner: String = row.take()?;
    let owner = CordonOwner::parse(&owner).ok_or_else(|| StoreError::Corrupt(format!("a cordon of {owner}")))?;
    Ok(Cordon { owner, reason: row.take()?, at: row.take()? })
}

/// Replaces the labels that people set.
pub fn set_labels(tx: &mut Tx<'_>, node: &NodeId, labels: &BTreeMap<String, String>) -> Result<(), LabelError> {
    if labels.len() > LABELS_MAX {
        return Err(LabelError::TooMany);
    }
    if let Some(name) = labels.keys().find(|name| name.starts_with(SYSTEM_LABEL_PREFIX)) {
        return Err(LabelError::Reserved(name.clone()));
    }
    if tx.execute("UPDATE nodes SET version = version + 1 WHERE id = ?1", args![node])? == 0 {
        return Err(LabelError::NoSuch);
    }
    tx.execute("DELETE FROM node_labels WHERE node_id = ?1", args![node])?;
    for (name, value) in labels {
        let sql = "INSERT INTO node_labels (node_id, name, value) VALUES (?1, ?2, ?3)";
        tx.execute(sql, args![node, name, value])?;
    }
    let tenant = tenant_of(tx, node)?;
    let payload = json!({ "nodeId": node.as_str(), "labels": labels });
    outbox::publish(tx, &EventRow { topic: "node.labelled", tenant: &tenant, key: node.as_str(), payload })?;
    Ok(())
}

/// The labels that people set.
pub fn labels(tx: &mut Tx<'_>, node: &NodeId) -> Result<BTreeMap<String, String>, StoreError> {
    let sql = "SELECT name, value FROM node_labels WHERE node_id = ?1";
    Ok(tx.query(sql, args![node], |row| Ok((row.take()?, row.take()?)))?.into_iter().collect())
}

/// The system's labels of a daemon that advertises these capabilities.
pub fn capability_labels(capabilities: &[String]) -> impl Iterator<Item = (String, String)> + '_ {
    capabilities
        .iter()
        .map(|capability| (format!("{CAPABILITY_LABEL_PREFIX}{capability}"), CAPABILITY_LABEL_VALUE.to_owned()))
}

fn publish(tx: &mut Tx<'_>, topic: &str, node: &NodeId, owner: CordonOwner, reason: &str) -> Result<(), StoreError> {
    let tenant = tenant_of(tx, node)?;
    let payload = json!({ "nodeId": node.as_str(), "owner": owner.name(), "reason": reason });
    outbox::publish(tx, &EventRow { topic, tenant: &tenant, key: node.as_str(), payload })
}

fn tenant_of(tx: &mut Tx<'_>, node: &NodeId) -> Result<TenantId, StoreError> {
    tx.query_one("SELECT tenant_id FROM nodes WHERE id = ?1", args![node], |row| row.take())
}
