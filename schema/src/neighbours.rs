//! What else hangs on a table: foreign keys, and triggers.

use mysql_async::{Conn, prelude::Queryable};

use crate::{Ident, ReadError, Table, TableName};

/// A foreign key between two tables.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignKey {
    /// The constraint's name.
    pub name: Ident,
    /// The table that has the constraint.
    pub child: TableName,
    /// The table that it refers to.
    pub parent: TableName,
}

/// A trigger on a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trigger {
    /// The trigger's name, in its table's database.
    pub name: Ident,
    /// The table that it is on.
    pub table: TableName,
    /// `BEFORE` or `AFTER`, and `INSERT`, `UPDATE` or `DELETE`.
    pub when: String,
}

impl Table {
    /// Reads the foreign keys that the table has.
    ///
    /// # Errors
    ///
    /// [`ReadError`] when the server does not answer.
    pub async fn foreign_keys(
        conn: &mut Conn,
        name: &TableName,
    ) -> Result<Vec<ForeignKey>, ReadError> {
        let of_child = format!("{FOREIGN_KEYS} WHERE CONSTRAINT_SCHEMA = ? AND TABLE_NAME = ?");
        foreign_keys(conn, name, &of_child).await
    }

    /// Reads the foreign keys, of tables in any database, that refer to the
    /// table. Only those of tables that the user may see.
    ///
    /// # Errors
    ///
    /// [`ReadError`] when the server does not answer.
    pub async fn referencing_foreign_keys(
        conn: &mut Conn,
        name: &TableName,
    ) -> Result<Vec<ForeignKey>, ReadError> {
        let of_parent = format!(
            "{FOREIGN_KEYS} WHERE UNIQUE_CONSTRAINT_SCHEMA = ? AND REFERENCED_TABLE_NAME = ?"
        );
        foreign_keys(conn, name, &of_parent).await
    }

    /// Reads the triggers on the table. Only a user with the privilege TRIGGER
    /// sees them.
    ///
    /// # Errors
    ///
    /// [`ReadError`] when the server does not answer.
    pub async fn triggers(conn: &mut Conn, name: &TableName) -> Result<Vec<Trigger>, ReadError> {
        let names = (name.schema.as_str(), name.table.as_str());
        let rows: Vec<(String, String, String, String, String)> = conn
            .exec(TRIGGERS, names)
            .await
            .map_err(|source| ReadError::Server {
                what: "the triggers",
                table: name.plain(),
                source,
            })?;
        rows.into_iter()
            .map(|(trigger, schema, table, timing, event)| {
                Ok(Trigger {
                    name: ident(name, trigger)?,
                    table: TableName::new(ident(name, schema)?, ident(name, table)?),
                    when: format!("{timing} {event}"),
                })
            })
            .collect()
    }
}

async fn foreign_keys(
    conn: &mut Conn,
    name: &TableName,
    statement: &str,
) -> Result<Vec<ForeignKey>, ReadError> {
    let names = (name.schema.as_str(), name.table.as_str());
    let rows: Vec<(String, String, String, String, String)> = conn
        .exec(statement, names)
        .await
        .map_err(|source| ReadError::Server {
            what: "the foreign keys",
            table: name.plain(),
            source,
        })?;
    rows.into_iter()
        .map(|(key, child_schema, child, parent_schema, parent)| {
            Ok(ForeignKey {
                name: ident(name, key)?,
                child: TableName::new(ident(name, child_schema)?, ident(name, child)?),
                parent: TableName::new(ident(name, parent_schema)?, ident(name, parent)?),
            })
        })
        .collect()
}

fn ident(table: &TableName, name: String) -> Result<Ident, ReadError> {
    Ident::new(name).map_err(|source| ReadError::Name {
        table: table.plain(),
        source,
    })
}

/// A constraint is in its table's database. Source: MySQL 9.7 manual, "The
/// INFORMATION_SCHEMA REFERENTIAL_CONSTRAINTS Table".
const FOREIGN_KEYS: &str = "SELECT CONSTRAINT_NAME, CONSTRAINT_SCHEMA, TABLE_NAME, \
    UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS";

const TRIGGERS: &str = "SELECT TRIGGER_NAME, EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE, \
    ACTION_TIMING, EVENT_MANIPULATION FROM information_schema.TRIGGERS \
    WHERE EVENT_OBJECT_SCHEMA = ? AND EVENT_OBJECT_TABLE = ?";
