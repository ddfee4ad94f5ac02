//! What the server makes of the statements, tried before anything is made.

use mysql_async::Conn;
use oxferry_schema::{Altered, ProbeError, Remedy, Table, probe, renamed_checks};

use super::{
    job::{JobTable, Migration},
    shape, time_zone,
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
pub(super) async fn check(job: &Migration, conn: &mut Conn) -> Result<Vec<Altered>, Failure> {
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
    time_zone::check(&table.source, &altered, conn).await?;
    shape::check_comparable(table, &altered.mapping, &altered.table)?;
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
