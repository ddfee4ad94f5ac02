//! Watches one run of the engine from the outside, and names the rule that
//! it breaks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use oxferry_copier::engine::{BatchId, ChunkId, Engine, Mode, TableId};
use oxferry_schema::KeyRange;

use super::{
    Failure, Invariant,
    row::{RowChange, key},
};

/// A chunk that was seen open.
#[derive(Debug)]
struct Seen {
    table: usize,
    range: KeyRange,
    /// How many transactions of the log its snapshot has to contain.
    must_see: usize,
    is_written: bool,
}

/// A change that was dispatched, and the chunks that it has to wait for.
#[derive(Debug)]
struct Dispatched {
    image: RowChange,
    waits: Vec<ChunkId>,
}

/// What is known of the run from watching it.
#[derive(Debug, Default)]
pub(super) struct Watch {
    chunks: BTreeMap<ChunkId, Seen>,
    /// Changes that were not applied yet, by key, in binlog order.
    dispatched: BTreeMap<(usize, i64), VecDeque<Dispatched>>,
    in_flight: BTreeMap<BatchId, Vec<(usize, i64)>>,
    busy: BTreeSet<(usize, i64)>,
}

impl Watch {
    /// Notes chunks that have opened when `committed` transactions were
    /// dispatched, and the tables that the one after them has touched.
    pub(super) fn note_open(&mut self, engine: &Engine, committed: usize, touched: &[bool]) {
        for (table, touched) in touched.iter().enumerate() {
            let by_keys = engine.repair_under_way(TableId(table));
            let by_keys = by_keys.map(|id| (id, KeyRange::ALL));
            for (id, range) in engine.open_chunks(TableId(table)).chain(by_keys) {
                self.chunks.entry(id).or_insert_with(|| Seen {
                    table,
                    range,
                    must_see: committed + usize::from(*touched),
                    is_written: false,
                });
            }
        }
    }

    /// Notes a change that goes to the engine.
    pub(super) fn note_change(&mut self, change: RowChange, mode: Mode) {
        let open = self.chunks.iter().filter(|(_, chunk)| {
            !chunk.is_written
                && chunk.table == change.table
                && (mode == Mode::Ordered || chunk.range.contains(&key(change.key)))
        });
        let waits = open.map(|(id, _)| *id).collect();
        let records = self.dispatched.entry((change.table, change.key));
        records.or_default().push_back(Dispatched {
            image: change,
            waits,
        });
    }

    /// Checks that the engine was right to throw a change away.
    ///
    /// # Errors
    ///
    /// I2, when no chunk that opens later covers the key.
    pub(super) fn check_discard(
        &self,
        change: RowChange,
        mode: Mode,
        closed: &[KeyRange],
    ) -> Result<(), Failure> {
        let key = key(change.key);
        let is_open = |chunk: &Seen| chunk.table == change.table && chunk.range.contains(&key);
        let is_read = closed.iter().any(|range| range.contains(&key))
            || self
                .chunks
                .values()
                .any(|chunk| !chunk.is_written && is_open(chunk));
        if mode == Mode::Ordered || is_read {
            return Err(Failure::new(
                Invariant::I2,
                format!("{change:?} was thrown away in {mode:?} mode"),
            ));
        }
        Ok(())
    }

    /// Checks that a chunk's snapshot contains what it has to.
    ///
    /// # Errors
    ///
    /// I1, when it doesn't.
    pub(super) fn check_snapshot(&self, id: ChunkId, visible: usize) -> Result<(), Failure> {
        let must_see = self
            .chunks
            .get(&id)
            .map_or(usize::MAX, |chunk| chunk.must_see);
        if visible < must_see {
            return Err(Failure::new(
                Invariant::I1,
                format!("{id:?} read {visible} transactions and opened after {must_see}"),
            ));
        }
        Ok(())
    }

    /// Notes that a chunk's rows stand on the target.
    pub(super) fn note_written(&mut self, id: ChunkId) {
        if let Some(chunk) = self.chunks.get_mut(&id) {
            chunk.is_written = true;
        }
    }

    /// Checks a batch that is given out.
    ///
    /// # Errors
    ///
    /// I4 when it overtakes an earlier change of a key, I3 when it overtakes
    /// a chunk.
    pub(super) fn check_batch(&mut self, id: BatchId, batch: &[RowChange]) -> Result<(), Failure> {
        for change in batch {
            let place = (change.table, change.key);
            if !self.busy.insert(place) {
                return Err(Failure::new(
                    Invariant::I4,
                    format!("{change:?} is given out while {place:?} is in flight"),
                ));
            }
            let records = self.dispatched.entry(place).or_default();
            let Some(index) = records.iter().position(|record| record.image == *change) else {
                return Err(Failure::new(
                    Invariant::I4,
                    format!("{change:?} is applied after a later change of its key"),
                ));
            };
            let covered: Vec<_> = records.drain(..=index).collect();
            let waits = covered.last().map_or(&[][..], |record| &record.waits);
            let unwritten = waits
                .iter()
                .find(|id| self.chunks.get(id).is_some_and(|chunk| !chunk.is_written));
            if let Some(chunk) = unwritten {
                return Err(Failure::new(
                    Invariant::I3,
                    format!("{change:?} is applied before the rows of {chunk:?}"),
                ));
            }
        }
        let keys = batch.iter().map(|change| (change.table, change.key));
        self.in_flight.insert(id, keys.collect());
        Ok(())
    }

    /// Notes that a batch stands on the target.
    pub(super) fn note_applied(&mut self, id: BatchId) {
        for place in self.in_flight.remove(&id).unwrap_or_default() {
            self.busy.remove(&place);
        }
    }
}
