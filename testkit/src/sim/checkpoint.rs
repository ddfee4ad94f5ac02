//! What survives a crash of the simulated job.

use oxferry_schema::KeyRange;

use super::{Failure, Invariant, source::Position};

/// From where, and with what, a job goes on.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    /// Counts the checkpoints that were taken.
    pub(super) number: u64,
    /// Where the stream begins again.
    pub(super) position: Position,
    /// The same as the number of transactions executed: what a GTID set says.
    pub(super) executed: usize,
    /// Not 0 only where a rule is broken on purpose.
    pub(super) event: usize,
    /// The closed ranges of each table.
    pub(super) closed: Vec<Vec<KeyRange>>,
}

/// Keeps every checkpoint that was ever written.
#[derive(Debug, Default)]
pub(super) struct Store {
    written: Vec<Checkpoint>,
    /// Whether stale checkpoints are taken, a rule broken on purpose.
    pub(super) takes_stale: bool,
}

impl Store {
    /// Writes a checkpoint unless a later one is there already.
    pub(super) fn advance(&mut self, next: Checkpoint) {
        let held = self.written.last();
        if self.takes_stale || held.is_none_or(|held| held.number < next.number) {
            self.written.push(next);
        }
    }

    /// Returns the checkpoint to resume from, and how many came after it.
    ///
    /// # Errors
    ///
    /// I6, when the last one written is older than one before it.
    pub(super) fn load(&self) -> Result<Option<&Checkpoint>, Failure> {
        let newest = self.written.iter().map(|checkpoint| checkpoint.number).max();
        let last = self.written.last();
        if last.map(|last| last.number) != newest {
            return Err(Failure::new(
                Invariant::I6,
                format!("checkpoint {last:?} replaced number {newest:?}"),
            ));
        }
        Ok(last)
    }

    /// Returns any checkpoint that was ever written, and forgets later ones.
    pub(super) fn load_old(&mut self, pick: usize) -> Option<&Checkpoint> {
        let index = pick.checked_rem(self.written.len())?;
        self.written.truncate(index + 1);
        self.written.last()
    }
}
