//! A server that follows another one.

use std::time::Duration;

use mysql_async::{Row, prelude::Queryable};

use super::{Server, ServerError};
use crate::wait::{NotInTime, eventually};

impl Server {
    /// Has this server replicate everything from `source`, by GTIDs, and begins.
    /// Needs a server that can say `SOURCE` (8.0.23 and later).
    ///
    /// # Errors
    ///
    /// [`ServerError::Sql`] when it refuses.
    pub async fn replicate_from(&self, source: &Self) -> Result<(), ServerError> {
        let follow = format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, \
             SOURCE_USER='root', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, \
             SOURCE_CONNECT_RETRY=1",
            source.port()
        );
        self.execute(&[&follow, "START REPLICA"]).await
    }

    /// Waits until this server has executed all that `source` has by now.
    ///
    /// # Errors
    ///
    /// [`NotInTime`] when it hasn't within `limit`, or neither can be asked.
    pub async fn wait_for_source(&self, source: &Self, limit: Duration) -> Result<(), NotInTime> {
        let what = "the replica to have what its source has";
        let executed = eventually(limit, what, async || source.executed_gtids().await).await?;
        let asks = format!("SELECT GTID_SUBSET('{executed}', @@GLOBAL.gtid_executed)");
        eventually(limit, what, async || {
            let mut conn = self.conn().await.ok()?;
            let all: Option<bool> = conn.query_first(&asks).await.ok()?;
            (all == Some(true)).then_some(())
        })
        .await
    }

    /// Waits until replication on this server says `wanted` (`Yes`, `No`) of its
    /// applier.
    ///
    /// # Errors
    ///
    /// [`NotInTime`] when it doesn't within `limit`.
    pub async fn wait_for_applier(&self, wanted: &str, limit: Duration) -> Result<(), NotInTime> {
        eventually(
            limit,
            format!("an applier that says {wanted}"),
            async || {
                let mut conn = self.conn().await.ok()?;
                let row: Option<Row> = conn.query_first("SHOW REPLICA STATUS").await.ok()?;
                let says: String = row?.get("Replica_SQL_Running")?;
                (says == wanted).then_some(())
            },
        )
        .await
    }

    async fn executed_gtids(&self) -> Option<String> {
        let mut conn = self.conn().await.ok()?;
        let executed = "SELECT REPLACE(@@GLOBAL.gtid_executed, '\\n', '')";
        conn.query_first(executed).await.ok()?
    }
}
