//! What a pass asks its caller to do.

use std::num::NonZeroUsize;

use oxferry_schema::{Key, KeyRange};

use crate::{Mismatches, repair::Repair, touched::WindowId};

/// The sizes that a [`Pass`](crate::Pass) works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "plain limits")]
pub struct PassLimits {
    /// Rows whose fingerprints are read one by one in one statement, where a
    /// range differs; at least 2.
    pub page_rows: NonZeroUsize,
    /// Keys of the re-verify set that are compared in one statement.
    pub batch_keys: NonZeroUsize,
    /// Keys that may be left to compare under the cutover lock. Too high: the
    /// lock is held long. Too low: a busy table never gets there.
    pub remaining_max: usize,
    /// How often the whole re-verify set is gone through before the pass
    /// gives up, because rows change faster than they are compared.
    pub rounds_max: u32,
    /// How often a table may be compared anew because too many of its rows
    /// changed to remember them, before the pass gives up.
    pub overflows_max: u32,
}

/// What to do next.
#[derive(Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must do every step")]
pub enum Step {
    /// Compare; then call `handle_summaries`, `handle_fingerprints` or
    /// `handle_backward`.
    Compare(Comparison),
    /// Copy rows again, by the copy's own rule; then `handle_repaired`.
    Repair(Repair),
    /// Find one more range; then `handle_range`, or `handle_ranges_end`.
    FindRange,
    /// Report a step that is under way first.
    Wait,
    /// The pass is over.
    Done(Outcome),
}

/// A comparison to do.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "a plain order")]
pub struct Comparison {
    /// Its window, to report back with.
    pub window: WindowId,
    /// The table.
    pub table: usize,
    /// What to read on both sides.
    pub what: What,
}

/// What to read.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must read every kind")]
pub enum What {
    /// The summary of a range.
    Summary(KeyRange),
    /// The first rows of a range.
    Page {
        /// The range.
        range: KeyRange,
        /// How many rows.
        limit: NonZeroUsize,
    },
    /// The source's first rows of a range, then the target's rows of their keys.
    Forward {
        /// The range, in the source's order.
        range: KeyRange,
        /// How many rows.
        limit: NonZeroUsize,
    },
    /// The target's first rows of a range, then the source's rows of their
    /// keys, then the target's of `Backward::doubtful`'s keys.
    Backward {
        /// The range, in the target's order.
        range: KeyRange,
        /// How many rows.
        limit: NonZeroUsize,
    },
    /// These keys.
    Keys(Vec<Key>),
}

/// How a pass ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must act on every end")]
pub enum Outcome {
    /// Not one difference; what remains is to be compared under the lock.
    Clean,
    /// Differences were found, and repaired unless the pass repairs none:
    /// another pass is needed.
    Repaired,
    /// Rows differed again right after they were repaired.
    NotMended(Mismatches),
    /// The target holds a row whose key no row of the source can have.
    Foreign {
        /// The table.
        table: usize,
        /// How the key reads as one of the source.
        key: Key,
    },
    /// The ranges left out some keys of this table.
    Uncovered {
        /// The table.
        table: usize,
    },
    /// Rows change faster than they can be compared.
    NeverSettles {
        /// How many keys are left.
        remaining: usize,
        /// How often the set was gone through.
        rounds: u32,
    },
}

impl Default for PassLimits {
    /// 2,000 rows a page, 500 keys a statement, 300 keys left, 1,000 rounds,
    /// ten times anew.
    fn default() -> Self {
        const PAGE: NonZeroUsize = NonZeroUsize::new(2000).expect("2000 is not zero");
        const BATCH: NonZeroUsize = NonZeroUsize::new(500).expect("500 is not zero");
        Self {
            page_rows: PAGE,
            batch_keys: BATCH,
            remaining_max: 300,
            rounds_max: 1000,
            overflows_max: 10,
        }
    }
}
