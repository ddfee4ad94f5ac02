//! `oxferry cleanup --target URL`: what moves that ended early left on both
//! servers.
//!
//! A table of the target is removed only where the checkpoint says that the
//! move made it; what the move found there, and databases, stay.

use mysql_async::{Conn, prelude::Queryable};
use oxferry_schema::{Remedy, TableName};
use oxferry_state::{Checkpoint, CheckpointStore as _, FileStore};

use super::{
    Names, Sites,
    earlier::{Found, checkpoints_in, in_tables},
    primary,
};
use crate::{
    args::CleanupArgs,
    failure::Failure,
    job::{JobLock, Working, drop_together, table_exists},
    source,
};

/// What is to be done about what a move left.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// Nothing before the same move was run again, for this reason.
    Leave(String),
    /// The target has taken over: its tables stay.
    Tidy,
    /// The move is given up: the tables that it made on the target go, too.
    GiveUp,
}

/// Lists what moves between the two servers left, and removes it if asked to.
///
/// # Errors
///
/// A failure when a server can't be asked, or a table can't be removed.
pub(crate) async fn clean(args: &CleanupArgs) -> Result<(), Failure> {
    let (primary, target) = (args.source_primary.as_deref(), args.target.as_deref());
    let sites = Sites::find(&args.server, primary, target).await?;
    if sites.primary.is_none() {
        // A replica has the marks from its primary, where they must be removed.
        primary::expect_no_replica(&sites.source).await?;
    }
    let mut conn = sites.target.connect("cleanup").await?;
    let job = args.job.as_deref();
    let wanted = job.map(|name| source::table_name(name, &sites.source.url));
    let wanted = wanted.transpose()?;
    let file = args.state.as_ref().map(FileStore::new);
    let mut found = in_tables(&mut conn).await?;
    if let Some(file) = &file {
        found.extend(in_file(file, &sites).await?);
    }
    found.retain(|found| is_between(&found.checkpoint, &sites));
    found.retain(|found| {
        let tables = &found.checkpoint.job.tables;
        wanted.as_ref().is_none_or(|wanted| tables.contains(wanted))
    });
    if found.is_empty() {
        tracing::info!("no move between these servers left anything behind");
    }
    for found in &found {
        let file = file.as_ref().filter(|_| found.table.is_none());
        one(&sites, found, file, args.execute).await?;
    }
    if !found.is_empty() && !args.execute {
        tracing::info!("nothing was removed: add --execute to remove what is listed");
    }
    Ok(())
}

/// A checkpoint in a file is the operator's choice: it must be of these servers.
async fn in_file(file: &FileStore, sites: &Sites) -> Result<Option<Found>, Failure> {
    let path = file.path().display();
    let Some(checkpoint) = file.load().await? else {
        return Err(Failure::usage(format!("there is no file {path}")));
    };
    if !is_between(&checkpoint, sites) {
        return Err(Failure::usage(format!(
            "the checkpoint in {path} isn't of a move between these two servers"
        )));
    }
    Ok(Some(Found {
        table: None,
        checkpoint,
    }))
}

fn is_between(checkpoint: &Checkpoint, sites: &Sites) -> bool {
    let (source, target) = (&sites.source.info, &sites.target.info);
    checkpoint.is_of_move_between(&source.server_uuid, &target.server_uuid)
}

fn fate(checkpoint: &Checkpoint) -> Fate {
    let target = checkpoint.target.as_ref();
    if target.is_some_and(|target| target.reverse.is_some()) {
        let why = "it may still be taken back, and its source is shut until then: run the same move again, \
                   without --reverse-for to give the way back up";
        return Fate::Leave(why.to_owned());
    }
    if target.is_some_and(|target| target.switched) {
        return Fate::Tidy;
    }
    match target.and_then(|target| target.source_lock.as_ref()) {
        Some(lock) => Fate::Leave(format!(
            "the source may still be shut ({lock}): run the same move again, which undoes that first, \
             or completes the switch"
        )),
        None => Fate::GiveUp,
    }
}

/// Returns the tables that a move made on the target, where it is given up.
fn made(checkpoint: &Checkpoint, fate: &Fate) -> Vec<TableName> {
    let target = checkpoint.target.iter().filter(|_| *fate == Fate::GiveUp);
    target.flat_map(|target| &target.made).cloned().collect()
}

/// Returns the tables on the target that a move writes to.
fn targets(checkpoint: &Checkpoint) -> Vec<TableName> {
    let made = checkpoint.target.iter().flat_map(|target| &target.made);
    let begun = checkpoint.tables.iter().map(|table| &table.target);
    let mut all: Vec<TableName> = made.chain(begun).cloned().collect();
    all.sort();
    all.dedup();
    all
}

async fn one(
    sites: &Sites,
    found: &Found,
    file: Option<&FileStore>,
    execute: bool,
) -> Result<(), Failure> {
    let name = found.checkpoint.job.name.as_str();
    let locks = match locks(sites, &found.checkpoint).await {
        Ok(locks) => locks,
        Err(failure) if failure.is_caused_by::<Working>() => {
            tracing::info!(job = name, "left alone: {}", failure.line());
            return Ok(());
        }
        Err(failure) => return Err(failure),
    };
    let cleaned = locked(sites, found, (file, &locks), execute).await;
    let cleaned = match (cleaned, file) {
        (Ok(()), Some(file)) if execute => file.clear().await.map_err(Failure::from),
        (cleaned, _) => cleaned,
    };
    for lock in locks {
        lock.release().await;
    }
    cleaned
}

/// Decides by what the checkpoint says now: until the locks were taken the move may
/// have gone on, and made its switch.
async fn locked(
    sites: &Sites,
    found: &Found,
    (file, locks): (Option<&FileStore>, &[JobLock]),
    execute: bool,
) -> Result<(), Failure> {
    let job = &found.checkpoint.job;
    let now = match (&found.table, file) {
        (Some(table), _) => {
            let mut conn = sites.target.connect("cleanup").await?;
            checkpoints_in(&mut conn, table).await?
        }
        (None, Some(file)) => file.load().await?.into_iter().collect(),
        (None, None) => Vec::new(),
    };
    let same = |checkpoint: &Checkpoint| is_between(checkpoint, sites) && checkpoint.job == *job;
    let Some(checkpoint) = now.into_iter().find(same) else {
        tracing::info!(job = job.name, "left alone: it has gone on meanwhile");
        return Ok(());
    };
    let found = Found {
        table: found.table.clone(),
        checkpoint,
    };
    let fate = fate(&found.checkpoint);
    if let Fate::Leave(why) = &fate {
        tracing::warn!(job = job.name, "left alone: {why}");
        return Ok(());
    }
    remove(sites, &found, (&fate, locks), execute).await
}

/// The locks of the move's tables on both servers, the source's first.
async fn locks(sites: &Sites, checkpoint: &Checkpoint) -> Result<Vec<JobLock>, Failure> {
    let mut locks = Vec::new();
    let places = [
        (&sites.source, checkpoint.job.tables.clone()),
        (&sites.target, targets(checkpoint)),
    ];
    for (site, tables) in places {
        if tables.is_empty() {
            continue;
        }
        let taken = match site.connect("lock").await {
            Ok(conn) => JobLock::take(conn, &tables).await,
            Err(failure) => Err(failure),
        };
        match taken {
            Ok(lock) => locks.push(lock),
            Err(failure) => {
                for lock in locks {
                    lock.release().await;
                }
                return Err(failure);
            }
        }
    }
    Ok(locks)
}

/// The checkpoint goes last: while it stands, a repeated cleanup knows what the
/// rest is.
async fn remove(
    sites: &Sites,
    found: &Found,
    (fate, locks): (&Fate, &[JobLock]),
    execute: bool,
) -> Result<(), Failure> {
    let checkpoint = &found.checkpoint;
    let names = Names::of(checkpoint).ok();
    let mut target = sites.target.connect("cleanup").await?;
    let mut written = sites.written().connect("cleanup").await?;
    let mut first = made(checkpoint, fate);
    let mut last: Vec<TableName> = found.table.iter().cloned().collect();
    let mut marks = Vec::new();
    if let Some(names) = names {
        first.push(names.sentinel);
        if !last.contains(&names.state) && holds_marks_only(&mut target, &names.state).await? {
            last.push(names.state);
        }
        if holds_marks_only(&mut written, &names.marks).await? {
            marks.push(names.marks);
        }
    }
    let here = sites.primary.as_ref().map_or("source", |_| "primary");
    for (server, tables) in [("target", &first), (here, &marks), ("target", &last)] {
        let conn = if server == "target" {
            &mut target
        } else {
            &mut written
        };
        let mut there = Vec::new();
        for table in tables {
            if table_exists(conn, table).await? {
                there.push(table);
            }
        }
        if execute {
            check(sites, locks).await?;
            drop_together(conn, &there).await?;
        }
        let what = if execute { "removed" } else { "left behind" };
        for table in there {
            tracing::info!(server, table = %table.plain(), "{what}");
        }
    }
    Ok(())
}

/// Checks that no other job has begun meanwhile.
async fn check(sites: &Sites, locks: &[JobLock]) -> Result<(), Failure> {
    for (lock, site) in locks.iter().zip([&sites.source, &sites.target]) {
        lock.holder()
            .check(&mut site.connect("lock").await?)
            .await?;
    }
    Ok(())
}

/// Returns whether a table of this name is there and holds no job's checkpoint.
async fn holds_marks_only(conn: &mut Conn, table: &TableName) -> Result<bool, Failure> {
    if !table_exists(conn, table).await? {
        return Ok(false);
    }
    let query = format!("SELECT COUNT(*) FROM {table} WHERE payload <> ''");
    let held: Option<u64> = conn.query_first(query).await.map_err(|error| {
        Failure::new(Remedy::Retry, error).context(format!("reading {}", table.plain()))
    })?;
    Ok(held == Some(0))
}

#[cfg(test)]
mod tests {
    use oxferry_schema::Ident;
    use oxferry_state::JobIdentity;

    use super::*;

    fn name(table: &str) -> TableName {
        TableName::new(Ident::new("d").unwrap(), Ident::new(table).unwrap())
    }

    fn checkpoint() -> Checkpoint {
        let job = JobIdentity::moving(vec![name("t")], vec!["d.t to d.t".to_owned()]);
        let mut checkpoint = Checkpoint::new(job, "1", "s").to_server("t");
        let target = checkpoint.target.as_mut().unwrap();
        target.made = vec![name("t")];
        checkpoint
    }

    #[test]
    fn the_tables_of_a_move_that_took_over_stay() {
        let mut checkpoint = checkpoint();
        assert_eq!(fate(&checkpoint), Fate::GiveUp);
        assert_eq!(made(&checkpoint, &Fate::GiveUp), [name("t")]);
        checkpoint.target.as_mut().unwrap().switched = true;
        assert_eq!(fate(&checkpoint), Fate::Tidy);
        assert_eq!(made(&checkpoint, &Fate::Tidy), []);
    }

    #[test]
    fn a_move_that_may_have_shut_the_source_is_left_alone() {
        let mut checkpoint = checkpoint();
        checkpoint.target.as_mut().unwrap().source_lock = Some("read-only".to_owned());
        assert!(matches!(fate(&checkpoint), Fate::Leave(why) if why.contains("run the same move")));
    }
}
