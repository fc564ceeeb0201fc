//! `nodes.*` and `fleet.get`.

use crate::call::{Call, Handle};
use crate::page;
use crate::refusal::Refusal;
use crate::shape;
use crate::time::rfc3339;
use api_types::*;
use kernel::db::Tx;
use kernel::nodes::{self, NodeFilter};
use kernel::{commands, join, outbox, settings};

/// A reason for people, characters.
const REASON_CHARS_MAX: usize = 500;

impl Handle for NodesList {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<NodePage, Refusal> {
        let limit = page::limit(self.limit)?;
        let pool = match &self.pool_id {
            Some(given) => Some(shape::find_pool(tx, &call.tenant, given)?.id),
            None => None,
        };
        let filter = NodeFilter { tenant: Some(call.tenant.clone()), pool };
        let rows = nodes::list_nodes(tx, &filter, self.cursor.as_deref(), limit + 1)?;
        let (rows, next_cursor) = page::cut(rows, limit, |row| row.id.to_string());
        let items = rows.into_iter().map(|row| shape::node(tx, row)).collect::<Result<_, _>>()?;
        Ok(NodePage { items, next_cursor })
    }

    fn resource(&self) -> String {
        "compute-node/*".to_owned()
    }
}

impl Handle for NodesGet {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<Node, Refusal> {
        let row = shape::find_node(tx, &call.tenant, &self.node_id)?;
        shape::node(tx, row)
    }

    fn resource(&self) -> String {
        format!("compute-node/{}", self.node_id)
    }
}

impl Handle for NodesRevoke {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<Node, Refusal> {
        if let Some(reason) = &self.reason {
            super::check_text("reason", reason, REASON_CHARS_MAX)?;
        }
        let node = shape::find_node(tx, &call.tenant, &self.node_id)?;
        join::revoke_node(tx, &node.id, self.reason.as_deref().unwrap_or_default())?;
        let row = shape::find_node(tx, &call.tenant, node.id.as_str())?;
        shape::node(tx, row)
    }

    fn resource(&self) -> String {
        format!("compute-node/{}", self.node_id)
    }
}

impl Handle for FleetGet {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<Fleet, Refusal> {
        let fleet_id = settings::get(tx, settings::FLEET_ID)?.unwrap_or_default();
        let counts = nodes::count_nodes(tx, Some(&call.tenant))?;
        Ok(Fleet {
            fleet_id: String::from_utf8_lossy(&fleet_id).into_owned(),
            tenant_id: call.tenant.to_string(),
            principal_id: call.caller.principal.to_string(),
            version: call.version.to_owned(),
            server_time: rfc3339(tx.now()?),
            nodes: NodeCounts {
                total: counts.total,
                connected: counts.connected,
                adopting: counts.adopting,
                ready: counts.ready,
            },
            commands_open: commands::open_count(tx, Some(&call.tenant))?,
            position: outbox::head(tx)?,
            command_signatures: "required".to_owned(),
        })
    }

    fn resource(&self) -> String {
        "compute-fleet".to_owned()
    }
}
