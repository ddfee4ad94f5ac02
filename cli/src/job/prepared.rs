//! A job whose objects stand: what it copies with.

use std::sync::Arc;

use mysql_async::Conn;
use oxferry_binlog::Position;
use oxferry_copier::{Connections, CopyError, CopyPlan, DeferredIndexes};
use oxferry_cutover::Sentinel;
use oxferry_schema::{Ident, Table};
use oxferry_state::TableProgress;
use oxferry_verifier::ColumnPair;

use super::{Job, JobTable, Saver};
use crate::failure::{Failure, remedied};

remedied!(CopyError);

/// A job that is ready to copy.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Sessions on the source, for reading: of all tables together.
    pub(crate) source: Arc<Connections>,
    /// Sessions on the target, for copying and applying; with one server, the
    /// same.
    pub(crate) target: Arc<Connections>,
    /// The tables, in the order of [`Job::tables`].
    pub(crate) tables: Vec<PreparedTable>,
    /// Where the stream begins.
    pub(crate) start: Position,
    /// Whether there were runs before this one.
    pub(crate) resumed: bool,
}

/// One table that is ready to be copied.
#[derive(Debug)]
pub(crate) struct PreparedTable {
    /// What is copied where.
    pub(crate) plan: CopyPlan,
    /// The target, as it was when the plan was made.
    pub(crate) target: Table,
    /// Which columns hold the same on both sides.
    pub(crate) pairs: Vec<ColumnPair>,
    /// What is built after the copy.
    pub(crate) deferred: DeferredIndexes,
    /// The unique indexes among them that the source's own don't imply.
    pub(crate) new_uniques: Vec<Ident>,
    /// What the runs before this one have done.
    pub(crate) progress: TableProgress,
    /// Whether the target may hold rows of ranges that aren't copied yet: those
    /// of an earlier run, or of a table that stood there before.
    pub(crate) may_hold_rows: bool,
}

impl Prepared {
    /// Returns the tables, each with what the job knows of it.
    pub(crate) fn of<'a>(
        &'a self,
        job: &'a Job,
    ) -> impl Iterator<Item = (&'a JobTable, &'a PreparedTable)> + Clone {
        job.tables.iter().zip(&self.tables)
    }

    /// Returns whether a unique index is among what is built after the copy.
    pub(crate) fn builds_unique(&self) -> bool {
        self.tables.iter().any(PreparedTable::builds_unique)
    }

    /// Returns whether one of them is new or stricter.
    pub(crate) fn adds_unique(&self) -> bool {
        self.tables
            .iter()
            .any(|table| !table.new_uniques.is_empty())
    }
}

impl PreparedTable {
    /// Returns whether a unique index is among what is built after the copy.
    pub(crate) fn builds_unique(&self) -> bool {
        self.deferred.unique_names().next().is_some()
    }
}

/// Makes the sentinel where the operator wants one and none was made `before`.
pub(crate) async fn make_sentinel(
    job: &Job,
    conn: &mut Conn,
    saver: &Saver,
    before: bool,
) -> Result<(), Failure> {
    if !job.settings.postpone.defer_cutover || before {
        return Ok(());
    }
    Sentinel::new(job.sentinel.clone()).create(conn).await?;
    saver.save(|checkpoint| checkpoint.postponed = true).await
}
