//! Writing rows and changes to the target.

use std::{future::Future, sync::Arc};

use mysql_async::Conn;
use oxferry_schema::{Key, KeyRange};

use crate::{Batch, Connections, CopyError, CopyPlan};

pub(crate) mod batch;
mod chunk;
pub(crate) mod decide;
pub(crate) mod fault;
pub(crate) mod rows;
pub(crate) mod writer;

use chunk::{CopyUnit, KeysUnit};
use writer::Writer;

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
/// - Where rows belong to an owner in another table, `apply` does for the keys
///   of the batch what `copy_keys` does: images don't tell whose a row is.
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

    /// Returns the keys of the source's rows that name one of `owners`, in the
    /// source's order from `from` on, itself included; `limit` at most.
    ///
    /// There are none where rows have no owners.
    fn keys_of_owners(
        &self,
        _owners: &[Key],
        _from: Option<&Key>,
        _limit: usize,
    ) -> impl Future<Output = Result<Vec<Key>, CopyError>> + Send {
        std::future::ready(Ok(Vec::new()))
    }

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
    writer: Writer,
}

impl SelectSink {
    /// Prepares to write by `plan`, in sessions of `connections`.
    #[must_use]
    pub fn new(connections: Arc<Connections>, plan: CopyPlan) -> Self {
        let writer = Writer::new(plan, None);
        if writer.plan.filter().is_some() {
            // Others' rows of the target must not be replaced.
            writer.set_exclusive();
        }
        Self {
            connections,
            writer,
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
        self.writer.set_exclusive();
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
        self.writer.apply_on(conn, batch, limit).await
    }
}

impl RowSink for SelectSink {
    async fn copy(&self, range: &KeyRange, again: bool) -> Result<CopiedRows, CopyError> {
        let _turn = self.writer.chunk_turn().await;
        let unit = CopyUnit {
            writer: &self.writer,
            range,
            again,
        };
        fault::run(&self.connections, &unit).await
    }

    async fn copy_keys(&self, keys: &[Key]) -> Result<CopiedRows, CopyError> {
        if keys.is_empty() {
            return Ok(CopiedRows::default());
        }
        let writer = &self.writer;
        self.connections.run(&KeysUnit { writer, keys }).await
    }

    async fn apply(&self, batch: &Batch) -> Result<Applied, CopyError> {
        if batch.changes.is_empty() {
            return Ok(Applied::default());
        }
        let _turn = self.writer.batch_turn().await;
        fault::run(&self.connections, &self.writer.batch(batch)).await
    }
}
