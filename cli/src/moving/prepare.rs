//! The objects that a move needs: made anew, or found again by a checkpoint.

use std::sync::Arc;

use mysql_async::Conn;
use oxferry_copier::{ColumnMap, Connections, DeferredIndexes, WorkLimits};
use oxferry_schema::{Remedy, Table, TableName};
use oxferry_state::{Checkpoint, Phase, TableProgress};
use oxferry_verifier::ColumnPair;

use super::{job::Move, marks, sink::MoveSink, start::Start};
use crate::{
    args::OnOff,
    failure::Failure,
    job::{
        Columns, Holder, JobTable, Prepared, PreparedTable, Problem, Saver, drop_together,
        make_sentinel, refuse,
    },
};

/// Makes what the move needs, or finds it again. It can be dropped anywhere, as
/// a crash can come anywhere. `conn` is on the target.
pub(super) async fn prepare(
    job: &mut Move,
    start: Start,
    conn: &mut Conn,
    (saver, lock): (&Saver, &Holder),
) -> Result<Prepared, Failure> {
    match start {
        Start::Fresh { leftovers, forgets } => {
            lock.check(conn).await?;
            drop_together(conn, &leftovers.iter().collect::<Vec<_>>()).await?;
            job.blueprint = job.draw(conn).await?;
            fresh(job, conn, (saver, lock), forgets).await
        }
        Start::Resume(checkpoint) | Start::CleanUp(checkpoint) => {
            let phase = checkpoint.phase;
            tracing::info!(from = %phase.as_str(), saved_at = %checkpoint.saved_at, "resumes");
            resume(job, conn, &checkpoint, saver).await
        }
    }
}

/// The checkpoint is written before the first table is made, so that a crash in
/// between leaves nothing that nobody vouches for.
async fn fresh(
    job: &Move,
    conn: &mut Conn,
    (saver, lock): (&Saver, &Holder),
    forgets: bool,
) -> Result<Prepared, Failure> {
    let (source, target) = connections(job).await?;
    lock.check(conn).await?;
    job.blueprint.create_databases(conn).await?;
    saver.begin(forgets).await?;
    let made = job.tables_to_make();
    let blueprint = job.blueprint.clone();
    saver
        .save_target(move |target| (target.made, target.blueprint) = (made, blueprint))
        .await?;
    saver.enter(Phase::Prepare).await?;
    make_marks(job).await?;
    job.blueprint.create_tables(conn, &job.parts).await?;
    // Rather now than when the source is shut.
    let objections = job.blueprint.try_finish(conn).await?;
    let problems: Vec<Problem> = objections.into_iter().map(Problem::from).collect();
    refuse(&problems)?;
    make_sentinel(&job.core, conn, saver, false).await?;
    let mut tables = Vec::with_capacity(job.core.tables.len());
    for table in &job.core.tables {
        let mut table = fresh_table(job, table, conn, &target).await?;
        job.note_hanging(&mut table.progress);
        tables.push(table);
    }
    let mut source_conn = job.core.source.connect("position").await?;
    let start = job.core.source.position(&mut source_conn).await?;
    let seen = job.core.target.position(conn).await?;
    job.check_unchanged().await?;
    let progress = tables.iter().map(|table| table.progress.clone()).collect();
    let position = start.clone();
    saver
        .save(move |checkpoint| {
            checkpoint.phase = Phase::Copy;
            checkpoint.tables = progress;
            checkpoint.position = Some(position);
            if let Some(target) = checkpoint.target.as_mut() {
                target.position = Some(seen);
            }
        })
        .await?;
    Ok(Prepared {
        source,
        target,
        tables,
        start,
        resumed: false,
    })
}

async fn resume(
    job: &Move,
    conn: &mut Conn,
    checkpoint: &Checkpoint,
    saver: &Saver,
) -> Result<Prepared, Failure> {
    let Some(start) = checkpoint.position.clone() else {
        let error = anyhow::anyhow!("the checkpoint names no position");
        return Err(Failure::new(Remedy::State, error));
    };
    job.check_begun(checkpoint)?;
    // Opening them ends what sessions of the earlier run still do.
    let (source, target) = connections(job).await?;
    make_marks(job).await?;
    job.detach(conn).await?;
    make_sentinel(&job.core, conn, saver, checkpoint.postponed).await?;
    let mut tables = Vec::with_capacity(job.core.tables.len());
    for (table, progress) in job.core.tables.iter().zip(&checkpoint.tables) {
        tables.push(resumed_table(table, progress.clone(), conn).await?);
    }
    // A run that died at its switch may have brought them.
    for (table, ready) in job.core.tables.iter().zip(&tables) {
        if table.rows.are_last() {
            let connections = (Arc::clone(&source), Arc::clone(&target));
            let sink = MoveSink::new(connections, ready.plan.clone(), job.transfer.clone());
            sink.remove_all().await?;
        }
    }
    Ok(Prepared {
        source,
        target,
        tables,
        start,
        resumed: true,
    })
}

async fn fresh_table(
    job: &Move,
    table: &JobTable,
    conn: &mut Conn,
    connections: &Connections,
) -> Result<PreparedTable, Failure> {
    let finished = read_target(conn, &table.target).await?;
    let columns = columns(table, &finished);
    // Rows that are read again when their owner changes are of no one moment,
    // at which a unique index could be built.
    let defers = job.args.defer_indexes == OnOff::On && table.rows.owned().is_none();
    let deferred = if defers && job.makes(&table.target) {
        columns.deferred(&finished)
    } else {
        DeferredIndexes::none(&finished)
    };
    deferred.drop_all(connections).await?;
    let bare = read_target(conn, &table.target).await?;
    let plan = Move::filtered(table, columns.plan(&bare)?);
    Ok(PreparedTable {
        progress: columns.begin(&plan, &finished, &deferred),
        pairs: pairs(table, &bare),
        new_uniques: columns.new_uniques(&finished),
        plan,
        target: bare,
        deferred,
        may_hold_rows: job.shares_target(),
    })
}

async fn resumed_table(
    table: &JobTable,
    progress: TableProgress,
    conn: &mut Conn,
) -> Result<PreparedTable, Failure> {
    let bare = read_target(conn, &table.target).await?;
    let finished = Table {
        create_statement: progress.shadow_create.clone(),
        ..bare.clone()
    };
    let columns = columns(table, &bare);
    let deferred = if progress.deferred_indexes.is_empty() {
        DeferredIndexes::none(&finished)
    } else {
        columns.deferred(&finished)
    };
    Ok(PreparedTable {
        plan: Move::filtered(table, columns.plan(&bare)?),
        pairs: pairs(table, &bare),
        new_uniques: columns.new_uniques(&bare),
        target: bare,
        deferred,
        progress,
        may_hold_rows: true,
    })
}

/// Sessions for reading on the source, and for all that writes on the target:
/// copying, applying, and the index build.
async fn connections(job: &Move) -> Result<(Arc<Connections>, Arc<Connections>), Failure> {
    let copy = &job.core.settings.copy;
    let (threads, writers) = (copy.threads.get(), copy.write_threads.get());
    let limits = WorkLimits::default();
    let readers = std::slice::from_ref(&job.core.marks);
    let source = Connections::open_for(job.core.source.url.clone(), readers, threads + 1, limits);
    let targets: Vec<TableName> = job.core.tables.iter().map(|t| t.target.clone()).collect();
    let size = threads + writers + 1;
    let url = job.core.target.url.clone();
    let target = Connections::open_with(url, &targets, size, (limits, TARGET_SESSIONS));
    Ok(tokio::try_join!(source, target)?)
}

/// Rows come in no order that a foreign key would allow, and bring what its
/// actions did on the source themselves.
pub(super) const TARGET_SESSIONS: &[&str] = &["SET SESSION foreign_key_checks = 0"];

/// A read-only source has GTIDs, and no marks.
async fn make_marks(job: &Move) -> Result<(), Failure> {
    if job.has_marks() {
        marks(job.core.written(), &job.core.marks).create().await?;
    }
    Ok(())
}

async fn read_target(conn: &mut Conn, name: &TableName) -> Result<Table, Failure> {
    Table::read(conn, name).await?.ok_or_else(|| {
        Failure::new(
            Remedy::State,
            anyhow::anyhow!(
                "table {} on the target is gone: start anew with --fresh",
                name.plain()
            ),
        )
    })
}

/// Every column goes to the one of its name; the server computes the generated
/// ones on both sides.
pub(super) fn columns<'a>(table: &'a JobTable, target: &Table) -> Columns<'a> {
    let mut map = ColumnMap::default();
    for (at, column) in table.source.columns.iter().enumerate() {
        let to = target.columns.iter().find(|to| to.name == column.name);
        if let Some(to) = to {
            let list = match to.generated {
                None => &mut map.written,
                Some(_) => &mut map.computed,
            };
            list.push((at, to.name.clone()));
        }
    }
    Columns {
        source: &table.source,
        key: &table.key,
        map,
    }
}

/// All columns are compared, generated ones too: two servers may compute them
/// in two ways.
pub(super) fn pairs(table: &JobTable, target: &Table) -> Vec<ColumnPair> {
    let pair = |source: &oxferry_schema::Column| {
        let target = target.columns.iter().find(|to| to.name == source.name)?;
        Some(ColumnPair {
            source: source.clone(),
            target: target.clone(),
        })
    };
    table.source.columns.iter().filter_map(pair).collect()
}
