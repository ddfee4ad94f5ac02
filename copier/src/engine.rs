//! The copy algorithm of ARCHITECTURE.md as a state machine without IO.
//!
//! The caller owns every connection, task and clock. It feeds [`Engine`] with
//! what the binlog stream and the range look-ups bring, does what
//! [`Engine::poll`] returns, and reports when that is done:
//!
//! ```
//! use oxferry_copier::{KeyedChange, engine::*};
//! use oxferry_schema::{Key, KeyPart, KeyRange};
//!
//! let mut engine = Engine::new(EngineConfig::default(), vec![TablePlan::new(Mode::Ranged)]);
//! let table = engine.wanted_range().unwrap();
//! engine.handle_range(table, KeyRange::ALL);
//! engine.handle_ranges_exhausted(table);
//!
//! let Some(Action::Barrier { id }) = engine.poll() else { panic!() };
//! engine.handle_barrier_passed(id);
//! let Some(Action::Copy { chunk, .. }) = engine.poll() else { panic!() };
//!
//! let key = Key::new([KeyPart::Int(7)]);
//! engine.handle_change(TxnSeq(1), table, KeyedChange { key, image: None });
//! engine.handle_commit(TxnSeq(1));
//! assert_eq!(engine.poll(), None, "the change waits for its chunk");
//!
//! engine.handle_chunk_copied(chunk, 1_000);
//! assert!(matches!(engine.poll(), Some(Action::Apply { .. })));
//! ```
//!
//! # Rules
//!
//! - A chunk is *open* from before its barrier starts until its rows are on
//!   the target. It opens only when no transaction that has touched its table
//!   is dispatched in part.
//! - One barrier serves all chunks that were open when it started; while one
//!   is running, chunks that open wait for the next.
//! - *Ranged* tables: a change to a key that no chunk has covered yet is
//!   thrown away; one in an open chunk waits for it; a newer change of a key
//!   in flight waits for the batch. Nothing else waits.
//! - *Ordered* tables: changes wait for every chunk that was open when they
//!   were dispatched, first come, first served. They are given out in rounds,
//!   each cut at one moment out of changes that wait for the same chunks: its
//!   deletes first, then its upserts; the next round follows when all of it is
//!   done. A repair has the table to itself.
//! - Where only the server can order the keys ([`KeyOrder::Server`]), no two
//!   keys are compared but for being the same.

mod buffer;
mod chunks;
mod coverage;
mod ledger;
mod machine;
mod ordered;
mod ranged;
mod ranges;
mod segments;
mod table;
#[cfg(test)]
mod tests;

use oxferry_schema::{Key, KeyRange};

use crate::Batch;

pub use machine::Engine;

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

/// Who knows the order of a table's keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyOrder {
    /// The client too: it tells in which range a key lies, on both sides.
    #[default]
    Client,
    /// The server alone, or the target orders them in another way. Two keys
    /// that differ here may be one key there, such as `'a'` and `'A'`.
    Server,
}

/// Rows to copy once more: a comparison found them different.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever repairs handles both")]
pub enum Repair {
    /// All rows of a range.
    Range(KeyRange),
    /// The rows that have one of these keys, on either side.
    Keys(Vec<Key>),
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
        /// Whether the range is emptied first on the target, in the same
        /// transaction as the copy.
        ///
        /// Never in a transaction of its own: an older checkpoint may call the
        /// range closed, and a crash in between would leave it empty for good.
        ///
        /// True after a resume in *ranged* mode, and for every repair, in both
        /// modes: a repair also takes away rows that the source doesn't have.
        /// With it, copied rows replace those that they share a unique value
        /// with, in both modes.
        ///
        /// Where it is false in *ranged* mode the target holds no row of the
        /// range, so a plain insert can't meet one; in *ordered* mode it may
        /// hold some, which the copied rows replace.
        again: bool,
    },
    /// Remove the rows of these keys from the target and copy those that the
    /// source has, in one transaction, then call `handle_chunk_copied`: a
    /// repair.
    CopyKeys {
        /// Which chunk.
        chunk: ChunkId,
        /// Its table.
        table: TableId,
        /// The keys.
        keys: Vec<Key>,
    },
    /// Apply a batch in one transaction, its deletes first, then call `handle_batch_applied`.
    Apply {
        /// Which batch.
        id: BatchId,
        /// Its table.
        table: TableId,
        /// What to apply.
        batch: Batch,
    },
}

/// The engine's limits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineConfig {
    /// How many chunks are copied at once, at least 1.
    pub copy_slots: usize,
    /// How many batches are applied at once, at least 1.
    pub apply_slots: usize,
    /// How many changes a batch holds at most, at least 1.
    pub batch_rows_max: usize,
    /// How much memory a batch's changes take at most, in bytes. One change
    /// that is larger makes a batch alone.
    pub batch_bytes_max: u64,
    /// How many changes are held at most before the stream has to wait.
    pub buffer_rows_max: u64,
    /// How much memory held changes take at most before the stream has to
    /// wait, in bytes, about.
    pub buffer_bytes_max: u64,
    /// How many chunks are open ahead of those being copied: enough to keep
    /// the slots busy while a barrier is waited for. Changes wait for these
    /// chunks, and a throttle can't stop them any more.
    pub chunks_ready_max: usize,
    /// Whether ranges are looked up table after table, in the job's order; else
    /// each table has its turn.
    pub in_order: bool,
    /// Whether no batch begins while a transaction has been dispatched in part,
    /// unless the buffer is full: its rows may exchange unique values that the
    /// target knows and the source doesn't.
    pub whole_transactions: bool,
}

impl Default for EngineConfig {
    /// Fits a server with a few cores: four connections each way, batches of
    /// a thousand rows or 4 MiB, 64 MiB of changes.
    fn default() -> Self {
        Self {
            copy_slots: 4,
            apply_slots: 4,
            batch_rows_max: 1_000,
            batch_bytes_max: 4 << 20,
            buffer_rows_max: 1_000_000,
            buffer_bytes_max: 64 << 20,
            chunks_ready_max: 2,
            in_order: false,
            whole_transactions: false,
        }
    }
}

/// How one table of the job begins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TablePlan {
    /// How the table is copied.
    pub mode: Mode,
    /// Who knows the order of its keys; the client must, in *ranged* mode.
    pub order: KeyOrder,
    /// The ranges that are on the target already, out of a checkpoint: in key
    /// order, no two of which touch.
    pub closed: Vec<KeyRange>,
    /// Whether this is not the first run, so that rows of the other ranges may
    /// stand on the target, too.
    pub resumed: bool,
}

impl TablePlan {
    /// Plans a table whose target is empty.
    #[must_use]
    pub const fn new(mode: Mode) -> Self {
        Self {
            mode,
            order: KeyOrder::Client,
            closed: Vec::new(),
            resumed: false,
        }
    }

    /// Plans a table that a run before this one has begun.
    #[must_use]
    pub const fn resume(mode: Mode, closed: Vec<KeyRange>) -> Self {
        Self {
            mode,
            order: KeyOrder::Client,
            closed,
            resumed: true,
        }
    }

    /// Says who knows the order of the table's keys: the client, unless this
    /// says otherwise.
    #[must_use]
    pub const fn ordered_by(mut self, order: KeyOrder) -> Self {
        self.order = order;
        self
    }
}

/// How far one table is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableProgress {
    /// Rows copied in this run, those copied once more included.
    pub rows_copied: u64,
    /// Changes that the stream brought.
    pub changes_dispatched: u64,
    /// Changes thrown away, as a chunk was still to read their keys.
    pub changes_discarded: u64,
    /// Changes applied, after those of one key were drawn together.
    pub changes_applied: u64,
    /// The ranges that are on the target, in key order, no two of which touch.
    pub closed: Vec<KeyRange>,
}

/// What the caller is doing for the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InFlight {
    /// Chunks that are open, those being copied included.
    pub chunks_open: usize,
    /// Chunks being copied.
    pub copies: usize,
    /// Batches being applied.
    pub batches: usize,
    /// Whether a barrier is being waited for.
    pub barrier: bool,
}
