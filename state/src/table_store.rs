//! A checkpoint in a table beside the job's own.

use std::{fmt, time::Duration};

use mysql_async::{Conn, Opts, OptsBuilder, Value, prelude::Queryable};
use oxferry_schema::{Remedy, TableName};
use tokio::{sync::Mutex, time::timeout};

use crate::{Advanced, Checkpoint, CheckpointStore, FormatError};

/// One job's checkpoint in a row of a MySQL table.
///
/// Has a connection of its own, which it opens when it is first needed and
/// opens again when it was lost. The table is created by the first save, or by
/// [`TableStore::create`]. A save is one `UPDATE` that commits by itself and
/// that a lower sequence can't win.
pub struct TableStore {
    opts: Opts,
    table: TableName,
    job: String,
    deadline: Duration,
    // Taken out while it is in use: a call that is dropped loses it.
    conn: Mutex<Option<Conn>>,
}

/// Why a checkpoint's table can't be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableStoreError {
    /// No connection could be opened.
    #[error("can't connect to {action} the checkpoint table {table}")]
    Connect {
        /// What was attempted.
        action: &'static str,
        /// The table.
        table: TableName,
        /// What the server or the network said.
        source: mysql_async::Error,
    },
    /// The server refused a statement, or the connection broke again.
    #[error("can't {action} the checkpoint table {table}")]
    Statement {
        /// What was attempted.
        action: &'static str,
        /// The table.
        table: TableName,
        /// What the server or the network said.
        source: mysql_async::Error,
    },
    /// The server did not answer in time; what became of the statement is not
    /// known, and doing it again does no harm.
    #[error(
        "no answer within {deadline:?} from the server asked to {action} the checkpoint table {table}"
    )]
    Deadline {
        /// What was attempted.
        action: &'static str,
        /// The table.
        table: TableName,
        /// How long it may take.
        deadline: Duration,
    },
    /// The row holds no checkpoint that this version can read.
    #[error("the checkpoint of job {job:?} in table {table} is of no use")]
    Format {
        /// The table.
        table: TableName,
        /// The job.
        job: String,
        /// What is wrong with its content.
        source: Box<FormatError>,
    },
}

impl TableStore {
    /// Keeps the checkpoint of the job named `job` in `table`, on the server
    /// that `opts` leads to; every call ends within `deadline`.
    ///
    /// Nothing is connected to or created yet.
    #[must_use]
    pub fn new(opts: Opts, table: TableName, job: impl Into<String>, deadline: Duration) -> Self {
        // A statement that the client gave up must not wait on for ever.
        let seconds = deadline.as_secs().max(1);
        let setup = format!(
            "SET SESSION autocommit = 1, lock_wait_timeout = {seconds}, \
             innodb_lock_wait_timeout = {seconds}, sql_mode = 'STRICT_ALL_TABLES'"
        );
        let setup = [opts.setup(), &[setup]].concat();
        Self {
            opts: OptsBuilder::from_opts(opts).setup(setup).into(),
            table,
            job: job.into(),
            deadline,
            conn: Mutex::new(None),
        }
    }

    /// Returns the table's name.
    #[must_use]
    pub const fn table(&self) -> &TableName {
        &self.table
    }

    /// Creates the table unless it exists.
    ///
    /// # Errors
    ///
    /// [`TableStoreError`] when the server can't be reached or refuses.
    pub async fn create(&self) -> Result<(), TableStoreError> {
        // Text, not JSON: the server would put the fields in another order.
        let sql = format!(
            "CREATE TABLE IF NOT EXISTS {} (\
             job VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, \
             sequence BIGINT UNSIGNED NOT NULL, \
             payload LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, \
             PRIMARY KEY (job)\
             ) ENGINE=InnoDB COMMENT='oxferry: where a job resumes'",
            self.table
        );
        self.run("create", &sql, vec![]).await.map(drop)
    }

    /// Drops the table, and with it the checkpoints of all jobs in it.
    ///
    /// # Errors
    ///
    /// [`TableStoreError`] when the server can't be reached or refuses.
    pub async fn drop_table(&self) -> Result<(), TableStoreError> {
        let sql = format!("DROP TABLE IF EXISTS {}", self.table);
        self.run("drop", &sql, vec![]).await.map(drop)
    }

    /// Returns the sequence that the table holds, `None` without a row.
    async fn held(&self) -> Result<Option<u64>, TableStoreError> {
        let sql = format!(
            "SELECT CAST(sequence AS CHAR) FROM {} WHERE job = ?",
            self.table
        );
        let outcome = self.run("read", &sql, vec![self.job()]).await?;
        Ok(outcome.first.and_then(|digits| digits.parse().ok()))
    }

    /// Writes the first checkpoint of a job. A row that came in between is
    /// left alone.
    async fn insert(&self, next: &Checkpoint, json: &str) -> Result<Advanced, TableStoreError> {
        let sql = format!(
            "INSERT INTO {} (job, sequence, payload) VALUES (?, ?, ?)",
            self.table
        );
        let params = vec![self.job(), next.sequence.into(), json.into()];
        match self.run("write", &sql, params).await {
            Ok(_) => Ok(Advanced::Durable),
            Err(error) if error.code() == Some(DUPLICATE_KEY) => {
                let held = self.held().await?.unwrap_or(next.sequence);
                Ok(Advanced::against(held, next.sequence))
            }
            Err(error) => Err(error),
        }
    }

    fn job(&self) -> Value {
        self.job.as_str().into()
    }

    /// Runs one statement on the store's own connection. A connection that
    /// turns out to be lost is replaced once: every statement here may be
    /// repeated.
    async fn run(
        &self,
        action: &'static str,
        sql: &str,
        params: Vec<Value>,
    ) -> Result<Outcome, TableStoreError> {
        let work = async {
            let mut slot = self.conn.lock().await;
            if let Some(mut conn) = slot.take() {
                match execute(&mut conn, sql, params.clone()).await {
                    Err(error) if is_lost(&error) => {
                        tracing::debug!("checkpoint connection lost, opening another");
                    }
                    result => {
                        *slot = Some(conn);
                        return result.map_err(|e| self.statement_error(action, e));
                    }
                }
            }
            let mut conn = Conn::new(self.opts.clone()).await.map_err(|source| {
                let table = self.table.clone();
                TableStoreError::Connect {
                    action,
                    table,
                    source,
                }
            })?;
            let result = execute(&mut conn, sql, params).await;
            if !result.as_ref().is_err_and(is_lost) {
                *slot = Some(conn);
            }
            result.map_err(|e| self.statement_error(action, e))
        };
        timeout(self.deadline, work)
            .await
            .unwrap_or_else(|_elapsed| {
                Err(TableStoreError::Deadline {
                    action,
                    table: self.table.clone(),
                    deadline: self.deadline,
                })
            })
    }

    fn statement_error(&self, action: &'static str, source: mysql_async::Error) -> TableStoreError {
        let table = self.table.clone();
        TableStoreError::Statement {
            action,
            table,
            source,
        }
    }

    fn format_error(&self, source: FormatError) -> TableStoreError {
        TableStoreError::Format {
            table: self.table.clone(),
            job: self.job.clone(),
            source: Box::new(source),
        }
    }
}

impl fmt::Debug for TableStore {
    /// Leaves the options out: they hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableStore")
            .field("table", &self.table)
            .field("job", &self.job)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl CheckpointStore for TableStore {
    type Error = TableStoreError;

    async fn load(&self) -> Result<Option<Checkpoint>, TableStoreError> {
        let sql = format!("SELECT payload FROM {} WHERE job = ?", self.table);
        let outcome = match self.run("read", &sql, vec![self.job()]).await {
            Err(error) if error.is_absent() => return Ok(None),
            outcome => outcome?,
        };
        outcome
            .first
            .map(|json| Checkpoint::from_json(&json))
            .transpose()
            .map_err(|e| self.format_error(e))
    }

    async fn advance(&self, next: &Checkpoint) -> Result<Advanced, TableStoreError> {
        let json = next.to_json().map_err(|e| self.format_error(e))?;
        let sql = format!(
            "UPDATE {} SET sequence = ?, payload = ? WHERE job = ? AND sequence < ?",
            self.table
        );
        let sequence = Value::from(next.sequence);
        let params = vec![sequence.clone(), json.as_str().into(), self.job(), sequence];
        match self.run("write", &sql, params).await {
            Ok(outcome) if outcome.affected > 0 => return Ok(Advanced::Durable),
            Err(error) if error.is_absent() => self.create().await?,
            outcome => drop(outcome?),
        }
        match self.held().await? {
            Some(held) => Ok(Advanced::against(held, next.sequence)),
            None => self.insert(next, &json).await,
        }
    }

    async fn clear(&self) -> Result<(), TableStoreError> {
        let sql = format!("DELETE FROM {} WHERE job = ?", self.table);
        match self.run("clear", &sql, vec![self.job()]).await {
            Err(error) if error.is_absent() => Ok(()),
            outcome => outcome.map(drop),
        }
    }
}

impl TableStoreError {
    /// Says what to do about this error.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Connect { .. } if self.code().is_some() => Remedy::Privileges,
            Self::Connect { .. } => Remedy::Unreachable,
            Self::Statement { .. } => match self.code() {
                Some(DATABASE_DENIED | TABLE_DENIED) => Remedy::Privileges,
                Some(LOCK_WAIT_TIMEOUT | DEADLOCK) => Remedy::Retry,
                // The connection, and not the table, is the trouble.
                None => Remedy::Retry,
                Some(code) if LOST.contains(&code) => Remedy::Retry,
                Some(_) => Remedy::State,
            },
            Self::Deadline { .. } => Remedy::Retry,
            Self::Format { source, .. } => source.remedy(),
        }
    }

    /// Returns the server's error number, if the server answered at all.
    const fn code(&self) -> Option<u16> {
        match self {
            Self::Connect { source, .. } | Self::Statement { source, .. } => match source {
                mysql_async::Error::Server(error) => Some(error.code),
                _ => None,
            },
            Self::Deadline { .. } | Self::Format { .. } => None,
        }
    }

    /// Returns whether there is no such table, and so nothing to read.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Statement { .. })
            && matches!(self.code(), Some(NO_SUCH_TABLE | NO_SUCH_DATABASE))
    }
}

/// What a statement gave back.
struct Outcome {
    /// The first row's only column.
    first: Option<String>,
    affected: u64,
}

async fn execute(
    conn: &mut Conn,
    sql: &str,
    params: Vec<Value>,
) -> Result<Outcome, mysql_async::Error> {
    let first = conn.exec_first(sql, params).await?;
    Ok(Outcome {
        first,
        affected: conn.affected_rows(),
    })
}

/// Returns whether the connection is of no use any more.
fn is_lost(error: &mysql_async::Error) -> bool {
    match error {
        mysql_async::Error::Server(server) => LOST.contains(&server.code),
        mysql_async::Error::Io(_) | mysql_async::Error::Driver(_) => true,
        mysql_async::Error::Other(_) | mysql_async::Error::Url(_) => false,
    }
}

// Source: MySQL 9.7 manual, "Server Error Message Reference".
const DATABASE_DENIED: u16 = 1044;
const NO_SUCH_DATABASE: u16 = 1049;
const DUPLICATE_KEY: u16 = 1062;
const TABLE_DENIED: u16 = 1142;
const NO_SUCH_TABLE: u16 = 1146;
const LOCK_WAIT_TIMEOUT: u16 = 1205;
const DEADLOCK: u16 = 1213;
/// Shutdown in progress, killed, and disconnected for being idle.
const LOST: [u16; 3] = [1053, 1927, 4031];

#[cfg(test)]
mod tests {
    use mysql_async::ServerError;
    use oxferry_schema::Ident;

    use super::*;

    fn refused(code: u16) -> TableStoreError {
        TableStoreError::Statement {
            action: "write",
            table: TableName::new(Ident::new("d").unwrap(), Ident::new("_t_oxstate").unwrap()),
            source: mysql_async::Error::Server(ServerError {
                code,
                message: "no".into(),
                state: "HY000".into(),
            }),
        }
    }

    #[test]
    fn a_missing_privilege_is_told_from_a_full_disk() {
        assert_eq!(refused(TABLE_DENIED).remedy(), Remedy::Privileges);
        assert_eq!(refused(1114).remedy(), Remedy::State);
        assert_eq!(refused(DEADLOCK).remedy(), Remedy::Retry);
    }

    #[test]
    fn an_error_names_the_action_and_the_table() {
        assert_eq!(
            refused(1114).to_string(),
            "can't write the checkpoint table `d`.`_t_oxstate`"
        );
    }
}
