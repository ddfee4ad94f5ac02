//! The steps of applying batches.

use fastrand::Rng;
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
        if self.is_reported_early(&changes) {
            self.job.engine.handle_batch_applied(id);
        }
        if self.faults.has(Fault::DeletesOvertaken) {
            self.finish_same_keys(&changes);
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
            let change = take_next(&mut self.rng, rest);
            self.put(change);
            if !self.params.whole_writes {
                return;
            }
        }
        let batch = self.job.batches.swap_remove(index);
        self.job.watch.note_applied(batch.id);
        if !self.is_reported_early(&batch.changes) {
            self.job.engine.handle_batch_applied(batch.id);
        }
    }

    /// Applies what was called applied already and is not yet, of these very
    /// keys: other spellings of them are left.
    fn finish_same_keys(&mut self, changes: &[RowChange]) {
        let is_same = |held: &mut RowChange| {
            let mut changes = changes.iter();
            changes.any(|change| (change.table, change.key) == (held.table, held.key))
        };
        let batches = self.job.batches.iter_mut();
        let due: Vec<_> = batches
            .flat_map(|batch| batch.rest.extract_if(.., is_same).collect::<Vec<_>>())
            .collect();
        for change in due {
            self.put(change);
        }
    }

    /// Returns whether a broken rule calls a batch applied before it is.
    fn is_reported_early(&self, changes: &[RowChange]) -> bool {
        let deletes = changes.iter().all(|change| change.image.is_none());
        self.faults.has(Fault::BatchReportedEarly)
            || self.faults.has(Fault::DeletesOvertaken) && deletes
    }

    /// Applies one change.
    pub(super) fn put(&mut self, change: RowChange) {
        self.target.replace(change);
        self.damaged.remove(&(change.table, change.key));
        self.stats.applied += 1;
    }
}

/// Takes one of a batch's changes: any of its deletes, then any of its rows.
pub(super) fn take_next(rng: &mut Rng, rest: &mut Vec<RowChange>) -> RowChange {
    let deletes = rest.iter().enumerate().filter(|(_, c)| c.image.is_none());
    let deletes: Vec<usize> = deletes.map(|(at, _)| at).collect();
    let at = rng
        .choice(deletes)
        .unwrap_or_else(|| rng.usize(..rest.len()));
    rest.swap_remove(at)
}
