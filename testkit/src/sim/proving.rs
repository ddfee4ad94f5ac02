//! The steps towards the end: checking, damaging, repairing, building indexes.

use oxferry_copier::engine::{KeyOrder, Mode, Repair, TableId};

use super::{
    Failure, Fault, Invariant,
    row::key,
    world::{Job, World},
};

/// So many steps bring every job to its end.
const STEPS_MAX: usize = 200_000;

/// How often each kind of step is taken towards the end.
const EVEN: [u8; 11] = [15, 25, 5, 5, 12, 12, 3, 3, 3, 5, 40];

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
        if self.job.verify.will_read(table, k) {
            self.damage_row(table, k);
        }
    }

    /// Has a part of a closed range copied again in the midst of everything,
    /// as a comparison chunk by chunk may ask for.
    pub(super) fn repair_something(&mut self) {
        let table = self.rng.usize(..self.target.rows.len());
        if self.job.building.is_some() {
            return;
        }
        if self.params.orders[table].0 == KeyOrder::Server || self.rng.u8(..4) == 0 {
            let count = self.rng.usize(1..4);
            let keys = (0..count).map(|_| key(self.rng.i64(0..self.params.keys)));
            let what = Repair::Keys(keys.collect());
            self.job.engine.repair(TableId(table), what);
            self.stats.keys_repaired += 1;
            return;
        }
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
        let what = Repair::Range(part);
        self.job.engine.repair(TableId(table), what);
        self.stats.repairs += 1;
    }

    /// Checks all rows, if this is a consistent point.
    pub(super) fn prove(&mut self) -> Result<(), Failure> {
        if self.job.building.is_none() && self.is_consistent() {
            self.check_rows()?;
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
            self.is_consistent()
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
                self.job.engine.set_applying(!self.job.is_holding);
            }
            if step < self.params.late_steps {
                self.disturb()?;
            }
            let weights = if step < 100 {
                self.params.weights
            } else {
                EVEN
            };
            self.progress(&weights)?;
            self.pump()?;
            self.stats.steps += 1;
            let ends = step > 200 && self.params.verifies;
            if ends && self.cut_over()? {
                return Ok(());
            }
            if self.is_over(step) {
                return self.check_rows();
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

    /// Returns whether all is on the target, where nothing is compared.
    fn is_over(&self, step: usize) -> bool {
        let is_read = self.job.stream.txn == self.source.log.len();
        let is_over = is_read && self.is_consistent() && self.is_built();
        step > 200 && !self.params.verifies && is_over
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

    /// Checks every row at a consistent point: only those that were damaged
    /// may differ, and it is the verifier's to find them.
    fn check_rows(&mut self) -> Result<(), Failure> {
        let state = self.source.state_at(self.job.stream.txn);
        let differing = self.target.differences(&state);
        let early = self.faults.has(Fault::IndexBuiltEarly);
        if let Some(place) = differing.iter().find(|place| !self.damaged.contains(place))
            && !early
        {
            return Err(Failure::new(
                Invariant::Converges,
                format!("row {place:?} differs at a consistent point"),
            ));
        }
        self.stats.checked += 1;
        self.damaged.retain(|place| differing.contains(place));
        Ok(())
    }

    /// Does what the world does to a job that is nearly done.
    fn disturb(&mut self) -> Result<(), Failure> {
        match self.rng.u16(..1_000) {
            0..2 if self.params.crashes => self.crash()?,
            100..200 if self.job.is_holding => self.write(),
            2..8 => self.disturb_stream(),
            8..40 => self.damage(),
            40..44 => self.repair_something(),
            100.. if self.rng.u8(..200) < self.params.writes => self.write(),
            _ => {}
        }
        Ok(())
    }

    /// Returns whether every index stands on the target that was left for
    /// later.
    pub(super) fn is_built(&self) -> bool {
        let mut tables = self.params.index_later.iter().zip(&self.target.unique);
        self.job.building.is_none() && !tables.any(|(later, built)| *later && !built)
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
