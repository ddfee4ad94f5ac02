//! What the target holds already, where a move's tables are to be.

use std::collections::BTreeSet;

use mysql_async::{Conn, prelude::Queryable};

use super::{Database, Part, Selection, read_databases};
use crate::{ForeignKey, Ident, ReadError, Table, TableName, Trigger};

/// What the target holds before anything is made.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TargetSide {
    /// All its databases.
    pub databases: Vec<Database>,
    /// Those of its tables that rows are to be moved into.
    pub tables: Vec<ExistingTable>,
    /// Of the tables that foreign keys refer to and that aren't moved, those
    /// that it has.
    pub parents: BTreeSet<TableName>,
    /// The constraints and triggers in the databases that tables are moved
    /// into.
    pub(super) taken: Vec<TakenName>,
}

/// A table of the target that rows are to be moved into.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExistingTable {
    /// The table.
    pub table: Table,
    /// Whether it has no row.
    pub empty: bool,
    /// Its triggers.
    pub triggers: Vec<Trigger>,
    /// Its foreign keys.
    pub foreign_keys: Vec<ForeignKey>,
    /// Those of other tables that refer to it.
    pub children: Vec<ForeignKey>,
}

/// A name that a database holds once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TakenName {
    pub(super) kind: &'static str,
    pub(super) database: String,
    pub(super) name: String,
    pub(super) table: String,
}

impl TargetSide {
    /// Reads what is where `selection` puts its tables. `parts` are the tables
    /// of the source.
    ///
    /// # Errors
    ///
    /// [`ReadError`] when the server does not answer; a view in a table's place
    /// is [`ReadError::NotATable`].
    pub async fn read(
        conn: &mut Conn,
        selection: &Selection,
        parts: &[Part],
    ) -> Result<Self, ReadError> {
        let databases = read_databases(conn).await?;
        let mut tables = Vec::new();
        for chosen in &selection.tables {
            tables.extend(existing(conn, &chosen.target).await?);
        }
        let mut side = Self {
            databases,
            tables,
            parents: BTreeSet::new(),
            taken: Vec::new(),
        };
        let keys = parts.iter().flat_map(|part| &part.foreign_keys);
        let wanted: BTreeSet<TableName> = keys
            .filter(|key| selection.target_of(&key.parent).is_none())
            .map(|key| selection.place_on_target(&key.parent))
            .collect();
        for parent in wanted {
            if exists(conn, &parent).await? {
                side.parents.insert(parent);
            }
        }
        for database in selection.databases.keys() {
            side.taken.extend(taken(conn, database).await?);
        }
        Ok(side)
    }

    /// Finds a table that rows are to be moved into.
    #[must_use]
    pub fn table(&self, name: &TableName) -> Option<&ExistingTable> {
        self.tables.iter().find(|one| one.table.name == *name)
    }
}

async fn existing(conn: &mut Conn, name: &TableName) -> Result<Option<ExistingTable>, ReadError> {
    let Some(table) = Table::read(conn, name).await? else {
        return Ok(None);
    };
    let first: Option<u8> = conn
        .query_first(format!("SELECT 1 FROM {name} LIMIT 1"))
        .await
        .map_err(|source| failed("the first row", name, source))?;
    let children = Table::referencing_foreign_keys(conn, name).await?;
    Ok(Some(ExistingTable {
        table,
        empty: first.is_none(),
        triggers: Table::triggers(conn, name).await?,
        foreign_keys: Table::foreign_keys(conn, name).await?,
        children,
    }))
}

async fn exists(conn: &mut Conn, name: &TableName) -> Result<bool, ReadError> {
    let names = (name.schema.as_str(), name.table.as_str());
    let found: Option<u8> = conn
        .exec_first(
            "SELECT 1 FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND TABLE_TYPE = 'BASE TABLE'",
            names,
        )
        .await
        .map_err(|source| failed("the place", name, source))?;
    Ok(found.is_some())
}

async fn taken(conn: &mut Conn, database: &Ident) -> Result<Vec<TakenName>, ReadError> {
    let all = TableName::new(database.clone(), database.clone());
    let rows: Vec<(String, String, String)> = conn
        .exec(TAKEN, (database.as_str(), database.as_str()))
        .await
        .map_err(|source| failed("the constraints", &all, source))?;
    let named = rows.into_iter().filter_map(|(kind, name, table)| {
        let kind = match kind.as_str() {
            "FOREIGN KEY" => "foreign key",
            "CHECK" => "check",
            "TRIGGER" => "trigger",
            _ => return None,
        };
        Some(TakenName {
            kind,
            database: database.as_str().to_owned(),
            name,
            table,
        })
    });
    Ok(named.collect())
}

fn failed(what: &'static str, table: &TableName, source: mysql_async::Error) -> ReadError {
    ReadError::Server {
        what,
        table: table.plain(),
        source,
    }
}

const TAKEN: &str = "SELECT CONSTRAINT_TYPE, CONSTRAINT_NAME, TABLE_NAME \
    FROM information_schema.TABLE_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = ? \
    UNION ALL SELECT 'TRIGGER', TRIGGER_NAME, EVENT_OBJECT_TABLE \
    FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = ?";
