//! The steps towards the end: comparing, repairing, building indexes, taking
//! over.

use oxferry_copier::engine::{Mode, TableId};

use super::{
    Failure, Fault, Invariant,
    row::{RowChange, SimRow, key, range},
    world::{Job, World},
};

/// Says that source and target were compared and found equal.
#[derive(Debug)]
struct Verified(());

/// So many steps bring every job to its end.
const STEPS_MAX: usize = 200_000;

/// How often each kind of step is taken towards the end.
const EVEN: [u8; 10] = [15, 25, 5, 5, 12, 12, 3, 3, 3, 5];

impl World {
    /// Damages a row on the target behind the job's back.
    pub(super) fn damage(&mut self) {
        let table = self.rng.usize(..self.target.rows.len());
        let closed = self.job.closed(table);
        if !self.params.damages || closed.is_empty() {
            return;
        }
        let k = self.rng.i64(0..self.params.keys);
        if !closed.iter().any(|range| range.contains(&key(k))) {
            return;
        }
        // Unique among all rows, so that no other row is hit.
        let unique = 100 + k;
        let image = self.rng.bool().then_some(SimRow {
            version: -1,
            unique,
        });
        RowChange {
            table,
            key: k,
            image,
        }
        .apply(&mut self.target.rows);
        self.damaged.insert((table, k));
        self.stats.damaged += 1;
    }

    /// Has a part of a closed range copied again in the midst of everything,
    /// as a comparison chunk by chunk may ask for.
    pub(super) fn repair_something(&mut self) {
        let table = self.rng.usize(..self.target.rows.len());
        let Some(mut part) = self.rng.choice(self.job.closed(table)) else {
            return;
        };
        let cut = key(self.rng.i64(0..self.params.keys));
        if part.contains(&cut) && part.lower.as_ref() != Some(&cut) {
            if self.rng.bool() {
                part.lower = Some(cut);
            } else {
                part.upper = Some(cut);
            }
        }
        if self.job.building.is_none() {
            self.job.engine.repair(TableId(table), part);
            self.stats.repairs += 1;
        }
    }

    /// Compares at a consistent point, if this is one, and repairs.
    pub(super) fn prove(&mut self) -> Result<(), Failure> {
        if self.job.building.is_none() && self.is_consistent() {
            self.compare_and_repair()?;
        }
        Ok(())
    }

    /// Begins or ends building a unique index that was left for later.
    pub(super) fn build_index(&mut self) -> Result<(), Failure> {
        if let Some(table) = self.job.building.take() {
            return self.end_index(table);
        }
        let may_begin = if self.faults.has(Fault::IndexBuiltEarly) {
            let in_flight = self.job.engine.in_flight();
            in_flight.chunks_open == 0 && in_flight.batches == 0
        } else {
            self.is_consistent() && self.compare_and_repair()? == 0
        };
        if !may_begin {
            return Ok(());
        }
        let unique = self.target.unique.iter();
        let mut waiting = unique
            .zip(&self.params.index_later)
            .map(|(built, later)| !built && *later);
        self.job.building = waiting.position(|waits| waits);
        if self.job.building.is_some() {
            self.job.engine.set_copying(false);
            self.job.engine.set_applying(false);
        }
        Ok(())
    }

    /// Brings the job to its end and compares.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        for step in 0..STEPS_MAX {
            if self.job.building.is_none() && step % 64 == 0 {
                self.job.engine.set_copying(true);
                self.job.engine.set_applying(true);
            }
            if self.rng.u8(..16) == 0 && step < self.params.late_writes {
                self.source.write(&mut self.rng);
            }
            if step % 100 == 99 && step < 600 {
                self.damage();
            }
            let weights = if step < 100 {
                self.params.weights
            } else {
                EVEN
            };
            self.progress(&weights)?;
            self.pump()?;
            self.stats.steps += 1;
            if step > 200 && self.cut_over()? {
                return Ok(());
            }
        }
        Err(Failure::new(
            Invariant::Progress,
            format!(
                "no end after {STEPS_MAX} steps: {:?}",
                self.job.engine.in_flight()
            ),
        ))
    }

    /// Takes over without looking, a rule broken on purpose.
    pub(super) fn take_over(&self) -> Result<(), Failure> {
        self.swap(Verified(()))
    }

    /// Shuts writes out, drains, compares, and takes over if all is equal.
    fn cut_over(&mut self) -> Result<bool, Failure> {
        let left = self.source.log.len() - self.job.stream.txn;
        let is_built = !self
            .params
            .index_later
            .iter()
            .zip(&self.target.unique)
            .any(|(later, built)| *later && !built);
        let is_ready = self.job.engine.is_copied() && is_built && self.job.building.is_none();
        if !is_ready || left > 20 || self.job.engine.in_flight().batches > 0 {
            return Ok(false);
        }
        self.is_locked = true;
        self.job.engine.set_applying(false);
        while self.source.visible < self.source.log.len() {
            self.source.show_next();
        }
        while self.job.stream.txn < self.source.log.len() {
            if !self.job.engine.accepts_changes() {
                self.job.engine.set_applying(true);
                self.is_locked = false;
                return Ok(false);
            }
            self.dispatch()?;
        }
        if !self.drain()? {
            return Ok(false);
        }
        let differing = self.compare_and_repair()?;
        self.job.engine.set_applying(true);
        if differing > 0 {
            self.is_locked = false;
            return Ok(false);
        }
        self.swap(Verified(()))?;
        Ok(true)
    }

    /// Applies what is left on the locking connection, which may break.
    fn drain(&mut self) -> Result<bool, Failure> {
        let Some(batches) = self.job.engine.drain() else {
            return Err(Failure::new(
                Invariant::Progress,
                "nothing to drain yet".into(),
            ));
        };
        for (table, batch) in batches {
            if self.params.crashes && self.rng.u8(..20) == 0 {
                self.is_locked = false;
                self.crash()?;
                return Ok(false);
            }
            for change in &batch.changes {
                if let Some(change) = RowChange::from_keyed(table.0, change) {
                    self.put(change);
                }
            }
        }
        self.job.engine.handle_drained();
        if !self.is_consistent() {
            return Err(Failure::new(
                Invariant::Progress,
                "drained and not idle".into(),
            ));
        }
        Ok(true)
    }

    /// Lets the target take the source's place.
    fn swap(&self, _evidence: Verified) -> Result<(), Failure> {
        let differing = self.target.differences(&self.source.now);
        if differing.is_empty() {
            return Ok(());
        }
        Err(Failure::new(
            Invariant::I9,
            format!("the target took over with differing rows {differing:?}"),
        ))
    }

    /// Returns whether the target has to be exactly a state of the source.
    fn is_consistent(&self) -> bool {
        let Job {
            engine,
            stream,
            last_read,
            ..
        } = &self.job;
        engine.is_copied() && engine.is_idle() && stream.is_between() && stream.txn >= *last_read
    }

    /// Compares every row, and has those that were damaged copied again.
    ///
    /// Returns how many differ.
    fn compare_and_repair(&mut self) -> Result<usize, Failure> {
        let differing = self
            .target
            .differences(&self.source.state_at(self.job.stream.txn));
        if let Some(place) = differing.iter().find(|place| !self.damaged.contains(place)) {
            let early = self.faults.has(Fault::IndexBuiltEarly);
            let failure = Failure::new(
                Invariant::Converges,
                format!("row {place:?} differs at a consistent point"),
            );
            return if early {
                Ok(differing.len())
            } else {
                Err(failure)
            };
        }
        self.stats.compared += 1;
        let is_known = |place: &(usize, i64)| differing.contains(place);
        self.damaged.retain(is_known);
        for (table, k) in &differing {
            let lower = self.rng.bool().then_some(*k);
            let upper = self.rng.bool().then_some(*k + self.rng.i64(1..4));
            self.job.engine.repair(TableId(*table), range(lower, upper));
            self.stats.repairs += 1;
        }
        Ok(differing.len())
    }

    fn end_index(&mut self, table: usize) -> Result<(), Failure> {
        if !self.target.build_index(table) {
            return Err(Failure::new(
                Invariant::Converges,
                format!("table {table} has a unique value twice"),
            ));
        }
        self.stats.indexes_built += 1;
        self.job.engine.handle_indexes_built(TableId(table));
        self.job.modes[table] = Mode::Ordered;
        self.job.engine.set_copying(true);
        self.job.engine.set_applying(true);
        Ok(())
    }
}
