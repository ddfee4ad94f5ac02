//! `oxferry plan migrate`: every check of the real run, and what would happen.

use mysql_async::Conn;
use oxferry_copier::{ChunkLimits, CopyPlan, DeferredIndexes, engine::Mode};
use oxferry_schema::{Altered, Ident, Table};

use super::{
    attached, check, duplicates, ended,
    job::{JobTable, Migration},
    native, shape,
    start::{self, Start},
};
use crate::{
    args::MigrateArgs,
    failure::Failure,
    job::{JobLock, bytes_text, row_bytes},
};

/// Checks everything and says what would happen. A scratch copy of each table,
/// without rows, is made for a moment; nothing else is written.
///
/// # Errors
///
/// The failure, and so the exit code, that the real run would end with.
pub(crate) async fn run(args: MigrateArgs) -> Result<(), Failure> {
    args.cutover.check()?;
    let rest = native::decide(&args).await?.say().await?;
    if rest.requests.is_empty() {
        return Ok(());
    }
    if let Some(ended) = ended::look(&args, &rest).await? {
        ended.leave().await;
        say_only_clean_up();
        return Ok(());
    }
    let (job, mut conn) = Migration::look(args, rest).await?;
    // A job and a plan would use the same scratch tables.
    let lock = job.core.source.connect("lock").await?;
    let lock = JobLock::take(lock, &job.core.sources()).await?;
    let outcome = tokio::select! {
        planned = look(&job, &mut conn) => planned,
        lost = lock.lost() => Err(lost),
    };
    lock.release().await;
    outcome
}

async fn look(job: &Migration, conn: &mut Conn) -> Result<(), Failure> {
    let (found, _) = super::look_around(job, conn).await?;
    let start = start::decide(found, &job.core.identity, job.args.run.fresh)?;
    let all = check::check(job, conn).await?;
    let attached = attached::check(job, conn, &all).await?;
    if matches!(start, Start::Fresh { .. }) {
        duplicates::refuse(job, conn, &all).await?;
    }
    let tables = job.tables.iter().zip(&all);
    let planned = tables.map(|(table, altered)| Planned::new(table, altered));
    let planned = planned.collect::<Result<Vec<_>, Failure>>()?;
    say_start(&start);
    for table in &planned {
        table.say(job);
    }
    for (table, attached) in job.tables.iter().zip(&attached) {
        attached::say(&table.source.name, attached);
    }
    say_job(job);
    Ok(())
}

/// One table, and how it would be copied.
struct Planned<'a> {
    table: &'a JobTable,
    altered: &'a Altered,
    plan: CopyPlan,
    deferred: DeferredIndexes,
}

impl<'a> Planned<'a> {
    fn new(table: &'a JobTable, altered: &'a Altered) -> Result<Self, Failure> {
        let deferred = shape::deferred(table, &altered.mapping, &altered.table);
        let bare = shape::without(&altered.table, &deferred);
        Ok(Self {
            plan: shape::plan(table, &altered.mapping, &bare)?,
            table,
            altered,
            deferred,
        })
    }

    fn say(&self, job: &Migration) {
        let Self {
            table,
            altered,
            plan,
            deferred,
        } = self;
        let source = &table.source;
        let name = source.name.plain();
        let mode = match plan.mode() {
            Mode::Ranged => "ranged",
            Mode::Ordered => "ordered",
        };
        tracing::info!(
            table = %name,
            algorithm = "copy",
            key = %table.key.index.as_str(),
            mode,
            rows_about = source.row_estimate,
            chunks_at_least = chunks_at_least(job, source),
            "would be copied and swapped"
        );
        tracing::info!(
            table = %name,
            added = %columns(&altered.mapping.added, &altered.table),
            dropped = %columns(&altered.mapping.dropped, source),
            renamed = %renamed(table, altered),
            "columns"
        );
        let new = shape::new_uniques(table, &altered.mapping, &altered.table);
        tracing::info!(
            table = %name,
            indexes = %list(deferred.names()),
            new_or_stricter_unique = %list(new.iter()),
            "indexes that are built after the copy"
        );
        tracing::info!(
            table = %name,
            disk_needed = %bytes_text(source.size_bytes),
            shadow = %table.names.shadow.plain(),
            old = %table.names.old.plain(),
            "tables that would be made beside it"
        );
    }
}

fn say_start(start: &Start) {
    let how = match start {
        Start::Fresh { leftovers: false } => "would start anew",
        Start::Fresh { leftovers: true } => "would drop what an earlier run built, and start anew",
        Start::Resume(_) => "would go on where an earlier run stopped",
        Start::CleanUp(_) => return say_only_clean_up(),
    };
    tracing::info!("the job {how}");
}

fn say_only_clean_up() {
    tracing::info!(
        "the job would only clean up after an earlier run, which has swapped the tables"
    );
}

fn say_job(job: &Migration) {
    let sizes = job.tables.iter().map(|table| table.source.size_bytes);
    let disk = sizes.fold(0, u64::saturating_add);
    tracing::info!(
        tables = job.tables.len(),
        state = %job.core.state.plain(),
        sentinel = %job.core.sentinel.plain(),
        sentinel_made = job.args.cutover.postpone.defer_cutover,
        "tables of the job itself"
    );
    tracing::info!(
        disk_needed = %bytes_text(disk),
        "about what the tables take now, indexes included, until the old ones are dropped; the binary \
         log grows by about as much as the rows take; how much is free the server doesn't tell: look \
         at its host"
    );
}

/// As many chunks as there are if none has to be cut short to keep to its time.
fn chunks_at_least(job: &Migration, table: &Table) -> u64 {
    let by_bytes = job.args.copy.chunk_bytes / row_bytes(table).max(1);
    let rows = by_bytes.clamp(1, ChunkLimits::default().rows_max);
    table.row_estimate.div_ceil(rows).max(1)
}

fn columns(places: &[usize], table: &Table) -> String {
    let names = places.iter().filter_map(|at| table.columns.get(*at));
    list(names.map(|column| &column.name))
}

fn renamed(table: &JobTable, altered: &Altered) -> String {
    let pairs = altered.mapping.pairs.iter().filter_map(|pair| {
        let from = table.source.columns.get(pair.source)?.name.as_str();
        let to = altered.table.columns.get(pair.target)?.name.as_str();
        (from != to).then(|| format!("{from} to {to}"))
    });
    listed(&pairs.collect::<Vec<_>>())
}

fn list<'a>(names: impl Iterator<Item = &'a Ident>) -> String {
    listed(
        &names
            .map(|name| name.as_str().to_owned())
            .collect::<Vec<_>>(),
    )
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.join(", ")
}
