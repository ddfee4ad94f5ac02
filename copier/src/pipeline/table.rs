//! A table of the job, as the driver works on it.

use std::sync::Arc;

use oxferry_binlog::RowChange;
use oxferry_schema::{Key, Row, RowKey, TableName};

use crate::{
    ChunkSizer,
    engine::{TableId, TablePlan},
};

/// A table of the job, with all that copying it takes.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "arguments of one constructor")]
pub struct TableSetup<C, K> {
    /// The source table's name, for errors.
    pub name: TableName,
    /// How the engine shall copy it, and what of it is copied already.
    pub plan: TablePlan,
    /// The source table's key.
    pub key: RowKey,
    /// Finds the ranges.
    pub chunker: C,
    /// Writes to the target.
    pub sink: Arc<K>,
    /// Says how many rows a range shall have.
    pub sizer: ChunkSizer,
    /// What the runs before this one have done.
    pub before: Counts,
    /// Whose its rows are.
    pub ownership: Ownership,
}

/// How a table's rows belong to those of another one, where only some rows of
/// the tables are the job's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "both ends of a join")]
pub struct Ownership {
    /// Whether a row is the job's by its owner in another table. A change's
    /// image doesn't tell then, so that changed rows are read again.
    pub owned: bool,
    /// The tables whose rows this table's own: each with what they name the
    /// owner by, as a key of this table's rows.
    pub owns: Vec<(TableId, RowKey)>,
}

/// How much has been done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "two counts")]
pub struct Counts {
    /// Rows copied.
    pub rows_copied: u64,
    /// Changes applied.
    pub changes_applied: u64,
}

/// What the driver keeps of a table.
pub(super) struct TableWork<C, K> {
    pub(super) name: TableName,
    pub(super) key: RowKey,
    /// Absent while a range is being looked up.
    pub(super) chunker: Option<C>,
    pub(super) sink: Arc<K>,
    pub(super) sizer: ChunkSizer,
    /// What the runs before this one have done.
    pub(super) before: Counts,
    pub(super) ownership: Ownership,
}

impl<C, K> TableWork<C, K> {
    pub(super) fn new(setup: TableSetup<C, K>) -> (TablePlan, Self) {
        let TableSetup {
            name,
            plan,
            key,
            chunker,
            sink,
            sizer,
            before,
            ownership,
        } = setup;
        (
            plan,
            Self {
                name,
                key,
                chunker: Some(chunker),
                sink,
                sizer,
                before,
                ownership,
            },
        )
    }
}

impl Ownership {
    /// Returns the owners of other tables' rows that a change makes or removes,
    /// each with the table of those rows.
    pub(super) fn came_or_went(&self, change: &RowChange) -> Vec<(TableId, Key)> {
        let mut found = Vec::new();
        for (table, key) in &self.owns {
            // A row whose value names nobody owns nothing.
            let of = |row: &Option<Row>| row.as_ref().and_then(|row| key.key_of(row));
            let (before, after) = (of(&change.before), of(&change.after));
            if before != after {
                let owners = before.into_iter().chain(after);
                found.extend(owners.map(|owner| (*table, owner)));
            }
        }
        found
    }
}
