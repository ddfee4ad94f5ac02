//! The objects that a job needs: built anew, or found again by a checkpoint.

use std::sync::Arc;

use mysql_async::{Conn, prelude::Queryable};
use oxferry_binlog::Position;
use oxferry_copier::{Connections, CopyError, CopyPlan, DeferredIndexes, WorkLimits};
use oxferry_cutover::{Sentinel, detach};
use oxferry_schema::{
    Altered, Attached, Ident, Mapping, Remedy, ShadowError, Table, TableName, create_shadow,
};
use oxferry_state::{Checkpoint, Phase, TableProgress, same_definition};

use super::{
    attached, check,
    checkpoint::Saver,
    duplicates,
    job::{Job, JobTable},
    lock::Holder,
    shape,
};
use crate::failure::{Failure, remedied};

remedied!(CopyError, ShadowError);

/// A job that is ready to copy.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Sessions on the server, for copying and applying: of all tables together.
    pub(crate) connections: Arc<Connections>,
    /// The tables, in the order of [`Job::tables`].
    pub(crate) tables: Vec<PreparedTable>,
    /// Where the stream begins.
    pub(crate) start: Position,
    /// Whether there were runs before this one.
    pub(crate) resumed: bool,
}

/// One table that is ready to be copied.
#[derive(Debug)]
pub(crate) struct PreparedTable {
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
    /// What the runs before this one have done.
    pub(crate) progress: TableProgress,
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
        (leftovers, lock): (bool, &Holder),
    ) -> Result<Self, Failure> {
        let altered = check::check(job, conn).await?;
        let attached = attached::check(job, conn, &altered).await?;
        duplicates::refuse(job, conn, &altered).await?;
        // Much time may have passed: what follows must not meet another job.
        lock.check(conn).await?;
        // Opening them ends what sessions of an earlier run still do.
        let connections = connections(job).await?;
        if leftovers {
            drop_leftovers(job, conn, lock).await?;
        }
        lock.check(conn).await?;
        saver.begin(leftovers).await?;
        saver.enter(Phase::Prepare).await?;
        postpone(job, conn, saver, false).await?;
        let mut built = Vec::with_capacity(job.tables.len());
        for (table, altered) in job.tables.iter().zip(altered) {
            built.push(build(table, altered, conn, &connections).await?);
        }
        let start = job.position(conn).await?;
        check_unchanged(job, conn).await?;
        let mut tables = Vec::with_capacity(job.tables.len());
        for (table, built) in job.tables.iter().zip(built) {
            tables.push(PreparedTable::fresh(table, built, conn).await?);
        }
        for (table, attached) in tables.iter_mut().zip(attached) {
            table.progress.attached = attached;
        }
        let progress = tables.iter().map(|table| table.progress.clone()).collect();
        let position = start.clone();
        saver
            .save(move |checkpoint| {
                checkpoint.phase = Phase::Copy;
                checkpoint.tables = progress;
                checkpoint.position = Some(position);
            })
            .await?;
        Ok(Self {
            connections,
            tables,
            start,
            resumed: false,
        })
    }

    /// Finds everything again that an earlier run has made.
    pub(crate) async fn resume(
        job: &Job,
        conn: &mut Conn,
        (checkpoint, lock): (&Checkpoint, &Holder),
        saver: &Saver,
    ) -> Result<Self, Failure> {
        let (Some(start), true) = (
            checkpoint.position.clone(),
            checkpoint.tables.len() == job.tables.len(),
        ) else {
            let error = anyhow::anyhow!("the checkpoint names no position, or not all tables");
            return Err(Failure::new(Remedy::State, error));
        };
        let altered = check::check(job, conn).await?;
        let attached = attached::check(job, conn, &altered).await?;
        attached::check_same(&checkpoint.tables, &attached)?;
        lock.check(conn).await?;
        // Opening them ends what sessions of the earlier run still do.
        let connections = connections(job).await?;
        // Nothing may write to a shadow that a trigger is on.
        detach(conn, &attached::swap_plan(job, &attached)?).await?;
        postpone(job, conn, saver, checkpoint.postponed).await?;
        let mut tables = Vec::with_capacity(job.tables.len());
        let known = altered.into_iter().zip(&checkpoint.tables);
        for (table, (altered, progress)) in job.tables.iter().zip(known) {
            let progress = progress.clone();
            tables
                .push(PreparedTable::resume(table, (altered, progress), conn, &connections).await?);
        }
        Ok(Self {
            connections,
            tables,
            start,
            resumed: true,
        })
    }

    /// Returns the tables, each with what the job knows of it.
    pub(crate) fn of<'a>(
        &'a self,
        job: &'a Job,
    ) -> impl Iterator<Item = (&'a JobTable, &'a PreparedTable)> + Clone {
        job.tables.iter().zip(&self.tables)
    }

    /// Returns what hangs on each table, and what it becomes.
    pub(crate) fn attached(&self) -> Vec<Attached> {
        let attached = self.tables.iter().map(|table| &table.progress.attached);
        attached.cloned().collect()
    }

    /// Returns whether a unique index is among what is built after the copy.
    pub(crate) fn builds_unique(&self) -> bool {
        self.tables.iter().any(PreparedTable::builds_unique)
    }

    /// Returns whether one of them is new or stricter.
    pub(crate) fn adds_unique(&self) -> bool {
        self.tables
            .iter()
            .any(|table| !table.new_uniques.is_empty())
    }
}

/// A shadow table just made, the indexes that are built later taken off.
struct Built {
    mapping: Mapping,
    shadow: Table,
    deferred: DeferredIndexes,
}

async fn build(
    table: &JobTable,
    altered: Altered,
    conn: &mut Conn,
    connections: &Connections,
) -> Result<Built, Failure> {
    let mapping = altered.mapping;
    let shadow = create_shadow(conn, &table.source, &table.names.shadow, &table.alter).await?;
    let deferred = shape::deferred(table, &mapping, &shadow);
    deferred.drop_all(connections).await?;
    Ok(Built {
        mapping,
        shadow,
        deferred,
    })
}

impl PreparedTable {
    async fn fresh(table: &JobTable, built: Built, conn: &mut Conn) -> Result<Self, Failure> {
        let Built {
            mapping,
            shadow,
            deferred,
        } = built;
        let bare = read_shadow(conn, &table.names.shadow).await?;
        let plan = shape::plan(table, &mapping, &bare)?;
        Ok(Self {
            progress: shape::begin(table, &plan, &shadow, &deferred),
            new_uniques: shape::new_uniques(table, &mapping, &shadow),
            plan,
            shadow: bare,
            mapping,
            deferred,
        })
    }

    async fn resume(
        table: &JobTable,
        (altered, progress): (Altered, TableProgress),
        conn: &mut Conn,
        connections: &Connections,
    ) -> Result<Self, Failure> {
        let mapping = altered.mapping;
        let bare = read_shadow(conn, &table.names.shadow).await?;
        let finished = Table {
            create_statement: progress.shadow_create.clone(),
            ..bare.clone()
        };
        let deferred = shape::deferred(table, &mapping, &finished);
        let new_uniques = shape::new_uniques(table, &mapping, &altered.table);
        let bare = if new_uniques.is_empty() {
            bare
        } else {
            // History that is applied again may for a moment hold what a new
            // unique index forbids: it is built again, at the end of it.
            deferred.drop_all(connections).await?;
            read_shadow(conn, &table.names.shadow).await?
        };
        Ok(Self {
            plan: shape::plan(table, &mapping, &bare)?,
            shadow: bare,
            mapping,
            deferred,
            new_uniques,
            progress,
        })
    }

    /// Returns whether a unique index is among what is built after the copy.
    pub(crate) fn builds_unique(&self) -> bool {
        self.deferred.unique_names().next().is_some()
    }
}

/// Makes the sentinel where the operator wants one and none was made `before`.
async fn postpone(job: &Job, conn: &mut Conn, saver: &Saver, before: bool) -> Result<(), Failure> {
    if !job.args.cutover.defer_cutover || before {
        return Ok(());
    }
    Sentinel::new(job.sentinel.clone()).create(conn).await?;
    saver.save(|checkpoint| checkpoint.postponed = true).await
}

/// Sessions for all that writes: copying, applying, and the index build.
async fn connections(job: &Job) -> Result<Arc<Connections>, Failure> {
    let size = job.args.copy.threads.get() + job.args.copy.write_threads.get() + 1;
    let shadows: Vec<TableName> = job.tables.iter().map(|t| t.names.shadow.clone()).collect();
    Ok(Connections::open_for(job.url.clone(), &shadows, size, WorkLimits::default()).await?)
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
    for table in &job.tables {
        let source = &table.source;
        let now = Table::read(conn, &source.name).await?;
        let unchanged =
            now.is_some_and(|now| same_definition(&now.create_statement, &source.create_statement));
        if !unchanged {
            let table = source.name.plain();
            return Err(Failure::new(
                Remedy::State,
                anyhow::anyhow!("table {table} was changed by somebody: start anew with --fresh"),
            ));
        }
    }
    Ok(())
}

/// The job's own checkpoint, which says what the rest is, goes later.
///
/// One statement for all: a run that was ended at its cutover may have left a
/// new table that refers to another one.
async fn drop_leftovers(job: &Job, conn: &mut Conn, lock: &Holder) -> Result<(), Failure> {
    let mut all = Vec::new();
    for table in &job.tables {
        let names = &table.names;
        all.extend([&names.shadow, &names.sentinel]);
        all.extend([&names.probe, &names.probe_other]);
        // Another job may have begun with a table that isn't this one's first.
        all.extend((names.state != job.state).then_some(&names.state));
    }
    lock.check(conn).await?;
    drop_together(conn, &all).await?;
    for table in &job.tables {
        let shadow = table.names.shadow.plain();
        tracing::info!(table = %shadow, "dropped what an earlier run had built");
    }
    Ok(())
}

/// Drops tables in one statement, which may refer to each other; none is
/// dropped where one can't be. What isn't there is no error.
pub(crate) async fn drop_together(conn: &mut Conn, tables: &[&TableName]) -> Result<(), Failure> {
    if tables.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = tables.iter().map(ToString::to_string).collect();
    let names = names.join(", ");
    conn.query_drop(format!("DROP TABLE IF EXISTS {names}"))
        .await
        .map_err(|error| {
            let remedy = match oxferry_schema::classify(&error).remedy() {
                Remedy::Bug => Remedy::Retry,
                remedy => remedy,
            };
            Failure::new(remedy, error).context(format!("dropping {names}"))
        })
}
