//! Which job a checkpoint belongs to.

use oxferry_schema::{Alter, Remedy, TableName};
use serde::{Deserialize, Serialize};

use crate::fingerprint;

/// What tells one job from another: its tables, and what it does to them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a new part would be a new format"
)]
pub struct JobIdentity {
    /// The job's name: its first source table, as `database.table`.
    pub name: String,
    /// What the job does.
    pub kind: JobKind,
    /// The source tables, in the order they were given.
    pub tables: Vec<TableName>,
    /// The statements, just as they were given; of a move, a line for each
    /// table, `db.t to db2.t`, and for each option that says which rows go.
    ///
    /// Two jobs are compared by the statements' fingerprints
    /// ([`Alter::fingerprint`], or else [`fingerprint`]), worked out at that
    /// moment, so that a better fingerprint orphans no checkpoint.
    pub statements: Vec<String>,
}

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(
    clippy::exhaustive_enums,
    reason = "a new kind must reach every place that resumes one"
)]
pub enum JobKind {
    /// Changes tables' schema on one server.
    Migrate,
    /// Moves tables to another server.
    Move,
}

/// How a stored checkpoint differs from what is asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// The checkpoint belongs to another job.
    #[error("the checkpoint is of job {held:?}, not of {asked:?}")]
    Name {
        /// The checkpoint's job.
        held: String,
        /// The job asked for.
        asked: String,
    },
    /// The job does something else.
    #[error("the checkpoint is of a {held:?} job, not of a {asked:?} job")]
    Kind {
        /// What the checkpoint's job does.
        held: JobKind,
        /// What is asked for.
        asked: JobKind,
    },
    /// The job works on other tables.
    #[error(
        "the checkpoint is about the tables {}, not {}; give the same tables, or start anew with --fresh",
        plain(.held), plain(.asked)
    )]
    Tables {
        /// The checkpoint's source tables.
        held: Vec<TableName>,
        /// The source tables asked for.
        asked: Vec<TableName>,
    },
    /// The job runs another statement.
    #[error(
        "the half-built table belongs to the statement {held:?}, not to {asked:?}; give the same statement to go on, or start anew with --fresh"
    )]
    Statement {
        /// The checkpoint's statement, empty where it has none at this place.
        held: String,
        /// The statement asked for, empty where there is none at this place.
        asked: String,
    },
    /// The move goes elsewhere, or takes other rows.
    #[error(
        "the half-filled tables belong to the move {held:?}, not to {asked:?}; give the same options to go on, or start anew with --fresh"
    )]
    Destination {
        /// Where the checkpoint's job moves what.
        held: String,
        /// Where what is to be moved.
        asked: String,
    },
    /// A source table was changed since the job began.
    #[error(
        "the table {} was changed since the job began; start anew with --fresh", .table.plain()
    )]
    SourceChanged {
        /// The table.
        table: TableName,
    },
    /// A half-built table is not as the job left it.
    #[error(
        "somebody else changed table {}, which the job fills: {change}; start anew with --fresh",
        .table.plain()
    )]
    ShadowChanged {
        /// The table.
        table: TableName,
        /// What is new or gone in its definition.
        change: String,
    },
}

impl JobIdentity {
    /// Describes a schema change, named after its first table.
    #[must_use]
    pub fn migrate(tables: Vec<TableName>, statements: Vec<String>) -> Self {
        Self {
            name: tables.first().map(TableName::plain).unwrap_or_default(),
            kind: JobKind::Migrate,
            tables,
            statements,
        }
    }

    /// Describes a move, named after the first of its source tables by name;
    /// `lines` say where each table goes, and which rows.
    #[must_use]
    pub fn moving(tables: Vec<TableName>, lines: Vec<String>) -> Self {
        Self {
            name: tables
                .iter()
                .min()
                .map(TableName::plain)
                .unwrap_or_default(),
            kind: JobKind::Move,
            tables,
            statements: lines,
        }
    }

    /// Returns whether a job that left `self` behind is the one `asked` for.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] names the first difference.
    pub fn matches(&self, asked: &Self) -> Result<(), Mismatch> {
        if self.kind != asked.kind {
            return Err(Mismatch::Kind {
                held: self.kind,
                asked: asked.kind,
            });
        }
        if !self.has_tables_of(asked) {
            return Err(Mismatch::Tables {
                held: self.tables.clone(),
                asked: asked.tables.clone(),
            });
        }
        if self.kind == JobKind::Move && self.statements != asked.statements {
            return Err(Mismatch::Destination {
                held: self.statements.join("; "),
                asked: asked.statements.join("; "),
            });
        }
        for i in 0..self.statements.len().max(asked.statements.len()) {
            let [held, asked] =
                [self, asked].map(|job| job.statements.get(i).map_or("", String::as_str));
            if canonical(held) != canonical(asked) {
                return Err(Mismatch::Statement {
                    held: held.to_owned(),
                    asked: asked.to_owned(),
                });
            }
        }
        if self.name != asked.name {
            return Err(Mismatch::Name {
                held: self.name.clone(),
                asked: asked.name.clone(),
            });
        }
        Ok(())
    }
}

impl JobIdentity {
    /// A migrate swaps its tables in the order in which they were given; to a
    /// move the order is only which table is copied first.
    fn has_tables_of(&self, asked: &Self) -> bool {
        match self.kind {
            JobKind::Migrate => self.tables == asked.tables,
            JobKind::Move => {
                let sorted = |tables: &[TableName]| {
                    let mut tables = tables.to_vec();
                    tables.sort();
                    tables
                };
                sorted(&self.tables) == sorted(&asked.tables)
            }
        }
    }
}

impl Mismatch {
    /// Says what to do about this error.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::Name { .. }
            | Self::Kind { .. }
            | Self::Tables { .. }
            | Self::Statement { .. }
            | Self::Destination { .. }
            | Self::SourceChanged { .. } => Remedy::Usage,
            Self::ShadowChanged { .. } => Remedy::State,
        }
    }
}

/// The statement's own fingerprint, or that of its text where it can't be read,
/// as one of a newer version may not.
fn canonical(statement: &str) -> String {
    Alter::parse(statement).map_or_else(
        |_| fingerprint(statement),
        |alter| alter.fingerprint().to_owned(),
    )
}

fn plain(tables: &[TableName]) -> String {
    let names: Vec<_> = tables.iter().map(TableName::plain).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use oxferry_schema::Ident;

    use super::*;

    fn job(table: &str, statements: &[&str]) -> JobIdentity {
        let table = TableName::new(Ident::new("shop").unwrap(), Ident::new(table).unwrap());
        let statements = statements.iter().map(|s| (*s).to_owned()).collect();
        JobIdentity::migrate(vec![table], statements)
    }

    #[track_caller]
    fn check(held: &JobIdentity, asked: &JobIdentity, expected: Expect) {
        expected.assert_eq(&held.matches(asked).unwrap_err().to_string());
    }

    #[test]
    fn a_job_is_named_after_its_first_table() {
        assert_eq!(job("orders", &[]).name, "shop.orders");
    }

    #[test]
    fn the_same_statement_with_other_spaces_is_the_same_job() {
        let held = job("orders", &["ALTER TABLE orders ADD x INT"]);
        assert_eq!(
            held.matches(&job("orders", &["ALTER TABLE  orders\nADD x INT;"])),
            Ok(())
        );
    }

    #[test]
    fn the_same_statement_in_other_words_is_the_same_job() {
        let held = job(
            "orders",
            &["ALTER TABLE `shop`.`orders` add column `x` int"],
        );
        for same in [
            "alter table orders ADD COLUMN x INT -- as before",
            "ALTER TABLE orders ADD COLUMN x int",
        ] {
            assert_eq!(held.matches(&job("orders", &[same])), Ok(()), "{same}");
        }
        let other = job("orders", &["ALTER TABLE orders ADD COLUMN X int"]);
        assert!(held.matches(&other).is_err());
    }

    #[test]
    fn another_statement_is_named() {
        check(
            &job("orders", &["ADD x INT"]),
            &job("orders", &["ADD y INT"]),
            expect![[
                r#"the half-built table belongs to the statement "ADD x INT", not to "ADD y INT"; give the same statement to go on, or start anew with --fresh"#
            ]],
        );
    }

    #[test]
    fn a_statement_more_or_less_is_another_job() {
        let (one, two) = (
            job("t", &["ADD x INT"]),
            job("t", &["ADD x INT", "ADD y INT"]),
        );
        for (held, asked) in [(&one, &two), (&two, &one)] {
            assert!(matches!(
                held.matches(asked),
                Err(Mismatch::Statement { .. })
            ));
        }
    }

    #[test]
    fn a_move_to_another_place_is_another_job() {
        let to = |line: &str| {
            let job = job("orders", &[]);
            JobIdentity::moving(job.tables, vec![line.to_owned()])
        };
        let held = to("shop.orders to shop2.orders");
        assert_eq!(held.matches(&held), Ok(()));
        check(
            &held,
            &to("shop.orders to shop3.orders"),
            expect![[
                r#"the half-filled tables belong to the move "shop.orders to shop2.orders", not to "shop.orders to shop3.orders"; give the same options to go on, or start anew with --fresh"#
            ]],
        );
    }

    #[test]
    fn another_table_is_named() {
        check(
            &job("orders", &["ADD x INT"]),
            &job("items", &["ADD x INT"]),
            expect![
                "the checkpoint is about the tables shop.orders, not shop.items; give the same tables, or start anew with --fresh"
            ],
        );
    }
}
