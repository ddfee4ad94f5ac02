//! One table's part of the engine's state.

use std::collections::BTreeSet;

use oxferry_schema::{Key, KeyRange};

use super::{
    ChunkId, KeyOrder, Mode, Repair, TablePlan, TableProgress, TxnSeq,
    buffer::{BatchLimit, Buffer, Taken},
    coverage::Coverage,
    ledger::Ledger,
    ordered::OrderedBuffer,
};
use crate::KeyedChange;

/// What the engine knows of a table.
#[derive(Debug)]
pub(super) struct TableState {
    mode: Mode,
    /// Whether rows of ranges that are not closed may stand on the target.
    resumed: bool,
    coverage: Coverage,
    /// The open chunks, repairs among them.
    open: BTreeSet<ChunkId>,
    /// The repair that has an *ordered* table to itself.
    repairing: Option<ChunkId>,
    /// The last chunk opened, or 0.
    last_opened: ChunkId,
    /// The last transaction that brought a change of this table.
    last_touched: TxnSeq,
    buffer: Buffer,
    batches_in_flight: usize,
    rows_copied: u64,
    changes_dispatched: u64,
    changes_discarded: u64,
    changes_applied: u64,
}

impl TableState {
    /// Begins a table as planned.
    ///
    /// # Panics
    ///
    /// When it shall be copied in *ranged* mode, and the client doesn't know
    /// the order of its keys: changes would be lost.
    pub(super) fn new(plan: TablePlan) -> Self {
        assert!(
            plan.mode == Mode::Ordered || plan.order == KeyOrder::Client,
            "ranged mode is for keys that the client can order"
        );
        Self {
            mode: plan.mode,
            resumed: plan.resumed,
            coverage: Coverage::new(plan.order, plan.closed),
            open: BTreeSet::new(),
            repairing: None,
            last_opened: ChunkId(0),
            last_touched: TxnSeq(0),
            buffer: Buffer::new(plan.mode),
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
        self.last_touched <= committed && self.repairing.is_none()
    }

    /// Returns the last transaction that brought a change of the table.
    pub(super) const fn last_touched(&self) -> TxnSeq {
        self.last_touched
    }

    /// Returns whether `what` may be copied once more now, but for chunks that
    /// are open.
    ///
    /// A range must be on the target whole before, where the client can tell.
    pub(super) fn may_repair(&self, what: &Repair) -> bool {
        match what {
            Repair::Range(range) => self.coverage.may_repair(range),
            Repair::Keys(_) => true,
        }
    }

    /// Returns whether a repair has to have the table to itself: in *ordered*
    /// mode no other chunk is open meanwhile, and no batch is given out, so
    /// that nobody writes a row between its being removed and copied.
    pub(super) fn repairs_alone(&self) -> bool {
        self.mode == Mode::Ordered
    }

    /// Returns the repair that has the table to itself.
    pub(super) const fn repairing(&self) -> Option<ChunkId> {
        self.repairing
    }

    /// Opens a chunk: from now on changes wait for it.
    pub(super) fn open(&mut self, chunk: ChunkId, what: &Repair, repair: bool) {
        if let Repair::Range(range) = what {
            self.coverage.open(chunk, range.clone(), repair);
        }
        if repair && self.repairs_alone() {
            self.repairing = Some(chunk);
        }
        self.open.insert(chunk);
        self.last_opened = chunk;
    }

    /// Closes a chunk whose rows are on the target.
    pub(super) fn close(&mut self, chunk: ChunkId, what: Repair, rows: u64) {
        if let Repair::Range(range) = what {
            self.coverage.close(chunk, range);
        }
        self.repairing.take_if(|id| *id == chunk);
        self.open.remove(&chunk);
        self.rows_copied += rows;
        self.buffer.handle_chunk_closed(chunk);
    }

    /// Returns the next batch that may be applied now.
    pub(super) fn next_batch(&mut self, limit: BatchLimit, ledger: &mut Ledger) -> Option<Taken> {
        if self.repairing.is_some() {
            return None;
        }
        let open = (&self.coverage, self.open.first().copied());
        let next = self.buffer.take(limit, open, ledger)?;
        self.batches_in_flight += 1;
        Some(next)
    }

    /// Notes that a batch of changes to `keys` is on the target.
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
        self.buffer = Buffer::Ordered(OrderedBuffer::holding(entries, self.last_opened));
    }

    /// Returns whether rows of a range not copied yet may be on the target.
    pub(super) fn copies_again(&self) -> bool {
        self.resumed && self.mode == Mode::Ranged
    }

    /// Returns whether a chunk is open.
    pub(super) fn has_open_chunk(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns the open ranges in key order; repairs by key have none.
    pub(super) fn open_ranges(&self) -> Vec<(ChunkId, KeyRange)> {
        self.coverage.open_ranges()
    }

    /// Returns whether a batch is in flight.
    pub(super) fn is_applying(&self) -> bool {
        self.batches_in_flight > 0
    }

    /// Returns whether a change to `key` is buffered.
    pub(super) fn holds(&self, key: &Key) -> bool {
        self.buffer.contains(key)
    }

    /// Returns how far the table is.
    pub(super) fn progress(&self) -> TableProgress {
        TableProgress {
            rows_copied: self.rows_copied,
            changes_dispatched: self.changes_dispatched,
            changes_discarded: self.changes_discarded,
            changes_applied: self.changes_applied,
            closed: self.coverage.closed(),
        }
    }

    /// Returns whether a chunk that opens later will read `key`.
    fn is_unread(&self, key: &Key) -> bool {
        self.mode == Mode::Ranged && self.coverage.is_unread(key)
    }
}
