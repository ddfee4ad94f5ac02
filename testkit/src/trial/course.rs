//! The course of a trial: the tables, the writers, the program, the swap.

use std::{path::PathBuf, time::Duration};

use mysql_async::{Conn, prelude::Queryable};

use super::{
    Change, Expect, Trial, TrialError,
    definition::{Definition, triggers},
    replay::LogPlace,
    twin::Twin,
    writing::{Plan, Writing},
};
use crate::{
    server::Schema,
    tables::quote,
    tool::{Finished, Oxferry, Running, ToolError},
};

/// How long anything may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(150);
/// How long the writers may take to write something before the program runs.
const WRITERS_LIMIT: Duration = Duration::from_secs(30);
/// A refusal is waited for so long before the sentinel is dropped.
const REFUSAL_WAIT: Duration = Duration::from_secs(8);
/// Loops of every writer in each part of a job.
const LOOPS: u64 = 5;
/// For making tables: recursive queries may have as many rows as a trial needs.
const SETTINGS: &str = "SET SESSION cte_max_recursion_depth = 1000000";

/// What happened, for the judge.
pub(super) struct Course {
    pub(super) conn: Conn,
    pub(super) finished: Finished,
    /// The definitions of the changed tables before the job.
    pub(super) definitions: Vec<Definition>,
    pub(super) triggers: Vec<String>,
    /// All tables before the job.
    pub(super) tables: Vec<String>,
    /// The rows from before the job, where nobody wrote.
    pub(super) twin: Twin,
    pub(super) cloned: bool,
    /// The binary log from before the swap to after the last write.
    pub(super) log: (LogPlace, LogPlace),
    pub(super) written: [u64; 3],
    /// What went wrong on the way.
    pub(super) wrong: Vec<String>,
}

/// Holds the trial; nothing is judged yet.
pub(super) async fn run(
    trial: &Trial,
    schema: &Schema,
    program: PathBuf,
) -> Result<Course, TrialError> {
    let mut conn = schema.conn().await?;
    for statement in [SETTINGS.to_owned()].iter().chain(&trial.create) {
        conn.query_drop(&**statement)
            .await
            .map_err(TrialError::sql(statement))?;
    }
    let mut definitions = Vec::new();
    for table in &trial.tables {
        // The program sizes its chunks by the server's statistics.
        let analyze = format!("ANALYZE TABLE {}", quote(table));
        conn.query_drop(&*analyze)
            .await
            .map_err(TrialError::sql(&analyze))?;
        definitions.push(Definition::read(&mut conn, schema.name(), table).await?);
    }
    let tables = tables(&mut conn).await?;
    let triggers = triggers(&mut conn, schema.name()).await?;
    let mut twin = Twin::create(schema).await?;
    let cloned = trial.writers.is_empty() && trial.mid.is_empty() && trial.expect != Expect::Copied;
    if cloned {
        for (table, definition) in trial.tables.iter().zip(&definitions) {
            twin.clone_table(table, definition, table).await?;
        }
    }
    let plan = Plan {
        scripts: trial.writers.clone(),
        after: trial.after.clone(),
        accepted: trial.accepted.clone(),
        seed: trial.seed,
    };
    let mut writing = Writing::start(schema, &plan).await?;
    writing.wait_loops(1, WRITERS_LIMIT).await?;
    let running = oxferry(trial, schema, program).spawn()?;
    let job = Job {
        trial,
        conn: &mut conn,
        writing: &mut writing,
    };
    let (finished, log, written, mut wrong) = job.follow(running).await?;
    wrong.extend(writing.stop().await);
    let end = LogPlace::now(&mut conn).await?;
    Ok(Course {
        conn,
        finished,
        definitions,
        triggers,
        tables,
        twin,
        cloned,
        log: (log, end),
        written,
        wrong,
    })
}

/// The tables of the session's database.
pub(super) async fn tables(conn: &mut Conn) -> Result<Vec<String>, TrialError> {
    let query = "SHOW TABLES";
    conn.query(query).await.map_err(TrialError::sql(query))
}

fn oxferry(trial: &Trial, schema: &Schema, program: PathBuf) -> Oxferry {
    let url = schema.url();
    let mut call = Oxferry::new(["migrate", "--source", &url]).program(program);
    match &trial.change {
        Change::Clauses(clauses) => {
            let table = trial.tables.first().map_or("t", String::as_str);
            call = call.arg("--table").arg(table).arg("--alter").arg(clauses);
        }
        Change::Statements(statements) => {
            for statement in statements {
                call = call.arg("--statement").arg(statement);
            }
        }
    }
    let small = ["--chunk-time", "5ms", "--chunk-bytes", "2K", "--yes"];
    for option in small {
        call = call.arg(option);
    }
    if !matches!(trial.expect, Expect::Native) {
        // Cases that can be changed at once are copied all the same.
        for option in ["--native-ddl", "off", "--defer-cutover", "--keep-old-table"] {
            call = call.arg(option);
        }
    }
    for option in &trial.options {
        call = call.arg(option);
    }
    call
}

struct Job<'a> {
    trial: &'a Trial,
    conn: &'a mut Conn,
    writing: &'a mut Writing,
}

type Followed = (Finished, LogPlace, [u64; 3], Vec<String>);

impl Job<'_> {
    /// Follows the program to its end, and drops the sentinel on the way.
    async fn follow(mut self, mut running: Running) -> Result<Followed, TrialError> {
        let mut wrong = Vec::new();
        let begun = self.writing.statements();
        if !reaches(&mut running, "deferred").await? {
            let log = LogPlace::now(self.conn).await?;
            let finished = running.wait_exit(LIMIT).await?;
            if matches!(self.trial.expect, Expect::Native) {
                self.write_afterwards().await?;
            }
            let copied = self.writing.statements() - begun;
            return Ok((finished, log, [copied, 0, 0], wrong));
        }
        let deferred = self.writing.statements();
        self.run_mid().await?;
        self.writing.wait_loops(LOOPS, LIMIT).await?;
        if !self.trial.projections.is_empty() {
            wrong.extend(self.writing.stop().await);
        }
        if !matches!(self.trial.expect, Expect::Copied | Expect::AsServer) {
            let by_itself = tokio::time::timeout(REFUSAL_WAIT, running.wait_line("ERROR", LIMIT));
            // If no error comes by itself, one must come at the cutover.
            drop(by_itself.await);
        }
        let log = LogPlace::now(self.conn).await?;
        self.drop_sentinel().await?;
        let finished = running.wait_exit(LIMIT).await?;
        let swapped = self.writing.statements();
        if finished.code == Some(0) && self.trial.projections.is_empty() {
            self.write_afterwards().await?;
        }
        let after = self.writing.statements() - swapped;
        let written = [deferred - begun, swapped - deferred, after];
        Ok((finished, log, written, wrong))
    }

    async fn write_afterwards(&self) -> Result<(), TrialError> {
        self.writing.enter_after();
        Ok(self.writing.wait_loops(LOOPS, LIMIT).await?)
    }

    async fn run_mid(&mut self) -> Result<(), TrialError> {
        for statement in &self.trial.mid {
            self.conn
                .query_drop(&**statement)
                .await
                .map_err(TrialError::sql(statement))?;
        }
        Ok(())
    }

    async fn drop_sentinel(&mut self) -> Result<(), TrialError> {
        for table in tables(self.conn).await? {
            if table.ends_with("_oxsentinel") {
                let drop = format!("DROP TABLE {}", quote(&table));
                self.conn
                    .query_drop(&*drop)
                    .await
                    .map_err(TrialError::sql(&drop))?;
            }
        }
        Ok(())
    }
}

/// Whether the program announces `phase`; not if it ends before.
async fn reaches(running: &mut Running, phase: &str) -> Result<bool, TrialError> {
    match running.wait_phase(phase, LIMIT).await {
        Ok(_) => Ok(true),
        Err(ToolError::Ended { .. }) => Ok(false),
        Err(other) => Err(other.into()),
    }
}
