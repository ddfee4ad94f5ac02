//! Connections to a test server, and what tests ask of it.

use std::time::Duration;

use mysql_async::{Conn, Opts, Pool, prelude::Queryable};

use super::{Server, ServerError};

impl Server {
    /// A new connection as `root`, with no database chosen.
    ///
    /// # Errors
    ///
    /// [`ServerError::Sql`] when the server doesn't take it.
    pub async fn conn(&self) -> Result<Conn, ServerError> {
        self.conn_to("").await
    }

    /// A new connection as `root` to `database`.
    ///
    /// # Errors
    ///
    /// [`ServerError::Sql`] when the server doesn't take it.
    pub async fn conn_to(&self, database: &str) -> Result<Conn, ServerError> {
        let url = self.url_for("root", "", database);
        let opts = Opts::from_url(&url).map_err(|error| self.failed(error.into()))?;
        Conn::new(opts).await.map_err(|error| self.failed(error))
    }

    /// A pool of connections as `root`, with no database chosen.
    #[must_use]
    pub fn pool(&self) -> Pool {
        Pool::new(&*self.url())
    }

    /// Runs statements one after the other on a connection of their own.
    ///
    /// # Errors
    ///
    /// [`ServerError::Sql`] with the first one's error.
    pub async fn execute(&self, statements: &[&str]) -> Result<(), ServerError> {
        let mut conn = self.conn().await?;
        for statement in statements {
            conn.query_drop(*statement)
                .await
                .map_err(|error| self.failed(error))?;
        }
        conn.disconnect().await.map_err(|error| self.failed(error))
    }

    /// Makes the semi-synchronous source wait again, after its time-out made it give up.
    ///
    /// # Errors
    ///
    /// [`ServerError::Sql`] when the server wasn't started with
    /// [`ServerOptions::semi_sync`](super::ServerOptions::semi_sync).
    pub async fn rearm_semi_sync(&self) -> Result<(), ServerError> {
        self.execute(&REARM).await
    }

    /// Makes the source wait again whenever it has given up, until the guard is dropped.
    ///
    /// So a commit becomes visible up to the time-out after it stands in the
    /// binary log, all the time.
    ///
    /// # Errors
    ///
    /// As [`Server::rearm_semi_sync`].
    pub async fn keep_semi_sync_waiting(&self) -> Result<SemiSyncGuard, ServerError> {
        self.rearm_semi_sync().await?;
        let mut conn = self.conn().await?;
        let task = tokio::spawn(async move {
            loop {
                let status: Result<Option<(String, String)>, _> = conn
                    .query_first("SHOW STATUS LIKE 'Rpl_semi_sync_source_status'")
                    .await;
                match status {
                    Ok(Some((_, status))) if status == "OFF" => {
                        for statement in REARM {
                            if conn.query_drop(statement).await.is_err() {
                                return;
                            }
                        }
                    }
                    Ok(_) => {}
                    // The server was stopped: there is nothing to keep up.
                    Err(_) => return,
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        Ok(SemiSyncGuard { task })
    }

    fn failed(&self, source: mysql_async::Error) -> ServerError {
        ServerError::Sql {
            port: self.port(),
            source,
        }
    }
}

const REARM: [&str; 2] = [
    "SET GLOBAL rpl_semi_sync_source_enabled = OFF",
    "SET GLOBAL rpl_semi_sync_source_enabled = ON",
];

/// Keeps a semi-synchronous source waiting; dropping it lets it give up.
#[derive(Debug)]
pub struct SemiSyncGuard {
    task: tokio::task::JoinHandle<()>,
}

impl Drop for SemiSyncGuard {
    fn drop(&mut self) {
        self.task.abort();
    }
}
