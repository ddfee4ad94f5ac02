//! The session that an earlier run left behind.

use std::time::Duration;

use mysql_async::{Conn, prelude::Queryable};
use oxferry_schema::{CONNECT_DEADLINE, TableName};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    CutoverError,
    session::{answered, kill, take_lock},
    swap::END_LIMIT,
};

/// Ends the session that an earlier run left to swap `source`, if one lives,
/// and returns when it is gone.
///
/// A program that is killed right after it sent the rename leaves a session
/// that may still carry it out. Once this has returned, no session of an
/// earlier [`swap`](crate::swap) is there any more: which tables exist is
/// final, and [`decide`](crate::decide) says what became of the rename.
///
/// `source` is one of the plan's tables: a swap holds a user-level lock for each,
/// by a name that follows from it, from before the table lock until its session
/// has ended. Call it for every table of a job: an earlier run may have had
/// others beside it. A swap that is at work is ended as well, so be sure that no other
/// job works on the table. Ending another account's session needs
/// CONNECTION_ADMIN.
///
/// # Errors
///
/// [`CutoverError::EarlierStuck`] when it is not gone within `limit`, or what
/// the server answered. After [`CutoverError::Unanswered`], ten seconds past
/// `limit`, the connection can't be talked to.
///
/// # Cancel safety
///
/// Dropped, the session may have been told to end, or not.
pub async fn end_earlier(
    conn: &mut Conn,
    source: &TableName,
    limit: Duration,
) -> Result<(), CutoverError> {
    let waited = limit.saturating_add(CONNECT_DEADLINE);
    let ended = timeout(waited, end(conn, source, limit)).await;
    ended.unwrap_or(Err(CutoverError::Unanswered {
        attempted: "end what an earlier run left",
        waited,
    }))
}

/// Takes the table's lock for the session of `conn`, which will swap it; ends
/// the session that holds it.
pub(crate) async fn claim(conn: &mut Conn, source: &TableName) -> Result<(), CutoverError> {
    let lock = lock_name(conn, source).await?;
    if take_lock(conn, &lock).await? {
        return Ok(());
    }
    end_earlier(conn, source, END_LIMIT).await?;
    if take_lock(conn, &lock).await? {
        return Ok(());
    }
    Err(CutoverError::LockHeld { name: lock })
}

async fn end(conn: &mut Conn, source: &TableName, limit: Duration) -> Result<(), CutoverError> {
    let began = Instant::now();
    let lock = lock_name(conn, source).await?;
    let mut told = None;
    while let Some(id) = other_holder(conn, &lock).await? {
        let waited = began.elapsed();
        let Some(left) = limit.checked_sub(waited).filter(|left| !left.is_zero()) else {
            return Err(CutoverError::EarlierStuck {
                source_table: source.clone(),
                id,
                waited,
            });
        };
        if told.replace(id) != Some(id) {
            tracing::warn!(
                id,
                table = source.plain(),
                "ending an earlier run's session"
            );
            kill(conn, id).await?;
        }
        sleep(LOOK_AGAIN.min(left)).await;
    }
    Ok(())
}

/// Returns the session that holds the lock, the asking one aside.
async fn other_holder(conn: &mut Conn, lock: &str) -> Result<Option<u64>, CutoverError> {
    let query = "SELECT NULLIF(IS_USED_LOCK(?), CONNECTION_ID())";
    let asked = conn.exec_first::<Option<u64>, _, _>(query, (lock,));
    let holder = answered("look for an earlier run's session", CONNECT_DEADLINE, asked).await?;
    Ok(holder.flatten())
}

/// Names the lock of a table's swap; the next version must find it too.
///
/// The server knows whether names that differ by case are the same table's. A
/// name has 64 characters at most. Source: MySQL 9.7 manual, "Locking
/// Functions".
async fn lock_name(conn: &mut Conn, source: &TableName) -> Result<String, CutoverError> {
    let query = "SELECT CONCAT('oxferry:cutover:', \
                 LEFT(SHA2(IF(@@lower_case_table_names = 0, ?, LOWER(?)), 256), 48))";
    let quoted = source.to_string();
    let asked = conn.exec_first::<Option<String>, _, _>(query, (&quoted, &quoted));
    let name = answered("name the lock of a swap", CONNECT_DEADLINE, asked).await?;
    Ok(name.flatten().unwrap_or_default())
}

const LOOK_AGAIN: Duration = Duration::from_millis(50);
