//! The steps around a crash: checkpoints and resuming from them.

use std::collections::BTreeSet;

use oxferry_copier::engine::{Mode, TablePlan, TxnSeq};

use super::{
    Failure, Fault, Invariant,
    checkpoint::Checkpoint,
    stream::Place,
    world::{Job, World},
};

impl World {
    /// Notes what a resume would need; writing it is another step.
    pub(super) fn take_checkpoint(&mut self) -> Result<(), Failure> {
        let place = self.resume_place();
        let tables = 0..self.job.modes.len();
        let checkpoint = Checkpoint {
            number: self.checkpoints_taken + 1,
            position: self.source.position(place.txn),
            executed: place.txn,
            event: place.event,
            closed: tables.map(|table| self.job.closed(table)).collect(),
        };
        let checked = self.check_position(place, &checkpoint);
        self.rule(checked)?;
        self.checkpoints_taken += 1;
        self.job.taken.push(checkpoint);
        Ok(())
    }

    /// Writes one of the checkpoints that were taken, not always in order.
    pub(super) fn write_checkpoint(&mut self) {
        if self.job.taken.is_empty() {
            return;
        }
        let index = self.rng.usize(..self.job.taken.len());
        self.store.advance(self.job.taken.swap_remove(index));
        self.stats.checkpoints += 1;
    }

    /// Ends the job in the midst of whatever it does, and resumes it.
    pub(super) fn crash(&mut self) -> Result<(), Failure> {
        self.stats.crashes += 1;
        self.rule(self.store.check())?;
        self.is_locked = false;
        self.leave_sessions()?;
        let pick = (self.rng.u8(..4) == 0).then(|| self.rng.usize(..));
        let Some(checkpoint) = self.store.load_at(pick).cloned() else {
            return Ok(());
        };
        let index = if self.params.gtid {
            checkpoint.executed
        } else {
            let index = self.source.index(checkpoint.position);
            index.unwrap_or(checkpoint.executed)
        };
        if index != checkpoint.executed {
            return Err(Failure::new(
                Invariant::I6,
                format!("position and GTID set disagree in {checkpoint:?}"),
            ));
        }
        self.resume(checkpoint);
        Ok(())
    }

    /// Begins anew with what a checkpoint says.
    fn resume(&mut self, checkpoint: Checkpoint) {
        let start = Place {
            txn: checkpoint.executed,
            event: checkpoint.event,
        };
        let modes = self.params.modes.iter().zip(&self.target.unique);
        let modes = modes.map(|(mode, unique)| match mode {
            // The index was built: it can be seen on the target.
            Mode::Ranged if *unique && !self.params.wrong_mode => Mode::Ordered,
            mode => *mode,
        });
        let modes: Vec<Mode> = modes.collect();
        let plans = modes.iter().zip(&checkpoint.closed);
        let plans = plans.zip(&self.params.orders);
        let plans = plans
            .map(|((mode, closed), order)| {
                TablePlan::resume(*mode, closed.clone()).ordered_by(order.told(*mode))
            })
            .collect();
        self.job = Job::new(&self.params, start, (modes, checkpoint.closed), plans);
        self.job.last_read = self.source.log.len();
    }

    /// Returns where a resume would begin to read.
    fn resume_place(&self) -> Place {
        let Job { engine, stream, .. } = &self.job;
        let right = stream.start_of(engine.resume_seq());
        if self.faults.has(Fault::CheckpointAhead) {
            return Place {
                event: 0,
                ..stream.here()
            };
        }
        let is_inside = engine.resume_seq() == TxnSeq(engine.dispatched().0 + 1);
        if self.faults.has(Fault::CheckpointInside) && is_inside {
            return stream.here();
        }
        if self.faults.has(Fault::TransactionsSplit) {
            return Place { event: 0, ..right };
        }
        right
    }

    /// Checks that a resume at `place` would miss nothing.
    fn check_position(&self, place: Place, checkpoint: &Checkpoint) -> Result<(), Failure> {
        if place.event > 0 {
            return Err(Failure::new(
                Invariant::I5,
                format!("{place:?} lies inside a transaction"),
            ));
        }
        let later: BTreeSet<_> = self
            .source
            .changes_from(place.txn)
            .map(|c| (c.table, c.key))
            .collect();
        for (table, k) in self.target.differences(&self.source.now) {
            let order = self.params.orders[table];
            let is_closed = checkpoint.closed[table]
                .iter()
                .any(|range| order.contains(range, k));
            let is_later = later.iter().any(|(t, l)| *t == table && order.same(*l, k));
            if is_closed && !is_later && !self.damaged.contains(&(table, k)) {
                return Err(Failure::new(
                    Invariant::I5,
                    format!("{place:?} is beyond a change of row {k} of table {table}"),
                ));
            }
        }
        Ok(())
    }
}
