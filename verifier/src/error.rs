//! Why a verification ended without evidence.

use std::time::Duration;

use oxferry_schema::Remedy;

use crate::{FingerprintError, Mismatches};

/// Why a verification ended without evidence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// Every pass found differences, in spite of the repairs.
    #[error("source and target still differ after {passes} passes and repairs: {found}")]
    Different {
        /// How many full passes there were.
        passes: u32,
        /// What the last of them found.
        found: Mismatches,
    },
    /// Rows differ under the cutover lock.
    #[error("source and target differ under the lock, so nothing was swapped: {found}")]
    Diverged {
        /// The rows.
        found: Mismatches,
    },
    /// Rows change faster than they are compared.
    #[error(
        "{remaining} changed rows are left to compare after {rounds} rounds; \
         try again at a quieter time, or with more threads"
    )]
    NeverSettles {
        /// How many rows are left.
        remaining: usize,
        /// How many rounds there were.
        rounds: u32,
    },
    /// Too many rows changed since the last comparison to compare them under
    /// a lock.
    #[error("{remaining} changed rows are left, at most {most} may be compared under the lock")]
    TooMuchLeft {
        /// How many rows are left.
        remaining: usize,
        /// How many are allowed.
        most: usize,
    },
    /// The evidence is older than a difference that was found after it.
    #[error("a difference was found since the last full pass; a new pass is needed")]
    Outdated,
    /// The ranges did not cover a table.
    #[error("the ranges that were compared leave a gap in table {table}")]
    Uncovered {
        /// The table, as an index into the job's tables.
        table: usize,
    },
    /// The job's tables and the tables to compare are not the same.
    #[error("table {table} of the job has no side to compare")]
    UnknownTable {
        /// The table, as an index into the job's tables.
        table: usize,
    },
    /// Something took longer than it may.
    #[error("{what} took longer than {limit:?}")]
    Deadline {
        /// What was waited for.
        what: &'static str,
        /// How long.
        limit: Duration,
    },
    /// A side could not be read.
    #[error("a comparison failed")]
    Read(#[from] FingerprintError),
    /// The job failed in what the verification needs of it.
    #[error(transparent)]
    Feed(#[from] FeedError),
}

/// Why the job could not do what a verification asked of it.
#[derive(Debug, thiserror::Error)]
#[error("{what} failed")]
pub struct FeedError {
    /// What was asked.
    what: &'static str,
    /// What to do about it.
    remedy: Remedy,
    /// What happened.
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl FeedError {
    /// Wraps the job's own error; `what` says what was attempted.
    #[must_use]
    pub fn new(
        what: &'static str,
        remedy: Remedy,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self {
            what,
            remedy,
            source: source.into(),
        }
    }
}

impl CompareError {
    /// Says what to do about this error.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::Different { .. } | Self::Diverged { .. } => Remedy::Data,
            Self::NeverSettles { .. }
            | Self::TooMuchLeft { .. }
            | Self::Outdated
            | Self::Deadline { .. } => Remedy::Retry,
            Self::Uncovered { .. } | Self::UnknownTable { .. } => Remedy::Bug,
            Self::Read(source) => source.remedy(),
            Self::Feed(source) => source.remedy,
        }
    }
}
