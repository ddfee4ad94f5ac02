//! The barrier: when does a new snapshot see what the binary log has shown?

use std::{future::Future, time::Duration};

use mysql_async::{Conn, Opts, prelude::Queryable};
use oxferry_binlog::{GtidSet, Position};
use oxferry_schema::TableName;
use tokio::sync::Mutex;

use crate::CopyError;

/// Waits until transactions that the binary log has shown are visible.
///
/// The server hands a transaction to binary log readers before the storage
/// engine commits it; a snapshot taken in between misses it. Source: MySQL
/// source, `MYSQL_BIN_LOG::ordered_commit`; observed with a semi-synchronous
/// source, test `a_barrier_waits_for_a_commit_that_the_log_already_shows`.
///
/// # Contract
///
/// When `pass` returns, every snapshot opened on the source from then on
/// contains every transaction before `through`. It takes no locks on source
/// rows, and it gives up with an error rather than wait for ever.
pub trait Barrier: Send + Sync {
    /// Returns when everything before `through` is visible.
    ///
    /// # Errors
    ///
    /// [`CopyError`] when the server doesn't get there in time, or at all.
    fn pass(&self, through: &Position) -> impl Future<Output = Result<(), CopyError>> + Send;
}

/// The barrier of a job: by GTIDs where the server has them, else by a marker.
#[derive(Debug)]
pub struct ServerBarrier {
    opts: Opts,
    marker: TableName,
    wait_max: Duration,
    conn: Mutex<Option<Conn>>,
}

impl ServerBarrier {
    /// Prepares a barrier on the server behind `opts`.
    ///
    /// `marker` is the job's own bookkeeping table, with the column layout of
    /// [`oxferry_state::TableStore`]; it is written only without GTIDs.
    #[must_use]
    pub fn new(opts: Opts, marker: TableName, wait_max: Duration) -> Self {
        Self {
            opts,
            marker,
            wait_max,
            conn: Mutex::new(None),
        }
    }

    /// `WAIT_FOR_EXECUTED_GTID_SET` returns once the set is part of
    /// `gtid_executed`, which the server extends after the engine's commit.
    async fn wait_for_gtids(&self, conn: &mut Conn, gtids: &GtidSet) -> Result<(), CopyError> {
        let wait_s = self.wait_max.as_secs().max(1);
        let timed_out: Option<i64> = conn
            .exec_first(
                "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, ?)",
                (gtids.to_string(), wait_s),
            )
            .await
            .map_err(CopyError::barrier)?;
        match timed_out {
            Some(0) => Ok(()),
            _ => Err(CopyError::BarrierTimeout {
                waited: self.wait_max,
            }),
        }
    }

    /// Gives the connection back when it may be used again.
    async fn run(&self, conn: Option<Conn>, through: &Position) -> Result<Conn, CopyError> {
        let mut conn = match conn {
            Some(conn) => conn,
            None => Conn::new(self.opts.clone())
                .await
                .map_err(CopyError::barrier)?,
        };
        match &through.gtids {
            Some(gtids) => self.wait_for_gtids(&mut conn, gtids).await?,
            None => oxferry_state::touch_barrier(&mut conn, &self.marker, self.wait_max)
                .await
                .map_err(|source| CopyError::Marker { source })?,
        }
        Ok(conn)
    }
}

impl Barrier for ServerBarrier {
    async fn pass(&self, through: &Position) -> Result<(), CopyError> {
        // Twice at most: an idle connection may have been closed meanwhile, and
        // passing a barrier again does no harm.
        for attempt in 0..2 {
            let mut slot = self.conn.lock().await;
            let limit = self.wait_max + Duration::from_secs(5);
            let conn = slot.take();
            match tokio::time::timeout(limit, self.run(conn, through)).await {
                Err(_) => return Err(CopyError::BarrierTimeout { waited: limit }),
                Ok(Ok(conn)) => {
                    *slot = Some(conn);
                    return Ok(());
                }
                Ok(Err(error)) if attempt == 0 && error.is_connection_lost() => {}
                Ok(Err(error)) => return Err(error),
            }
        }
        Err(CopyError::BarrierTimeout {
            waited: self.wait_max,
        })
    }
}
