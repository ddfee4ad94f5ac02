//! Trials: one table, one change, writers, and the server itself as the judge.
//!
//! A [`Trial`] runs `oxferry migrate` under writers. Afterwards the old table
//! is cloned, the same change is made on the clone by the server's own
//! copying `ALTER TABLE`, what was written after the swap is applied to the
//! clone out of the binary log, and both tables must be the same in their
//! definition and in every byte of every row.

mod course;
mod definition;
mod judge;
mod replay;
mod rows;
mod script;
mod sql;
mod twin;
mod writing;

use std::{path::PathBuf, sync::Arc, time::Duration};

pub use script::Script;
pub use sql::statements;

use crate::{
    server::{Schema, Server, ServerError},
    tool::ToolError,
    wait::NotInTime,
};

/// A change, the world that it happens in, and what must come of it.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Makes the tables and their rows.
    pub create: Vec<String>,
    /// The tables that are changed; the first one names the job.
    pub tables: Vec<String>,
    /// What is changed.
    pub change: Change,
    /// One per writer.
    pub writers: Vec<Script>,
    /// What every writer runs once the new table is there; else it goes on.
    pub after: Option<Script>,
    /// Run once while the cutover is postponed.
    pub mid: Vec<String>,
    /// Errors of the server that a writer may meet.
    pub accepted: Vec<u16>,
    /// Further options of the program.
    pub options: Vec<String>,
    /// What random numbers in scripts start from.
    pub seed: u64,
    /// What must come of it.
    pub expect: Expect,
    /// Queries and the rows that they must return at the end.
    pub finals: Vec<Answer>,
    /// Queries on the old and on the new table that must return the same.
    /// Writers end before the swap then.
    pub projections: Vec<(String, String)>,
}

/// What is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Clauses of an `ALTER TABLE` of the first table.
    Clauses(String),
    /// Whole statements.
    Statements(Vec<String>),
}

/// What must come of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// The table is copied and equals what the server makes of it.
    Copied,
    /// The server's own change in place is used; there is no old table.
    Native,
    /// The program refuses, and the source stays as it was.
    Refused(Refusal),
    /// The program does what the server does: copies, or refuses.
    AsServer,
}

/// How the program refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its exit code.
    pub code: i32,
    /// What its log must contain.
    pub contains: Vec<String>,
    /// The tables that it may leave behind.
    pub leaves: Vec<String>,
}

/// A query and the rows that it must return, columns joined by `|`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The query.
    pub query: String,
    /// The rows in the order of the query.
    pub rows: Vec<String>,
}

/// What came of a trial that is judged right.
#[derive(Debug, Clone)]
pub struct Report {
    /// What the program did.
    pub outcome: Outcome,
    /// Rows that were compared.
    pub rows: usize,
    /// Committed statements that changed rows: while rows were copied, while
    /// the cutover was postponed, after the swap.
    pub written: [u64; 3],
    /// How long the program ran.
    pub took: Duration,
}

/// What the program did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It changed the table.
    Migrated,
    /// It refused as expected, or as the server does with the same table.
    Refused,
    /// It refused what the server does; its last words.
    RefusedAlone(String),
}

/// Why a trial isn't judged right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// The outcome is wrong.
    #[error("{0}")]
    Wrong(String),
    /// The trial can't be held.
    #[error("the trial can't be held: {0}")]
    Setup(String),
    /// A statement of the trial fails.
    #[error("running {statement:.400} failed: {source}")]
    Sql {
        /// The statement.
        statement: String,
        /// What the server said.
        source: mysql_async::Error,
    },
    /// There is no server.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The program can't be run, or doesn't do what is waited for.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// Something else didn't come.
    #[error(transparent)]
    Late(#[from] NotInTime),
}

impl TrialError {
    /// Whether the program is to blame, rather than the trial itself.
    #[must_use]
    pub const fn is_programs(&self) -> bool {
        match self {
            Self::Wrong(_) | Self::Tool(_) => true,
            Self::Setup(_) | Self::Sql { .. } | Self::Server(_) | Self::Late(_) => false,
        }
    }

    /// An error of `statement`.
    fn sql(statement: &str) -> impl FnOnce(mysql_async::Error) -> Self {
        let statement = statement.to_owned();
        move |source| Self::Sql { statement, source }
    }
}

impl Trial {
    /// A copy of table `t` by `clauses`, without writers.
    #[must_use]
    pub fn new(create: Vec<String>, clauses: &str) -> Self {
        Self {
            create,
            tables: vec!["t".to_owned()],
            change: Change::Clauses(clauses.to_owned()),
            writers: Vec::new(),
            after: None,
            mid: Vec::new(),
            accepted: Vec::new(),
            options: Vec::new(),
            seed: 1,
            expect: Expect::Copied,
            finals: Vec::new(),
            projections: Vec::new(),
        }
    }

    /// Runs `program`, and judges what came of it.
    ///
    /// # Errors
    ///
    /// [`TrialError::Wrong`] with all that is wrong and the program's log.
    pub async fn run(&self, server: Arc<Server>, program: PathBuf) -> Result<Report, TrialError> {
        let schema = Schema::on(server).await?;
        let course = course::run(self, &schema, program).await?;
        let report = judge::judge(self, &schema, course).await?;
        let drop = format!("DROP DATABASE `{}`", schema.name());
        schema.server().execute(&[&drop]).await?;
        Ok(report)
    }

    /// The change as whole statements.
    fn statements(&self) -> Vec<String> {
        match &self.change {
            Change::Statements(statements) => statements.clone(),
            Change::Clauses(clauses) => {
                let table = self.tables.first().map_or("t", String::as_str);
                vec![format!(
                    "ALTER TABLE {} {clauses}",
                    crate::tables::quote(table)
                )]
            }
        }
    }
}
