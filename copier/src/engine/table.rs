//! One table's part of the engine's state.

use std::collections::VecDeque;

use oxferry_schema::{Key, KeyRange};

use super::{
    ChunkId, Mode, TablePlan, TableProgress, TxnSeq,
    buffer::{BatchLimit, Buffer, Taken},
    ledger::Ledger,
    ranges::{RangeMap, RangeSet},
};
use crate::KeyedChange;

/// What the engine knows of a table.
#[derive(Debug)]
pub(super) struct TableState {
    mode: Mode,
    /// Whether rows of ranges that are not closed may stand on the target.
    resumed: bool,
    closed: RangeSet,
    open: RangeMap<ChunkId>,
    /// The last chunk opened, or 0.
    last_opened: ChunkId,
    /// The last transaction that brought a change of this table.
    last_touched: TxnSeq,
    buffer: Buffer,
    /// Batches taken at one moment, not given out yet.
    wave: VecDeque<Taken>,
    batches_in_flight: usize,
    rows_copied: u64,
    changes_dispatched: u64,
    changes_discarded: u64,
    changes_applied: u64,
}

impl TableState {
    /// Begins a table as planned.
    pub(super) fn new(plan: TablePlan) -> Self {
        let mut closed = RangeSet::default();
        for range in plan.closed {
            closed.insert(range);
        }
        Self {
            mode: plan.mode,
            resumed: plan.resumed,
            closed,
            open: RangeMap::default(),
            last_opened: ChunkId(0),
            last_touched: TxnSeq(0),
            buffer: Buffer::new(plan.mode),
            wave: VecDeque::new(),
            batches_in_flight: 0,
            rows_copied: 0,
            changes_dispatched: 0,
            changes_discarded: 0,
            changes_applied: 0,
        }
    }

    /// Holds a change, or throws it away where a later chunk will read it.
    pub(super) fn handle_change(&mut self, seq: TxnSeq, change: KeyedChange, ledger: &mut Ledger) {
        self.last_touched = seq;
        self.changes_dispatched += 1;
        if self.is_unread(&change.key) {
            self.changes_discarded += 1;
        } else {
            self.buffer.put(change, seq, self.last_opened, ledger);
        }
    }

    /// Returns whether a chunk may open now.
    ///
    /// A chunk's barrier covers transactions that have ended. Changes of one
    /// that has not were dispatched as if no chunk were open: thrown away, or
    /// queued to be applied before the chunk's older rows. So the chunk waits
    /// for the end of a transaction that has touched the table.
    pub(super) fn may_open(&self, committed: TxnSeq) -> bool {
        self.last_touched <= committed
    }

    /// Returns the last transaction that brought a change of the table.
    pub(super) const fn last_touched(&self) -> TxnSeq {
        self.last_touched
    }

    /// Returns whether `range` may be copied once more now.
    pub(super) fn may_repair(&self, range: &KeyRange) -> bool {
        self.closed.covers(range) && !self.open.overlaps(range)
    }

    /// Opens a chunk: from now on changes wait for it.
    pub(super) fn open(&mut self, chunk: ChunkId, range: KeyRange) {
        self.closed.remove(&range);
        self.open.insert(range, chunk);
        self.last_opened = chunk;
    }

    /// Closes a chunk whose rows are on the target.
    pub(super) fn close(&mut self, chunk: ChunkId, range: KeyRange, rows: u64) {
        self.open.remove(range.lower.as_ref());
        self.closed.insert(range);
        self.rows_copied += rows;
        self.buffer.handle_chunk_closed(chunk);
    }

    /// Returns the next batch that may be applied now.
    pub(super) fn next_batch(
        &mut self,
        limit: BatchLimit,
        slots_free: usize,
        ledger: &mut Ledger,
    ) -> Option<Taken> {
        let may_take = self.mode == Mode::Ranged || self.batches_in_flight == 0;
        if self.wave.is_empty() && may_take {
            self.wave = self
                .buffer
                .take(limit, slots_free, &self.open, ledger)
                .into();
        }
        let next = self.wave.pop_front()?;
        self.batches_in_flight += 1;
        Some(next)
    }

    /// Notes that a batch of `count` changes to `keys` is on the target.
    pub(super) fn handle_applied(&mut self, keys: &[Key]) {
        self.batches_in_flight -= 1;
        self.changes_applied += u64::try_from(keys.len()).unwrap_or(u64::MAX);
        self.buffer.handle_applied(keys);
    }

    /// Goes on by the rules of *ordered* mode.
    pub(super) fn become_ordered(&mut self) {
        self.mode = Mode::Ordered;
        let Buffer::Ranged(ranged) = &mut self.buffer else {
            return;
        };
        let entries = std::mem::take(ranged).into_entries();
        self.buffer = Buffer::Ordered(super::ordered::OrderedBuffer::holding(
            entries,
            self.last_opened,
        ));
    }

    /// Returns whether rows of a range not copied yet may be on the target.
    pub(super) fn copies_again(&self) -> bool {
        self.resumed && self.mode == Mode::Ranged
    }

    /// Returns whether a chunk is open.
    pub(super) fn has_open_chunk(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns the open chunks in key order.
    pub(super) fn open_chunks(&self) -> impl Iterator<Item = (ChunkId, KeyRange)> + '_ {
        self.open.values().copied().zip(self.open.ranges())
    }

    /// Returns whether a batch is in flight or about to be.
    pub(super) fn is_applying(&self) -> bool {
        self.batches_in_flight > 0 || !self.wave.is_empty()
    }

    /// Returns whether a change to `key` is buffered.
    pub(super) fn holds(&self, key: &Key) -> bool {
        let in_wave = |taken: &Taken| taken.batch.changes.iter().any(|change| change.key == *key);
        self.buffer.contains(key) || self.wave.iter().any(in_wave)
    }

    /// Returns how far the table is.
    pub(super) fn progress(&self) -> TableProgress {
        TableProgress {
            rows_copied: self.rows_copied,
            changes_dispatched: self.changes_dispatched,
            changes_discarded: self.changes_discarded,
            changes_applied: self.changes_applied,
            closed: self.closed.to_vec(),
        }
    }

    /// Returns whether a chunk that opens later will read `key`.
    fn is_unread(&self, key: &Key) -> bool {
        self.mode == Mode::Ranged && !self.closed.contains(key) && self.open.find(key).is_none()
    }
}
