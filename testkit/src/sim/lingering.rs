//! Sessions that outlive their connection, and commit when they like.

use oxferry_copier::engine::Mode;

use super::{
    Failure, Fault,
    applying::take_next,
    world::{Applying, Copying, World},
};

/// What a session was doing when its connection was lost.
#[derive(Debug)]
pub(super) enum Lingering {
    /// Writing a chunk's rows.
    Copy(Copying),
    /// Applying a batch.
    Batch(Applying),
}

impl World {
    /// Decides what becomes of the sessions that a crash leaves behind.
    ///
    /// The next run ends each before it does anything: by then it has
    /// committed, or never will. Where that rule is broken, it may commit at
    /// any time.
    pub(super) fn leave_sessions(&mut self) -> Result<(), Failure> {
        let copies = std::mem::take(&mut self.job.copies);
        let batches = std::mem::take(&mut self.job.batches);
        let read = copies.into_iter().filter(|copy| copy.rows.is_some());
        let left = read.map(Lingering::Copy);
        let left: Vec<_> = left
            .chain(batches.into_iter().map(Lingering::Batch))
            .collect();
        for session in left {
            self.stats.sessions_left += 1;
            if self.faults.has(Fault::SessionsNotEnded) {
                self.lingering.push(session);
            } else if self.rng.u8(..3) == 0 {
                self.commit_session(session)?;
            }
        }
        Ok(())
    }

    /// Lets one of the sessions commit that nobody ended.
    pub(super) fn commit_late(&mut self) -> Result<(), Failure> {
        if self.lingering.is_empty() || self.rng.u8(..20) > 0 {
            return Ok(());
        }
        let session = self
            .lingering
            .swap_remove(self.rng.usize(..self.lingering.len()));
        self.commit_session(session)
    }

    /// Loses the connection of a batch: it is done again in a new session.
    pub(super) fn lose_batch(&mut self, index: usize) {
        let batch = &mut self.job.batches[index];
        if self.faults.has(Fault::SessionsNotEnded) {
            self.lingering.push(Lingering::Batch(batch.clone()));
        }
        batch.rest.clone_from(&batch.changes);
    }

    /// Loses the connection of a chunk: it is read again in a new session. The
    /// rows of the old one may be there, so in *ranged* mode they go first.
    pub(super) fn lose_copy(&mut self, copying: &mut Copying) {
        if self.faults.has(Fault::SessionsNotEnded) && copying.rows.is_some() {
            self.lingering.push(Lingering::Copy(copying.clone()));
        }
        copying.rows = None;
        copying.is_emptied = false;
        let is_ranged = self.params.modes[copying.table] == Mode::Ranged;
        copying.empties |= is_ranged && !self.faults.has(Fault::NotEmptied);
    }

    fn commit_session(&mut self, session: Lingering) -> Result<(), Failure> {
        match session {
            Lingering::Batch(mut batch) => {
                while !batch.rest.is_empty() {
                    let change = take_next(&mut self.rng, &mut batch.rest);
                    self.put(change);
                }
            }
            Lingering::Copy(mut copying) => {
                if self.faults.has(Fault::SessionsNotEnded) && self.meets_rows(&copying) {
                    // A plain insert that meets a row is rolled back.
                    return Ok(());
                }
                while !self.write_rows(&mut copying)? {}
            }
        }
        Ok(())
    }

    fn meets_rows(&self, copying: &Copying) -> bool {
        let is_plain = !copying.empties && self.job.modes[copying.table] == Mode::Ranged;
        let rows = copying.rows.iter().flatten();
        is_plain
            && rows
                .clone()
                .any(|(k, _)| self.target.rows[copying.table].contains_key(k))
    }
}
