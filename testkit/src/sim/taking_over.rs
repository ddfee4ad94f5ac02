//! The steps of the cutover: attempts that fail in every way, and the one that
//! doesn't.

use std::collections::VecDeque;

use oxferry_verifier::{BothSides, CompareError, Verified};

use super::{
    Failure, Fault, Invariant,
    applying::take_next,
    row::{RowChange, SimRow, number},
    verifying::by_keys,
    world::World,
};

/// What a failed attempt drained, to be applied once more.
#[derive(Debug)]
pub(super) struct Redo {
    /// The batches, the first one perhaps in part.
    batches: VecDeque<Vec<RowChange>>,
}

/// So many failed attempts see writes until the lock is there; the next ones
/// must get through.
const WRITES_THROUGH: u64 = 4;

impl World {
    /// Takes over without looking, a rule broken on purpose.
    pub(super) fn take_over(&self) -> Result<(), Failure> {
        self.swap(Verified::waived())
    }

    /// Comes nearer to the cutover; returns whether the target took over.
    pub(super) fn cut_over(&mut self) -> Result<bool, Failure> {
        if !self.job.is_holding {
            self.hold();
            return Ok(false);
        }
        if self.stats.attempts_failed < WRITES_THROUGH && self.rng.u8(..8) == 0 {
            self.write();
        }
        if self.job.engine.in_flight().batches > 0 || self.rng.u8(..30) > 0 {
            return Ok(false);
        }
        self.is_locked = true;
        let verified = self.finish_under_lock()?;
        if self.job.is_holding {
            let took_over = verified.is_some();
            if let Some(verified) = verified {
                self.swap(verified)?;
            } else {
                self.release();
            }
            return Ok(took_over);
        }
        Ok(false)
    }

    /// Lets no batch begin, once everything is compared.
    fn hold(&mut self) {
        let verify = &self.job.verify;
        let is_ready = self.is_built() && self.job.engine.is_copied();
        if is_ready && verify.is_at_rest() && verify.is_trimmed {
            self.job.engine.set_applying(false);
            self.job.is_holding = true;
        }
    }

    /// Drains and compares the rest; `None` when the attempt has failed.
    fn finish_under_lock(&mut self) -> Result<Option<Verified>, Failure> {
        while self.source.visible < self.source.log.len() {
            self.source.show_next();
        }
        while self.job.stream.txn < self.source.log.len() {
            if !self.job.engine.accepts_changes() {
                return Ok(None);
            }
            self.dispatch()?;
        }
        if !self.drain()? {
            return Ok(None);
        }
        self.compare_rest()
    }

    /// Applies what is left on the locking connection, which may break.
    fn drain(&mut self) -> Result<bool, Failure> {
        let Some(batches) = self.job.engine.drain() else {
            return Ok(false);
        };
        let batches = batches.iter().map(|(table, batch)| {
            let changes = batch.changes.iter();
            let changes = changes.filter_map(|change| RowChange::from_keyed(table.0, change));
            let mut changes: Vec<_> = changes.collect();
            changes.sort_by_key(|change| change.image.is_some());
            changes
        });
        let batches: VecDeque<_> = batches.collect();
        for batch in &batches {
            for change in batch {
                if self.rng.u8(..10) > 0 {
                    self.put(*change);
                    continue;
                }
                if self.params.crashes && self.rng.bool() {
                    self.crash()?;
                } else {
                    self.stats.drains_failed += 1;
                    self.job.redo = Some(Redo { batches });
                }
                return Ok(false);
            }
        }
        self.job.engine.handle_drained();
        if !self.job.engine.is_idle() {
            return Err(Failure::new(
                Invariant::Progress,
                "drained and not idle".into(),
            ));
        }
        Ok(true)
    }

    /// Compares the keys that are left; `None` when they, or too many, differ.
    fn compare_rest(&mut self) -> Result<Option<Verified>, Failure> {
        let most = self.job.verify.remaining_max();
        let Some(clean) = &self.job.verify.clean else {
            return Ok(None);
        };
        let Ok(rest) = clean.remaining(&self.job.verify.touched, most) else {
            return Ok(None);
        };
        let left = rest.iter().enumerate();
        let left = left.flat_map(|(table, keys)| keys.iter().map(move |key| (table, key)));
        let left: Vec<_> = left
            .filter_map(|(table, key)| Some((table, number(Some(key))?)))
            .collect();
        if self.params.damages
            && self.rng.bool()
            && let Some((table, k)) = self.rng.choice(&left)
        {
            self.damage_row(*table, *k);
        }
        let tables: Vec<BothSides> = rest
            .iter()
            .enumerate()
            .map(|(table, keys)| {
                let read = |rows| by_keys(rows, table, keys);
                (read(&self.source.seen), read(&self.target.rows))
            })
            .collect();
        let verify = &mut self.job.verify;
        let Some(clean) = &verify.clean else {
            return Ok(None);
        };
        match clean.judge(&mut verify.touched, &tables) {
            Ok(verified) => Ok(Some(verified)),
            Err(CompareError::Diverged { found }) => {
                self.stats.refused += 1;
                let is_real = |place: (usize, Option<i64>)| {
                    place
                        .1
                        .is_some_and(|k| self.damaged.contains(&(place.0, k)))
                };
                let mut found = found.listed().iter();
                match found.find(|m| !is_real((m.table, number(Some(&m.key))))) {
                    None => Ok(None),
                    Some(mismatch) => Err(Failure::new(
                        Invariant::Compares,
                        format!("under the lock {mismatch}, and nobody damaged it"),
                    )),
                }
            }
            Err(error) => Err(Failure::new(Invariant::Compares, error.to_string())),
        }
    }

    /// Gives an attempt up.
    fn release(&mut self) {
        self.is_locked = false;
        self.job.is_holding = false;
        self.job.verify.is_trimmed = false;
        self.stats.attempts_failed += 1;
        if self.job.redo.is_none() {
            self.job.engine.set_applying(true);
        } else if self.faults.has(Fault::DrainForgotten) {
            self.job.redo = None;
            self.end_redo();
        } else if self.faults.has(Fault::DrainOvertaken) {
            self.end_redo();
        }
    }

    /// Applies one change of what was drained once more, before anything newer.
    pub(super) fn redo(&mut self) {
        let Some(redo) = self.job.redo.as_mut().filter(|_| !self.is_locked) else {
            return;
        };
        let Some(batch) = redo.batches.front_mut() else {
            self.job.redo = None;
            if !self.faults.has(Fault::DrainOvertaken) {
                self.end_redo();
            }
            return;
        };
        if batch.is_empty() {
            redo.batches.pop_front();
        } else {
            let change = take_next(&mut self.rng, batch);
            self.put(change);
        }
    }

    fn end_redo(&mut self) {
        self.job.engine.handle_drained();
        self.job.engine.set_applying(true);
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

    /// Damages a row on the target: changes, removes or adds it.
    pub(super) fn damage_row(&mut self, table: usize, k: i64) {
        // Unique among all rows, so that no other row is hit.
        let unique = 100 + k;
        let image = self.rng.bool().then_some(SimRow {
            version: -1,
            unique,
        });
        let before = self.target.rows[table].get(&k).copied();
        let change = RowChange {
            table,
            key: k,
            image,
        };
        change.apply(&mut self.target.rows);
        if before != image {
            self.damaged.insert((table, k));
            self.stats.damaged += 1;
        }
    }
}
