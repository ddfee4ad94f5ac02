//! Writing rows and changes to the target.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use mysql_async::{Conn, Error as DriverError, prelude::Queryable};
use oxferry_schema::{Key, KeyRange};
use tokio::sync::RwLock;

use crate::{
    Batch, Connections, CopyError, CopyPlan, connections::Named, engine::Mode, plan::Meeting,
    statement::Statements,
};

mod batch;
mod chunk;
mod fault;

use batch::ApplyUnit;
use chunk::{CopyUnit, KeysUnit};

/// Writes rows and changes to a target table.
///
/// # Contract
///
/// - `copy` reads the range in one consistent snapshot that is taken after the
///   call began, takes no locks on source rows, and returns when the rows are
///   committed on the target. With `again`, the target's rows of the range are
///   removed in the same transaction. With `again`, and in *ordered* mode, a
///   row replaces every row that it shares a unique value with.
/// - That holds for a plan in *ranged* mode, too, after the target has got its
///   unique indexes: the engine then copies with `again` only, and changes that
///   were dispatched before may put rows into the range meanwhile.
/// - `copy_keys` does the same for the rows of a list of keys: they are removed
///   and copied in one transaction, and a copied row replaces every row that it
///   shares a unique value with.
/// - `apply` brings every key of the batch to its image, in one transaction,
///   and returns when it is committed. Applying a batch again changes nothing.
/// - Both are all or nothing, and are repeated by the sink itself after a
///   deadlock, a lock wait timeout or a lost connection.
/// - When an error is returned, or the future is dropped, the work may or may
///   not have been done: repeat it, `copy` with `again`.
/// - No row is ever left out to avoid an error.
pub trait RowSink: Send + Sync {
    /// Copies the rows of a range.
    fn copy(
        &self,
        range: &KeyRange,
        again: bool,
    ) -> impl Future<Output = Result<CopiedRows, CopyError>> + Send;

    /// Removes the rows of `keys` from the target and copies those that the
    /// source has.
    fn copy_keys(&self, keys: &[Key])
    -> impl Future<Output = Result<CopiedRows, CopyError>> + Send;

    /// Applies changes.
    fn apply(&self, batch: &Batch) -> impl Future<Output = Result<Applied, CopyError>> + Send;
}

/// What a chunk held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a chunk's count")]
pub struct CopiedRows {
    /// The rows read from the source.
    pub rows: u64,
}

/// What a batch held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a batch's counts")]
pub struct Applied {
    /// The keys whose row was written.
    pub upserts: usize,
    /// The keys whose row was removed, whether it was there or not.
    pub deletes: usize,
}

/// A [`RowSink`] for a target beside its source on one server: rows never
/// leave it.
#[derive(Debug)]
pub struct SelectSink {
    connections: Arc<Connections>,
    plan: CopyPlan,
    statements: Statements,
    /// Whether a written row may take no other row's place.
    exclusive: AtomicBool,
    /// Held by chunks together, and by each batch alone, where a chunk and a
    /// batch would each write a row of the same key.
    turns: Option<RwLock<()>>,
}

impl SelectSink {
    /// Prepares to write by `plan`, in sessions of `connections`.
    #[must_use]
    pub fn new(connections: Arc<Connections>, plan: CopyPlan) -> Self {
        let statements = Statements::new(&plan);
        let exclusive = AtomicBool::new(plan.is_exclusive());
        let removes = plan.mode() == Mode::Ordered && plan.meeting() != Meeting::Replaces;
        Self {
            connections,
            plan,
            statements,
            exclusive,
            turns: removes.then(RwLock::default),
        }
    }

    /// From now on a row that meets another one over a unique index is an
    /// error, where it has taken the other one's place up to now.
    ///
    /// To be called once the target has a unique index that no unique index of
    /// the source implies: the source may hold two rows for it, of which one
    /// would vanish. Batches must then be applied one after the other. A value
    /// that travels from row to row over more than one batch is refused too.
    pub fn set_exclusive(&self) {
        self.exclusive.store(true, Ordering::Relaxed);
    }

    fn meeting(&self) -> Meeting {
        if self.exclusive.load(Ordering::Relaxed) {
            return Meeting::Exclusive;
        }
        self.plan.meeting()
    }

    /// Applies changes on a connection of the caller's, which may hold
    /// `LOCK TABLES` on the target: they stay.
    ///
    /// Not repeated: on an error the transaction is rolled back, and the caller
    /// decides. Not cancel-safe: drop the connection with the future.
    ///
    /// # Errors
    ///
    /// [`CopyError`] as [`RowSink::apply`], and when it takes longer than a
    /// statement may.
    pub async fn apply_on(&self, conn: &mut Conn, batch: &Batch) -> Result<Applied, CopyError> {
        let limit = self.connections.limits().statement;
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
        let done = match unit.write(conn, (bytes, usize::MAX)).await {
            Ok(applied) => conn.query_drop("COMMIT").await.map(|()| applied),
            Err(error) => {
                conn.query_drop("ROLLBACK").await?;
                Err(error)
            }
        };
        conn.query_drop("SET autocommit = 1").await?;
        done
    }

    const fn batch<'a>(&'a self, batch: &'a Batch) -> ApplyUnit<'a> {
        ApplyUnit { sink: self, batch }
    }
}

impl RowSink for SelectSink {
    async fn copy(&self, range: &KeyRange, again: bool) -> Result<CopiedRows, CopyError> {
        let _turn = match &self.turns {
            Some(turns) => Some(turns.read().await),
            None => None,
        };
        let unit = CopyUnit {
            sink: self,
            range,
            again,
        };
        fault::run(&self.connections, &unit).await
    }

    async fn copy_keys(&self, keys: &[Key]) -> Result<CopiedRows, CopyError> {
        if keys.is_empty() {
            return Ok(CopiedRows::default());
        }
        self.connections.run(&KeysUnit { sink: self, keys }).await
    }

    async fn apply(&self, batch: &Batch) -> Result<Applied, CopyError> {
        if batch.changes.is_empty() {
            return Ok(Applied::default());
        }
        let _turn = match &self.turns {
            Some(turns) => Some(turns.write().await),
            None => None,
        };
        fault::run(&self.connections, &self.batch(batch)).await
    }
}

/// Large enough that statements are few, small enough for any server.
const APPLY_BYTES_MAX: usize = 4 << 20;
