//! One job a table at a time: a server lock that dies with its connection.

use std::time::Duration;

use mysql_async::{Conn, prelude::Queryable};
use oxferry_schema::{Remedy, TableName};

use crate::failure::Failure;

/// How often the lock is looked after.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// After how long of silence the server gives the lock up.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// How long the server may take to answer that it still holds the lock.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// Held while a job works on its tables.
#[derive(Debug)]
pub(crate) struct JobLock {
    conn: Conn,
    holder: Holder,
}

/// What a job's locks are known by, from any connection.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    locks: Vec<Lock>,
    connection: u32,
}

/// The lock of one table.
#[derive(Clone, Debug)]
struct Lock {
    table: TableName,
    name: String,
}

impl Holder {
    /// Checks, on another connection, that the job still holds its locks.
    pub(crate) async fn check(&self, conn: &mut Conn) -> Result<(), Failure> {
        for lock in &self.locks {
            let used = user(conn, lock).await.map_err(lock_error)?;
            if used != Some(self.connection) {
                let table = lock.table.plain();
                return Err(Failure::new(
                    Remedy::Retry,
                    anyhow::anyhow!("the job's lock on {table} is lost: nothing was swapped"),
                ));
            }
        }
        Ok(())
    }
}

impl JobLock {
    /// Takes the locks of all `tables`, at once or not at all.
    ///
    /// Nobody waits for a lock, so the order can't make two jobs wait for each
    /// other; it only says which of two jobs is refused.
    ///
    /// # Errors
    ///
    /// A failure that names the table, and the connection of the job that
    /// works on it.
    pub(crate) async fn take(mut conn: Conn, tables: &[TableName]) -> Result<Self, Failure> {
        // Should this host vanish, the lock must not outlive it by hours.
        let limit = format!("SET SESSION wait_timeout = {}", IDLE_MAX.as_secs());
        conn.query_drop(limit).await.map_err(lock_error)?;
        let mut ordered = tables.to_vec();
        ordered.sort();
        ordered.dedup();
        let mut locks = Vec::with_capacity(ordered.len());
        for table in ordered {
            locks.push(take_one(&mut conn, table).await?);
        }
        let connection = conn.id();
        let holder = Holder { locks, connection };
        Ok(Self { conn, holder })
    }

    /// Returns what the locks are known by.
    pub(crate) fn holder(&self) -> Holder {
        self.holder.clone()
    }

    /// Lets the locks go; when this has returned, another session can take them.
    pub(crate) async fn release(mut self) -> Result<(), Failure> {
        let release = "DO RELEASE_ALL_LOCKS()";
        self.conn.query_drop(release).await.map_err(lock_error)
    }

    /// Runs as long as all locks are held.
    ///
    /// # Errors
    ///
    /// Only ends with one: a lock or the connection is gone, so that another
    /// job may start, and this one must end.
    pub(crate) async fn watch(mut self) -> Failure {
        loop {
            tokio::time::sleep(WATCH_EVERY).await;
            for lock in &self.holder.locks {
                let asked = user(&mut self.conn, lock);
                let lost = match tokio::time::timeout(ANSWER_MAX, asked).await {
                    Ok(Ok(used)) if used == Some(self.holder.connection) => continue,
                    Ok(Err(error)) => anyhow::Error::new(error),
                    Ok(Ok(_)) => anyhow::anyhow!("the server says that it isn't held any more"),
                    Err(_) => anyhow::anyhow!("no answer for {} s", ANSWER_MAX.as_secs()),
                };
                return Failure::new(Remedy::Retry, lost)
                    .context(format!("the job's lock on {} is lost", lock.table.plain()));
            }
        }
    }
}

async fn take_one(conn: &mut Conn, table: TableName) -> Result<Lock, Failure> {
    // A lock's name has 64 characters at most. Source: MySQL 9.7 manual,
    // "Locking Functions". MD5 is gone in 9.7, so the server's SHA2 it is.
    let name: Option<String> = conn
        .exec_first(
            "SELECT CONCAT('oxferry:', LEFT(SHA2(?, 256), 48))",
            (table.plain(),),
        )
        .await
        .map_err(lock_error)?;
    let name = name.unwrap_or_default();
    let lock = Lock { table, name };
    let taken: Option<Option<i64>> = conn
        .exec_first("SELECT GET_LOCK(?, 0)", (&lock.name,))
        .await
        .map_err(lock_error)?;
    if taken.flatten() == Some(1) {
        return Ok(lock);
    }
    let holder = user(conn, &lock).await.map_err(lock_error)?;
    let holder = holder.map_or_else(String::new, |id| format!(", connection {id}"));
    let message = format!(
        "another job is working on {}{holder}: let it end first",
        lock.table.plain()
    );
    Err(Failure::new(Remedy::Retry, anyhow::anyhow!(message)))
}

/// Returns the connection that holds the lock, if one does.
async fn user(conn: &mut Conn, lock: &Lock) -> Result<Option<u32>, mysql_async::Error> {
    let query = "SELECT IS_USED_LOCK(?)";
    let used: Option<Option<u32>> = conn.exec_first(query, (&lock.name,)).await?;
    Ok(used.flatten())
}

fn lock_error(error: mysql_async::Error) -> Failure {
    Failure::new(Remedy::Retry, error).context("taking the job's lock")
}
