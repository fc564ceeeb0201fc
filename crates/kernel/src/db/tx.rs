//! One operation's view of the database: statements, the time of the operation, hints for after its
//! commit, and savepoints inside it.

use super::savepoint::{self, Ran};
use super::{FromValue, Hint, StoreError, Value};
use model::ServerTimeMs;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql, params_from_iter};
use std::collections::HashSet;

/// An open transaction, as long as one operation runs.
pub struct Tx<'c> {
    connection: &'c Connection,
    now: Option<ServerTimeMs>,
    hints: Vec<Hint>,
}

/// A row being read, column by column from the left.
pub struct Row<'r> {
    row: &'r rusqlite::Row<'r>,
    next: usize,
}

impl<'c> Tx<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self { connection, now: None, hints: Vec::new() }
    }

    pub(super) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// The hints in order, each once.
    pub(super) fn into_hints(self) -> Vec<Hint> {
        let mut seen = HashSet::new();
        self.hints.into_iter().filter(|hint| seen.insert(hint.clone())).collect()
    }

    pub(super) fn hints_len(&self) -> usize {
        self.hints.len()
    }

    pub(super) fn hints_truncate(&mut self, len: usize) {
        self.hints.truncate(len);
    }

    /// `compute_now()`: one reading for the whole operation.
    pub fn now(&mut self) -> Result<ServerTimeMs, StoreError> {
        if let Some(now) = self.now {
            return Ok(now);
        }
        let now = self.query_one("SELECT compute_now()", &[], |row| row.take())?;
        self.now = Some(now);
        Ok(now)
    }

    /// Something to look at once this transaction has committed.
    pub fn hint(&mut self, hint: Hint) {
        if self.hints.last() != Some(&hint) {
            self.hints.push(hint);
        }
    }

    /// Runs a statement and returns how many rows it changed.
    pub fn execute(&mut self, sql: &str, args: &[Value<'_>]) -> Result<usize, StoreError> {
        let mut statement = self.prepare(sql)?;
        statement.execute(params_from_iter(args)).map_err(StoreError::sql)
    }

    /// Every row of a query.
    pub fn query<T>(
        &mut self,
        sql: &str,
        args: &[Value<'_>],
        mut read: impl FnMut(&mut Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.prepare(sql)?;
        let mut rows = statement.query(params_from_iter(args)).map_err(StoreError::sql)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(StoreError::sql)? {
            found.push(read(&mut Row { row, next: 0 })?);
        }
        Ok(found)
    }

    /// The first row of a query, if there is one.
    pub fn query_opt<T>(
        &mut self,
        sql: &str,
        args: &[Value<'_>],
        read: impl FnOnce(&mut Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let mut statement = self.prepare(sql)?;
        let mut rows = statement.query(params_from_iter(args)).map_err(StoreError::sql)?;
        match rows.next().map_err(StoreError::sql)? {
            Some(row) => read(&mut Row { row, next: 0 }).map(Some),
            None => Ok(None),
        }
    }

    /// The row of a query that always has one.
    pub fn query_one<T>(
        &mut self,
        sql: &str,
        args: &[Value<'_>],
        read: impl FnOnce(&mut Row<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.query_opt(sql, args, read)?.ok_or_else(|| StoreError::Corrupt(format!("no row for {sql}")))
    }

    /// Whether a query has a row.
    pub fn exists(&mut self, sql: &str, args: &[Value<'_>]) -> Result<bool, StoreError> {
        Ok(self.query_opt(sql, args, |_| Ok(()))?.is_some())
    }

    /// Runs `op` under a savepoint: its error or panic undoes its own writes and hints only. The
    /// outer error means that the whole transaction is gone.
    pub fn savepoint<T, E: From<StoreError>>(
        &mut self,
        op: impl FnOnce(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<Result<T, E>, StoreError> {
        match savepoint::run(self, op)? {
            Ran::Done(outcome) => Ok(outcome),
            Ran::Gone(_) => Err(lost()),
        }
    }

    /// Steps of SQLite's machine that a query takes.
    #[cfg(test)]
    pub(crate) fn statement_steps(&mut self, sql: &str, args: &[Value<'_>]) -> Result<i32, StoreError> {
        let mut statement = self.connection.prepare(sql).map_err(StoreError::sql)?;
        let mut rows = statement.query(params_from_iter(args)).map_err(StoreError::sql)?;
        while rows.next().map_err(StoreError::sql)?.is_some() {}
        drop(rows);
        Ok(statement.get_status(rusqlite::StatementStatus::VmStep))
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'c>, StoreError> {
        // A statement outside the transaction would commit by itself.
        if self.connection.is_autocommit() {
            return Err(lost());
        }
        self.connection.prepare_cached(sql).map_err(StoreError::sql)
    }
}

impl Row<'_> {
    /// The next column.
    pub fn take<T: FromValue>(&mut self) -> Result<T, StoreError> {
        let index = self.next;
        self.next += 1;
        let value = match self.row.get_ref(index).map_err(StoreError::sql)? {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Int(number),
            ValueRef::Text(text) => {
                Value::Text(std::str::from_utf8(text).map_err(|_| self.damaged(index, "text that is not UTF-8"))?)
            }
            ValueRef::Blob(bytes) => Value::Bytes(bytes),
            ValueRef::Real(_) => return Err(self.damaged(index, "a floating-point number")),
        };
        T::from_value(value).ok_or_else(|| self.damaged(index, &format!("{value:?}")))
    }

    fn damaged(&self, index: usize, what: &str) -> StoreError {
        let column = self.row.as_ref().column_name(index).map_or_else(|_| index.to_string(), str::to_owned);
        StoreError::Corrupt(format!("column {column} holds {what}"))
    }
}

fn lost() -> StoreError {
    StoreError::Unavailable("the transaction was rolled back".to_owned())
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Integer(number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
