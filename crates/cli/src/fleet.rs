//! `fleet`: the control plane in one view.

use crate::{CliError, Session, table};
use api_types::{Fleet, FleetGet};
use std::process::ExitCode;

pub(crate) async fn run(session: &Session) -> Result<ExitCode, CliError> {
    let fleet = session.client.call(&FleetGet { tenant_id: session.tenant.clone() }).await?;
    session.print(&fleet, one)
}

fn one(fleet: &Fleet) -> String {
    let nodes = &fleet.nodes;
    table::record(&[
        ("fleet", fleet.fleet_id.clone()),
        ("version", fleet.version.clone()),
        ("tenant", fleet.tenant_id.clone()),
        ("principal", fleet.principal_id.clone()),
        ("server time", fleet.server_time.clone()),
        (
            "nodes",
            format!(
                "{} ({} connected, {} ready, {} adopting)",
                nodes.total, nodes.connected, nodes.ready, nodes.adopting
            ),
        ),
        ("open commands", fleet.commands_open.to_string()),
        ("signatures", fleet.command_signatures.clone()),
        ("position", fleet.position.to_string()),
    ])
}
