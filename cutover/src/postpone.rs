//! The sentinel as a table, and the wait for its end.

use std::time::Duration;

use mysql_async::{Conn, Opts, prelude::Queryable};
use oxferry_schema::{CONNECT_DEADLINE, TableName};
use tokio::time::{Instant, sleep};

use crate::{
    CutoverError, SentinelSeen, SentinelStep, SentinelWait,
    session::{answered, close, connect},
    tables,
};

/// A table whose existence postpones the cutover.
///
/// Known by its comment: a table of the same name that somebody else made is
/// neither used nor dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentinel {
    name: TableName,
}

impl Sentinel {
    /// Names the sentinel; nothing is created.
    #[must_use]
    pub const fn new(name: TableName) -> Self {
        Self { name }
    }

    /// Returns the table's name.
    #[must_use]
    pub const fn name(&self) -> &TableName {
        &self.name
    }

    /// Creates the table; one that stands already stays.
    ///
    /// # Errors
    ///
    /// [`CutoverError::ForeignSentinel`] when the name is taken, or what the
    /// server answered.
    pub async fn create(&self, conn: &mut Conn) -> Result<(), CutoverError> {
        let create = format!(
            "CREATE TABLE IF NOT EXISTS {} (postpones_cutover TINYINT NOT NULL PRIMARY KEY) \
             ENGINE = InnoDB COMMENT = '{PURPOSE}'",
            self.name
        );
        let sent = conn.query_drop(create);
        answered("create the sentinel", CONNECT_DEADLINE, sent).await?;
        match tables::comment(conn, &self.name).await? {
            Some(comment) if comment != PURPOSE => Err(self.foreign()),
            _ => Ok(()),
        }
    }

    /// Returns whether a table of exactly this name exists.
    ///
    /// # Errors
    ///
    /// What the server answered, or that it didn't within 10 s.
    pub async fn exists(&self, conn: &mut Conn) -> Result<bool, CutoverError> {
        tables::exists(conn, &self.name).await
    }

    /// Drops the table if it stands.
    ///
    /// # Errors
    ///
    /// [`CutoverError::ForeignSentinel`] when somebody else made it, or what
    /// the server answered.
    pub async fn drop(&self, conn: &mut Conn) -> Result<(), CutoverError> {
        match tables::comment(conn, &self.name).await? {
            None => Ok(()),
            Some(comment) if comment == PURPOSE => {
                let sent = conn.query_drop(format!("DROP TABLE IF EXISTS {}", self.name));
                answered("drop the sentinel", CONNECT_DEADLINE, sent).await
            }
            Some(_) => Err(self.foreign()),
        }
    }

    /// Waits until the table is gone, looking at it twice a second; returns
    /// how long that took.
    ///
    /// `on_tick` hears the time waited after each look, for the status. A
    /// connection that breaks is replaced; a server that doesn't answer
    /// postpones as the sentinel does, for a minute.
    ///
    /// # Errors
    ///
    /// [`CutoverError::SentinelLimit`] when it still stands after `limit`;
    /// otherwise what kept the server from answering.
    ///
    /// # Cancel safety
    ///
    /// Can be dropped at any time, so another trigger can be raced against it;
    /// the table stays.
    pub async fn wait_while_postponed(
        &self,
        opts: &Opts,
        limit: Duration,
        mut on_tick: impl FnMut(Duration) + Send,
    ) -> Result<Duration, CutoverError> {
        let began = Instant::now();
        let mut wait = SentinelWait::new(limit);
        let mut conn = None;
        loop {
            let looked = self.look(&mut conn, opts).await;
            let waited = began.elapsed();
            on_tick(waited);
            match wait.handle_seen(waited, as_seen(&looked)) {
                SentinelStep::GoOn => break,
                SentinelStep::LookAgain(pause) => sleep(pause).await,
                SentinelStep::LimitReached => return Err(self.limit_reached(waited)),
                SentinelStep::Unreachable => {
                    return Err(looked.err().unwrap_or_else(|| self.limit_reached(waited)));
                }
            }
        }
        if let Some(conn) = conn {
            close(conn).await;
        }
        Ok(began.elapsed())
    }

    /// Looks once; a connection that failed is thrown away.
    async fn look(&self, conn: &mut Option<Conn>, opts: &Opts) -> Result<bool, CutoverError> {
        let mut open = match conn.take() {
            Some(open) => open,
            None => connect(opts).await?,
        };
        let stands = self.exists(&mut open).await?;
        *conn = Some(open);
        Ok(stands)
    }

    fn foreign(&self) -> CutoverError {
        CutoverError::ForeignSentinel {
            name: self.name.clone(),
        }
    }

    fn limit_reached(&self, waited: Duration) -> CutoverError {
        CutoverError::SentinelLimit {
            name: self.name.clone(),
            waited,
        }
    }
}

fn as_seen(looked: &Result<bool, CutoverError>) -> SentinelSeen {
    match looked {
        Ok(true) => SentinelSeen::Standing,
        Ok(false) => SentinelSeen::Gone,
        Err(error) => {
            tracing::warn!(%error, "sentinel not seen, the cutover stays postponed");
            SentinelSeen::Unknown
        }
    }
}

const PURPOSE: &str =
    "oxferry: the cutover waits while this table exists; drop it to let the cutover go on";
