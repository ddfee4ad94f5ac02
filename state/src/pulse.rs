//! Small commits to the checkpoint table that are no checkpoints.

use std::time::Duration;

use mysql_async::{Conn, prelude::Queryable};
use oxferry_schema::TableName;
use tokio::time::timeout;

use crate::TableStoreError;

/// Commits one small change to the checkpoint table, which must exist.
///
/// This is the barrier for servers without GTIDs: when it returns, every
/// transaction that stands before it in the binary log is visible to a new
/// snapshot, provided that the server runs with `binlog_order_commits=ON` and
/// the session with `sql_log_bin=1`. The value differs each time, so a binlog
/// event is written each time; two barriers at once pass one after the other.
///
/// # Cancel safety
///
/// Where the call was dropped or ran into its deadline, drop the connection:
/// it may be inside a transaction.
///
/// # Errors
///
/// [`TableStoreError`] when it isn't known to be committed within `deadline`;
/// it is no barrier then.
pub async fn touch_barrier(
    conn: &mut Conn,
    table: &TableName,
    deadline: Duration,
) -> Result<(), TableStoreError> {
    let work = count_up(conn, table, BARRIER_ROW);
    within(deadline, work, "commit a barrier to", table)
        .await
        .map(drop)
}

/// Commits the next heartbeat to the checkpoint table, which must exist, and
/// returns its number, which grows with every one.
///
/// A replica that shows this number has applied everything before it.
///
/// # Cancel safety
///
/// As [`touch_barrier`].
///
/// # Errors
///
/// [`TableStoreError`] when it isn't known to be committed within `deadline`.
pub async fn beat(
    conn: &mut Conn,
    table: &TableName,
    deadline: Duration,
) -> Result<u64, TableStoreError> {
    let work = count_up(conn, table, HEARTBEAT_ROW);
    within(deadline, work, "commit a heartbeat to", table).await
}

/// Returns the number of the last heartbeat that the server at hand shows,
/// `None` where it doesn't show any, or doesn't have the table yet.
///
/// # Errors
///
/// [`TableStoreError`] when the server refuses or doesn't answer within
/// `deadline`.
pub async fn last_beat(
    conn: &mut Conn,
    table: &TableName,
    deadline: Duration,
) -> Result<Option<u64>, TableStoreError> {
    let sql = format!("SELECT sequence FROM {table} WHERE job = ?");
    let work = conn.exec_first(sql, (HEARTBEAT_ROW,));
    match within(deadline, work, "read a heartbeat from", table).await {
        Err(error) if error.is_absent() => Ok(None),
        number => number,
    }
}

/// Counts a row's number up, commits, and returns it.
async fn count_up(
    conn: &mut Conn,
    table: &TableName,
    row: &'static str,
) -> Result<u64, mysql_async::Error> {
    // `LAST_INSERT_ID(x)` hands `x` to the client. Source: MySQL 9.7 manual,
    // "Information Functions".
    let sql = format!(
        "INSERT INTO {table} (job, sequence, payload) VALUES (?, LAST_INSERT_ID(1), '') \
         ON DUPLICATE KEY UPDATE sequence = LAST_INSERT_ID(sequence + 1)"
    );
    conn.exec_drop(sql, (row,)).await?;
    let number = conn.last_insert_id().unwrap_or(1);
    // Without effect where the session commits by itself.
    conn.query_drop("COMMIT").await?;
    Ok(number)
}

async fn within<T>(
    deadline: Duration,
    work: impl Future<Output = Result<T, mysql_async::Error>>,
    action: &'static str,
    table: &TableName,
) -> Result<T, TableStoreError> {
    let table = table.clone();
    match timeout(deadline, work).await {
        Ok(result) => result.map_err(|source| TableStoreError::Statement {
            action,
            table,
            source,
        }),
        Err(_elapsed) => Err(TableStoreError::Deadline {
            action,
            table,
            deadline,
        }),
    }
}

// No job has such a name: theirs have a dot between database and table.
const BARRIER_ROW: &str = "(barrier)";
const HEARTBEAT_ROW: &str = "(heartbeat)";
