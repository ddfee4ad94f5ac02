//! The job of the way back: the move with its sides exchanged, and nothing left
//! to copy.

use std::sync::Arc;

use oxferry_copier::{Connections, DeferredIndexes, WorkLimits};
use oxferry_schema::{KeyRange, Remedy, Table, TableName};
use oxferry_state::{Checkpoint, TableProgress, same_definition};

use super::way::Way;
use crate::{
    comparing::Comparing,
    failure::Failure,
    job::{Job, JobTable, Prepared, PreparedTable, Rows, Settings, Site},
    moving::prepare::{TARGET_SESSIONS, columns, pairs},
};

/// Reads both sides of every table, and gets ready to let changes flow back.
pub(super) async fn prepare(
    way: &Way,
    checkpoint: &Checkpoint,
) -> Result<(Job, Prepared), Failure> {
    let mut there = way.sites.target.connect("definition").await?;
    let mut here = way.sites.source.connect("definition").await?;
    let (mut tables, mut prepared) = (Vec::new(), Vec::new());
    let names = way.targets.iter().zip(&way.shut_sources);
    let known = way.reverse.definitions.iter().zip(&checkpoint.tables);
    for ((target, source), (definition, progress)) in names.zip(known) {
        let from = read(&mut there, target, "target").await?;
        if !same_definition(definition, &from.create_statement) {
            return Err(changed(target));
        }
        let to = read(&mut here, source, "source").await?;
        let key = from
            .row_key()
            .map_err(|error| Failure::new(Remedy::Usage, error))?;
        let table = JobTable {
            source: from,
            key,
            target: to.name.clone(),
            rows: Rows::All,
        };
        prepared.push(prepared_table(&table, to, progress.clone())?);
        tables.push(table);
    }
    let job = job(way, checkpoint, tables)?;
    let (source, target) = connections(&job).await?;
    let prepared = Prepared {
        source,
        target,
        tables: prepared,
        start: way.reverse.position.clone(),
        resumed: true,
    };
    Ok((job, prepared))
}

fn prepared_table(
    table: &JobTable,
    to: Table,
    mut progress: TableProgress,
) -> Result<PreparedTable, Failure> {
    progress.closed = vec![KeyRange::ALL];
    progress.deferred_indexes.clear();
    let columns = columns(table, &to);
    Ok(PreparedTable {
        plan: columns.plan(&to)?,
        pairs: pairs(table, &to),
        new_uniques: columns.new_uniques(&to),
        deferred: DeferredIndexes::none(&to),
        target: to,
        progress,
        may_hold_rows: true,
    })
}

fn job(way: &Way, checkpoint: &Checkpoint, tables: Vec<JobTable>) -> Result<Job, Failure> {
    let args = &way.args;
    let comparing = Comparing::read(&args.compare, &way.sites.source.url)?;
    let names = checkpoint.tables.iter().map(|t| (&t.source, &t.target));
    Ok(Job {
        settings: Settings {
            server: args.server.clone(),
            copy: args.copy.clone(),
            comparing: comparing.renamed(names),
            throttle: args.throttle.clone(),
            postpone: args.switch.postpone(),
            run: args.run.clone(),
        },
        source: way.sites.target.clone(),
        primary: None,
        target: way.sites.source.clone(),
        tables,
        sentinel: way.names.sentinel.clone(),
        state: way.names.marks.clone(),
        marks: way.names.state.clone(),
        identity: checkpoint.job.clone(),
        in_order: false,
    })
}

/// Sessions for reading on the target, and for all that writes on the source.
async fn connections(job: &Job) -> Result<(Arc<Connections>, Arc<Connections>), Failure> {
    let copy = &job.settings.copy;
    let (threads, writers) = (copy.threads.get(), copy.write_threads.get());
    let limits = WorkLimits::default();
    let readers = std::slice::from_ref(&job.marks);
    let url = |site: &Site| site.url.clone();
    let source = Connections::open_for(url(&job.source), readers, threads + 1, limits);
    let owners: Vec<TableName> = job.tables.iter().map(|t| t.target.clone()).collect();
    let size = threads + writers + 1;
    let setup = (limits, TARGET_SESSIONS);
    let target = Connections::open_with(url(&job.target), &owners, size, setup);
    Ok(tokio::try_join!(source, target)?)
}

async fn read(
    conn: &mut mysql_async::Conn,
    name: &TableName,
    side: &str,
) -> Result<Table, Failure> {
    Table::read(conn, name).await?.ok_or_else(|| {
        let why = anyhow::anyhow!("table {} on the {side} is gone", name.plain());
        Failure::new(Remedy::State, why).context(CLOSED)
    })
}

fn changed(table: &TableName) -> Failure {
    let why = anyhow::anyhow!(
        "table {} on the target was changed by somebody since the switch",
        table.plain()
    );
    Failure::new(Remedy::State, why).context(CLOSED)
}

const CLOSED: &str = "the move can't be taken back any more; the target is untouched and goes on, and the same \
                      command without --reverse-for cleans up";
