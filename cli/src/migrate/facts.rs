//! What preflight looks at, read off the server.

use mysql_async::{Conn, prelude::Queryable};
use oxferry_schema::{KeyError, Remedy, ServerInfo, Table};

use super::preflight::{ServerFacts, TableFacts};
use crate::failure::Failure;

/// Reads what a job depends on, whatever its tables.
pub(super) async fn server(conn: &mut Conn, info: &ServerInfo) -> Result<ServerFacts, Failure> {
    let grants: Vec<String> = conn.query("SHOW GRANTS").await.map_err(|error| {
        Failure::new(Remedy::Retry, error).context("reading the user's privileges")
    })?;
    let prepared_xa = oxferry_schema::prepared_xa(conn).await?;
    Ok(ServerFacts {
        version: info.version.text.clone(),
        version_numbers: info.version.numbers,
        mariadb: info.version.is_mariadb,
        log_bin: info.log_bin,
        binlog_format: info.binlog_format.clone(),
        binlog_row_image: info.binlog_row_image.clone(),
        binlog_row_value_options: info.binlog_row_value_options.clone(),
        binlog_order_commits: info.binlog_order_commits,
        binlog_checksum: info.binlog_checksum.clone(),
        prepared_xa,
        read_only: info.read_only || info.super_read_only,
        grants,
    })
}

/// Returns what can be in a table's way.
pub(super) fn table(table: &Table, key_error: Option<&KeyError>) -> TableFacts {
    TableFacts {
        table: table.name.clone(),
        engine: table.engine.clone(),
        key_problem: key_error.map(ToString::to_string),
    }
}
