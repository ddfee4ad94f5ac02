//! What a stream hands out.

use oxferry_schema::Row;

use crate::{FilePosition, Gtid};

/// One step of a stream.
///
/// A transaction is any number of `Rows`, then its `Commit`. Everything
/// between two commits belongs to one transaction.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a new kind must reach everybody who reads a stream"
)]
pub enum StreamEvent {
    /// Changes of one watched table, in the order of the log.
    Rows {
        /// Which table, as an index into the list of watched tables.
        table: usize,
        /// The changes.
        changes: Vec<RowChange>,
    },
    /// A transaction ended, whether it touched a watched table or not.
    Commit {
        /// The position right behind it.
        end: FilePosition,
        /// Its GTID, where the server gives one.
        gtid: Option<Gtid>,
    },
    /// The position moved on without a transaction: a rotation, a new file's
    /// head, a heartbeat. Never inside a transaction.
    Progress {
        /// The position reached.
        end: FilePosition,
    },
    /// A statement changed, renamed, emptied or dropped a watched table.
    Ddl {
        /// Which table, as an index into the list of watched tables.
        table: usize,
        /// The statement, shortened to a readable length.
        statement: String,
        /// The position right behind it.
        end: FilePosition,
        /// Its GTID, where the server gives one.
        gtid: Option<Gtid>,
    },
}

/// One row's change, with full images.
///
/// An insert has no `before`, a delete no `after`.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "a change is its two images")]
pub struct RowChange {
    /// The row as it was.
    pub before: Option<Row>,
    /// The row as it is now.
    pub after: Option<Row>,
}

impl RowChange {
    /// Returns the images that there are: the row as it was, then as it is now.
    pub fn images(&self) -> impl Iterator<Item = &Row> {
        [&self.before, &self.after].into_iter().flatten()
    }
}
