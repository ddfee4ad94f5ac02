//! What every sink does to its target.

use std::sync::atomic::{AtomicBool, Ordering};

use mysql_async::{Conn, Error as DriverError, prelude::Queryable};
use oxferry_schema::{Key, Predicate, Value};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{Applied, batch::ApplyUnit};
use crate::{
    Batch, CopyError, CopyPlan, Mark,
    connections::{Named, Session},
    engine::Mode,
    pieces::{PieceLimits, pieces},
    plan::Meeting,
    statement::Statements,
};

/// Writes to one target by one plan.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) plan: CopyPlan,
    pub(crate) statements: Statements,
    /// Begins each transaction.
    mark: Option<Mark>,
    /// Whether a written row may take no other row's place.
    exclusive: AtomicBool,
    /// Held by chunks together, and by each batch alone, where a chunk and a
    /// batch would each write a row of the same key.
    turns: Option<RwLock<()>>,
}

impl Writer {
    /// Prepares to write by `plan`.
    pub(crate) fn new(plan: CopyPlan, mark: Option<Mark>) -> Self {
        let statements = Statements::new(&plan);
        let exclusive = AtomicBool::new(plan.is_exclusive());
        // With a filter, too, a row is removed and then written, in two statements.
        let removes = plan.meeting() != Meeting::Replaces || plan.filter().is_some();
        let removes = plan.mode() == Mode::Ordered && removes;
        Self {
            plan,
            statements,
            mark,
            exclusive,
            turns: removes.then(RwLock::default),
        }
    }

    /// From now on a row may take no other row's place.
    pub(crate) fn set_exclusive(&self) {
        self.exclusive.store(true, Ordering::Relaxed);
    }

    pub(crate) fn meeting(&self) -> Meeting {
        if self.exclusive.load(Ordering::Relaxed) {
            return Meeting::Exclusive;
        }
        self.plan.meeting()
    }

    /// Waits until a chunk may be written.
    pub(crate) async fn chunk_turn(&self) -> Option<RwLockReadGuard<'_, ()>> {
        match &self.turns {
            Some(turns) => Some(turns.read().await),
            None => None,
        }
    }

    /// Waits until a batch may be applied.
    pub(crate) async fn batch_turn(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        match &self.turns {
            Some(turns) => Some(turns.write().await),
            None => None,
        }
    }

    /// Begins a transaction, with the mark as its first write; one round trip.
    pub(crate) async fn begin(&self, session: &mut Session) -> Result<(), DriverError> {
        let mut sql = "START TRANSACTION".to_owned();
        if let Some(mark) = &self.mark {
            sql.push_str("; ");
            sql.push_str(&mark.sql(session.number));
        }
        session.conn.query_drop(sql).await
    }

    /// Returns the work of applying a batch.
    pub(crate) const fn batch<'a>(&'a self, batch: &'a Batch) -> ApplyUnit<'a> {
        ApplyUnit {
            writer: self,
            batch,
            fresh: false,
        }
    }

    /// Applies changes on a connection of the caller's; see
    /// [`SelectSink::apply_on`](crate::SelectSink::apply_on).
    pub(crate) async fn apply_on(
        &self,
        conn: &mut Conn,
        batch: &Batch,
        limit: std::time::Duration,
    ) -> Result<Applied, CopyError> {
        let task = || Box::new(self.batch(batch).task());
        let table = self.plan.target();
        match tokio::time::timeout(limit, self.apply_under_lock(conn, batch)).await {
            Ok(done) => done.map_err(|source| CopyError::Server {
                task: task(),
                table: table.clone(),
                attempts: 1,
                source,
            }),
            Err(_) => Err(CopyError::Deadline {
                task: task(),
                table: table.clone(),
                limit,
            }),
        }
    }

    /// `START TRANSACTION` would free the table locks; `autocommit` does not.
    /// Source: MySQL 9.7 manual, "LOCK TABLES and UNLOCK TABLES".
    async fn apply_under_lock(
        &self,
        conn: &mut Conn,
        batch: &Batch,
    ) -> Result<Applied, DriverError> {
        let packet: Option<usize> = conn.query_first("SELECT @@max_allowed_packet").await?;
        let bytes = APPLY_BYTES_MAX.min(packet.unwrap_or(APPLY_BYTES_MAX) / 2);
        let unit = self.batch(batch);
        if let Some(packet) = packet {
            unit.check_sizes(packet)?;
        }
        conn.query_drop("SET autocommit = 0").await?;
        let done = match self.marked(conn, &unit, bytes).await {
            Ok(applied) => conn.query_drop("COMMIT").await.map(|()| applied),
            Err(error) => {
                conn.query_drop("ROLLBACK").await?;
                Err(error)
            }
        };
        conn.query_drop("SET autocommit = 1").await?;
        done
    }

    async fn marked(
        &self,
        conn: &mut Conn,
        unit: &ApplyUnit<'_>,
        bytes: usize,
    ) -> Result<Applied, DriverError> {
        if let Some(mark) = &self.mark {
            conn.query_drop(mark.sql(CALLERS_NUMBER)).await?;
        }
        unit.write(conn, (bytes, usize::MAX)).await
    }

    /// Returns a condition's parameters, those of the filter on the source's
    /// side included.
    pub(crate) fn source_params(&self, rows: Predicate) -> Vec<Value> {
        let mut params = rows.into_params();
        params.extend(
            self.plan
                .filter()
                .into_iter()
                .flat_map(|f| f.source_params()),
        );
        params
    }

    /// As [`Writer::source_params`], on the target's side.
    pub(crate) fn target_params(&self, rows: Predicate) -> Vec<Value> {
        let mut params = rows.into_params();
        params.extend(self.filter_params());
        params
    }

    /// Returns the parameters of the filter's condition on the target.
    pub(crate) fn filter_params(&self) -> Vec<Value> {
        let filter = self.plan.filter();
        filter
            .map(crate::RowFilter::target_params)
            .unwrap_or_default()
    }

    /// Returns which rows of the source have the keys.
    pub(crate) fn rows_of(&self, keys: &[Key]) -> Vec<Predicate> {
        let side = self.plan.source_side();
        let sizes: Vec<usize> = keys.iter().map(Key::size_bytes).collect();
        let limits = PieceLimits {
            row_places: side.len(),
            bytes: APPLY_BYTES_MAX,
        };
        let piece = |piece| Predicate::keys(keys.get(piece).unwrap_or_default(), side);
        pieces(&sizes, limits).into_iter().map(piece).collect()
    }

    /// Removes the target's rows of some keys.
    pub(crate) async fn remove<K: std::borrow::Borrow<Key>>(
        &self,
        conn: &mut Conn,
        keys: &[K],
        bytes: usize,
    ) -> Result<(), DriverError> {
        let sizes: Vec<usize> = keys.iter().map(|key| key.borrow().size_bytes()).collect();
        let side = self.plan.target_side();
        let row_places = side.len();
        for piece in pieces(&sizes, PieceLimits { row_places, bytes }) {
            let keys = keys.get(piece).unwrap_or_default();
            let mut params =
                Predicate::keys_params(keys.iter().map(std::borrow::Borrow::borrow), side);
            params.extend(self.filter_params());
            conn.exec_drop(self.statements.delete(keys.len()), params)
                .await?;
        }
        Ok(())
    }
}

/// The number of a session that is none of [`Connections`](crate::Connections)'.
const CALLERS_NUMBER: usize = crate::Connections::SIZE_MAX;

/// Large enough that statements are few, small enough for any server.
pub(crate) const APPLY_BYTES_MAX: usize = 4 << 20;
