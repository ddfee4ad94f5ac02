//! The objects that a job needs: built anew, or found again by a checkpoint.

use std::sync::Arc;

use mysql_async::Conn;
use oxferry_copier::{Connections, DeferredIndexes, WorkLimits};
use oxferry_cutover::detach;
use oxferry_schema::{Altered, Mapping, Remedy, ShadowError, Table, TableName, create_shadow};
use oxferry_state::{Checkpoint, Phase, TableProgress, same_definition};

use super::{
    attached, check, duplicates,
    job::{JobTable, Migration},
    shape,
};
use crate::{
    failure::{Failure, remedied},
    job::{Holder, Prepared, PreparedTable, Saver, drop_together, make_sentinel},
};

remedied!(ShadowError);

/// Builds everything anew; `leftovers` of an earlier run are dropped first.
///
/// The checkpoint is written before the first object is made, so that a
/// crash in between leaves nothing that nobody vouches for.
pub(crate) async fn fresh(
    job: &Migration,
    conn: &mut Conn,
    saver: &Saver,
    (leftovers, lock): (bool, &Holder),
) -> Result<Prepared, Failure> {
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
    make_sentinel(&job.core, conn, saver, false).await?;
    let mut built = Vec::with_capacity(job.tables.len());
    for (table, altered) in job.tables.iter().zip(altered) {
        built.push(build(table, altered, conn, &connections).await?);
    }
    let start = job.core.source.position(conn).await?;
    check_unchanged(job, conn).await?;
    let mut tables = Vec::with_capacity(job.tables.len());
    for (table, built) in job.tables.iter().zip(built) {
        tables.push(fresh_table(table, built, conn).await?);
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
    Ok(Prepared {
        source: Arc::clone(&connections),
        target: connections,
        tables,
        start,
        resumed: false,
    })
}

/// Finds everything again that an earlier run has made.
pub(crate) async fn resume(
    job: &Migration,
    conn: &mut Conn,
    (checkpoint, lock): (&Checkpoint, &Holder),
    saver: &Saver,
) -> Result<Prepared, Failure> {
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
    make_sentinel(&job.core, conn, saver, checkpoint.postponed).await?;
    let mut tables = Vec::with_capacity(job.tables.len());
    let known = altered.into_iter().zip(&checkpoint.tables);
    for (table, (altered, progress)) in job.tables.iter().zip(known) {
        let progress = progress.clone();
        tables.push(resume_table(table, (altered, progress), conn, &connections).await?);
    }
    Ok(Prepared {
        source: Arc::clone(&connections),
        target: connections,
        tables,
        start,
        resumed: true,
    })
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

async fn fresh_table(
    table: &JobTable,
    built: Built,
    conn: &mut Conn,
) -> Result<PreparedTable, Failure> {
    let Built {
        mapping,
        shadow,
        deferred,
    } = built;
    let bare = read_shadow(conn, &table.names.shadow).await?;
    let plan = shape::plan(table, &mapping, &bare)?;
    Ok(PreparedTable {
        progress: shape::columns(table, &mapping, &shadow).begin(&plan, &shadow, &deferred),
        new_uniques: shape::new_uniques(table, &mapping, &shadow),
        plan,
        pairs: shape::pairs(table, &mapping, &bare),
        target: bare,
        deferred,
        may_hold_rows: false,
    })
}

async fn resume_table(
    table: &JobTable,
    (altered, progress): (Altered, TableProgress),
    conn: &mut Conn,
    connections: &Connections,
) -> Result<PreparedTable, Failure> {
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
    Ok(PreparedTable {
        plan: shape::plan(table, &mapping, &bare)?,
        pairs: shape::pairs(table, &mapping, &bare),
        target: bare,
        deferred,
        new_uniques,
        progress,
        may_hold_rows: true,
    })
}

/// Sessions for all that writes: copying, applying, and the index build.
async fn connections(job: &Migration) -> Result<Arc<Connections>, Failure> {
    let size =
        job.core.settings.copy.threads.get() + job.core.settings.copy.write_threads.get() + 1;
    let shadows: Vec<TableName> = job.tables.iter().map(|t| t.names.shadow.clone()).collect();
    Ok(Connections::open_for(
        job.core.source.url.clone(),
        &shadows,
        size,
        WorkLimits::default(),
    )
    .await?)
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
pub(super) async fn check_unchanged(job: &Migration, conn: &mut Conn) -> Result<(), Failure> {
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
async fn drop_leftovers(job: &Migration, conn: &mut Conn, lock: &Holder) -> Result<(), Failure> {
    let mut all = Vec::new();
    for table in &job.tables {
        let names = &table.names;
        all.extend([&names.shadow, &names.sentinel]);
        all.extend([&names.probe, &names.probe_other]);
        // Another job may have begun with a table that isn't this one's first.
        all.extend((names.state != job.core.state).then_some(&names.state));
    }
    lock.check(conn).await?;
    drop_together(conn, &all).await?;
    for table in &job.tables {
        let shadow = table.names.shadow.plain();
        tracing::info!(table = %shadow, "dropped what an earlier run had built");
    }
    Ok(())
}
