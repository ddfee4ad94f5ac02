//! What is left after a swap.

use std::time::Duration;

use mysql_async::{Conn, prelude::Queryable};
use oxferry_schema::TableName;

use crate::{CutoverError, session::answered};

/// Drops a table that has been swapped out, if it is there.
///
/// Waits for its metadata lock for `lock_wait` at most, rounded up to whole
/// seconds; the drop itself may take as long as the server needs to free the
/// table's pages, up to ten minutes. It is one statement: on a busy server drop
/// large tables at a quiet hour. The session's lock wait stays changed.
///
/// # Errors
///
/// [`CutoverError::Statement`] when it can't be dropped, for a lock too; the
/// table may be dropped again later.
pub async fn drop_old(
    conn: &mut Conn,
    old: &TableName,
    lock_wait: Duration,
) -> Result<(), CutoverError> {
    let up = u64::from(lock_wait.subsec_nanos() > 0);
    let seconds = lock_wait.as_secs().saturating_add(up).max(1);
    let drop = async {
        conn.query_drop(format!("SET SESSION lock_wait_timeout = {seconds}"))
            .await?;
        conn.query_drop(format!("DROP TABLE IF EXISTS {old}")).await
    };
    answered(
        "drop the old table",
        DROP_DEADLINE.saturating_add(lock_wait),
        drop,
    )
    .await
}

/// Measured in seconds even for large tables; a server that needs longer is ill.
const DROP_DEADLINE: Duration = Duration::from_secs(600);
