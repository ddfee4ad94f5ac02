//! What the server says about the tables of a swap.

use mysql_async::{Conn, prelude::Queryable};
use oxferry_binlog::FilePosition;
use oxferry_schema::{
    CONNECT_DEADLINE, ServerInfoError, ServerVersion, TableName, current_position,
};

use crate::{CutoverError, SwapPlan, TablesSeen, session::answered};

/// Returns which of the plan's tables exist, pair by pair.
pub(crate) async fn seen(
    conn: &mut Conn,
    plan: &SwapPlan,
) -> Result<Vec<TablesSeen>, CutoverError> {
    let mut all = Vec::with_capacity(plan.pairs.len());
    for pair in &plan.pairs {
        all.push(TablesSeen {
            source: exists(conn, &pair.source).await?,
            shadow: exists(conn, &pair.shadow).await?,
            old: exists(conn, &pair.old).await?,
        });
    }
    Ok(all)
}

/// Refuses a swap whose outcome couldn't be looked up afterwards.
pub(crate) async fn expect_before(conn: &mut Conn, plan: &SwapPlan) -> Result<(), CutoverError> {
    for (pair, seen) in plan.pairs.iter().zip(seen(conn, plan).await?) {
        if seen == TablesSeen::BEFORE {
            continue;
        }
        let source_table = pair.source.clone();
        return Err(if seen.source && seen.shadow {
            CutoverError::OldExists {
                source_table,
                old: pair.old.clone(),
            }
        } else {
            CutoverError::Missing { source_table, seen }
        });
    }
    Ok(())
}

/// Reads the server's version.
pub(crate) async fn version(conn: &mut Conn) -> Result<ServerVersion, CutoverError> {
    let asked = conn.query_first::<String, _>("SELECT VERSION()");
    let told = answered("read the server's version", CONNECT_DEADLINE, asked).await?;
    let told = told.unwrap_or_default();
    ServerVersion::parse(&told).map_err(|_unreadable| CutoverError::NoPosition { told })
}

/// Reads the end of the binary log.
pub(crate) async fn position(
    conn: &mut Conn,
    version: &ServerVersion,
) -> Result<FilePosition, CutoverError> {
    let now = current_position(conn, version).await.map_err(no_position)?;
    FilePosition::new(&now.file, now.offset_bytes).map_err(|_unreadable| CutoverError::NoPosition {
        told: format!("{}:{}", now.file, now.offset_bytes),
    })
}

fn no_position(error: ServerInfoError) -> CutoverError {
    match error {
        ServerInfoError::Server { source, .. } => {
            CutoverError::statement("read the binary log position")(source)
        }
        other => CutoverError::NoPosition {
            told: other.to_string(),
        },
    }
}

/// Returns whether a table of exactly this name exists.
pub(crate) async fn exists(conn: &mut Conn, name: &TableName) -> Result<bool, CutoverError> {
    Ok(comment(conn, name).await?.is_some())
}

/// Returns the comment of the table of exactly this name, if there is one.
pub(crate) async fn comment(
    conn: &mut Conn,
    name: &TableName,
) -> Result<Option<String>, CutoverError> {
    let names = (name.schema.as_str(), name.table.as_str());
    let query = conn.exec_first(COMMENT, names);
    answered("look for a table", CONNECT_DEADLINE, query).await
}

const COMMENT: &str = "SELECT TABLE_COMMENT FROM information_schema.TABLES \
                       WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?";
