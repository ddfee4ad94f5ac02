//! What a trial's outcome is held against.

use std::collections::BTreeSet;

use mysql_async::{Conn, Row, Value, prelude::Queryable};

use super::{
    Answer, Expect, Outcome, Refusal, Report, Trial, TrialError,
    course::{Course, tables},
    definition::{Definition, triggers},
    replay,
};
use crate::server::Schema;

/// Lines of the program's log that are shown.
const LOG_MAX: usize = 40;

/// Judges what happened.
pub(super) async fn judge(
    trial: &Trial,
    schema: &Schema,
    mut course: Course,
) -> Result<Report, TrialError> {
    let took = course.finished.took;
    let written = course.written;
    let mut judge = Judge {
        trial,
        schema,
        wrong: std::mem::take(&mut course.wrong),
        course,
        rows: 0,
    };
    let outcome = judge.outcome().await?;
    judge.answers().await?;
    if judge.wrong.is_empty() {
        let rows = judge.rows;
        judge.course.twin.remove().await?;
        return Ok(Report {
            outcome,
            rows,
            written,
            took,
        });
    }
    let complaints = judge.wrong.join("\n");
    let lines = &judge.course.finished.lines;
    let skipped = lines.len().saturating_sub(LOG_MAX);
    let log: Vec<&str> = lines.iter().skip(skipped).map(|line| &*line.text).collect();
    Err(TrialError::Wrong(format!(
        "{complaints}\nthe end of the program's log:\n{}",
        log.join("\n")
    )))
}

struct Judge<'a> {
    trial: &'a Trial,
    schema: &'a Schema,
    course: Course,
    wrong: Vec<String>,
    rows: usize,
}

impl Judge<'_> {
    async fn outcome(&mut self) -> Result<Outcome, TrialError> {
        let code = self.course.finished.code;
        match &self.trial.expect {
            Expect::Copied => {
                self.code_is(0);
                if code == Some(0) {
                    self.copied().await?;
                }
                Ok(Outcome::Migrated)
            }
            Expect::Native => {
                self.code_is(0);
                if code == Some(0) {
                    self.native().await?;
                }
                Ok(Outcome::Migrated)
            }
            Expect::Refused(refusal) => {
                self.refused(refusal).await?;
                Ok(Outcome::Refused)
            }
            Expect::AsServer if code == Some(0) => {
                self.copied().await?;
                Ok(Outcome::Migrated)
            }
            Expect::AsServer => self.refused_as_server().await,
        }
    }

    fn code_is(&mut self, code: i32) {
        if self.course.finished.code != Some(code) {
            let found = self.course.finished.code;
            self.wrong
                .push(format!("the program ended with {found:?}, not {code}"));
        }
    }

    /// The tables that the job has left beside those that were there.
    async fn tables_left(&mut self) -> Result<BTreeSet<String>, TrialError> {
        let now = tables(&mut self.course.conn).await?;
        let before = &self.course.tables;
        Ok(now
            .into_iter()
            .filter(|table| !before.contains(table))
            .collect())
    }

    /// The new tables equal what the server makes of the old ones.
    async fn copied(&mut self) -> Result<(), TrialError> {
        self.wrote_in_every_part();
        let left = self.tables_left().await?;
        let Some(old) = self.old_tables(&left) else {
            self.wrong
                .push(format!("no old tables are there, but {left:?}"));
            return Ok(());
        };
        if left.len() != old.len() {
            self.wrong
                .push(format!("besides {old:?}, {left:?} are left"));
        }
        let tables = self.trial.tables.iter().zip(&self.course.definitions);
        for ((table, definition), old) in tables.zip(&old) {
            self.course.twin.clone_table(table, definition, old).await?;
        }
        self.projections(&old).await?;
        if let Err(error) = self.course.twin.change(&self.trial.statements()).await {
            self.wrong
                .push(format!("the server itself refuses the change: {error}"));
            return Ok(());
        }
        if !self.trial.writers.is_empty() && self.trial.projections.is_empty() {
            self.replay().await?;
        }
        self.compare().await?;
        let triggers = triggers(&mut self.course.conn, self.schema.name()).await?;
        if triggers != self.course.triggers {
            let before = &self.course.triggers;
            self.wrong.push(format!(
                "the triggers are {triggers:#?}, and were {before:#?}"
            ));
        }
        Ok(())
    }

    /// The writes really ran, in each part of the job.
    fn wrote_in_every_part(&mut self) {
        let swap_too = self.trial.projections.is_empty();
        let parts = [
            "while rows were copied",
            "while the cutover was postponed",
            "after the swap",
        ];
        let parts = parts.iter().zip(self.course.written);
        for (part, written) in parts.take(if swap_too { 3 } else { 2 }) {
            if written == 0 && !self.trial.writers.is_empty() {
                self.wrong.push(format!("nothing was written {part}"));
            }
        }
    }

    /// The old table of each changed one, in their order.
    fn old_tables(&self, left: &BTreeSet<String>) -> Option<Vec<String>> {
        let olds: Vec<&String> = left
            .iter()
            .filter(|table| table.ends_with("_oxold"))
            .collect();
        if let ([_], [only]) = (&*self.trial.tables, &*olds) {
            // A long name is cut.
            return Some(vec![(*only).clone()]);
        }
        let old = |table: &String| {
            let name = format!("_{table}_oxold");
            left.contains(&name).then_some(name)
        };
        self.trial.tables.iter().map(old).collect()
    }

    async fn replay(&mut self) -> Result<(), TrialError> {
        let names = (self.schema.name(), self.course.twin.database());
        let log = (&self.course.log.0, &self.course.log.1);
        let dump = replay::dump(self.schema.server(), log, names).await?;
        let database = crate::tables::quote(names.0);
        let swap = |sql: &str| {
            sql.starts_with("RENAME TABLE") && sql.contains(&database) && sql.contains("_oxold")
        };
        match replay::after_swap(&dump, (names.1, &self.trial.tables), swap) {
            Some(statements) => self.course.twin.replay(&statements).await,
            None => {
                self.wrong
                    .push("the swap isn't in the binary log".to_owned());
                Ok(())
            }
        }
    }

    async fn compare(&mut self) -> Result<(), TrialError> {
        for table in &self.trial.tables {
            let (wrong, rows) = self.course.twin.complaints(table).await?;
            self.wrong.extend(wrong);
            self.rows += rows;
        }
        Ok(())
    }

    async fn projections(&mut self, old: &[String]) -> Result<(), TrialError> {
        for (before, after) in &self.trial.projections {
            let first = old.first().map_or("", String::as_str);
            let before = before.replace("{old}", &crate::tables::quote(first));
            let expected = ask(&mut self.course.conn, &before).await?;
            let found = ask(&mut self.course.conn, after).await?;
            if expected != found {
                self.wrong.push(format!(
                    "{after}\nreturns {found:?},\nand {before}\nreturns {expected:?}"
                ));
            }
        }
        Ok(())
    }

    /// Clones the tables into the twin's database, unless that is done.
    async fn clone_tables(&mut self) -> Result<(), TrialError> {
        let course = &mut self.course;
        if course.cloned {
            return Ok(());
        }
        for (table, definition) in self.trial.tables.iter().zip(&course.definitions) {
            course.twin.clone_table(table, definition, table).await?;
        }
        Ok(())
    }

    /// The definition is the server's; so are the rows, if nobody wrote.
    async fn native(&mut self) -> Result<(), TrialError> {
        let left = self.tables_left().await?;
        if !left.is_empty() {
            self.wrong.push(format!("{left:?} are left"));
        }
        self.clone_tables().await?;
        if let Err(error) = self.course.twin.change(&self.trial.statements()).await {
            self.wrong
                .push(format!("the server itself refuses the change: {error}"));
            return Ok(());
        }
        self.compare().await
    }

    async fn refused(&mut self, refusal: &Refusal) -> Result<(), TrialError> {
        self.code_is(refusal.code);
        let text = self.course.finished.text();
        for fact in &refusal.contains {
            if !text.contains(&**fact) {
                self.wrong.push(format!("the log doesn't say {fact:?}"));
            }
        }
        let left = self.tables_left().await?;
        let leaves: BTreeSet<String> = refusal.leaves.iter().cloned().collect();
        if left != leaves {
            self.wrong
                .push(format!("{left:?} are left, not {leaves:?}"));
        }
        if self.trial.mid.is_empty() {
            self.source_is_untouched().await?;
        }
        Ok(())
    }

    /// The definitions are as before; so are the rows, if nobody wrote.
    async fn source_is_untouched(&mut self) -> Result<(), TrialError> {
        for (table, before) in self.trial.tables.iter().zip(&self.course.definitions) {
            let now = Definition::read(&mut self.course.conn, self.schema.name(), table).await?;
            if !now.is_same(before) {
                self.wrong.push(format!(
                    "the source's definition was changed to {}",
                    now.sql
                ));
            }
        }
        if self.course.cloned && self.wrong.is_empty() {
            self.compare().await?;
        }
        Ok(())
    }

    async fn refused_as_server(&mut self) -> Result<Outcome, TrialError> {
        let code = self.course.finished.code;
        if !matches!(code, Some(64 | 65)) {
            self.wrong.push(format!("the program ended with {code:?}"));
            return Ok(Outcome::Refused);
        }
        self.source_is_untouched().await?;
        self.clone_tables().await?;
        if self
            .course
            .twin
            .change(&self.trial.statements())
            .await
            .is_err()
        {
            return Ok(Outcome::Refused);
        }
        let last = self.course.finished.lines.last();
        Ok(Outcome::RefusedAlone(
            last.map(|line| line.text.clone()).unwrap_or_default(),
        ))
    }

    async fn answers(&mut self) -> Result<(), TrialError> {
        for Answer { query, rows } in &self.trial.finals {
            let found = ask(&mut self.course.conn, query).await?;
            if found != *rows {
                self.wrong
                    .push(format!("{query} returns {found:?}, not {rows:?}"));
            }
        }
        Ok(())
    }
}

/// A query's rows, columns joined by `|`.
async fn ask(conn: &mut Conn, query: &str) -> Result<Vec<String>, TrialError> {
    let rows: Vec<Row> = conn.query(query).await.map_err(TrialError::sql(query))?;
    let text = |value| match value {
        Value::NULL => "NULL".to_owned(),
        Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        other => other.as_sql(true),
    };
    let line = |row: Row| {
        row.unwrap()
            .into_iter()
            .map(text)
            .collect::<Vec<_>>()
            .join("|")
    };
    Ok(rows.into_iter().map(line).collect())
}
