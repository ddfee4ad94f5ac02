//! Why a verification ended without evidence.

use std::time::Duration;

use oxferry_schema::{Key, Remedy, TableName};

use crate::{FingerprintError, Mismatch, Mismatches};

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
    /// A pass that repairs nothing found differences.
    #[error("source and target differ: {found}")]
    Differs {
        /// What it found.
        found: Mismatches,
    },
    /// A value changed while it was copied, and again when it was copied anew.
    #[error(
        "the value of column {column} in the row with key {key} of table {table} doesn't survive the \
         change from {from} to {to}{}: change such values on the source first, or choose a type that \
         holds them", others(*more)
    )]
    Lossy {
        /// The source's table, unquoted.
        table: String,
        /// The row.
        key: Key,
        /// The source's column, unquoted.
        column: String,
        /// Its type.
        from: String,
        /// The type of the target's column.
        to: String,
        /// How many other rows were seen to lose something.
        more: u64,
    },
    /// A row differs again right after it was copied anew.
    #[error(
        "a row of table {table} differs again right after it was copied anew: {mismatch}; look for \
         triggers on the new table, or somebody else who writes to it"
    )]
    NotMended {
        /// The source's table, unquoted.
        table: String,
        /// The row.
        mismatch: Mismatch,
    },
    /// The target holds a row whose key no row of the source can have.
    #[error(
        "table {table} has a row whose key reads as {key} on the source, which can't hold it: somebody \
         else wrote to the new table; start anew with --fresh"
    )]
    Foreign {
        /// The target's table, unquoted.
        table: String,
        /// The nearest that the source's key can hold.
        key: Key,
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

/// Says how many others there were.
fn others(more: u64) -> String {
    match more {
        0 => String::new(),
        1 => ", nor does another row's".to_owned(),
        more => format!(", nor do those of {more} other rows seen so far"),
    }
}

impl CompareError {
    /// Has the rows that differ told with the names of their tables, which are
    /// `names`, in the job's order.
    #[must_use]
    pub fn naming(mut self, names: &[TableName]) -> Self {
        if let Self::Different { found, .. } | Self::Differs { found } | Self::Diverged { found } =
            &mut self
        {
            found.name(names);
        }
        self
    }

    /// Says what to do about this error.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::Different { .. }
            | Self::Diverged { .. }
            | Self::Differs { .. }
            | Self::Lossy { .. }
            | Self::NotMended { .. } => Remedy::Data,
            Self::Foreign { .. } => Remedy::State,
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
