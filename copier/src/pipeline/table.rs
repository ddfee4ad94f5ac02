//! A table of the job, as the driver works on it.

use std::sync::Arc;

use oxferry_schema::{RowKey, TableName};

use crate::{ChunkSizer, engine::TablePlan};

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
            },
        )
    }
}
