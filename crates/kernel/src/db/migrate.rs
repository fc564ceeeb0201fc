//! The schema, as a list of migrations: the kernel's, then each module's in the order given. Each runs
//! once; all that are due run in one transaction. A database with a migration this build does not know
//! is refused, so an old version never writes into a newer schema.

use super::{Clock, StoreError};
use crate::module::{Migration, Module};
use rusqlite::Connection;

/// Every migration of the kernel, oldest first. Never edited once released, only added to.
const MIGRATIONS: &[Migration] = &[
    ("core/0001_people", include_str!("../migrations/0001_people.sql")),
    ("core/0002_nodes", include_str!("../migrations/0002_nodes.sql")),
    ("core/0003_commands", include_str!("../migrations/0003_commands.sql")),
    ("core/0004_outbox", include_str!("../migrations/0004_outbox.sql")),
    ("core/0005_standing", include_str!("../migrations/0005_standing.sql")),
];

/// Brings the schema up to date.
pub(super) fn migrate(connection: &Connection, clock: &dyn Clock, modules: &[&dyn Module]) -> Result<(), StoreError> {
    let migrations = known(modules)?;
    connection.execute_batch("BEGIN IMMEDIATE").map_err(StoreError::sql)?;
    match apply(connection, clock, &migrations)
        .and_then(|()| connection.execute_batch("COMMIT").map_err(StoreError::sql))
    {
        Ok(()) => Ok(()),
        Err(error) => {
            if let Err(rollback) = connection.execute_batch("ROLLBACK") {
                tracing::debug!(%rollback, "the failed migration was already rolled back");
            }
            Err(error)
        }
    }
}

/// The kernel's migrations and the modules'. A module writes under its own name only.
fn known(modules: &[&dyn Module]) -> Result<Vec<Migration>, StoreError> {
    let mut migrations = MIGRATIONS.to_vec();
    for module in modules {
        for migration in module.migrations() {
            let owner = migration.0.split_once('/').map(|(owner, _)| owner);
            if owner != Some(module.name()) || migrations.iter().any(|(name, _)| *name == migration.0) {
                return Err(StoreError::Statement(format!("the migration {} of {}", migration.0, module.name())));
            }
            migrations.push(*migration);
        }
    }
    Ok(migrations)
}

fn apply(connection: &Connection, clock: &dyn Clock, migrations: &[Migration]) -> Result<(), StoreError> {
    let table = "CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied_at BIGINT NOT NULL)";
    connection.execute_batch(table).map_err(StoreError::sql)?;
    let applied = applied(connection)?;
    if let Some(unknown) = applied.iter().find(|name| !migrations.iter().any(|(known, _)| known == name)) {
        return Err(StoreError::NewerSchema(unknown.clone()));
    }
    for (name, sql) in migrations.iter().filter(|(name, _)| !applied.iter().any(|done| done == name)) {
        connection.execute_batch(sql).map_err(StoreError::sql)?;
        connection
            .execute("INSERT INTO migrations (name, applied_at) VALUES (?1, ?2)", (name, clock.now_ms()))
            .map_err(StoreError::sql)?;
    }
    Ok(())
}

fn applied(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let mut statement = connection.prepare("SELECT name FROM migrations").map_err(StoreError::sql)?;
    let names = statement.query_map([], |row| row.get(0)).map_err(StoreError::sql)?;
    names.collect::<Result<_, _>>().map_err(StoreError::sql)
}
