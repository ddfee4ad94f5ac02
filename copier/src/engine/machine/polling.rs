//! What the engine wants done next.

use super::{
    super::{
        Action, BatchId, Repair, TableId,
        buffer::{BatchLimit, Taken},
        chunks::{Chunk, Stage, Wanted},
    },
    BatchInFlight, Engine,
};

impl Engine {
    /// Opens as many of the ranges looked up as may be open at once.
    pub(super) fn open_ranges(&mut self) {
        while self.is_copying && self.chunks.open_count() < self.open_max() {
            let wanted_first = self.wanted_first && self.open_wanted();
            let opened = wanted_first || self.open_repair() || self.open_wanted();
            if !opened {
                return;
            }
        }
    }

    /// Opens the next range, of a table that allows it.
    fn open_wanted(&mut self) -> bool {
        let committed = self.ledger.committed();
        let tables = &self.tables;
        let (repairs, wanted_first) = (&self.chunks.repairs, self.wanted_first);
        // A repair that waits only for open chunks comes before new ones.
        let gives_way = |table: TableId| {
            let state = tables.get(table.0);
            state.is_some_and(|state| {
                let mut ready = repairs
                    .iter()
                    .filter(|repair| repair.table == table && state.may_repair(&repair.what))
                    .filter(|repair| !(repair.by_change && wanted_first));
                state.repairs_alone() && ready.next().is_some()
            })
        };
        let may_open = |wanted: &Wanted| {
            let state = tables.get(wanted.table.0);
            state.is_some_and(|state| state.may_open(committed)) && !gives_way(wanted.table)
        };
        let Some(index) = self.chunks.wanted.iter().position(may_open) else {
            return false;
        };
        let Some(wanted) = self.chunks.wanted.remove(index) else {
            return false;
        };
        self.open(wanted, false);
        self.wanted_first = false;
        true
    }

    /// Opens the first repair, or lets the next one try.
    fn open_repair(&mut self) -> bool {
        let committed = self.ledger.committed();
        let Some(wanted) = self.chunks.repairs.pop_front() else {
            return false;
        };
        let may_open = self.tables.get(wanted.table.0).is_some_and(|state| {
            let is_alone = !state.repairs_alone() || !state.has_open_chunk();
            state.may_open(committed) && state.may_repair(&wanted.what) && is_alone
        });
        if may_open {
            // Where changes never end, what waits must get its turn.
            self.wanted_first = wanted.by_change;
            self.open(wanted, true);
        } else {
            self.chunks.repairs.push_back(wanted);
        }
        may_open
    }

    fn open(&mut self, wanted: Wanted, repair: bool) {
        let Wanted {
            table,
            what,
            by_change,
        } = wanted;
        let Some(state) = self.tables.get_mut(table.0) else {
            return;
        };
        let id = self.chunks.next_id();
        state.open(id, &what, repair);
        let chunk = Chunk {
            table,
            what,
            again: repair || state.copies_again(),
            must_see: self.ledger.committed(),
            after_batch: repair.then_some(BatchId(self.batches_started)),
            by_change,
            stage: Stage::Opened,
        };
        self.chunks.open(id, chunk);
    }

    pub(super) fn poll_copy(&mut self) -> Option<Action> {
        if self.chunks.copying_count() >= self.config.copy_slots {
            return None;
        }
        let batches = &self.batches;
        let oldest = |table| {
            let mut batches = batches.iter();
            batches
                .find(|(_, batch)| batch.table == table)
                .map(|(id, _)| *id)
        };
        let (chunk, state) = self.chunks.start_copy(oldest)?;
        let table = state.table;
        Some(match &state.what {
            // What the source's order says of one key, the target's bounds need
            // not say: where it pads a BINARY further, both are the same there.
            Repair::Range(range)
                if state.again
                    && let Some(key) = range.only_key() =>
            {
                let keys = vec![key.clone()];
                Action::CopyKeys { chunk, table, keys }
            }
            Repair::Range(range) => Action::Copy {
                chunk,
                table,
                range: range.clone(),
                again: state.again,
            },
            Repair::Keys(keys) => Action::CopyKeys {
                chunk,
                table,
                keys: keys.clone(),
            },
        })
    }

    pub(super) fn poll_apply(&mut self) -> Option<Action> {
        let slots_free = self.config.apply_slots.saturating_sub(self.batches.len());
        if !self.is_applying || !self.drained.is_empty() || slots_free == 0 {
            return None;
        }
        if self.config.whole_transactions && self.is_in_transaction() && self.accepts_changes() {
            return None;
        }
        let limit = self.batch_limit();
        while let Some(table) = self.due.pop_front() {
            if let Some(is_due) = self.is_due.get_mut(table.0) {
                *is_due = false;
            }
            let state = self.tables.get_mut(table.0)?;
            if let Some(taken) = state.next_batch(limit, &mut self.ledger) {
                self.mark_due(table);
                return Some(self.start_batch(table, taken));
            }
        }
        None
    }

    fn start_batch(&mut self, table: TableId, taken: Taken) -> Action {
        self.batches_started += 1;
        let id = BatchId(self.batches_started);
        let keys = taken.keys();
        let Taken { batch, weights, .. } = taken;
        self.batches.insert(
            id,
            BatchInFlight {
                table,
                keys,
                weights,
            },
        );
        Action::Apply { id, table, batch }
    }

    /// Puts a table among those that may have something to apply.
    pub(super) fn mark_due(&mut self, table: TableId) {
        if let Some(is_due) = self.is_due.get_mut(table.0)
            && !std::mem::replace(is_due, true)
        {
            self.due.push_back(table);
        }
    }

    pub(super) fn batch_limit(&self) -> BatchLimit {
        BatchLimit {
            rows_max: self.config.batch_rows_max,
            bytes_max: self.config.batch_bytes_max,
        }
    }

    /// Returns how many chunks may be open at once.
    pub(super) fn open_max(&self) -> usize {
        self.config.copy_slots + self.config.chunks_ready_max
    }
}
