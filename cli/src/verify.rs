//! `oxferry verify`: compares the tables of two servers at any time.

mod args;
mod judge;
mod notes;
mod repair;
mod report;
mod request;
mod subject;
mod table;

use std::time::Duration;

use mysql_async::{OptsBuilder, Pool, PoolConstraints, PoolOpts};
use oxferry_schema::{Remedy, ServerUrl, connect};
use oxferry_verifier::FingerprintError;

pub(crate) use args::VerifyArgs;

use crate::failure::{Failure, remedied};
use notes::Notes;
use request::Request;
use subject::Subject;
use table::TableRun;

remedied!(FingerprintError);

/// How long one of the comparison's statements may take.
const STATEMENT_MAX: Duration = Duration::from_secs(600);

/// Compares what the options name, and reports what differs.
///
/// # Errors
///
/// A failure with exit code 65 when rows differ, 75 when some were changed all
/// the time, or another one when something can't be compared at all.
pub(crate) async fn run(args: VerifyArgs) -> Result<(), Failure> {
    let request = Request::read(&args)?;
    let (source, subjects) = read_subjects(&request).await?;
    let of = request.described(&subjects);
    let mut notes = match &args.state {
        Some(path) => Notes::load(path, &of)?,
        None => Notes::new(&of),
    };
    notes.expect(subjects.iter().map(Subject::names));
    for (at, subject) in subjects.iter().enumerate() {
        if notes.table(at).is_some_and(|table| table.done) {
            tracing::info!(table = subject.source_name(), "compared before");
            continue;
        }
        TableRun::new(at, subject, &request).run(&mut notes).await?;
    }
    drop(source);
    let outcome = report::show(&notes, args.log);
    notes.remove()?;
    outcome
}

/// Reads all tables on both servers, and how to compare them.
async fn read_subjects(request: &Request) -> Result<(Pool, Vec<Subject>), Failure> {
    let mut source = connect(&request.source, "verify").await?;
    let mut target = connect(&request.target, "verify").await?;
    let pools = (
        pool(
            &request.source.clone().settled(&source),
            request.threads.get(),
        ),
        pool(
            &request.target.clone().settled(&target),
            request.threads.get(),
        ),
    );
    let mut subjects = Vec::new();
    for (from, to) in request.tables(&mut source, &mut target).await? {
        let subject = Subject::read((&mut source, &from), (&mut target, &to), request, &pools);
        let compared = format!("comparing {} with {}", from.plain(), to.plain());
        subjects.push(subject.await.map_err(|failure| failure.context(compared))?);
    }
    request.check_used(&subjects)?;
    if subjects.is_empty() {
        return Err(Failure::new(
            Remedy::Usage,
            anyhow::anyhow!("there is no table to compare"),
        ));
    }
    Ok((pools.0, subjects))
}

/// One session for each comparison at once, and one that looks for borders.
fn pool(url: &ServerUrl, threads: usize) -> Pool {
    let constraints = PoolConstraints::new(1, threads + 1).unwrap_or_default();
    let pool_opts = PoolOpts::default().with_constraints(constraints);
    Pool::new(OptsBuilder::from_opts(url.opts("verify")).pool_opts(pool_opts))
}
