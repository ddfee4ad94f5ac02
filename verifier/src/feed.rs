//! What a verification needs of the job around it.

use std::{future::Future, sync::Arc};

use oxferry_binlog::FilePosition;
use oxferry_schema::KeyRange;

use crate::{FeedError, Repair};

/// The job's stream of changes, and its copy, as a verification needs them.
///
/// # Contract
///
/// - The job gives the key of every change to
///   [`Touched::handle_change`](crate::Touched::handle_change) before the
///   change counts as dispatched.
/// - Futures may be dropped; a dropped repair is done whole or not at all.
pub trait Feed: Send + Sync {
    /// Returns when every change that was dispatched before the call has been
    /// applied to the target, and is visible to new snapshots on the source.
    ///
    /// # Errors
    ///
    /// [`FeedError`] when the job can't go on.
    fn settle(&self) -> impl Future<Output = Result<(), FeedError>> + Send;

    /// Reads the end of the source's binary log.
    ///
    /// # Errors
    ///
    /// [`FeedError`] when the source can't be asked.
    fn source_position(&self) -> impl Future<Output = Result<FilePosition, FeedError>> + Send;

    /// Returns when every change before `position` has been dispatched.
    ///
    /// # Errors
    ///
    /// [`FeedError`] when the stream has ended.
    fn reach(&self, position: &FilePosition) -> impl Future<Output = Result<(), FeedError>> + Send;

    /// Copies a range again by the copy's own rule: changes of the range are
    /// held back, what the source holds takes the place of what the target
    /// holds, then the changes are applied.
    ///
    /// # Errors
    ///
    /// [`FeedError`] when the range can't be copied.
    fn repair(&self, repair: &Repair) -> impl Future<Output = Result<(), FeedError>> + Send;

    /// Returns when the servers can bear another comparison: at once, or after
    /// as long as the throttle says.
    fn pause_point(&self) -> impl Future<Output = ()> + Send;
}

impl<F: Feed> Feed for Arc<F> {
    async fn settle(&self) -> Result<(), FeedError> {
        F::settle(self).await
    }

    async fn source_position(&self) -> Result<FilePosition, FeedError> {
        F::source_position(self).await
    }

    async fn reach(&self, position: &FilePosition) -> Result<(), FeedError> {
        F::reach(self, position).await
    }

    async fn repair(&self, repair: &Repair) -> Result<(), FeedError> {
        F::repair(self, repair).await
    }

    async fn pause_point(&self) {
        F::pause_point(self).await;
    }
}

/// The ranges that a full pass compares.
///
/// # Contract
///
/// From one `restart` to the end, the ranges of each table cover every key
/// that there can be, without overlap: the first one starts open, the last one
/// ends open.
pub trait Ranges: Send {
    /// Begins anew with the first range.
    fn restart(&mut self);

    /// Returns whether the next range may be waited for as long as the job
    /// takes, since it is still being copied; else a range that isn't there
    /// within [`VerifyConfig::step_within`](crate::VerifyConfig) is an error.
    fn may_take_long(&self) -> bool {
        false
    }

    /// Finds the next range and its table, `None` after the last one.
    ///
    /// # Errors
    ///
    /// [`FeedError`] when the bounds can't be read.
    fn next(&mut self)
    -> impl Future<Output = Result<Option<(usize, KeyRange)>, FeedError>> + Send;
}

/// Ranges that are known beforehand.
#[derive(Clone, Debug)]
pub struct FixedRanges {
    ranges: Vec<(usize, KeyRange)>,
    given: usize,
}

impl FixedRanges {
    /// Takes the ranges with their tables.
    #[must_use]
    pub const fn new(ranges: Vec<(usize, KeyRange)>) -> Self {
        Self { ranges, given: 0 }
    }
}

impl Ranges for FixedRanges {
    fn restart(&mut self) {
        self.given = 0;
    }

    async fn next(&mut self) -> Result<Option<(usize, KeyRange)>, FeedError> {
        let range = self.ranges.get(self.given).cloned();
        self.given += 1;
        Ok(range)
    }
}
