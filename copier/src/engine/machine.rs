//! The engine: inputs by `handle_*`, what to do by `poll`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use oxferry_schema::{Key, KeyRange};

use super::{
    Action, BarrierId, BatchId, ChunkId, EngineConfig, InFlight, Repair, TableId, TablePlan,
    TableProgress, TxnSeq,
    chunks::{Chunks, Wanted},
    ledger::{Ledger, Weight},
    table::TableState,
};
use crate::{Batch, KeyedChange};

mod polling;

/// Decides what is copied and applied, and when; see the
/// [module's documentation](super).
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    tables: Vec<TableState>,
    ledger: Ledger,
    chunks: Chunks,
    /// Tables that have ranges left to look up.
    unfinished: BTreeSet<TableId>,
    /// Where the search for the next table to look up begins.
    turn: TableId,
    /// Whether the next chunk to open is one that waits, before any repair that a
    /// change is the cause of.
    wanted_first: bool,
    /// Tables that may have a batch to apply.
    due: VecDeque<TableId>,
    is_due: Vec<bool>,
    batches: BTreeMap<BatchId, BatchInFlight>,
    batches_started: u64,
    /// What `drain` handed out, until it is applied.
    drained: Vec<Weight>,
    is_copying: bool,
    is_applying: bool,
}

/// A batch that the caller is applying.
#[derive(Debug)]
struct BatchInFlight {
    table: TableId,
    keys: Vec<Key>,
    weights: Vec<Weight>,
}

impl Engine {
    /// Begins a job; `tables` are what [`TableId`]s count.
    #[must_use]
    pub fn new(config: EngineConfig, tables: Vec<TablePlan>) -> Self {
        Self {
            config,
            ledger: Ledger::default(),
            chunks: Chunks::default(),
            unfinished: (0..tables.len()).map(TableId).collect(),
            turn: TableId(0),
            wanted_first: false,
            due: VecDeque::new(),
            is_due: vec![false; tables.len()],
            batches: BTreeMap::new(),
            batches_started: 0,
            drained: Vec::new(),
            is_copying: true,
            is_applying: true,
            tables: tables.into_iter().map(TableState::new).collect(),
        }
    }

    /// Takes one change of transaction `seq`, in binlog order.
    ///
    /// Call it only while [`accepts_changes`](Self::accepts_changes) says so;
    /// the two halves of an update that changes the key may come together.
    ///
    /// # Panics
    ///
    /// When `seq` is not later than every committed one, or `table` is none of the
    /// job's: going on would lose the change.
    pub fn handle_change(&mut self, seq: TxnSeq, table: TableId, change: KeyedChange) {
        assert!(
            seq > self.ledger.committed(),
            "a change of transaction {} came after the end of {}",
            seq.0,
            self.ledger.committed().0
        );
        let state = self.tables.get_mut(table.0);
        let state = state.expect("a change belongs to a table of the job");
        state.handle_change(seq, change, &mut self.ledger);
        self.ledger.change(seq);
        self.mark_due(table);
    }

    /// Notes that transaction `seq` has been dispatched to its end.
    ///
    /// Only here do chunks open, so [`poll`](Self::poll) after each of these.
    pub fn handle_commit(&mut self, seq: TxnSeq) {
        self.ledger.commit(seq);
    }

    /// Takes the next range of a table, in key order and without gaps but for
    /// the ranges that were closed at the start.
    pub fn handle_range(&mut self, table: TableId, range: KeyRange) {
        if !self.config.in_order {
            self.turn = TableId(table.0 + 1);
        }
        self.chunks.wanted.push_back(Wanted {
            table,
            what: Repair::Range(range),
            by_change: false,
        });
    }

    /// Notes that a table has no further ranges.
    pub fn handle_ranges_exhausted(&mut self, table: TableId) {
        self.unfinished.remove(&table);
    }

    /// Notes that what was dispatched before a barrier is visible.
    pub fn handle_barrier_passed(&mut self, id: BarrierId) {
        self.chunks.handle_barrier_passed(id);
    }

    /// Notes that the rows of a chunk are committed on the target.
    ///
    /// # Panics
    ///
    /// When the chunk is not being copied: its changes would be applied too
    /// early.
    pub fn handle_chunk_copied(&mut self, id: ChunkId, rows: u64) {
        let chunk = self.chunks.close(id);
        let chunk = chunk.expect("only a chunk that is being copied can be done");
        if let Some(state) = self.tables.get_mut(chunk.table.0) {
            state.close(id, chunk.what, rows);
        }
        self.mark_due(chunk.table);
    }

    /// Notes that a batch is committed on the target.
    ///
    /// # Panics
    ///
    /// When the batch is not in flight: later changes would be applied too
    /// early.
    pub fn handle_batch_applied(&mut self, id: BatchId) {
        let batch = self.batches.remove(&id);
        let batch = batch.expect("only a batch in flight can be applied");
        for weight in batch.weights {
            self.ledger.remove(weight);
        }
        if let Some(state) = self.tables.get_mut(batch.table.0) {
            state.handle_applied(&batch.keys);
        }
        self.mark_due(batch.table);
    }

    /// Notes that unique indexes now stand on a *ranged* table's target: from
    /// here on the rules of *ordered* mode hold for it.
    ///
    /// Its sink still has a plan in *ranged* mode, and that is right: every
    /// range is closed, so whatever is copied from here on is a repair, with
    /// `again`, which empties the range and replaces rows in either mode.
    ///
    /// # Panics
    ///
    /// When a chunk or a batch of the table is under way: the index could not
    /// have been built at a consistent point.
    pub fn handle_indexes_built(&mut self, table: TableId) {
        let Some(state) = self.tables.get_mut(table.0) else {
            return;
        };
        assert!(
            !state.has_open_chunk() && !state.is_applying(),
            "unique indexes can be built only while nothing is under way"
        );
        state.become_ordered();
    }

    /// Copies rows once more that a comparison found different.
    ///
    /// A range waits until the whole of it is closed, where the client can
    /// tell. In *ranged* mode each key is a range of its own, which its changes
    /// wait for, and is copied by [`Action::CopyKeys`]. In *ordered* mode
    /// a repair waits for all open chunks and for the batches in flight, and
    /// until it is done no other chunk opens and no batch is given out.
    pub fn repair(&mut self, table: TableId, what: Repair) {
        self.read_again(table, what, false);
    }

    /// As [`repair`](Self::repair), of keys that a change to another table is the
    /// cause of: the copy is complete without them, and chunks that wait take
    /// turns with them.
    pub fn repair_by_change(&mut self, table: TableId, keys: Vec<Key>) {
        self.read_again(table, Repair::Keys(keys), true);
    }

    fn read_again(&mut self, table: TableId, what: Repair, by_change: bool) {
        let is_ranged = self
            .tables
            .get(table.0)
            .is_some_and(|state| !state.repairs_alone());
        match what {
            Repair::Keys(keys) if is_ranged => {
                let ranges = keys.into_iter().map(|key| Wanted {
                    table,
                    what: Repair::Range(KeyRange {
                        upper: key.successor(),
                        lower: Some(key),
                    }),
                    by_change,
                });
                self.chunks.repairs.extend(ranges);
            }
            what => self.chunks.repairs.push_back(Wanted {
                table,
                what,
                by_change,
            }),
        }
    }

    /// Stops (or starts again) opening chunks; open ones are finished, since
    /// changes wait for them.
    pub fn set_copying(&mut self, on: bool) {
        self.is_copying = on;
    }

    /// Stops (or starts again) giving out batches; those in flight finish.
    pub fn set_applying(&mut self, on: bool) {
        self.is_applying = on;
    }

    /// Returns the next thing to do, or `None` until something is reported.
    ///
    /// Everything returned is under way from now on, within the slots that
    /// the configuration allows.
    pub fn poll(&mut self) -> Option<Action> {
        self.open_ranges();
        let committed = self.ledger.committed();
        if let Some(id) = self.chunks.start_barrier(committed) {
            return Some(Action::Barrier { id });
        }
        self.poll_copy().or_else(|| self.poll_apply())
    }

    /// Hands out everything that is buffered, as batches to apply one after
    /// the other; then call [`handle_drained`](Self::handle_drained).
    ///
    /// Returns `None` while a chunk is open, a batch in flight, or a drain not
    /// reported yet: nothing may be overtaken. Until it is reported, no batch
    /// is given out, and the resume position stays before what was drained.
    /// Where applying it has failed, apply it again, or resume the job from
    /// its checkpoint.
    pub fn drain(&mut self) -> Option<Vec<(TableId, Batch)>> {
        if self.chunks.open_count() > 0 || !self.batches.is_empty() || !self.drained.is_empty() {
            return None;
        }
        let limit = self.batch_limit();
        let mut batches = Vec::new();
        for (index, state) in self.tables.iter_mut().enumerate() {
            while let Some(taken) = state.next_batch(limit, &mut self.ledger) {
                let keys: Vec<_> = taken.keys();
                state.handle_applied(&keys);
                self.drained.extend(taken.weights);
                batches.push((TableId(index), taken.batch));
            }
        }
        Some(batches)
    }

    /// Notes that all that [`drain`](Self::drain) returned is committed on the
    /// target.
    pub fn handle_drained(&mut self) {
        for weight in std::mem::take(&mut self.drained) {
            self.ledger.remove(weight);
        }
    }

    /// Returns whether a transaction has been dispatched in part.
    pub(super) fn is_in_transaction(&self) -> bool {
        self.ledger.is_in_transaction()
    }

    /// Returns whether there is room for a change; if not, the stream waits.
    #[must_use]
    pub fn accepts_changes(&self) -> bool {
        self.ledger.rows() < self.config.buffer_rows_max
            && self.ledger.bytes() < self.config.buffer_bytes_max
    }

    /// Returns a table of which another range should be looked up.
    ///
    /// One look-up at a time: the answer stays the same until a range comes.
    #[must_use]
    pub fn wanted_range(&self) -> Option<TableId> {
        let ahead = self.chunks.wanted.len() + self.chunks.open_count();
        if !self.is_copying || ahead >= self.open_max() {
            return None;
        }
        let next = self.unfinished.range(self.turn..).next();
        next.or_else(|| self.unfinished.first()).copied()
    }

    /// Returns the first transaction that is not wholly on the target: where
    /// a stream has to begin again, never inside a transaction.
    #[must_use]
    pub fn resume_seq(&self) -> TxnSeq {
        self.ledger.resume_seq()
    }

    /// Returns whether a change is held that begins with transaction `seq`, so
    /// that [`resume_seq`](Self::resume_seq) may come to be `seq`.
    #[must_use]
    pub fn begins_with(&self, seq: TxnSeq) -> bool {
        self.ledger.begins_with(seq)
    }

    /// Returns the last transaction up to which all is on the target.
    #[must_use]
    pub fn settled_through(&self) -> TxnSeq {
        TxnSeq(self.resume_seq().0.saturating_sub(1))
    }

    /// Returns the last transaction that has been dispatched to its end.
    #[must_use]
    pub fn dispatched(&self) -> TxnSeq {
        self.ledger.committed()
    }

    /// Returns the last transaction of which anything has been dispatched,
    /// to its end or in part.
    ///
    /// Whoever waits until all that he was told of is applied waits for this
    /// one: a part of a transaction is told of, too.
    #[must_use]
    pub fn begun(&self) -> TxnSeq {
        let touched = self.tables.iter().map(TableState::last_touched);
        touched.fold(self.dispatched(), TxnSeq::max)
    }

    /// Returns whether every range of every table is on the target.
    #[must_use]
    pub fn is_copied(&self) -> bool {
        self.unfinished.is_empty() && self.chunks.is_copied()
    }

    /// Returns whether nothing is buffered and nothing under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.ledger.rows() == 0 && self.batches.is_empty() && self.chunks.open_count() == 0
    }

    /// Returns what is under way.
    #[must_use]
    pub fn in_flight(&self) -> InFlight {
        InFlight {
            chunks_open: self.chunks.open_count(),
            copies: self.chunks.copying_count(),
            batches: self.batches.len(),
            barrier: self.chunks.has_barrier(),
        }
    }

    /// Returns how many changes are held, those in flight included.
    #[must_use]
    pub fn buffered_rows(&self) -> u64 {
        self.ledger.rows()
    }

    /// Returns about how much memory the held changes take, in bytes.
    #[must_use]
    pub fn buffered_bytes(&self) -> u64 {
        self.ledger.bytes()
    }

    /// Returns whether a change to `key` is held, in flight included; what
    /// was drained is not looked at.
    ///
    /// Goes through the batches in flight one change at a time: for single
    /// keys, such as those that a comparison found different.
    #[must_use]
    pub fn is_unapplied(&self, table: TableId, key: &Key) -> bool {
        let held = self
            .tables
            .get(table.0)
            .is_some_and(|state| state.holds(key));
        held || self
            .batches
            .values()
            .any(|batch| batch.table == table && batch.keys.contains(key))
    }

    /// Returns how far a table is, `None` if it is none of the job's.
    #[must_use]
    pub fn progress(&self, table: TableId) -> Option<TableProgress> {
        self.tables.get(table.0).map(TableState::progress)
    }

    /// Returns the repair that has a table to itself, if there is one: only an
    /// *ordered* table's.
    #[must_use]
    pub fn repair_under_way(&self, table: TableId) -> Option<ChunkId> {
        let state = self.tables.get(table.0)?;
        state.repairing()
    }

    /// Returns the ranges of a table that are open, in key order.
    ///
    /// Repairs are not among them where the client can't order the keys.
    pub fn open_chunks(&self, table: TableId) -> impl Iterator<Item = (ChunkId, KeyRange)> + '_ {
        let state = self.tables.get(table.0);
        state.into_iter().flat_map(TableState::open_ranges)
    }
}
