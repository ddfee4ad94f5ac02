//! Foreign keys: what ties a table to others, and others to it.

use std::{collections::BTreeMap, fmt};

use mysql_async::{Conn, prelude::Queryable};
use serde::{Deserialize, Serialize};

use crate::{Ident, ReadError, Table, TableName};

/// A foreign key between two tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ForeignKey {
    /// The constraint's name, in its child's database.
    pub name: Ident,
    /// The table that has the constraint.
    pub child: TableName,
    /// The table that it refers to.
    pub parent: TableName,
    /// The child's columns, in the key's order.
    pub columns: Vec<Ident>,
    /// The parent's columns that they refer to, one each.
    pub parent_columns: Vec<Ident>,
    /// `CASCADE`, `SET NULL`, `RESTRICT`, `NO ACTION` or `SET DEFAULT`.
    pub on_delete: String,
    /// The same for a changed parent.
    pub on_update: String,
}

impl ForeignKey {
    /// Returns whether a change of the parent changes rows of the child.
    #[must_use]
    pub fn cascades(&self) -> bool {
        let acts = |rule: &str| !matches!(rule, "RESTRICT" | "NO ACTION");
        acts(&self.on_delete) || acts(&self.on_update)
    }

    /// Writes the clause that adds the constraint, as `name`, to a table whose
    /// columns are called as this key's child's.
    #[must_use]
    pub fn add_clause(&self, name: &Ident, parent: &TableName) -> String {
        format!(
            "ADD CONSTRAINT {name} FOREIGN KEY ({}) REFERENCES {parent} ({}) ON DELETE {} ON UPDATE {}",
            list(&self.columns),
            list(&self.parent_columns),
            self.on_delete,
            self.on_update,
        )
    }
}

impl fmt::Display for ForeignKey {
    /// Writes `foreign key f of d.child to d.parent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, child, parent) = (self.name.as_str(), self.child.plain(), self.parent.plain());
        write!(f, "foreign key {name} of {child} to {parent}")
    }
}

impl Table {
    /// Reads the foreign keys that the table has, by name.
    ///
    /// # Errors
    ///
    /// [`ReadError`] when the server does not answer.
    pub async fn foreign_keys(
        conn: &mut Conn,
        name: &TableName,
    ) -> Result<Vec<ForeignKey>, ReadError> {
        read(conn, name, "r.CONSTRAINT_SCHEMA = ? AND r.TABLE_NAME = ?").await
    }

    /// Reads the foreign keys, of tables in any database, that refer to the
    /// table. Only those of tables that the user may see; see
    /// [`Table::children`].
    ///
    /// # Errors
    ///
    /// [`ReadError`] when the server does not answer.
    pub async fn referencing_foreign_keys(
        conn: &mut Conn,
        name: &TableName,
    ) -> Result<Vec<ForeignKey>, ReadError> {
        let of_parent = "r.UNIQUE_CONSTRAINT_SCHEMA = ? AND r.REFERENCED_TABLE_NAME = ?";
        read(conn, name, of_parent).await
    }

    /// Returns the names of all foreign keys that refer to the table, whoever
    /// may see their tables, as the storage engine writes them; `None` for a
    /// user without the privilege PROCESS, who isn't told.
    ///
    /// # Errors
    ///
    /// [`ReadError`] when the server does not answer.
    pub async fn children(
        conn: &mut Conn,
        name: &TableName,
    ) -> Result<Option<Vec<String>>, ReadError> {
        let names = (name.schema.as_str(), name.table.as_str());
        match conn.exec(CHILDREN, names).await {
            Ok(children) => Ok(Some(children)),
            Err(mysql_async::Error::Server(error)) if error.code == ER_SPECIFIC_ACCESS_DENIED => {
                Ok(None)
            }
            Err(source) => Err(failed(name, source)),
        }
    }
}

impl ForeignKey {
    /// Reads the names of the indexes of exactly the child's columns that are
    /// such as the server makes for a key: not unique, of whole columns.
    pub(crate) async fn plain_indexes(&self, conn: &mut Conn) -> Result<Vec<Ident>, ReadError> {
        let child = &self.child;
        let names = (child.schema.as_str(), child.table.as_str());
        let parts: Vec<(String, Option<String>, bool)> = conn
            .exec(INDEX_PARTS, names)
            .await
            .map_err(|source| failed(child, source))?;
        let mut found: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
        for (index, column, plain) in parts {
            let columns = found.entry(index).or_default();
            columns.push(column.filter(|_| plain));
        }
        let columns: Vec<_> = self.columns.iter().map(|c| Some(c.as_str())).collect();
        let same = |parts: &[Option<String>]| {
            let parts = parts.iter().map(Option::as_deref);
            parts.eq(columns.iter().copied())
        };
        let names = found.into_iter().filter(|(_, parts)| same(parts));
        // What the server calls an index is a name.
        Ok(names
            .filter_map(|(name, _)| Ident::new(name).ok())
            .collect())
    }
}

/// A row a column.
type KeyRow = (
    (String, String, String),
    (String, String),
    (String, String),
    (String, String),
);

async fn read(conn: &mut Conn, name: &TableName, of: &str) -> Result<Vec<ForeignKey>, ReadError> {
    let query = format!(
        "{FOREIGN_KEYS} WHERE {of} \
         ORDER BY r.CONSTRAINT_SCHEMA, r.TABLE_NAME, r.CONSTRAINT_NAME, k.ORDINAL_POSITION"
    );
    let names = (name.schema.as_str(), name.table.as_str());
    let rows: Vec<mysql_async::Row> = conn
        .exec(query, names)
        .await
        .map_err(|source| failed(name, source))?;
    let mut keys: Vec<ForeignKey> = Vec::new();
    for row in rows {
        let (key, (parent_schema, parent), (column, parent_column), (on_delete, on_update)) =
            parts(name, row)?;
        let ident = |text: String| ident(name, text);
        let (constraint, schema, child) = (ident(key.0)?, ident(key.1)?, ident(key.2)?);
        let child = TableName::new(schema, child);
        let (column, parent_column) = (ident(column)?, ident(parent_column)?);
        match keys.last_mut() {
            Some(last) if last.name == constraint && last.child == child => {
                last.columns.push(column);
                last.parent_columns.push(parent_column);
            }
            _ => keys.push(ForeignKey {
                name: constraint,
                child,
                parent: TableName::new(ident(parent_schema)?, ident(parent)?),
                columns: vec![column],
                parent_columns: vec![parent_column],
                on_delete,
                on_update,
            }),
        }
    }
    Ok(keys)
}

fn parts(table: &TableName, row: mysql_async::Row) -> Result<KeyRow, ReadError> {
    let read = mysql_async::from_row_opt::<(
        String,
        String,
        String,
        String,
        String,
        String,
        String,
        String,
        String,
    )>(row);
    let (name, schema, child, parent_schema, parent, column, parent_column, on_delete, on_update) =
        read.map_err(|_unreadable| ReadError::Unexpected {
            table: table.plain(),
            field: "a foreign key",
            found: "not made of names".to_owned(),
        })?;
    Ok((
        (name, schema, child),
        (parent_schema, parent),
        (column, parent_column),
        (on_delete, on_update),
    ))
}

/// Joins names with commas.
pub(crate) fn list(names: &[Ident]) -> String {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    names.join(", ")
}

fn failed(table: &TableName, source: mysql_async::Error) -> ReadError {
    ReadError::Server {
        what: "the foreign keys",
        table: table.plain(),
        source,
    }
}

fn ident(table: &TableName, name: String) -> Result<Ident, ReadError> {
    Ident::new(name).map_err(|source| ReadError::Name {
        table: table.plain(),
        source,
    })
}

const ER_SPECIFIC_ACCESS_DENIED: u16 = 1227;

/// A constraint is in its table's database. Source: MySQL 9.7 manual, "The
/// INFORMATION_SCHEMA REFERENTIAL_CONSTRAINTS Table".
const FOREIGN_KEYS: &str = "SELECT r.CONSTRAINT_NAME, r.CONSTRAINT_SCHEMA, r.TABLE_NAME, \
    r.UNIQUE_CONSTRAINT_SCHEMA, r.REFERENCED_TABLE_NAME, k.COLUMN_NAME, k.REFERENCED_COLUMN_NAME, \
    r.DELETE_RULE, r.UPDATE_RULE FROM information_schema.REFERENTIAL_CONSTRAINTS r \
    JOIN information_schema.KEY_COLUMN_USAGE k ON k.CONSTRAINT_SCHEMA = r.CONSTRAINT_SCHEMA \
    AND k.TABLE_SCHEMA = r.CONSTRAINT_SCHEMA AND k.TABLE_NAME = r.TABLE_NAME \
    AND k.CONSTRAINT_NAME = r.CONSTRAINT_NAME AND k.REFERENCED_TABLE_NAME IS NOT NULL";

/// The storage engine's own list: database, slash, name. Compared byte by byte:
/// letter case may tell two tables apart. Seen on MySQL 9.7.4; source: MySQL
/// 9.7 manual, "The INFORMATION_SCHEMA INNODB_FOREIGN Table".
const INDEX_PARTS: &str = "SELECT INDEX_NAME, COLUMN_NAME, \
    NON_UNIQUE = 1 AND SUB_PART IS NULL AND INDEX_TYPE = 'BTREE' \
    FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? \
    ORDER BY INDEX_NAME, SEQ_IN_INDEX";
const CHILDREN: &str = "SELECT FOR_NAME FROM information_schema.INNODB_FOREIGN \
    WHERE CAST(REF_NAME AS BINARY) = CAST(CONCAT(?, '/', ?) AS BINARY) ORDER BY FOR_NAME";

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Ident {
        Ident::new(text).unwrap()
    }

    fn key(on_delete: &str, on_update: &str) -> ForeignKey {
        ForeignKey {
            name: name("f"),
            child: TableName::new(name("d"), name("c")),
            parent: TableName::new(name("d"), name("p")),
            columns: vec![name("a"), name("b")],
            parent_columns: vec![name("x"), name("y")],
            on_delete: on_delete.to_owned(),
            on_update: on_update.to_owned(),
        }
    }

    #[test]
    fn the_clause_holds_every_attribute() {
        let other = TableName::new(name("d"), name("_p_oxnew"));
        assert_eq!(
            key("SET NULL", "CASCADE").add_clause(&name("t`1"), &other),
            "ADD CONSTRAINT `t``1` FOREIGN KEY (`a`, `b`) REFERENCES `d`.`_p_oxnew` (`x`, `y`) \
             ON DELETE SET NULL ON UPDATE CASCADE"
        );
    }

    #[test]
    fn only_actions_that_write_cascade() {
        assert!(key("CASCADE", "RESTRICT").cascades() && key("NO ACTION", "SET NULL").cascades());
        assert!(!key("RESTRICT", "NO ACTION").cascades());
    }
}
