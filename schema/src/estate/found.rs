//! What a server holds, as far as a move is concerned.

use std::collections::BTreeSet;

use mysql_async::{Conn, Row, prelude::Queryable};
use serde::{Deserialize, Serialize};

use crate::{ForeignKey, Ident, ReadError, Table, TableName, Trigger};

/// A table, a view or the like, as a server lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its full name, letter case as the server has it.
    pub name: TableName,
    /// `BASE TABLE`, `VIEW` and so on, in the server's words.
    pub kind: String,
    /// The storage engine; empty for a view.
    pub engine: String,
    /// The server's estimate of its size with indexes, in bytes.
    pub bytes: u64,
}

/// A database as a server describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Database {
    /// Its name.
    pub name: Ident,
    /// Its default character set.
    pub charset: String,
    /// Its default collation.
    pub collation: String,
    /// Whether its tables are encrypted by default.
    pub encrypted: bool,
}

/// A table of the source, with what hangs on it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Part {
    /// The table.
    pub table: Table,
    /// Its foreign keys, by name.
    pub foreign_keys: Vec<ForeignKey>,
    /// Its triggers, in the order in which they act.
    pub triggers: Vec<Trigger>,
}

/// What is in the chosen databases, or speaks of them, and isn't moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftBehind {
    /// Views, as `database.view`.
    pub views: Vec<String>,
    /// Functions and procedures, as `procedure database.name`.
    pub routines: Vec<String>,
    /// Events, as `database.event`.
    pub events: Vec<String>,
    /// Who holds privileges on the databases or in them, as `'user'@'host' on
    /// database`. Those on the whole server are not among them.
    pub grants: Vec<String>,
}

/// Database, name, kind, engine, bytes.
type TableRow = (String, String, String, Option<String>, Option<u64>);

/// Lists the tables and views of all databases, as far as the user sees them.
///
/// # Errors
///
/// [`ReadError`] when the server does not answer.
pub async fn read_found(conn: &mut Conn) -> Result<Vec<Found>, ReadError> {
    let rows: Vec<TableRow> = conn.query(TABLES).await.map_err(|e| failed("tables", e))?;
    let found = rows
        .into_iter()
        .map(|(schema, table, kind, engine, bytes)| {
            Ok(Found {
                name: TableName::new(ident(schema)?, ident(table)?),
                kind,
                engine: engine.unwrap_or_default(),
                bytes: bytes.unwrap_or(0),
            })
        });
    found.collect()
}

/// Lists the databases, as far as the user sees them.
///
/// # Errors
///
/// [`ReadError`] when the server does not answer.
pub async fn read_databases(conn: &mut Conn) -> Result<Vec<Database>, ReadError> {
    let rows: Vec<Row> = conn
        .query("SELECT * FROM information_schema.SCHEMATA")
        .await
        .map_err(|e| failed("databases", e))?;
    let databases = rows.iter().map(|row| {
        let text = |field: &str| row.get_opt::<String, _>(field).and_then(Result::ok);
        Ok(Database {
            name: ident(text("SCHEMA_NAME").unwrap_or_default())?,
            charset: text("DEFAULT_CHARACTER_SET_NAME").unwrap_or_default(),
            collation: text("DEFAULT_COLLATION_NAME").unwrap_or_default(),
            // Since 8.0.16.
            encrypted: text("DEFAULT_ENCRYPTION").is_some_and(|value| value == "YES"),
        })
    });
    databases.collect()
}

impl Found {
    /// Returns whether it has rows of its own.
    #[must_use]
    pub fn is_table(&self) -> bool {
        self.kind == "BASE TABLE"
    }
}

impl Part {
    /// Puts a table and what hangs on it together.
    #[must_use]
    pub const fn new(table: Table, foreign_keys: Vec<ForeignKey>, triggers: Vec<Trigger>) -> Self {
        Self {
            table,
            foreign_keys,
            triggers,
        }
    }

    /// Reads a table of the source with what hangs on it, `None` if there is no
    /// such table any more.
    ///
    /// # Errors
    ///
    /// [`ReadError`] when the server does not answer, or not as expected.
    pub async fn read(conn: &mut Conn, name: &TableName) -> Result<Option<Self>, ReadError> {
        let Some(table) = Table::read(conn, name).await? else {
            return Ok(None);
        };
        Ok(Some(Self {
            foreign_keys: Table::foreign_keys(conn, &table.name).await?,
            triggers: Table::triggers(conn, &table.name).await?,
            table,
        }))
    }
}

impl LeftBehind {
    /// Lists what is in `databases` of the source, or speaks of them, and isn't
    /// moved, as far as the user sees it.
    ///
    /// # Errors
    ///
    /// [`ReadError`] when the server does not answer.
    pub async fn read(conn: &mut Conn, databases: &BTreeSet<&Ident>) -> Result<Self, ReadError> {
        let names: BTreeSet<&str> = databases.iter().map(|name| name.as_str()).collect();
        let mut list = async |query: &str| {
            let rows: Vec<(String, String)> = conn
                .query(query)
                .await
                .map_err(|e| failed("what isn't moved", e))?;
            let of_these = rows
                .into_iter()
                .filter(|(db, _)| names.contains(db.as_str()));
            Ok::<_, ReadError>(of_these.map(|(_, what)| what).collect::<Vec<_>>())
        };
        Ok(Self {
            views: list(VIEWS).await?,
            routines: list(ROUTINES).await?,
            events: list(EVENTS).await?,
            grants: list(GRANTS).await?,
        })
    }

    /// Returns whether all is moved.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        let Self {
            views,
            routines,
            events,
            grants,
        } = self;
        views.is_empty() && routines.is_empty() && events.is_empty() && grants.is_empty()
    }

    /// Says, a line a kind, how many there are and the names of the first
    /// `most` of them.
    #[must_use]
    pub fn lines(&self, most: usize) -> Vec<String> {
        let kinds = [
            ("views", &self.views),
            ("routines", &self.routines),
            ("events", &self.events),
            ("grants", &self.grants),
        ];
        let some = kinds.into_iter().filter(|(_, names)| !names.is_empty());
        some.map(|(kind, names)| {
            let shown: Vec<&str> = names.iter().take(most).map(String::as_str).collect();
            let more = if names.len() > most { ", …" } else { "" };
            format!(
                "{} {kind} not moved: {}{more}",
                names.len(),
                shown.join(", ")
            )
        })
        .collect()
    }
}

fn ident(name: String) -> Result<Ident, ReadError> {
    Ident::new(name).map_err(|source| ReadError::Name {
        table: "the server's list".to_owned(),
        source,
    })
}

fn failed(what: &'static str, source: mysql_async::Error) -> ReadError {
    ReadError::Server {
        what: "the list",
        table: what.to_owned(),
        source,
    }
}

/// Temporary tables are not listed. Source: MySQL 9.7 manual, "The
/// INFORMATION_SCHEMA TABLES Table".
const TABLES: &str = "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, \
    DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES ORDER BY TABLE_SCHEMA, TABLE_NAME";
const VIEWS: &str = "SELECT TABLE_SCHEMA, CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) \
    FROM information_schema.VIEWS ORDER BY TABLE_SCHEMA, TABLE_NAME";
const ROUTINES: &str = "SELECT ROUTINE_SCHEMA, CONCAT(LOWER(ROUTINE_TYPE), ' ', ROUTINE_SCHEMA, '.', \
    ROUTINE_NAME) FROM information_schema.ROUTINES ORDER BY ROUTINE_SCHEMA, ROUTINE_NAME";
const EVENTS: &str = "SELECT EVENT_SCHEMA, CONCAT(EVENT_SCHEMA, '.', EVENT_NAME) \
    FROM information_schema.EVENTS ORDER BY EVENT_SCHEMA, EVENT_NAME";
/// A grant on databases by a pattern is listed under the pattern, escapes and
/// all: those that aren't one database's name are not found.
const GRANTS: &str = "SELECT DISTINCT REPLACE(TABLE_SCHEMA, '\\\\', ''), \
    CONCAT(GRANTEE, ' on ', REPLACE(TABLE_SCHEMA, '\\\\', '')) FROM \
    (SELECT TABLE_SCHEMA, GRANTEE FROM information_schema.SCHEMA_PRIVILEGES \
    UNION SELECT TABLE_SCHEMA, GRANTEE FROM information_schema.TABLE_PRIVILEGES \
    UNION SELECT TABLE_SCHEMA, GRANTEE FROM information_schema.COLUMN_PRIVILEGES) g ORDER BY 1, 2";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_is_counted_and_the_first_are_named() {
        let left = LeftBehind {
            views: vec!["d.a".to_owned(), "d.b".to_owned(), "d.c".to_owned()],
            events: vec!["d.e".to_owned()],
            ..LeftBehind::default()
        };
        assert_eq!(
            left.lines(2),
            ["3 views not moved: d.a, d.b, …", "1 events not moved: d.e"]
        );
        assert!(LeftBehind::default().is_empty() && !left.is_empty());
    }
}
