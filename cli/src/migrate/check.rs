//! What the server makes of the statements, tried before anything is made.

use mysql_async::{Conn, prelude::Queryable};
use oxferry_schema::{Altered, Column, ProbeError, Remedy, Table, probe, renamed_checks};

use super::{
    comparison,
    job::{Job, JobTable},
    shape,
};
use crate::failure::{Failure, remedied};

remedied!(ProbeError);

/// Asks the server what each statement does, and checks that the results can be
/// copied to and compared, before anything is made.
///
/// # Errors
///
/// A failure that names what is in the way; where several tables have
/// something in theirs, each is logged, and they are counted. Nothing is left
/// behind.
pub(super) async fn check(job: &Job, conn: &mut Conn) -> Result<Vec<Altered>, Failure> {
    let mut altered = Vec::with_capacity(job.tables.len());
    let mut failures = Vec::new();
    for table in &job.tables {
        match check_table(table, conn).await {
            Ok(one) => altered.push(one),
            // Only the statement's own fault says nothing about the others.
            Err(failure) if failure.remedy() != Remedy::Usage => return Err(failure),
            Err(failure) if job.tables.len() == 1 => return Err(failure),
            Err(failure) => failures.push(failure.context(table.source.name.plain())),
        }
    }
    let count = failures.len();
    match failures.pop() {
        None => Ok(altered),
        Some(only) if count == 1 => Err(only),
        Some(last) => {
            for failure in failures.iter().chain([&last]) {
                tracing::error!("{}", failure.line());
            }
            Err(Failure::usage(format!(
                "{count} statements can't be run, each named above"
            )))
        }
    }
}

async fn check_table(table: &JobTable, conn: &mut Conn) -> Result<Altered, Failure> {
    if table.alter.drops_foreign_keys() {
        return Err(Failure::usage(
            "DROP FOREIGN KEY is for the server to carry out, but the statement needs a copy: drop \
             the foreign key in a job of its own, before this one",
        ));
    }
    let altered = probe(conn, &table.source, &table.alter).await?;
    say_renamed_checks(&table.source);
    check_engine(&altered.table)?;
    check_time_zone(table, conn, &altered).await?;
    comparison::expressions(table, &altered.mapping, &altered.table)?;
    let deferred = shape::deferred(table, &altered.mapping, &altered.table);
    let bare = shape::without(&altered.table, &deferred);
    shape::plan(table, &altered.mapping, &bare)?;
    Ok(altered)
}

/// The names that users gave: those that the server made come back.
fn say_renamed_checks(source: &Table) {
    for (from, to) in renamed_checks(source) {
        tracing::info!(
            table = %source.name.plain(), check = from.as_str(), becomes = to.as_str(),
            "a CHECK constraint gets another name: a database holds each once"
        );
    }
}

/// Rows are copied in transactions, under locks of rows: InnoDB's alone.
fn check_engine(altered: &Table) -> Result<(), Failure> {
    if altered.engine.eq_ignore_ascii_case("InnoDB") {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "the table would become one of engine {}: only InnoDB tables can be copied to; run the \
         statement directly",
        altered.engine
    )))
}

/// A TIMESTAMP is a moment, a DATETIME what a clock shows: one becomes the
/// other by the server's time zone, and sessions of a job are in UTC.
async fn check_time_zone(
    table: &JobTable,
    conn: &mut Conn,
    altered: &Altered,
) -> Result<(), Failure> {
    let Some(problem) = in_need_of_a_zone(&table.source, altered) else {
        return Ok(());
    };
    let query = "SELECT IF(@@GLOBAL.time_zone = 'SYSTEM', @@system_time_zone, @@GLOBAL.time_zone)";
    let zone: Option<String> = conn.query_first(query).await.map_err(|error| {
        Failure::new(Remedy::Retry, error).context("reading the server's time zone")
    })?;
    let zone = zone.unwrap_or_default();
    if matches!(zone.as_str(), "UTC" | "+00:00" | "Etc/UTC") {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{problem}, which depends on the time zone ({zone}), and where clocks are turned back makes \
         one value of two: it is done only on servers in UTC; add a plain column, fill it by UPDATEs \
         in your own time zone, then drop the old one"
    )))
}

/// Returns what of the altered table depends on a session's time zone.
fn in_need_of_a_zone(source: &Table, altered: &Altered) -> Option<String> {
    let kind = |column: &Column| column.data_type == "timestamp";
    let crosses = altered.mapping.pairs.iter().find_map(|pair| {
        let from = source.columns.get(pair.source)?;
        let to = altered.table.columns.get(pair.target)?;
        (kind(from) != kind(to)).then(|| {
            let name = from.name.as_str();
            format!(
                "column {name} changes from {} to {}",
                from.column_type, to.column_type
            )
        })
    });
    let table = &altered.table;
    let moments: Vec<String> = table
        .columns
        .iter()
        .filter(|column| kind(column))
        .map(|column| column.name.to_string())
        .collect();
    // What the server computes again of a moment, and what it puts into the
    // rows that are there: a clock's time, of this program's session.
    let lines = || table.create_statement.lines();
    let computes = |line: &&str| {
        let is_computed =
            line.contains(" GENERATED ALWAYS AS ") || line.contains("KEY ") && line.contains("((");
        is_computed && moments.iter().any(|name| mentions(line, name))
    };
    let computed = || {
        let line = lines().map(str::trim).find(computes)?;
        Some(format!(
            "the server computes a value of a TIMESTAMP in {line:?}"
        ))
    };
    let added = || {
        let mut columns = altered.mapping.added.iter();
        columns.find_map(|at| {
            let column = table.columns.get(*at)?;
            let is_clock = matches!(
                column.data_type.as_str(),
                "datetime" | "date" | "time" | "year"
            );
            let begins = format!("{} ", column.name);
            let line = lines()
                .map(str::trim)
                .find(|line| line.starts_with(&begins))?;
            let takes_now =
                line.contains("DEFAULT CURRENT_TIMESTAMP") || line.contains("DEFAULT (");
            let name = column.name.as_str();
            (is_clock && takes_now).then(|| {
                format!("the new column {name} begins with the time that its default says")
            })
        })
    };
    crosses.or_else(computed).or_else(added)
}

/// Whether an expression of the line names the column; the column's own
/// definition begins with its name.
fn mentions(line: &str, name: &str) -> bool {
    !line.starts_with(name) && line.contains(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_mentioned_by_others_but_not_by_itself() {
        assert!(mentions(
            "`h` int GENERATED ALWAYS AS (hour(`ts`)) STORED,",
            "`ts`"
        ));
        assert!(!mentions("`ts` timestamp NOT NULL,", "`ts`"));
    }
}
