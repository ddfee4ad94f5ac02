//! The seam between a job and whatever keeps its checkpoint.

use std::future::Future;

use tokio::sync::Mutex;

use crate::{Checkpoint, FormatError};

/// Durable storage for one job's [`Checkpoint`].
///
/// # Contract
///
/// - `load` returns the last checkpoint made durable, whole, and `None` where
///   there is none; it creates nothing.
/// - `advance` returns only when `next`, or a later one, would survive a crash
///   of the process. A crash in the middle leaves the one before.
/// - Progress never moves backwards (I6): a `next` whose sequence is not above
///   the stored one's changes nothing. Saving the same one again is therefore
///   harmless; a lower sequence answers [`Advanced::Stale`], because then
///   somebody else went on with the job.
/// - A checkpoint that could not be read again is refused.
/// - `clear` forgets the checkpoint; after it any sequence is accepted. What
///   isn't there is forgotten already.
/// - No call waits for a server without a deadline.
pub trait CheckpointStore: Send + Sync {
    /// What went wrong in this particular store.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Returns the last checkpoint made durable, or `None` on a first run.
    ///
    /// # Errors
    ///
    /// When the store can't be read, or holds what this version can't read.
    fn load(&self) -> impl Future<Output = Result<Option<Checkpoint>, Self::Error>> + Send;

    /// Makes `next` durable before returning.
    ///
    /// # Cancel safety
    ///
    /// A call that is dropped has stored `next` or it has not.
    ///
    /// # Errors
    ///
    /// When `next` can't be made durable; what is stored stays.
    fn advance(
        &self,
        next: &Checkpoint,
    ) -> impl Future<Output = Result<Advanced, Self::Error>> + Send;

    /// Forgets the job's checkpoint.
    ///
    /// # Errors
    ///
    /// When the store can't be changed.
    fn clear(&self) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// What became of a checkpoint that was to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a stale checkpoint means that another run goes on with this job"]
#[expect(clippy::exhaustive_enums, reason = "it is stored or it is not")]
pub enum Advanced {
    /// The store holds it.
    Durable,
    /// The store holds a later one and ignored it.
    Stale {
        /// The sequence of the one that the store holds.
        held: u64,
    },
}

impl Advanced {
    /// Judges a checkpoint that was not above the one held.
    pub(crate) const fn against(held: u64, next: u64) -> Self {
        if held > next {
            Self::Stale { held }
        } else {
            Self::Durable
        }
    }
}

/// A checkpoint in this process' memory: for tests and simulations.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<Option<Checkpoint>>);

impl MemoryStore {
    /// Begins without a checkpoint.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl CheckpointStore for MemoryStore {
    type Error = FormatError;

    async fn load(&self) -> Result<Option<Checkpoint>, FormatError> {
        Ok(self.0.lock().await.clone())
    }

    async fn advance(&self, next: &Checkpoint) -> Result<Advanced, FormatError> {
        // Through the format, so that what memory takes a table takes too.
        let next = Checkpoint::from_json(&next.to_json()?)?;
        let mut slot = self.0.lock().await;
        match &*slot {
            Some(held) if held.sequence >= next.sequence => {
                Ok(Advanced::against(held.sequence, next.sequence))
            }
            _ => {
                *slot = Some(next);
                Ok(Advanced::Durable)
            }
        }
    }

    async fn clear(&self) -> Result<(), FormatError> {
        *self.0.lock().await = None;
        Ok(())
    }
}
