//! Making databases and tables on the target.

use mysql_async::{Conn, prelude::Queryable};

use super::{Blueprint, Part, TableBlueprint, difference::differences};
use crate::{ErrorClass, ReadError, Remedy, Table, TableName, classify, server_code};

/// Why the target's tables were not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The session could not be prepared.
    #[error(
        "cannot set {variable} to {value} for the session that makes the tables: set it globally, or grant the user SESSION_VARIABLES_ADMIN"
    )]
    Session {
        /// The variable.
        variable: &'static str,
        /// What it must be.
        value: &'static str,
        /// What the server says.
        #[source]
        source: mysql_async::Error,
    },
    /// The server refuses a database.
    #[error("cannot create database {database} on the target")]
    Database {
        /// The database.
        database: String,
        /// What the server says.
        #[source]
        source: mysql_async::Error,
    },
    /// The server refuses a table.
    #[error("cannot create {target} on the target like {table} of the source")]
    Table {
        /// The table on the target.
        target: String,
        /// The source table.
        table: String,
        /// What the server says.
        #[source]
        source: mysql_async::Error,
    },
    /// A table is there although it wasn't a moment ago.
    #[error("table {target} appeared on the target: is another job at work?")]
    Appeared {
        /// The table on the target.
        target: String,
    },
    /// The server made another table.
    #[error("the target makes another table {target} of the source's definition: {differences}")]
    Differs {
        /// The table on the target.
        target: String,
        /// How it differs.
        differences: String,
    },
    /// A table could not be read.
    #[error("cannot read table {target} on the target")]
    Read {
        /// The table on the target.
        target: String,
        /// Why not.
        #[source]
        source: Box<ReadError>,
    },
    /// A table isn't there although it was a moment ago.
    #[error("table {target} disappeared from the target")]
    Gone {
        /// The table on the target.
        target: String,
    },
}

impl CreateError {
    /// Says what to do about this error.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Session { .. } => Remedy::Privileges,
            Self::Database { source, .. } | Self::Table { source, .. } => match classify(source) {
                // A character set, a collation or a clause that it lacks.
                ErrorClass::Fatal | ErrorClass::DataRefused => Remedy::Usage,
                class => class.remedy(),
            },
            Self::Differs { .. } => Remedy::Usage,
            Self::Read { source, .. } => source.remedy(),
            Self::Appeared { .. } | Self::Gone { .. } => Remedy::Retry,
        }
    }
}

/// What makes a definition mean something else. Source: MySQL 9.7 manual,
/// "Server System Variables", `explicit_defaults_for_timestamp`,
/// `sql_generate_invisible_primary_key`.
const SETTINGS: [(&str, &str); 2] = [
    ("explicit_defaults_for_timestamp", "ON"),
    ("sql_generate_invisible_primary_key", "OFF"),
];

impl Blueprint {
    /// Makes the databases and tables that the target lacks, and returns all
    /// tables of the target, in the blueprint's order. `parts` are the source's
    /// tables; each table that was made is compared with its own.
    ///
    /// A connection made by [`connect`](crate::connect) accepts what old
    /// definitions hold.
    ///
    /// # Errors
    ///
    /// [`CreateError`]; what was made here is dropped again then. After a run
    /// that died in here, draw the blueprint again with
    /// [`TargetTables::Empty`](super::TargetTables::Empty).
    pub async fn create(&self, conn: &mut Conn, parts: &[Part]) -> Result<Vec<Table>, CreateError> {
        let mut made = Made::default();
        let done = async {
            self.make_databases(conn, &mut made).await?;
            self.make_tables(conn, parts, &mut made).await
        };
        let done = done.await;
        if done.is_err() {
            made.undo(conn).await;
        }
        done
    }

    /// Makes only the databases that the target lacks, for what must stand
    /// before the tables do.
    ///
    /// # Errors
    ///
    /// As [`Blueprint::create`].
    pub async fn create_databases(&self, conn: &mut Conn) -> Result<(), CreateError> {
        let mut made = Made::default();
        let done = self.make_databases(conn, &mut made).await;
        if done.is_err() {
            made.undo(conn).await;
        }
        done
    }

    /// Makes only the tables, as [`Blueprint::create`] does after the databases.
    ///
    /// # Errors
    ///
    /// As [`Blueprint::create`].
    pub async fn create_tables(
        &self,
        conn: &mut Conn,
        parts: &[Part],
    ) -> Result<Vec<Table>, CreateError> {
        let mut made = Made::default();
        let done = self.make_tables(conn, parts, &mut made).await;
        if done.is_err() {
            made.undo(conn).await;
        }
        done
    }

    async fn make_databases(&self, conn: &mut Conn, made: &mut Made) -> Result<(), CreateError> {
        for database in &self.databases {
            let Some(create) = &database.create else {
                continue;
            };
            conn.query_drop(create)
                .await
                .map_err(|source| CreateError::Database {
                    database: database.name.as_str().to_owned(),
                    source,
                })?;
            made.databases.push(database.name.to_string());
        }
        Ok(())
    }

    async fn make_tables(
        &self,
        conn: &mut Conn,
        parts: &[Part],
        made: &mut Made,
    ) -> Result<Vec<Table>, CreateError> {
        prepare(conn).await?;
        let mut tables = Vec::with_capacity(self.tables.len());
        for table in &self.tables {
            if let Some(create) = &table.create {
                send(conn, table, create).await?;
                made.tables.push(table.target.clone());
            }
            let is = read(conn, &table.target).await?;
            if let Some(part) = parts.iter().find(|part| part.table.name == table.source) {
                compare(table, part, &is)?;
            }
            tables.push(is);
        }
        Ok(tables)
    }
}

/// What was made, to be taken away when the rest can't be.
#[derive(Default)]
struct Made {
    databases: Vec<String>,
    tables: Vec<TableName>,
}

impl Made {
    async fn undo(&self, conn: &mut Conn) {
        let tables = self.tables.iter().map(|name| format!("DROP TABLE {name}"));
        // Only an empty one: somebody may have made a table there meanwhile.
        let databases = self.databases.iter();
        for statement in tables {
            if let Err(error) = conn.query_drop(&statement).await {
                tracing::warn!(statement, %error, "left behind on the target");
            }
        }
        for name in databases {
            if let Err(error) = drop_if_empty(conn, name).await {
                tracing::warn!(database = name, %error, "left behind on the target");
            }
        }
    }
}

async fn drop_if_empty(conn: &mut Conn, quoted: &str) -> Result<(), mysql_async::Error> {
    let tables: Vec<mysql_async::Row> = conn.query(format!("SHOW TABLES FROM {quoted}")).await?;
    if tables.is_empty() {
        conn.query_drop(format!("DROP DATABASE {quoted}")).await?;
    }
    Ok(())
}

async fn prepare(conn: &mut Conn) -> Result<(), CreateError> {
    for (variable, value) in SETTINGS {
        let is: Option<(String, String)> = conn
            .query_first(format!(
                "SHOW SESSION VARIABLES WHERE Variable_name = '{variable}'"
            ))
            .await
            .map_err(|source| CreateError::Session {
                variable,
                value,
                source,
            })?;
        if is.is_none_or(|(_, is)| is == value) {
            continue;
        }
        conn.query_drop(format!("SET SESSION {variable} = {value}"))
            .await
            .map_err(|source| CreateError::Session {
                variable,
                value,
                source,
            })?;
    }
    Ok(())
}

async fn send(conn: &mut Conn, table: &TableBlueprint, create: &str) -> Result<(), CreateError> {
    conn.query_drop(create).await.map_err(|source| {
        let target = table.target.plain();
        // ER_TABLE_EXISTS_ERROR
        if server_code(&source) == Some(1050) {
            return CreateError::Appeared { target };
        }
        CreateError::Table {
            target,
            table: table.source.plain(),
            source,
        }
    })
}

fn compare(table: &TableBlueprint, part: &Part, is: &Table) -> Result<(), CreateError> {
    let found = differences(&part.table, is);
    if found.is_empty() {
        return Ok(());
    }
    Err(CreateError::Differs {
        target: table.target.plain(),
        differences: found.join("; "),
    })
}

pub(super) async fn read(conn: &mut Conn, target: &TableName) -> Result<Table, CreateError> {
    let read = Table::read(conn, target).await;
    let read = read.map_err(|source| CreateError::Read {
        target: target.plain(),
        source: Box::new(source),
    })?;
    read.ok_or_else(|| CreateError::Gone {
        target: target.plain(),
    })
}
