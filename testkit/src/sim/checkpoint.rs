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
#[derive(Debug)]
pub(super) struct Store {
    written: Vec<Checkpoint>,
    /// Whether stale checkpoints are taken, a rule broken on purpose.
    takes_stale: bool,
}

impl Store {
    /// Begins with the checkpoint of a job that has done nothing yet.
    pub(super) fn new(first: Checkpoint, takes_stale: bool) -> Self {
        Self {
            written: vec![first],
            takes_stale,
        }
    }

    /// Writes a checkpoint unless a later one is there already.
    pub(super) fn advance(&mut self, next: Checkpoint) {
        let held = self.written.last();
        if self.takes_stale || held.is_none_or(|held| held.number < next.number) {
            self.written.push(next);
        }
    }

    /// Checks that the last checkpoint written is the newest.
    ///
    /// # Errors
    ///
    /// I6, when the last one written is older than one before it.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let newest = self
            .written
            .iter()
            .map(|checkpoint| checkpoint.number)
            .max();
        let last = self.written.last();
        if last.map(|last| last.number) != newest {
            return Err(Failure::new(
                Invariant::I6,
                format!("checkpoint {last:?} replaced number {newest:?}"),
            ));
        }
        Ok(())
    }

    /// Returns the last checkpoint that was written, or an earlier one that
    /// `pick` chooses; those after it are forgotten.
    pub(super) fn load_at(&mut self, pick: Option<usize>) -> Option<&Checkpoint> {
        let index = pick.and_then(|pick| pick.checked_rem(self.written.len()));
        if let Some(index) = index {
            self.written.truncate(index + 1);
        }
        self.written.last()
    }
}
