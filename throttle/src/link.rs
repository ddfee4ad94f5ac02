//! A connection of its own for each thing that is measured.

use std::{
    fmt,
    time::{Duration, Instant},
};

use mysql_async::{Conn, Opts, OptsBuilder, Row, prelude::Queryable};
use oxferry_schema::{Remedy, TableName};
use oxferry_state::TableStoreError;
use tokio::time::timeout;

/// Why something could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// No connection could be opened.
    #[error("can't connect to {server}")]
    Connect {
        /// The server, as `host:port`.
        server: String,
        /// What the server or the network said.
        source: mysql_async::Error,
    },
    /// The server refused a statement, or the connection broke.
    #[error("can't ask {server} for {what}")]
    Query {
        /// The server, as `host:port`.
        server: String,
        /// What it was asked for.
        what: &'static str,
        /// What the server or the network said.
        source: mysql_async::Error,
    },
    /// The server did not answer in time.
    #[error("no answer from {server} within {deadline:?}")]
    Deadline {
        /// The server, as `host:port`.
        server: String,
        /// How long it may take.
        deadline: Duration,
    },
    /// The server answered something else than was asked for.
    #[error("{server} gave no {what}")]
    Answer {
        /// The server, as `host:port`.
        server: String,
        /// What it was asked for.
        what: &'static str,
    },
    /// A heartbeat could not be written or read.
    #[error("no heartbeat by way of {server}")]
    Heartbeat {
        /// The server, as `host:port`.
        server: String,
        /// What went wrong.
        source: TableStoreError,
    },
}

impl ProbeError {
    /// Says what to do about this error.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Connect { source, .. } | Self::Query { source, .. } => match source {
                mysql_async::Error::Server(_) => Remedy::Privileges,
                _ => Remedy::Unreachable,
            },
            Self::Deadline { .. } => Remedy::Unreachable,
            Self::Answer { .. } => Remedy::Bug,
            Self::Heartbeat { source, .. } => source.remedy(),
        }
    }
}

/// A connection that is opened when it is needed, and again after any error.
///
/// It is taken out while in use, so a call that is dropped or too late loses
/// it and never leaves half an answer behind.
pub(crate) struct Link {
    opts: Opts,
    server: String,
    conn: Option<Conn>,
    deadline: Duration,
}

impl Link {
    pub(crate) fn new(opts: &Opts, deadline: Duration) -> Self {
        let seconds = deadline.as_secs().max(1);
        // Without autocommit a replica would show one old snapshot for ever.
        let ours = format!(
            "SET SESSION autocommit = 1, lock_wait_timeout = {seconds}, \
             innodb_lock_wait_timeout = {seconds}"
        );
        let setup = [opts.setup(), &[ours]].concat();
        Self {
            opts: OptsBuilder::from_opts(opts.clone()).setup(setup).into(),
            server: server_name(opts),
            conn: None,
            deadline,
        }
    }

    /// Returns the server as `host:port`.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Writes the next heartbeat and returns its number.
    pub(crate) async fn beat(&mut self, table: &TableName) -> Result<u64, ProbeError> {
        let mut conn = self.take().await?;
        let number = oxferry_state::beat(&mut conn, table, self.deadline).await;
        let number = number.map_err(|source| self.heartbeat_error(source))?;
        self.conn = Some(conn);
        Ok(number)
    }

    /// Reads the last heartbeat that the server shows.
    pub(crate) async fn last_beat(&mut self, table: &TableName) -> Result<Option<u64>, ProbeError> {
        let mut conn = self.take().await?;
        let number = oxferry_state::last_beat(&mut conn, table, self.deadline).await;
        let number = number.map_err(|source| self.heartbeat_error(source))?;
        self.conn = Some(conn);
        Ok(number)
    }

    /// Reads `Threads_running`.
    pub(crate) async fn threads_running(&mut self) -> Result<u64, ProbeError> {
        const WHAT: &str = "Threads_running";
        let rows = self
            .query("SHOW GLOBAL STATUS LIKE 'Threads_running'", WHAT)
            .await?;
        rows.first()
            .and_then(|row| text(row, "Value"))
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| ProbeError::Answer {
                server: self.server.clone(),
                what: WHAT,
            })
    }

    /// Runs a query and returns its rows.
    pub(crate) async fn query(
        &mut self,
        sql: &str,
        what: &'static str,
    ) -> Result<Vec<Row>, ProbeError> {
        let mut conn = self.take().await?;
        let rows = match timeout(self.deadline, conn.query(sql)).await {
            Ok(rows) => rows,
            Err(_elapsed) => return Err(self.too_late()),
        };
        let rows = rows.map_err(|source| ProbeError::Query {
            server: self.server.clone(),
            what,
            source,
        })?;
        self.conn = Some(conn);
        Ok(rows)
    }

    async fn take(&mut self) -> Result<Conn, ProbeError> {
        if let Some(conn) = self.conn.take() {
            return Ok(conn);
        }
        match timeout(self.deadline, Conn::new(self.opts.clone())).await {
            Ok(conn) => conn.map_err(|source| ProbeError::Connect {
                server: self.server.clone(),
                source,
            }),
            Err(_elapsed) => Err(self.too_late()),
        }
    }

    fn too_late(&self) -> ProbeError {
        ProbeError::Deadline {
            server: self.server.clone(),
            deadline: self.deadline,
        }
    }

    fn heartbeat_error(&self, source: TableStoreError) -> ProbeError {
        ProbeError::Heartbeat {
            server: self.server.clone(),
            source,
        }
    }
}

impl fmt::Debug for Link {
    /// Leaves the options out: they hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Link").field(&self.server).finish()
    }
}

/// Returns a column of a text row, `None` where it is missing or NULL.
pub(crate) fn text(row: &Row, column: &str) -> Option<String> {
    row.get_opt::<Option<String>, _>(column)?.ok()?
}

/// Returns a server as `host:port`, without user and password.
pub(crate) fn server_name(opts: &Opts) -> String {
    format!("{}:{}", opts.ip_or_hostname(), opts.tcp_port())
}

/// Reads the clock, which only the shell does.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_shows() {
        let opts = Opts::from_url("mysql://root:secret@db2:3307/shop").unwrap();
        let link = Link::new(&opts, Duration::from_secs(1));
        assert_eq!(format!("{link:?}"), "Link(\"db2:3307\")");
    }
}
