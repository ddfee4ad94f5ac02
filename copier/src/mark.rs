//! How the job's own transactions are told from others' on the target.

use oxferry_schema::TableName;

/// A small write that begins each transaction which changes target tables.
///
/// Whoever reads the target's binary log tells the job's transactions from
/// others' by it: the first table that they change is `table`. It is a row of
/// the job's state table for each session, so that sessions don't wait for each
/// other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the table that it is in")]
pub struct Mark {
    /// The target's state table.
    pub table: TableName,
}

impl Mark {
    /// Returns the statement for the session number `number`.
    pub(crate) fn sql(&self, number: usize) -> String {
        format!(
            "INSERT INTO {} (job, sequence, payload) VALUES ('(mark {number})', 1, '') \
             ON DUPLICATE KEY UPDATE sequence = sequence + 1",
            self.table
        )
    }
}
