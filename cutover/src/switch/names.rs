//! The names of a source's tables, before and after a locking rename.

use std::fmt;

use mysql_async::Conn;
use oxferry_schema::{ShadowNames, TableName};

use crate::{CutoverError, tables};

/// Which of a table's two names exist on the source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceSeen {
    /// The live table.
    pub table: TableName,
    /// Whether there is a table of its name.
    pub live: bool,
    /// Whether there is one of the name that a rename gives it.
    pub old: bool,
}

impl SourceSeen {
    /// Returns whether no whole rename leaves this behind.
    pub(super) const fn is_odd(&self) -> bool {
        self.live == self.old
    }
}

impl fmt::Display for SourceSeen {
    /// Writes `table d.t is gone, table d._t_oxold is there`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |there| if there { "there" } else { "gone" };
        let (live, old) = (word(self.live), word(self.old));
        let old_name = old_name(&self.table);
        write!(
            f,
            "table {} is {live}, table {} is {old}",
            self.table.plain(),
            old_name.plain()
        )
    }
}

/// Returns the name that a locking rename gives a table.
pub(super) fn old_name(table: &TableName) -> TableName {
    ShadowNames::beside(table).old
}

/// Looks for both names of every table.
pub(super) async fn look(
    conn: &mut Conn,
    tables: &[TableName],
) -> Result<Vec<SourceSeen>, CutoverError> {
    let mut all = Vec::with_capacity(tables.len());
    for table in tables {
        all.push(SourceSeen {
            table: table.clone(),
            live: tables::exists(conn, table).await?,
            old: tables::exists(conn, &old_name(table)).await?,
        });
    }
    Ok(all)
}

/// Returns the statement that takes the tables out of every writer's reach.
///
/// The comment stands in the binary log, so that the job's own stream can tell
/// it from a stranger's: see [`is_locking_rename`].
pub(super) fn away(tables: &[TableName]) -> String {
    rename(tables.iter().map(|table| (table.clone(), old_name(table))))
}

/// Returns the statement that undoes [`away`].
pub(super) fn back(tables: &[TableName]) -> String {
    rename(tables.iter().map(|table| (old_name(table), table.clone())))
}

fn rename(pairs: impl Iterator<Item = (TableName, TableName)>) -> String {
    let renames: Vec<_> = pairs.map(|(from, to)| format!("{from} TO {to}")).collect();
    format!("{LOCKING_RENAME} {}", renames.join(", "))
}

/// Returns whether a statement out of the binary log is a switch's own rename,
/// to lock its tables or to undo that.
#[must_use]
pub fn is_locking_rename(statement: &str) -> bool {
    statement.starts_with(LOCKING_RENAME)
}

const LOCKING_RENAME: &str = "RENAME TABLE /* oxferry */";

#[cfg(test)]
mod tests {
    use oxferry_schema::Ident;

    use super::*;

    #[test]
    fn every_table_is_renamed_in_one_statement_and_back() {
        let name = |table| TableName::new(Ident::new("d").unwrap(), Ident::new(table).unwrap());
        let tables = [name("a"), name("b")];
        assert_eq!(
            away(&tables),
            "RENAME TABLE /* oxferry */ `d`.`a` TO `d`.`_a_oxold`, `d`.`b` TO `d`.`_b_oxold`"
        );
        assert_eq!(
            back(&tables),
            "RENAME TABLE /* oxferry */ `d`.`_a_oxold` TO `d`.`a`, `d`.`_b_oxold` TO `d`.`b`"
        );
        assert!(is_locking_rename(&away(&tables)) && !is_locking_rename("RENAME TABLE a TO b"));
    }
}
