//! `oxferry plan move`: every check of the real run, and what would happen.

use oxferry_copier::{DeferredIndexes, engine::Mode};
use oxferry_schema::ShadowNames;

use super::{Locks, Sites, earlier, job::Move, prepare, start::Start, switching, tenant, wanted};
use crate::{
    args::{CutoverMode, LockSource, MoveArgs},
    failure::Failure,
    job::bytes_text,
};

/// Names of what stays behind, at most, a kind.
const NAMES_MAX: usize = 1_000;

/// Checks everything and says what would happen. Nothing is written.
///
/// # Errors
///
/// The failure, and so the exit code, that the real run would end with.
pub(crate) async fn run(args: MoveArgs) -> Result<(), Failure> {
    switching::check(&args.switch)?;
    let sites = Sites::look(&args).await?;
    if earlier::plan(&args, &wanted(&args.select)?, &sites).await? {
        return Ok(());
    }
    let (mut job, mut conn) = Move::look(args, sites).await?;
    let locks = Locks::of(&job.core).await?;
    let planned = async {
        let start = job.decide(&mut conn).await?;
        job.go_on(&start)?;
        if let Start::Fresh { leftovers, .. } = &start {
            job.blueprint = job.draw_without(&mut conn, leftovers).await?;
        }
        say_start(&start);
        say_tables(&job)?;
        say_job(&job);
        say_switch(&job);
        Ok(())
    };
    let outcome = tokio::select! {
        planned = planned => planned,
        lost = locks.lost() => Err(lost),
    };
    locks.release().await;
    outcome
}

fn say_start(start: &Start) {
    let how = match start {
        Start::Fresh { leftovers, forgets } if leftovers.is_empty() && !forgets => {
            "would start anew"
        }
        Start::Fresh { .. } => "would drop what an earlier run made, and start anew",
        Start::Resume(_) => "would go on where an earlier run stopped",
        Start::CleanUp(_) => "would only clean up after an earlier run, which has made the switch",
    };
    tracing::info!("the move {how}");
}

fn say_tables(job: &Move) -> Result<(), Failure> {
    for table in &job.core.tables {
        let columns = prepare::columns(table, &table.source);
        let deferred = match table.rows.owned() {
            None => columns.deferred(&table.source),
            Some(_) => DeferredIndexes::none(&table.source),
        };
        let mut bare = table.source.clone();
        bare.indexes
            .retain(|index| !deferred.names().any(|name| *name == index.name));
        bare.name = table.target.clone();
        let plan = Move::filtered(table, columns.plan(&bare)?);
        let mode = match plan.mode() {
            Mode::Ranged => "ranged",
            Mode::Ordered => "ordered",
        };
        let (rows, read_by) = tenant::told(table);
        let deferred: Vec<&str> = deferred.names().map(|name| name.as_str()).collect();
        tracing::info!(
            table = %table.source.name.plain(),
            to = %table.target.plain(),
            made = job.makes(&table.target),
            key = %table.key.index.as_str(),
            mode,
            rows,
            read_by,
            rows_about = table.source.row_estimate,
            disk_needed = %bytes_text(table.source.size_bytes),
            indexes_built_later = %deferred.join(", "),
            "would be moved"
        );
    }
    Ok(())
}

fn say_job(job: &Move) {
    for database in &job.blueprint.databases {
        if database.create.is_some() {
            tracing::info!(
                database = database.name.as_str(),
                "would be made on the target"
            );
        }
    }
    for left_out in &job.selection.left_out {
        tracing::info!(table = %left_out.table.plain(), why = left_out.why, "is left out");
    }
    for line in job.left_behind.lines(NAMES_MAX) {
        tracing::info!("is not moved: {line}");
    }
    tracing::info!(
        tables = job.core.tables.len(),
        state = %job.core.state.plain(),
        sentinel = %job.core.sentinel.plain(),
        marks_on_source = job.has_marks() && job.core.primary.is_none(),
        marks_on_primary = job.core.primary.is_some(),
        marks = %job.core.marks.plain(),
        "tables of the move itself"
    );
    let sizes = job.core.tables.iter().map(|table| table.source.size_bytes);
    tracing::info!(
        disk_needed = %bytes_text(sizes.fold(0, u64::saturating_add)),
        "about what the tables take on the source, indexes included; the target's binary log grows by about \
         as much as the rows take"
    );
}

fn say_switch(job: &Move) {
    let args = &job.args.switch;
    let shut = match args.lock_source {
        Some(LockSource::ReadOnly) => "the whole source server is set read-only, and stays so",
        Some(LockSource::LockTables) => {
            "the source's tables are locked until hook switched has returned"
        }
        Some(LockSource::Rename) => "the source's tables are renamed, and stay so",
        Some(LockSource::Hook) => "hook lock-source is called",
        Some(LockSource::None) | None => {
            "nothing is done to the source: somebody else keeps writers away"
        }
    };
    let when = match args.cutover {
        CutoverMode::Auto => "as soon as all is compared".to_owned(),
        CutoverMode::Manual => format!("when {} is dropped", job.core.sentinel.plain()),
    };
    tracing::info!(
        when, locked_max = %humantime::format_duration(args.locked_max), "at the switch {shut}"
    );
    let first = job.core.tables.iter().min_by_key(|t| &t.source.name);
    if let (Some(reverse_for), Some(first)) = (args.reverse_for, first) {
        let request = ShadowNames::beside(&first.target).reverse;
        tracing::info!(
            reverse_for = %humantime::format_duration(reverse_for), request = %request.plain(),
            "after the switch, what is written on the target flows back into the source's tables; `oxferry ctl \
             cutover --reverse`, or creating the table of the request, takes the move back"
        );
    }
}
