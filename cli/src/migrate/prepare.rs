//! The objects that a job needs: built anew, or found again by a checkpoint.

use std::sync::Arc;

use mysql_async::{Conn, prelude::Queryable};
use oxferry_binlog::Position;
use oxferry_copier::{
    Connections, CopyError, CopyPlan, DeferredIndexes, PlanError, WorkLimits, engine::Mode,
    new_unique_indexes,
};
use oxferry_cutover::Sentinel;
use oxferry_schema::{
    Altered, Ident, Mapping, ProbeError, Remedy, ShadowError, Table, TableName, create_shadow,
    probe,
};
use oxferry_state::{Checkpoint, CopyMode, Phase, TableProgress, same_definition};

use super::{checkpoint::Saver, comparison, job::Job};
use crate::failure::{Failure, remedied};

remedied!(CopyError, ProbeError, ShadowError);

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::new(Remedy::Usage, error)
    }
}

/// A job that is ready to copy.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Sessions on the server, for copying and applying.
    pub(crate) connections: Arc<Connections>,
    /// What is copied where.
    pub(crate) plan: CopyPlan,
    /// The shadow table, as it was when the plan was made.
    pub(crate) shadow: Table,
    /// Which source column each shadow column comes from.
    pub(crate) mapping: Mapping,
    /// What is built after the copy.
    pub(crate) deferred: DeferredIndexes,
    /// The unique indexes among them that the source's own don't imply.
    pub(crate) new_uniques: Vec<Ident>,
    /// Where the stream begins.
    pub(crate) start: Position,
    /// What the runs before this one have done.
    pub(crate) progress: TableProgress,
    /// Whether there were any.
    pub(crate) resumed: bool,
}

impl Prepared {
    /// Builds everything anew; `leftovers` of an earlier run are dropped first.
    ///
    /// The checkpoint is written before the first object is made, so that a
    /// crash in between leaves nothing that nobody vouches for.
    pub(crate) async fn fresh(
        job: &Job,
        conn: &mut Conn,
        saver: &Saver,
        leftovers: bool,
    ) -> Result<Self, Failure> {
        let mapping = check(job, conn).await?.mapping;
        // Opening them ends what sessions of an earlier run still do.
        let connections = connections(job).await?;
        if leftovers {
            drop_leftovers(job, conn).await?;
        }
        saver.begin(leftovers).await?;
        saver.enter(Phase::Prepare).await?;
        postpone(job, conn, saver, false).await?;
        let shadow = create_shadow(conn, &job.source, &job.names.shadow, &job.alter).await?;
        let deferred = deferred(job, &mapping, &shadow);
        deferred.drop_all(&connections).await?;
        let start = job.position(conn).await?;
        check_unchanged(job, conn).await?;
        let bare = read_shadow(conn, &job.names.shadow).await?;
        let plan = plan(job, &mapping, &bare)?;
        let progress = begin(job, &plan, &shadow, &deferred);
        let saved = (progress.clone(), start.clone());
        saver
            .save(move |checkpoint| {
                checkpoint.phase = Phase::Copy;
                checkpoint.tables = vec![saved.0];
                checkpoint.position = Some(saved.1);
            })
            .await?;
        let new_uniques = new_uniques(job, &mapping, &shadow);
        Ok(Self {
            connections,
            plan,
            shadow: bare,
            mapping,
            deferred,
            new_uniques,
            start,
            progress,
            resumed: false,
        })
    }

    /// Finds everything again that an earlier run has made.
    pub(crate) async fn resume(
        job: &Job,
        conn: &mut Conn,
        checkpoint: &Checkpoint,
        saver: &Saver,
    ) -> Result<Self, Failure> {
        let (Some(start), Some(progress)) = (
            checkpoint.position.clone(),
            checkpoint.tables.first().cloned(),
        ) else {
            let error = anyhow::anyhow!("the checkpoint names no table or no position");
            return Err(Failure::new(Remedy::State, error));
        };
        let altered = check(job, conn).await?;
        let mapping = altered.mapping;
        // Opening them ends what sessions of the earlier run still do.
        let connections = connections(job).await?;
        postpone(job, conn, saver, checkpoint.postponed).await?;
        let bare = read_shadow(conn, &job.names.shadow).await?;
        let finished = Table {
            create_statement: progress.shadow_create.clone(),
            ..bare.clone()
        };
        let deferred = deferred(job, &mapping, &finished);
        let new_uniques = new_uniques(job, &mapping, &altered.table);
        let bare = if new_uniques.is_empty() {
            bare
        } else {
            // History that is applied again may for a moment hold what a new
            // unique index forbids: it is built again, at the end of it.
            deferred.drop_all(&connections).await?;
            read_shadow(conn, &job.names.shadow).await?
        };
        let plan = plan(job, &mapping, &bare)?;
        Ok(Self {
            connections,
            plan,
            shadow: bare,
            mapping,
            deferred,
            new_uniques,
            start,
            progress,
            resumed: true,
        })
    }
}

/// Asks the server what the statement does, and checks that the result can be
/// copied to and compared, before anything is made.
///
/// # Errors
///
/// A failure that names what is in the way; nothing is left behind.
pub(super) async fn check(job: &Job, conn: &mut Conn) -> Result<Altered, Failure> {
    let altered = probe(conn, &job.source, &job.alter).await?;
    check_time_zone(job, conn, &altered).await?;
    comparison::expressions(job, &altered.mapping, &altered.table)?;
    let deferred = deferred(job, &altered.mapping, &altered.table);
    plan(job, &altered.mapping, &without(&altered.table, &deferred))?;
    Ok(altered)
}

/// A TIMESTAMP is a moment, a DATETIME what a clock shows: one becomes the
/// other by the server's time zone, and sessions of a job are in UTC.
async fn check_time_zone(job: &Job, conn: &mut Conn, altered: &Altered) -> Result<(), Failure> {
    let kind = |column: &oxferry_schema::Column| column.data_type == "timestamp";
    let crosses = altered.mapping.pairs.iter().find_map(|pair| {
        let from = job.source.columns.get(pair.source)?;
        let to = altered.table.columns.get(pair.target)?;
        (kind(from) != kind(to)).then_some((from, to))
    });
    let Some((from, to)) = crosses else {
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
        "column {} changes from {} to {}, which depends on the time zone ({zone}): this version does \
         it only on servers in UTC",
        from.name.as_str(),
        from.column_type,
        to.column_type
    )))
}

/// The shadow as it is while rows are copied.
pub(super) fn without(table: &Table, deferred: &DeferredIndexes) -> Table {
    let mut bare = table.clone();
    bare.indexes
        .retain(|index| !deferred.names().any(|name| *name == index.name));
    bare
}

fn begin(job: &Job, plan: &CopyPlan, shadow: &Table, deferred: &DeferredIndexes) -> TableProgress {
    let mode = match plan.mode() {
        Mode::Ranged => CopyMode::Ranged,
        Mode::Ordered => CopyMode::Ordered,
    };
    let (source, target) = (job.source.name.clone(), job.names.shadow.clone());
    let mut progress = TableProgress::new(source, target, mode);
    progress.deferred_indexes = deferred.names().map(ToString::to_string).collect();
    progress.shadow_create.clone_from(&shadow.create_statement);
    progress
        .source_create
        .clone_from(&job.source.create_statement);
    progress
}

/// The unique indexes that the change adds, or makes stricter.
fn new_uniques(job: &Job, mapping: &Mapping, shadow: &Table) -> Vec<Ident> {
    let key = shadow_key(job, mapping, shadow);
    new_unique_indexes(&job.source, shadow, &written(mapping, shadow), &key)
}

/// Which source column goes to which of the shadow's columns that take values.
fn written(mapping: &Mapping, shadow: &Table) -> Vec<(usize, Ident)> {
    let pairs = mapping.pairs.iter();
    pairs
        .filter_map(|pair| Some((pair.source, shadow.columns.get(pair.target)?)))
        .filter(|(_, column)| column.generated.is_none())
        .map(|(source, column)| (source, column.name.clone()))
        .collect()
}

/// Makes the sentinel where the operator wants one and none was made `before`.
async fn postpone(job: &Job, conn: &mut Conn, saver: &Saver, before: bool) -> Result<(), Failure> {
    if !job.args.cutover.defer_cutover || before {
        return Ok(());
    }
    Sentinel::new(job.names.sentinel.clone())
        .create(conn)
        .await?;
    saver.save(|checkpoint| checkpoint.postponed = true).await
}

/// Sessions for all that writes: copying, applying, and the index build.
async fn connections(job: &Job) -> Result<Arc<Connections>, Failure> {
    let size = job.args.copy.threads.get() + job.args.copy.write_threads.get() + 1;
    Ok(Connections::open(
        job.url.clone(),
        &job.names.shadow,
        size,
        WorkLimits::default(),
    )
    .await?)
}

/// The shadow's columns that hold the source's key.
pub(super) fn shadow_key(job: &Job, mapping: &Mapping, shadow: &Table) -> Vec<Ident> {
    let target_of = |source: &usize| {
        let pair = mapping.pairs.iter().find(|pair| pair.source == *source)?;
        Some(shadow.columns.get(pair.target)?.name.clone())
    };
    job.key.ordinals.iter().filter_map(target_of).collect()
}

pub(super) fn deferred(job: &Job, mapping: &Mapping, shadow: &Table) -> DeferredIndexes {
    DeferredIndexes::plan(shadow, &shadow_key(job, mapping, shadow))
}

/// Plans *ranged* copying where the shadow allows it, else *ordered*.
pub(super) fn plan(job: &Job, mapping: &Mapping, shadow: &Table) -> Result<CopyPlan, Failure> {
    let columns = written(mapping, shadow);
    let plan = |mode| {
        CopyPlan::new(
            job.source.clone(),
            job.key.clone(),
            shadow,
            columns.clone(),
            mode,
        )
    };
    match plan(Mode::Ranged) {
        Err(PlanError::UniqueInTheWay { .. }) => Ok(plan(Mode::Ordered)?),
        other => Ok(other?),
    }
}

async fn read_shadow(conn: &mut Conn, name: &TableName) -> Result<Table, Failure> {
    Table::read(conn, name).await?.ok_or_else(|| {
        Failure::new(
            Remedy::State,
            anyhow::anyhow!("table {} is gone: start anew with --fresh", name.plain()),
        )
    })
}

/// The stream reports every change of the definition after its start; one
/// between the first look and the start must not pass unseen, nor one that was
/// kept out of the binary log.
pub(super) async fn check_unchanged(job: &Job, conn: &mut Conn) -> Result<(), Failure> {
    let now = Table::read(conn, &job.source.name).await?;
    let unchanged =
        now.is_some_and(|now| same_definition(&now.create_statement, &job.source.create_statement));
    if unchanged {
        return Ok(());
    }
    let table = job.source.name.plain();
    Err(Failure::new(
        Remedy::State,
        anyhow::anyhow!("table {table} was changed by somebody: start anew with --fresh"),
    ))
}

async fn drop_leftovers(job: &Job, conn: &mut Conn) -> Result<(), Failure> {
    let names = &job.names;
    for table in [&names.shadow, &names.sentinel, &names.probe] {
        conn.query_drop(format!("DROP TABLE IF EXISTS {table}"))
            .await
            .map_err(|error| {
                Failure::new(Remedy::Retry, error).context(format!("dropping {}", table.plain()))
            })?;
    }
    tracing::info!(table = %names.shadow.plain(), "dropped what an earlier run had built");
    Ok(())
}
