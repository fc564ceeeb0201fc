//! The schema, as a list of migrations. Each runs once; all that are due run in one transaction. A
//! database with a migration this build does not know is refused, so an old version never writes
//! into a newer schema.

use super::{Clock, StoreError};
use rusqlite::Connection;

/// Every migration of the kernel, oldest first. Never edited once released, only added to.
const MIGRATIONS: &[(&str, &str)] = &[
    ("core/0001_people", include_str!("../migrations/0001_people.sql")),
    ("core/0002_nodes", include_str!("../migrations/0002_nodes.sql")),
    ("core/0003_commands", include_str!("../migrations/0003_commands.sql")),
    ("core/0004_outbox", include_str!("../migrations/0004_outbox.sql")),
];

/// Brings the schema up to date.
pub(super) fn migrate(connection: &Connection, clock: &dyn Clock) -> Result<(), StoreError> {
    connection.execute_batch("BEGIN IMMEDIATE").map_err(StoreError::sql)?;
    match apply(connection, clock).and_then(|()| connection.execute_batch("COMMIT").map_err(StoreError::sql)) {
        Ok(()) => Ok(()),
        Err(error) => {
            if let Err(rollback) = connection.execute_batch("ROLLBACK") {
                tracing::debug!(%rollback, "the failed migration was already rolled back");
            }
            Err(error)
        }
    }
}

fn apply(connection: &Connection, clock: &dyn Clock) -> Result<(), StoreError> {
    let table = "CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied_at BIGINT NOT NULL)";
    connection.execute_batch(table).map_err(StoreError::sql)?;
    let applied = applied(connection)?;
    if let Some(unknown) = applied.iter().find(|name| !MIGRATIONS.iter().any(|(known, _)| known == name)) {
        return Err(StoreError::NewerSchema(unknown.clone()));
    }
    for (name, sql) in MIGRATIONS.iter().filter(|(name, _)| !applied.iter().any(|done| done == name)) {
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
