//! `oxferry plan migrate`: every check of the real run, and what would happen.

use oxferry_copier::{CopyPlan, DeferredIndexes, engine::Mode};
use oxferry_schema::{Altered, Table, connect};

use super::{
    job::Job,
    lock::JobLock,
    prepare,
    start::{self, Start},
};
use crate::{args::MigrateArgs, failure::Failure};

/// Checks everything and says what would happen. A scratch copy of the table,
/// without rows, is made for a moment; nothing else is written.
///
/// # Errors
///
/// The failure, and so the exit code, that the real run would end with.
pub(crate) async fn run(args: MigrateArgs) -> Result<(), Failure> {
    let (job, mut conn) = Job::look(args).await?;
    // A job and a plan would use the same scratch table.
    let lock = connect(&job.url, "lock").await?;
    let _lock = JobLock::take(lock, &job.source.name).await?;
    let (found, _) = super::look_around(&job, &mut conn).await?;
    let start = start::decide(found, &job.identity, &job.names, job.args.run.fresh)?;
    let altered = prepare::check(&job, &mut conn).await?;
    let deferred = prepare::deferred(&job, &altered.mapping, &altered.table);
    let bare = prepare::without(&altered.table, &deferred);
    let plan = prepare::plan(&job, &altered.mapping, &bare)?;
    say(&job, &start, &altered, (&plan, &deferred));
    Ok(())
}

fn say(
    job: &Job,
    start: &Start,
    altered: &Altered,
    (plan, deferred): (&CopyPlan, &DeferredIndexes),
) {
    let how = match start {
        Start::Fresh { leftovers: false } => "starts anew",
        Start::Fresh { leftovers: true } => "drops what an earlier run built, and starts anew",
        Start::Resume(_) => "goes on where an earlier run stopped",
        Start::CleanUp(_) => "cleans up after an earlier run, which has swapped the tables",
    };
    let mode = match plan.mode() {
        Mode::Ranged => "ranged",
        Mode::Ordered => "ordered",
    };
    let name = |table: &oxferry_schema::TableName| table.plain();
    let columns = |places: &[usize], table: &Table| {
        let names = places
            .iter()
            .filter_map(|at| Some(table.columns.get(*at)?.name.as_str().to_owned()));
        names.collect::<Vec<_>>().join(", ")
    };
    tracing::info!(table = %name(&job.source.name), rows_about = job.source.row_estimate, bytes_about = job.source.size_bytes, "would copy the table; the job {how}");
    tracing::info!(key = %job.key.index.as_str(), mode, "rows are told apart by this key");
    tracing::info!(
        added = %columns(&altered.mapping.added, &altered.table),
        dropped = %columns(&altered.mapping.dropped, &job.source),
        renamed = %renamed(job, altered),
        "columns"
    );
    let later: Vec<_> = deferred
        .names()
        .map(oxferry_schema::Ident::as_str)
        .collect();
    tracing::info!(indexes = %later.join(", "), "built after the copy");
    tracing::info!(
        shadow = %name(&job.names.shadow), state = %name(&job.names.state), old = %name(&job.names.old),
        sentinel = %name(&job.names.sentinel), "tables that the job would make"
    );
}

fn renamed(job: &Job, altered: &Altered) -> String {
    let pairs = altered.mapping.pairs.iter().filter_map(|pair| {
        let from = job.source.columns.get(pair.source)?.name.as_str();
        let to = altered.table.columns.get(pair.target)?.name.as_str();
        (from != to).then(|| format!("{from} to {to}"))
    });
    pairs.collect::<Vec<_>>().join(", ")
}
