//! One job a table: a server lock that dies with its connection.

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

/// Held while a job works on a table.
#[derive(Debug)]
pub(crate) struct JobLock {
    conn: Conn,
    holder: Holder,
    table: TableName,
}

/// What a job's lock is known by, from any connection.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    name: String,
    connection: u32,
}

impl Holder {
    /// Checks, on another connection, that the job still holds its lock.
    pub(crate) async fn check(&self, conn: &mut Conn) -> Result<(), Failure> {
        let query = "SELECT IS_USED_LOCK(?)";
        let used: Option<Option<u32>> = conn
            .exec_first(query, (&self.name,))
            .await
            .map_err(lock_error)?;
        if used.flatten() == Some(self.connection) {
            return Ok(());
        }
        Err(Failure::new(
            Remedy::Retry,
            anyhow::anyhow!("the job's lock is lost: nothing was swapped"),
        ))
    }
}

impl JobLock {
    /// Takes the lock, at once or not at all.
    ///
    /// # Errors
    ///
    /// A failure that names the connection of the job that holds it.
    pub(crate) async fn take(mut conn: Conn, table: &TableName) -> Result<Self, Failure> {
        // Should this host vanish, the lock must not outlive it by hours.
        let limit = format!("SET SESSION wait_timeout = {}", IDLE_MAX.as_secs());
        conn.query_drop(limit).await.map_err(lock_error)?;
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
        let taken: Option<Option<i64>> = conn
            .exec_first("SELECT GET_LOCK(?, 0)", (&name,))
            .await
            .map_err(lock_error)?;
        if taken.flatten() == Some(1) {
            let connection = conn.id();
            let holder = Holder { name, connection };
            return Ok(Self {
                conn,
                holder,
                table: table.clone(),
            });
        }
        let holder: Option<Option<u64>> = conn
            .exec_first("SELECT IS_USED_LOCK(?)", (&name,))
            .await
            .map_err(lock_error)?;
        let holder = holder
            .flatten()
            .map_or_else(String::new, |id| format!(", connection {id}"));
        let message = format!(
            "another job is working on {}{holder}: let it end first",
            table.plain()
        );
        Err(Failure::new(Remedy::Retry, anyhow::anyhow!(message)))
    }

    /// Returns what the lock is known by.
    pub(crate) fn holder(&self) -> Holder {
        self.holder.clone()
    }

    /// Runs as long as the lock is held.
    ///
    /// # Errors
    ///
    /// Only ends with one: the lock or its connection is gone, so that another
    /// job may start, and this one must end.
    pub(crate) async fn watch(mut self) -> Failure {
        loop {
            tokio::time::sleep(WATCH_EVERY).await;
            let query = "SELECT IS_USED_LOCK(?) = CONNECTION_ID()";
            let asked = self
                .conn
                .exec_first::<Option<i64>, _, _>(query, (&self.holder.name,));
            let lost = match tokio::time::timeout(ANSWER_MAX, asked).await {
                Ok(Ok(Some(Some(1)))) => continue,
                Ok(Err(error)) => anyhow::Error::new(error),
                Ok(Ok(_)) => anyhow::anyhow!("the server says that it isn't held any more"),
                Err(_) => anyhow::anyhow!("no answer for {} s", ANSWER_MAX.as_secs()),
            };
            return Failure::new(Remedy::Retry, lost)
                .context(format!("the job's lock on {} is lost", self.table.plain()));
        }
    }
}

fn lock_error(error: mysql_async::Error) -> Failure {
    Failure::new(Remedy::Retry, error).context("taking the job's lock")
}
