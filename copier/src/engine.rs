//! The copy algorithm of ARCHITECTURE.md as a state machine without IO.

use oxferry_schema::KeyRange;

use crate::Batch;

/// A table of the job, as an index into the job's list of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub usize);

/// A transaction's place in the order of dispatch; the first one is 1.
///
/// Counted by whoever feeds the engine; it means nothing outside one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnSeq(pub u64);

/// A chunk's number, never used twice in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId(pub u64);

/// A barrier's number, never used twice in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BarrierId(pub u64);

/// A batch's number, never used twice in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);

/// How a table is copied; see ARCHITECTURE.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// For keys that the client can order, without a secondary unique key on
    /// the target while rows are copied.
    Ranged,
    /// For every other table.
    Ordered,
}

/// What the engine wants done. The caller does it and reports back.
#[derive(Debug, PartialEq)]
pub enum Action {
    /// Wait until every transaction dispatched up to now is visible to new
    /// snapshots on the source, then call `handle_barrier_passed`.
    Barrier {
        /// Which barrier.
        id: BarrierId,
    },
    /// Copy the rows of a range in one consistent read, then call
    /// `handle_chunk_copied`.
    Copy {
        /// Which chunk.
        chunk: ChunkId,
        /// Its table.
        table: TableId,
        /// The keys to copy.
        range: KeyRange,
        /// Whether the target may hold rows of the range: in *ranged* mode it
        /// is emptied first, in the same transaction as the copy.
        again: bool,
    },
    /// Apply a batch in one transaction, then call `handle_batch_applied`.
    Apply {
        /// Which batch.
        id: BatchId,
        /// Its table.
        table: TableId,
        /// What to apply.
        batch: Batch,
    },
}
