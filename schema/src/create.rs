//! Making the shadow table.

use mysql_async::{Conn, prelude::Queryable};

use crate::{
    Alter, ErrorClass, ReadError, Remedy, Table, TableName,
    checks::{self, CheckNames},
    classify, server_code,
};

/// Why there is no shadow table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShadowError {
    /// A table of that name is there already.
    #[error(
        "cannot create the shadow table: {shadow} exists; resume the job that made it, or remove it with oxferry cleanup"
    )]
    Exists {
        /// The shadow table's name.
        shadow: String,
    },
    /// The server refuses the copy.
    #[error("cannot create {shadow} like {table}")]
    Create {
        /// The shadow table's name.
        shadow: String,
        /// The source table.
        table: String,
        /// What the server says.
        #[source]
        source: mysql_async::Error,
    },
    /// The server refuses the statement.
    #[error("the server refuses the statement on {shadow}")]
    Statement {
        /// The shadow table's name.
        shadow: String,
        /// What the server says.
        #[source]
        source: mysql_async::Error,
    },
    /// The next automatic value could not be set.
    #[error("cannot set the next automatic value of {shadow} to {next}")]
    AutoIncrement {
        /// The table's name.
        shadow: String,
        /// The value.
        next: u64,
        /// What the server says.
        #[source]
        source: mysql_async::Error,
    },
    /// The shadow table could not be read.
    #[error("cannot read the shadow table {shadow}")]
    Read {
        /// The shadow table's name.
        shadow: String,
        /// Why not.
        #[source]
        source: Box<ReadError>,
    },
    /// The shadow table disappeared at once.
    #[error("shadow table {shadow} disappeared: is another job at work?")]
    Gone {
        /// The shadow table's name.
        shadow: String,
    },
}

impl ShadowError {
    /// Says what to do about this error.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Exists { .. } => Remedy::Usage,
            Self::Statement { source, .. } => match classify(source) {
                ErrorClass::Fatal | ErrorClass::DataRefused => Remedy::Usage,
                class => class.remedy(),
            },
            Self::Create { source, .. } | Self::AutoIncrement { source, .. } => {
                classify(source).remedy()
            }
            Self::Read { source, .. } => source.remedy(),
            Self::Gone { .. } => Remedy::Retry,
        }
    }
}

/// Creates an empty table like `source`, changes it, and returns what it is.
///
/// Its next automatic value is the source's, unless the statement gives one.
/// The server copies neither foreign keys nor triggers. (MySQL 9.7 manual,
/// "CREATE TABLE ... LIKE Statement")
///
/// A database holds each CHECK constraint's name once. A name that the server
/// made, such as `t_chk_1`, is back when the shadow gets the table's name; any
/// other begins with an underscore from then on, or has lost it: see
/// [`renamed_checks`](crate::renamed_checks).
///
/// # Errors
///
/// [`ShadowError`]; a table made here and not finished is dropped again, one
/// that was there before is left alone.
pub async fn create_shadow(
    conn: &mut Conn,
    source: &Table,
    shadow: &TableName,
    alter: &Alter,
) -> Result<Table, ShadowError> {
    let like = format!("CREATE TABLE {shadow} LIKE {}", source.name);
    conn.query_drop(like).await.map_err(|error| {
        // ER_TABLE_EXISTS_ERROR
        if server_code(&error) == Some(1050) {
            return ShadowError::Exists {
                shadow: shadow.plain(),
            };
        }
        ShadowError::Create {
            shadow: shadow.plain(),
            table: source.name.plain(),
            source: error,
        }
    })?;
    let made = change(conn, source, shadow, alter).await;
    if made.is_err()
        && let Err(error) = conn
            .query_drop(format!("DROP TABLE IF EXISTS {shadow}"))
            .await
    {
        tracing::warn!(table = shadow.plain(), %error, "half-made shadow table left behind");
    }
    made
}

/// Raises the next automatic value of `table` to at least `next`.
///
/// The server itself never lowers it below what the rows need.
///
/// # Errors
///
/// [`ShadowError::AutoIncrement`].
pub async fn set_auto_increment(
    conn: &mut Conn,
    table: &TableName,
    next: u64,
) -> Result<(), ShadowError> {
    let statement = format!("ALTER TABLE {table} AUTO_INCREMENT = {next}");
    conn.query_drop(statement)
        .await
        .map_err(|source| ShadowError::AutoIncrement {
            shadow: table.plain(),
            next,
            source,
        })
}

async fn change(
    conn: &mut Conn,
    source: &Table,
    shadow: &TableName,
    alter: &Alter,
) -> Result<Table, ShadowError> {
    let refused = |source| ShadowError::Statement {
        shadow: shadow.plain(),
        source,
    };
    let made = read(conn, shadow).await?.create_statement;
    let names = CheckNames::on_shadow(&source.create_statement, &source.name, shadow);
    if let Some(clauses) = checks::clauses(source, &made, &names) {
        let statement = format!("ALTER TABLE {shadow} {clauses}");
        conn.query_drop(statement).await.map_err(refused)?;
    }
    let statement = alter.statement_on_copy(shadow, &names);
    in_the_servers_zone(conn, statement)
        .await
        .map_err(refused)?;
    let mut table = read(conn, shadow).await?;
    let counts = table.columns.iter().any(|column| column.auto_increment);
    if let Some(next) = source.auto_increment
        && counts
        && !alter.sets_auto_increment()
    {
        set_auto_increment(conn, shadow, next).await?;
        table = read(conn, shadow).await?;
    }
    Ok(table)
}

/// Runs the user's statement, whose times are those of the server's own zone,
/// as in a session of his.
async fn in_the_servers_zone(conn: &mut Conn, statement: String) -> Result<(), mysql_async::Error> {
    conn.query_drop("SET SESSION time_zone = @@GLOBAL.time_zone")
        .await?;
    let done = conn.query_drop(statement).await;
    conn.query_drop("SET SESSION time_zone = '+00:00'").await?;
    done
}

async fn read(conn: &mut Conn, shadow: &TableName) -> Result<Table, ShadowError> {
    let read = Table::read(conn, shadow)
        .await
        .map_err(|source| ShadowError::Read {
            shadow: shadow.plain(),
            source: Box::new(source),
        })?;
    read.ok_or_else(|| ShadowError::Gone {
        shadow: shadow.plain(),
    })
}
