//! What an earlier run that died in its switch has left: a source that is shut,
//! or a switch that was made.
//!
//! It is looked for before anything else, since the source's tables may have
//! other names by now, and the checkpoint is named after one of them.

use mysql_async::{Conn, prelude::Queryable};
use oxferry_cutover::{Leftover, undo_leftover};
use oxferry_schema::{Ident, Remedy, ShadowNames, TableName, Wanted};
use oxferry_state::{Checkpoint, CheckpointStore as _, FileStore, JobKind, TargetServer};

use super::{Names, Sites, clean_up, switching};
use crate::{
    args::{Announced, MoveArgs},
    failure::Failure,
    job::{JobLock, Saver, Store},
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
    let Some(checkpoint) = find(args, wanted, sites).await? else {
        return Ok(Earlier::GoesOn);
    };
    let Some(target) = checkpoint.target.clone() else {
        return Ok(Earlier::GoesOn);
    };
    if target.switched && target.reverse.is_some() {
        return Ok(Earlier::Reverse(Box::new(checkpoint)));
    }
    let sources: Vec<TableName> = checkpoint.tables.iter().map(|t| t.source.clone()).collect();
    let lock = JobLock::take(sites.source.connect("lock").await?, &sources).await?;
    let settled = Settling {
        args,
        sites,
        lock: &lock,
        target,
    };
    let done = settled.settle(checkpoint, &sources).await;
    lock.release().await;
    done
}

struct Settling<'a> {
    args: &'a MoveArgs,
    sites: &'a Sites,
    lock: &'a JobLock,
    target: TargetServer,
}

impl Settling<'_> {
    async fn settle(
        &self,
        checkpoint: Checkpoint,
        sources: &[TableName],
    ) -> Result<Earlier, Failure> {
        let names = Names::of(&checkpoint)?;
        let file = self.args.run.state.as_ref();
        let opts = self.sites.target.opts("checkpoint");
        let store = Store::new(file, opts, &names.state, &checkpoint.job.name);
        let saver = Saver::new(store, checkpoint);
        if self.target.switched {
            return self.finish(&saver, &names).await;
        }
        let Some(leftover) = leftover(&self.target)? else {
            return Ok(Earlier::GoesOn);
        };
        let leftover = match (leftover.announced, self.args.switch.announced) {
            (true, Some(Announced::Target)) => return self.announced(&saver, &names).await,
            (true, Some(Announced::Source)) => not_announced(leftover),
            (true, None) => {
                return Err(Failure::new(
                    Remedy::Ambiguous,
                    anyhow::anyhow!(
                        "an earlier run died while it sent the applications to the target: look where they \
                         write, then run the same command with --announced target or --announced source"
                    ),
                ));
            }
            (false, _) => leftover,
        };
        tracing::info!(%leftover, "an earlier run has shut the source: that is undone first");
        let plan = switching::plan(&self.args.switch, sources)?;
        undo_leftover(&self.sites.written().opts("undo"), &plan, &leftover).await?;
        saver
            .save_target(|target| target.source_lock = None)
            .await?;
        Ok(Earlier::GoesOn)
    }

    /// The applications are on the target: from now on that is sure.
    async fn announced(&self, saver: &Saver, names: &Names) -> Result<Earlier, Failure> {
        if self.target.reverse.is_none() {
            return self.finish(saver, names).await;
        }
        let note = |target: &mut TargetServer| {
            target.source_lock = None;
            target.switched = true;
        };
        saver.save_target(note).await?;
        Ok(Earlier::Reverse(Box::new(saver.checkpoint().await)))
    }

    async fn finish(&self, saver: &Saver, names: &Names) -> Result<Earlier, Failure> {
        tracing::info!("an earlier run has made the switch; cleaning up after it");
        clean_up(
            self.sites,
            names,
            saver,
            (&self.lock.holder(), &self.sites.source),
        )
        .await?;
        Ok(Earlier::Done)
    }
}

fn leftover(target: &TargetServer) -> Result<Option<Leftover>, Failure> {
    let text = target.source_lock.as_deref();
    let parsed = text.map(str::parse::<Leftover>).transpose();
    parsed.map_err(|error| Failure::new(Remedy::State, error))
}

fn not_announced(mut leftover: Leftover) -> Leftover {
    leftover.announced = false;
    leftover
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

/// Returns the checkpoint of a move between these servers that died in its
/// switch or after it, if its tables are among those that are wanted; the newest
/// one, since that of a way back is kept on the source.
async fn find(
    args: &MoveArgs,
    wanted: &Wanted,
    sites: &Sites,
) -> Result<Option<Checkpoint>, Failure> {
    let found: Vec<Checkpoint> = match &args.run.state {
        Some(file) => {
            // One that can't be read is told of by whoever wants to go on with it.
            let loaded = FileStore::new(file).load().await.unwrap_or_default();
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
    let source = &sites.source.info.server_uuid;
    let died = |checkpoint: &Checkpoint| {
        let target = checkpoint.target.as_ref();
        let is_here = checkpoint.job.kind == JobKind::Move && checkpoint.server_uuid == *source;
        is_here && target.is_some_and(|t| t.switched || t.source_lock.is_some())
    };
    let is_wanted = |checkpoint: &Checkpoint| {
        let mut tables = checkpoint.tables.iter().map(|table| &table.source);
        tables.any(|table| wants(wanted, table))
    };
    let found = found.into_iter();
    let found = found.filter(|checkpoint| died(checkpoint) && is_wanted(checkpoint));
    Ok(found.max_by_key(|checkpoint| checkpoint.sequence))
}

fn wants(wanted: &Wanted, table: &TableName) -> bool {
    let all = wanted.databases.is_empty() && wanted.tables.is_empty();
    all || wanted.databases.contains(&table.schema) || wanted.tables.contains(table)
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
        WHERE table_name LIKE '\\_%\\_oxstate' AND table_comment LIKE 'oxferry:%'";
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
    let payloads = payloads.iter();
    let read = payloads.filter_map(|json| Checkpoint::from_json(json).ok());
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
