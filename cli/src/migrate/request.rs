//! What the operator asks for, read and checked without a server.

use oxferry_schema::{Alter, ServerUrl, TableName};

use crate::{args::MigrateArgs, failure::Failure, source};

/// One table, and what becomes of it.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// The table, as the operator names it.
    pub(super) table: TableName,
    /// What to do to it.
    pub(super) alter: Alter,
}

/// What a job has to copy.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    /// The tables, in the order in which they were given.
    pub(super) requests: Vec<Request>,
    /// The statements that needed no copy: done before the copy begins, and
    /// part of what the job is known by.
    pub(super) done: Vec<String>,
}

/// Reads the options; the tables come in the order in which they were given.
///
/// # Errors
///
/// A failure that says what is missing or wrong.
pub(super) fn read(args: &MigrateArgs, url: &ServerUrl) -> Result<Vec<Request>, Failure> {
    match (args.statement.as_slice(), &args.table, &args.alter) {
        ([], Some(table), Some(clauses)) => Ok(vec![Request {
            table: source::table_name(table, url)?,
            alter: Alter::clauses(clauses)?,
        }]),
        (statements @ [_, ..], None, None) => {
            let count = statements.len();
            let read = statements.iter().enumerate().map(|(at, statement)| {
                statement_request(statement, url).map_err(|failure| {
                    if count == 1 {
                        return failure;
                    }
                    failure.context(format!("statement {} of {count}", at + 1))
                })
            });
            read.collect()
        }
        _ => Err(Failure::usage(
            "say what to change: --table NAME and --alter \"CLAUSES\", or --statement \"ALTER TABLE …\"",
        )),
    }
}

fn statement_request(statement: &str, url: &ServerUrl) -> Result<Request, Failure> {
    let alter = Alter::parse(statement)?;
    let table = alter.table(url.database()).ok_or_else(|| {
        Failure::usage("the statement names no database: add one there, or to the URL")
    })?;
    Ok(Request { table, alter })
}
