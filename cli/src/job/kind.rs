//! What differs between the kinds of jobs.

use std::{fmt, sync::Arc, time::Duration};

use oxferry_copier::{RowSink, SelectSink};
use oxferry_state::Phase;

use super::{Prepared, PreparedTable, Script};
use crate::failure::Failure;

/// What differs between the kinds of jobs: where rows are written, what is
/// watched meanwhile, and how the target takes over.
pub(crate) trait Kind: fmt::Debug + Sync + Sized {
    /// What writes rows to a table's target.
    type Sink: Sink;

    /// Makes what writes rows to one table's target.
    fn sink(&self, prepared: &Prepared, table: &PreparedTable) -> Arc<Self::Sink>;

    /// Ends when something has happened that the job can't go on with, before
    /// the cutover has begun; else never.
    async fn watch(&self, script: &Script<'_, Self>) -> Failure;

    /// Brings the job to where its cutover may begin; returns whether there is
    /// to be one.
    async fn lead_up(&self, script: &Script<'_, Self>) -> Result<bool, Failure> {
        script.until_cutover().await?;
        Ok(true)
    }

    /// Returns the phase that follows the cutover.
    fn next_phase(&self) -> Phase {
        Phase::Cleanup
    }

    /// Brings the rest over, compares it, and lets the target take over.
    ///
    /// # Errors
    ///
    /// A failure that says whether it has.
    async fn cut_over(&self, script: &Script<'_, Self>) -> Result<TakenOver, Failure>;

    /// Removes what the job made and nobody needs any more, the checkpoint last.
    async fn clean_up(&self, script: &Script<'_, Self>) -> Result<(), Failure>;
}

/// A [`RowSink`] that a job can steer.
pub(crate) trait Sink: RowSink + 'static {
    /// From now on a row that meets another one over a unique index is an error.
    fn set_exclusive(&self);
}

impl Sink for SelectSink {
    fn set_exclusive(&self) {
        Self::set_exclusive(self);
    }
}

/// What taking over took.
#[derive(Debug, Default)]
pub(crate) struct TakenOver {
    /// Attempts, the last one included.
    pub(crate) attempts: u32,
    /// How long the last attempt waited for its lock.
    pub(crate) lock_wait: Duration,
    /// The longest that writes were blocked, over all attempts.
    pub(crate) blocked: Duration,
    /// What went wrong afterwards: the job cleans up, and ends with it.
    pub(crate) afterwards: Option<Failure>,
}
