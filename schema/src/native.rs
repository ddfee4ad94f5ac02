//! Whether the server can change a table by itself, at once.

mod trial;

use std::fmt;

use crate::{Alter, Ident, ServerVersion, Table, TableName};

pub use trial::{NativeError, native_plan};

/// How the server changes a table without copying it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the third of MySQL's algorithms is COPY"
)]
pub enum Algorithm {
    /// Only the table's description changes.
    Instant,
    /// Here: only the table's description changes, and what is dropped goes.
    Inplace,
}

/// What the server would do to a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NativePlan {
    /// By which algorithms, in the order in which to try them; or why not.
    pub way: Result<Vec<Algorithm>, CopyReason>,
    /// What `SHOW CREATE TABLE` prints of the altered scratch copy; empty where
    /// the server didn't alter it.
    pub after: String,
}

/// Why a table has to be copied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CopyReason {
    /// The statement asks for a new table.
    #[error("{clause:?} asks for the table to be written anew")]
    AsksForRebuild {
        /// The clause.
        clause: String,
    },
    /// An index is built, which takes as long as the table is large.
    #[error("{clause:?} builds an index")]
    BuildsIndex {
        /// The clause.
        clause: String,
    },
    /// The server would write the table anew.
    #[error("the server would write the table, or an index, anew")]
    Rebuilds,
    /// The table has been changed instantly as often as the server allows.
    #[error("the table has had {used} of {max} instant changes: a copy sets the count to 0")]
    RowVersions {
        /// Instant changes so far.
        used: u64,
        /// The most that the server allows.
        max: u64,
    },
    /// The server refuses.
    #[error("the server refuses: {message}")]
    Refused {
        /// What it says.
        message: String,
    },
    /// Whether the server would write the table anew can't be seen.
    #[error(
        "without the PROCESS privilege it can't be seen whether the server would write the table anew"
    )]
    Unseen,
    /// The server or the table is none that changes so, or can't be tried.
    #[error("{0}")]
    Unable(String),
}

/// What the server did to an empty copy of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trial {
    pub(crate) instant: Answer,
    pub(crate) inplace: Answer,
}

/// What came of a statement with one algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The server refused, in its words.
    Refused(String),
    /// It was done; whether nothing but metadata changed, where that can be seen.
    Done(Option<bool>),
}

/// What an empty copy doesn't tell about the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Versions {
    /// How often the table was changed instantly, where that can be seen.
    pub(crate) used: Option<u64>,
    pub(crate) max: u64,
}

impl Algorithm {
    /// Returns the algorithm's name as MySQL spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Instant => "INSTANT",
            Self::Inplace => "INPLACE",
        }
    }

    /// What stands before the clauses: behind a partition clause nothing may.
    ///
    /// INSTANT takes no LOCK clause. Source: MySQL 9.7 manual, "Online DDL
    /// Performance and Concurrency".
    pub(crate) const fn clause(self) -> &'static str {
        match self {
            Self::Instant => "ALGORITHM=INSTANT",
            Self::Inplace => "ALGORITHM=INPLACE, LOCK=NONE",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Alter {
    /// Returns the statement that changes the live table by this algorithm, or
    /// fails without having changed anything.
    #[must_use]
    pub fn native_statement(&self, table: &TableName, algorithm: Algorithm) -> String {
        format!("ALTER TABLE {table} {}, {self}", algorithm.clause())
    }
}

/// Decides how `alter` makes `before` what `after` is, given what the server
/// did to an empty copy.
///
/// INPLACE counts only where it touches nothing but metadata: the server says
/// so by keeping the table and its indexes, and no clause may make an index.
/// Dropping one is fine.
pub(crate) fn decide(
    alter: &Alter,
    (before, after): (&Table, &Table),
    trial: &Trial,
    versions: Versions,
) -> Result<Vec<Algorithm>, CopyReason> {
    if let Some(clause) = alter.asks_for_rebuild() {
        return Err(CopyReason::AsksForRebuild {
            clause: clause.to_owned(),
        });
    }
    let inplace = inplace(alter, (before, after), &trial.inplace);
    let mut ways = Vec::new();
    if let Answer::Done(_) = trial.instant {
        match versions.used {
            Some(used) if takes_version(before, after) && used >= versions.max => {
                let max = versions.max;
                inplace
                    .clone()
                    .map_err(|_| CopyReason::RowVersions { used, max })?;
            }
            _ => ways.push(Algorithm::Instant),
        }
    }
    match inplace {
        Ok(()) => ways.push(Algorithm::Inplace),
        Err(reason) if ways.is_empty() => return Err(reason),
        Err(_) => {}
    }
    Ok(ways)
}

fn inplace(
    alter: &Alter,
    (before, after): (&Table, &Table),
    answer: &Answer,
) -> Result<(), CopyReason> {
    match answer {
        Answer::Refused(message) => {
            let message = message.clone();
            return Err(CopyReason::Refused { message });
        }
        Answer::Done(Some(false)) => {
            return Err(match alter.makes_index() {
                Some(clause) => builds(clause),
                None => CopyReason::Rebuilds,
            });
        }
        Answer::Done(_) => {}
    }
    if let Some(clause) = alter.makes_index() {
        return Err(builds(clause));
    }
    match answer {
        Answer::Done(None) if before.columns != after.columns => Err(CopyReason::Unseen),
        _ => Ok(()),
    }
}

fn builds(clause: &str) -> CopyReason {
    CopyReason::BuildsIndex {
        clause: clause.to_owned(),
    }
}

/// Whether an instant change of the columns is one of those that the server
/// counts: adding and dropping columns that rows hold.
///
/// Source: MySQL 9.7 manual, "Online DDL Operations".
fn takes_version(before: &Table, after: &Table) -> bool {
    let held = |table: &Table| -> Vec<Ident> {
        let held = table.columns.iter();
        let held = held.filter(|c| c.generated != Some(crate::Generated::Virtual));
        held.map(|column| column.name.clone()).collect()
    };
    let (before, after) = (held(before), held(after));
    // A column that is dropped and added again keeps its place or changes it;
    // the real table's answer is the last word.
    before.len() != after.len() || before.iter().any(|name| !after.contains(name))
}

/// Returns how many instant changes a table may have.
///
/// Source: MySQL 8.0 manual and 9.1 release notes; 255 was observed on 9.7.4.
pub(crate) fn row_versions_max(version: &ServerVersion) -> u64 {
    if version.is_mysql_at_least((9, 1, 0)) {
        255
    } else {
        64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, Generated, fixture};

    fn column(name: &str, generated: Option<Generated>) -> Column {
        Column {
            nullable: true,
            generated,
            ..fixture::column(name, "int")
        }
    }

    fn table(columns: Vec<Column>) -> Table {
        fixture::table(columns, [])
    }

    const OK: Answer = Answer::Done(Some(true));
    const REBUILT: Answer = Answer::Done(Some(false));
    const UNSEEN: Answer = Answer::Done(None);

    fn no() -> Answer {
        Answer::Refused("no".to_owned())
    }

    /// Decides about a table of one column that gets a second one where the
    /// clauses add it; `used` of 64 instant changes are used up.
    fn told(clauses: &str, instant: Answer, inplace: Answer, used: Option<u64>) -> String {
        let before = table(vec![column("a", None)]);
        let generated = clauses.contains("VIRTUAL").then_some(Generated::Virtual);
        let mut after = before.clone();
        if clauses.contains("ADD z") {
            after.columns.push(column("z", generated));
        }
        let alter = Alter::clauses(clauses).unwrap();
        let versions = Versions { used, max: 64 };
        let trial = Trial { instant, inplace };
        match decide(&alter, (&before, &after), &trial, versions) {
            Ok(ways) => ways
                .iter()
                .map(|way| way.as_str())
                .collect::<Vec<_>>()
                .join(" "),
            Err(reason) => reason.to_string(),
        }
    }

    #[test]
    fn instant_comes_first_and_inplace_only_where_nothing_is_written_anew() {
        let anew = "the server would write the table, or an index, anew";
        for (clauses, instant, inplace, expected) in [
            ("ADD z INT", OK, REBUILT, "INSTANT"),
            ("RENAME COLUMN a TO b", OK, OK, "INSTANT INPLACE"),
            ("DROP INDEX k", no(), OK, "INPLACE"),
            ("MODIFY a INT NOT NULL", no(), REBUILT, anew),
            ("MODIFY a BIGINT", no(), no(), "the server refuses: no"),
            (
                "ADD INDEX k (a)",
                no(),
                REBUILT,
                "\"ADD INDEX k (a)\" builds an index",
            ),
            // Of a partitioned table the server lists no indexes.
            (
                "ADD INDEX k (a)",
                no(),
                OK,
                "\"ADD INDEX k (a)\" builds an index",
            ),
            ("DROP INDEX k, ADD INDEX k (a)", OK, OK, "INSTANT"),
            (
                "MODIFY a INT UNIQUE",
                no(),
                OK,
                "\"MODIFY a INT UNIQUE\" builds an index",
            ),
        ] {
            assert_eq!(
                told(clauses, instant, inplace, Some(0)),
                expected,
                "{clauses}"
            );
        }
    }

    #[test]
    fn a_new_table_is_copied_whatever_the_server_could_do() {
        for clause in [
            "ENGINE=InnoDB",
            "FORCE",
            "ROW_FORMAT=DYNAMIC",
            "COMMENT 'x' ENCRYPTION='Y'",
            "REMOVE PARTITIONING",
            "PARTITION BY HASH (a)",
        ] {
            let expected = format!("{clause:?} asks for the table to be written anew");
            assert_eq!(told(clause, OK, OK, Some(0)), expected);
        }
        assert_eq!(told("COMMENT 'FORCE'", OK, OK, None), "INSTANT INPLACE");
    }

    #[test]
    fn used_up_row_versions_ask_for_a_copy() {
        let used_up = "the table has had 64 of 64 instant changes: a copy sets the count to 0";
        assert_eq!(told("ADD z INT", OK, REBUILT, Some(63)), "INSTANT");
        assert_eq!(told("ADD z INT", OK, REBUILT, Some(64)), used_up);
        assert_eq!(told("ADD z INT", OK, REBUILT, None), "INSTANT");
        let virtual_one = "ADD z INT AS (a) VIRTUAL";
        assert_eq!(told(virtual_one, OK, OK, Some(64)), "INSTANT INPLACE");
        assert_eq!(
            told("RENAME COLUMN a TO b", OK, OK, Some(64)),
            "INSTANT INPLACE"
        );
    }

    #[test]
    fn what_cannot_be_seen_is_not_taken_for_metadata() {
        assert_eq!(told("DROP INDEX k", no(), UNSEEN, None), "INPLACE");
        let unseen = told("ADD z INT", no(), UNSEEN, None);
        assert!(unseen.contains("PROCESS"), "{unseen}");
    }

    #[test]
    fn the_algorithm_stands_before_the_clauses() {
        let alter = Alter::clauses("DROP a, ADD b INT").unwrap();
        let name = table(Vec::new()).name;
        assert_eq!(
            alter.native_statement(&name, Algorithm::Inplace),
            "ALTER TABLE `d`.`t` ALGORITHM=INPLACE, LOCK=NONE, DROP a, ADD b INT"
        );
    }
}
