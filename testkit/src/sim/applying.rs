//! The steps of applying batches.

use oxferry_copier::engine::BatchId;

use super::{
    Failure, Fault, Invariant,
    row::RowChange,
    world::{Applying, World},
};

impl World {
    /// Begins to apply a batch.
    pub(super) fn start_batch(
        &mut self,
        id: BatchId,
        changes: Vec<RowChange>,
    ) -> Result<(), Failure> {
        let checked = self.job.watch.check_batch(id, &changes);
        self.rule(checked)?;
        let is_sorted = changes.is_sorted_by(|a, b| a.key < b.key);
        if changes.len() > self.params.config.batch_rows_max || !is_sorted {
            self.rule(Err(Failure::new(
                Invariant::I8,
                format!("batch {changes:?} is too large or not in key order"),
            )))?;
        }
        self.stats.batches += 1;
        if self.faults.has(Fault::BatchReportedEarly) {
            self.job.engine.handle_batch_applied(id);
        }
        self.job.batches.push(Applying {
            id,
            rest: changes.clone(),
            changes,
        });
        Ok(())
    }

    /// Goes on with one of the batches in flight.
    pub(super) fn apply(&mut self) {
        self.redo();
        if self.job.batches.is_empty() {
            return;
        }
        let index = self.rng.usize(..self.job.batches.len());
        if self.rng.u8(..20) == 0 {
            // A deadlock, or a lost connection: the whole batch is tried again.
            self.lose_batch(index);
        }
        loop {
            let rest = &mut self.job.batches[index].rest;
            if rest.is_empty() {
                break;
            }
            let change = rest.swap_remove(self.rng.usize(..rest.len()));
            self.put(change);
            if !self.params.whole_writes {
                return;
            }
        }
        let batch = self.job.batches.swap_remove(index);
        self.job.watch.note_applied(batch.id);
        if !self.faults.has(Fault::BatchReportedEarly) {
            self.job.engine.handle_batch_applied(batch.id);
        }
    }

    /// Applies one change.
    pub(super) fn put(&mut self, change: RowChange) {
        self.target.replace(change);
        self.damaged.remove(&(change.table, change.key));
        self.stats.applied += 1;
    }
}
