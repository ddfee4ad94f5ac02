//! What the move does for its own switch.

use std::{any::Any, fmt, time::Duration};

use oxferry_binlog::FilePosition;
use oxferry_schema::{Remedy, TableName};
use oxferry_verifier::Verified;

use super::Leftover;

/// A source that nobody writes to any more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockedSource {
    /// The end of the source's binary log, read under the lock: behind it, no
    /// change to the tables is in the log.
    pub through: FilePosition,
    /// The GTIDs executed by then; empty without GTIDs.
    pub executed_gtids: String,
    /// The plan's tables, each with the name that it has now.
    pub(crate) names: Vec<(TableName, TableName)>,
}

impl LockedSource {
    /// Returns the name under which a table of the plan is found now; that of
    /// any other table is its own.
    #[must_use]
    pub fn name_of<'a>(&'a self, table: &'a TableName) -> &'a TableName {
        let found = self.names.iter().find(|(planned, _)| planned == table);
        found.map_or(table, |(_, now)| now)
    }
}

/// That something is the holder's to undo, for as long as this is kept.
#[derive(Default)]
pub struct Claim(Option<Box<dyn Any + Send>>);

impl Claim {
    /// Keeps whatever makes it so, a lock perhaps, until it is dropped.
    pub fn by(what: impl Any + Send) -> Self {
        Self(Some(Box::new(what)))
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("is_kept", &self.0.is_some())
            .finish()
    }
}

/// The caller's part of a switch: what is left of the copy.
///
/// # Contract
///
/// - For each attempt `quiesce` is called first, then perhaps `remember` and
///   `finish`. When the attempt fails, `release` is called once, after the source
///   is unlocked, also after a failed `quiesce`. When it succeeds, or when nobody
///   knows whether the switch was announced, nothing is: the target may be live.
/// - `finish` and `quiesce` may be dropped before they end, when they take too
///   long, the lock is lost, or `interrupted` ends.
/// - `finish` must not need to write to the source, and needs no barrier: every
///   change up to [`LockedSource::through`] is visible there.
pub trait SwitchFinish: Send {
    /// What can go wrong.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Says what to do about an error. [`Remedy::Retry`] and
    /// [`Remedy::Unreachable`] lead to another attempt.
    fn remedy(error: &Self::Error) -> Remedy;

    /// Ends when the operator wants the job to end. What has begun is undone
    /// then, up to the moment at which the switch is announced.
    fn interrupted(&self) -> impl Future<Output = ()> + Send + 'static {
        std::future::pending()
    }

    /// Brings the copy so far that little is left; may take long, the source
    /// isn't locked. Must be cancel-safe.
    fn quiesce(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Keeps for the next run what must be undone if this one dies; `None` when
    /// nothing must. Called before the source is locked, and after it is unlocked;
    /// must have stored it when it returns.
    ///
    /// A run that finds some begins with [`undo_leftover`](crate::undo_leftover).
    fn remember(
        &mut self,
        leftover: Option<&Leftover>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// As `remember(None)`, after the target has taken over: that it has must be
    /// stored at the same moment, or a crash in between would be taken for one
    /// before the switch.
    fn taken_over(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.remember(None)
    }

    /// Applies what is left up to `locked.through`, compares what isn't compared
    /// yet, and completes the target.
    fn finish(
        &mut self,
        locked: &LockedSource,
    ) -> impl Future<Output = Result<Verified, Self::Error>> + Send;

    /// Proves that what this attempt did to the source is still this run's to
    /// undo, before it is undone. A run that stood still for long may have been
    /// taken for dead: another one has gone on in its place, perhaps to a switch,
    /// and the source is shut for that one now.
    ///
    /// It may be asked on another runtime, while nothing else of the caller's runs,
    /// and takes half a minute at most. With an error the source is left as it is.
    fn claim(&self) -> impl Future<Output = Result<Claim, Self::Error>> + Send + 'static {
        std::future::ready(Ok(Claim::default()))
    }

    /// Lets the workers go on: the attempt has failed, the source is unlocked.
    fn release(&mut self) -> impl Future<Output = ()> + Send;

    /// Waits between two attempts, half a minute at most; the workers work.
    /// May return early.
    fn pause(&mut self, wait: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(wait)
    }
}
