//! What an earlier run that died in its switch has left: a source that is shut,
//! or a switch that was made.
//!
//! It is looked for before anything else, since the source's tables may have
//! other names by now, and the checkpoint is named after one of them.

use mysql_async::{Conn, prelude::Queryable};
use oxferry_cutover::undo_leftover;
use oxferry_schema::{Ident, Remedy, ShadowNames, TableName, Wanted, read_found};
use oxferry_state::{Checkpoint, CheckpointStore as _, FileStore, TargetServer};

use super::{
    Locks, Names, Sites, clean_up,
    died::{self, Asked, Left, choose},
    switching,
};
use crate::{
    args::MoveArgs,
    failure::Failure,
    job::{Saver, Store},
};

/// Whether anything is left to do after the earlier run.
#[derive(Clone, Debug)]
pub(super) enum Earlier {
    /// The move begins, or goes on.
    GoesOn,
    /// The earlier run has made the switch; what it left is cleaned up.
    Done,
    /// The earlier run has made the switch, and it can be taken back.
    Reverse(Box<Checkpoint>),
}

/// Finds an earlier run of the move that died in its switch, and undoes, or
/// completes, what it did.
///
/// # Errors
///
/// A failure that says what can't be undone, or that nobody knows where the
/// applications write.
pub(super) async fn settle(
    args: &MoveArgs,
    wanted: &Wanted,
    sites: &Sites,
) -> Result<Earlier, Failure> {
    let Some(seen) = find(args, wanted, sites).await? else {
        return Ok(Earlier::GoesOn);
    };
    let sources: Vec<TableName> = seen.tables.iter().map(|t| t.source.clone()).collect();
    let targets: Vec<TableName> = seen.tables.iter().map(|t| t.target.clone()).collect();
    let locks = Locks::take((&sites.source, &sources), (&sites.target, &targets)).await?;
    let done = settle_locked((args, wanted, sites), &seen, &locks).await;
    locks.release().await;
    done
}

/// Goes by what the checkpoint says now: until the locks were taken a run that was
/// still at work may have made its switch.
async fn settle_locked(
    (args, wanted, sites): (&MoveArgs, &Wanted, &Sites),
    seen: &Checkpoint,
    locks: &Locks,
) -> Result<Earlier, Failure> {
    let now = find(args, wanted, sites).await?;
    let Some(checkpoint) = now.filter(|now| now.job == seen.job) else {
        return Ok(Earlier::GoesOn);
    };
    let what = left(&checkpoint, args)?;
    match &what {
        Left::Nothing => return Ok(Earlier::GoesOn),
        Left::TakeBack => return Ok(Earlier::Reverse(Box::new(checkpoint))),
        Left::Undo(_) | Left::Final | Left::AnnouncedTakeBack => {}
    }
    let sources: Vec<TableName> = checkpoint.tables.iter().map(|t| t.source.clone()).collect();
    let names = Names::of(&checkpoint)?;
    let opts = sites.target.opts("checkpoint");
    let job = checkpoint.job.name.clone();
    let store = Store::new(args.run.state.as_ref(), opts, &names.state, &job);
    let saver = Saver::new(store, checkpoint);
    match what {
        Left::Undo(leftover) => {
            tracing::info!(%leftover, "an earlier run has shut the source: that is undone first");
            let plan = switching::plan(&args.switch, &sources)?;
            undo_leftover(&sites.written().opts("undo"), &plan, &leftover).await?;
            let note = |target: &mut TargetServer| target.source_lock = None;
            saver.save_target(note).await?;
            Ok(Earlier::GoesOn)
        }
        Left::AnnouncedTakeBack => {
            // The applications are on the target: from now on that is sure.
            let note = |target: &mut TargetServer| {
                target.source_lock = None;
                target.switched = true;
            };
            saver.save_target(note).await?;
            Ok(Earlier::Reverse(Box::new(saver.checkpoint().await)))
        }
        Left::Final | Left::Nothing | Left::TakeBack => {
            tracing::info!("an earlier run has made the switch; cleaning up after it");
            let held = (&locks.source.holder(), &sites.source);
            clean_up(sites, &names, &saver, held).await?;
            Ok(Earlier::Done)
        }
    }
}

/// Says what the move would first do about an earlier run; returns whether that is
/// all there is to say.
///
/// # Errors
///
/// As [`settle`].
pub(super) async fn plan(args: &MoveArgs, wanted: &Wanted, sites: &Sites) -> Result<bool, Failure> {
    let Some(checkpoint) = find(args, wanted, sites).await? else {
        return Ok(false);
    };
    let what = match left(&checkpoint, args)? {
        Left::Nothing => return Ok(false),
        Left::Undo(leftover) => {
            format!(
                "undo that an earlier run has shut the source ({leftover}), and go on with the move"
            )
        }
        Left::Final => "only clean up after an earlier run, which has made the switch".to_owned(),
        Left::TakeBack | Left::AnnouncedTakeBack => match args.switch.reverse_for {
            Some(_) => {
                "keep open the way back of an earlier run, which has made the switch".to_owned()
            }
            None => {
                "give up the way back of an earlier run, which has made the switch, and clean up"
                    .to_owned()
            }
        },
    };
    tracing::info!(job = checkpoint.job.name, "the move would {what}");
    Ok(true)
}

fn left(checkpoint: &Checkpoint, args: &MoveArgs) -> Result<Left, Failure> {
    match &checkpoint.target {
        Some(target) => died::left(target, args.switch.announced),
        None => Ok(Left::Nothing),
    }
}

/// Returns the checkpoint of a move between these servers whose switch was made
/// and can be taken back.
pub(super) async fn to_take_back(
    args: &MoveArgs,
    wanted: &Wanted,
    sites: &Sites,
) -> Result<Option<Checkpoint>, Failure> {
    let found = find(args, wanted, sites).await?;
    let is_open = |checkpoint: &Checkpoint| {
        let target = checkpoint.target.as_ref();
        target.is_some_and(|t| t.switched && t.reverse.is_some())
    };
    Ok(found.filter(is_open))
}

/// Returns the checkpoint of the move, if it died in its switch or after it.
async fn find(
    args: &MoveArgs,
    wanted: &Wanted,
    sites: &Sites,
) -> Result<Option<Checkpoint>, Failure> {
    let found: Vec<Checkpoint> = match &args.run.state {
        Some(file) => {
            // Its source may be shut, and its tables renamed.
            let loaded = FileStore::new(file).load().await?;
            loaded.into_iter().collect()
        }
        None => {
            let mut found = Vec::new();
            for site in [&sites.target, &sites.source] {
                let mut conn = site.connect("earlier").await?;
                let here = in_tables(&mut conn).await?;
                found.extend(here.into_iter().map(|found| found.checkpoint));
            }
            found
        }
    };
    if found.is_empty() {
        return Ok(None);
    }
    let mut conn = sites.source.connect("earlier").await?;
    let on_source = read_found(&mut conn).await?.into_iter();
    let on_source: Vec<TableName> = on_source
        .filter(oxferry_schema::Found::is_table)
        .map(|found| found.name)
        .collect();
    let asked = Asked {
        wanted,
        servers: (
            &sites.source.info.server_uuid,
            &sites.target.info.server_uuid,
        ),
        lower_case: sites.source.info.lower_case_table_names,
        on_source: &on_source,
    };
    choose(found, asked)
}

/// A checkpoint that was found.
#[derive(Debug)]
pub(super) struct Found {
    /// The table that holds it, unless it is in a file.
    pub(super) table: Option<TableName>,
    pub(super) checkpoint: Checkpoint,
}

/// Reads the checkpoints in all the tables that jobs have for them.
pub(super) async fn in_tables(conn: &mut Conn) -> Result<Vec<Found>, Failure> {
    let query = "SELECT table_schema, table_name FROM information_schema.tables \
        WHERE table_name LIKE '\\_%\\_oxstate' AND table_comment LIKE 'oxferry:%' ORDER BY 1, 2";
    let tables: Vec<(String, String)> = conn.query(query).await.map_err(looking)?;
    let mut found = Vec::new();
    for (schema, table) in tables {
        let (Ok(schema), Ok(table)) = (Ident::new(schema), Ident::new(table)) else {
            continue;
        };
        let table = TableName::new(schema, table);
        let checkpoints = checkpoints_in(conn, &table).await?.into_iter();
        found.extend(checkpoints.map(|checkpoint| Found {
            table: Some(table.clone()),
            checkpoint,
        }));
    }
    Ok(found)
}

/// Reads the checkpoints, of whatever jobs, in a table for them; none, if another
/// job has come to its end meanwhile and dropped it.
pub(crate) async fn checkpoints_in(
    conn: &mut Conn,
    table: &TableName,
) -> Result<Vec<Checkpoint>, Failure> {
    let query = format!("SELECT payload FROM {table} WHERE payload <> ''");
    let payloads: Vec<String> = match conn.query(query).await {
        Err(mysql_async::Error::Server(error)) if IS_GONE.contains(&error.code) => Vec::new(),
        payloads => payloads.map_err(looking)?,
    };
    let read = payloads.iter().filter_map(|json| {
        let checkpoint = Checkpoint::from_json(json);
        let told =
            |error| tracing::warn!(table = %table.plain(), "a checkpoint can't be read: {error}");
        checkpoint.map_err(told).ok()
    });
    Ok(read.collect())
}

/// The table, or its database, isn't there: `ER_NO_SUCH_TABLE`, `ER_BAD_DB_ERROR`.
const IS_GONE: [u16; 2] = [1146, 1049];

fn looking(error: mysql_async::Error) -> Failure {
    Failure::new(Remedy::Retry, error).context("looking for earlier moves")
}

impl Names {
    /// Names the tables of the move that a checkpoint is of.
    pub(super) fn of(checkpoint: &Checkpoint) -> Result<Self, Failure> {
        let begun = checkpoint.tables.iter().map(|t| (&t.source, &t.target));
        // Until the tables stand on the target only the blueprint tells.
        let drawn = checkpoint.target.iter().flat_map(|t| &t.blueprint.tables);
        let drawn = drawn.map(|table| (&table.source, &table.target));
        let first = begun.chain(drawn).min_by_key(|(source, _)| *source);
        let (source, target) = first.ok_or_else(|| {
            let error = anyhow::anyhow!("the checkpoint names no table");
            Failure::new(Remedy::State, error)
        })?;
        let beside_target = ShadowNames::beside(target);
        Ok(Self {
            state: beside_target.state,
            sentinel: beside_target.sentinel,
            marks: ShadowNames::beside(source).state,
        })
    }
}
