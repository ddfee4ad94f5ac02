//! `oxferry migrate`: one job, from its first look at the server to the last
//! table dropped.

mod attached;
mod check;
mod duplicates;
mod ended;
mod facts;
mod finish;
mod job;
mod native;
mod neighbours;
mod plan;
mod preflight;
mod prepare;
mod request;
mod shape;
mod start;
mod takeover;
mod time_zone;

use std::{io::IsTerminal, time::Duration};

use mysql_async::{Conn, prelude::Queryable};
use oxferry_cutover::end_earlier;
use oxferry_schema::{ServerUrl, TableName, connect};
use oxferry_state::{Checkpoint, Phase};

use self::{
    job::Migration,
    request::Rest,
    start::{Found, FoundTable, Start},
};
use crate::{
    args::MigrateArgs,
    control::{self, Controls},
    failure::Failure,
    job::{
        self as course, Held, Interrupt, JobLock, Prepared, Progress, Saver, Store, table_exists,
    },
    log::Log,
};

/// How long the end of an earlier run's cutover session is waited for.
const EARLIER_MAX: Duration = Duration::from_secs(30);

/// How long ending a session of this run may take.
const END_MAX: Duration = Duration::from_secs(5);

pub(crate) use self::{attached::plan_of, plan::run as plan};

/// Runs a job to its end, or to the point at which it can be resumed.
///
/// # Errors
///
/// A failure with its remedy. Nothing is left locked; what a resume needs is kept.
pub(crate) async fn run(args: MigrateArgs, log: &Log) -> Result<(), Failure> {
    args.cutover.check()?;
    let callbacks = args.run.callbacks.clone();
    let job = async |interrupt| migrate(args, log, &interrupt).await;
    course::attended(&callbacks, job).await
}

async fn migrate(args: MigrateArgs, log: &Log, interrupt: &Interrupt) -> Result<(), Failure> {
    let controls = Controls::new(interrupt.clone());
    tracing::info!(phase = %Phase::Preflight.as_str(), "begins");
    let Some(rest) = left_to_copy(&args, interrupt).await? else {
        tracing::info!(phase = %Phase::Done.as_str(), "ends");
        return Ok(());
    };
    let (job, mut conn) = tokio::select! {
        looked = Migration::look(args, rest) => looked?,
        interrupted = interrupt.wanted() => return Err(interrupted),
    };
    let lock = JobLock::take(
        connect(&job.core.source.url, "lock").await?,
        &job.core.sources(),
    )
    .await?;
    let (start, saver) = tokio::select! {
        decided = decide(&job, &mut conn, interrupt) => decided?,
        lost = lock.lost() => return Err(lost),
        interrupted = interrupt.wanted() => return Err(interrupted),
    };
    let progress = Progress::new(log, job.core.row_estimate());
    let work = Work {
        job: &job,
        saver: &saver,
        progress: &progress,
        controls: &controls,
    };
    let outcome = work.controlled(start, &mut conn, &lock).await;
    lock.release().await;
    progress.finish();
    if outcome.is_ok() {
        tracing::info!(phase = %Phase::Done.as_str(), "ends");
    }
    course::ended(&job.args.run, &job.core.identity.name, &saver, outcome).await
}

/// Says what this run has to do, and what notes how far it is.
async fn decide(
    job: &Migration,
    conn: &mut Conn,
    interrupt: &Interrupt,
) -> Result<(Start, Saver), Failure> {
    for table in job.core.sources() {
        // A rename that an earlier run sent may still be waiting to happen.
        end_earlier(conn, &table, EARLIER_MAX).await?;
    }
    let (found, store) = look_around(job, conn).await?;
    let others = found.others();
    let start = start::decide(found, &job.core.identity, job.args.run.fresh)?;
    if let Start::Fresh { leftovers: true } = start {
        confirm(job, interrupt).await?;
        leave(&others);
    }
    let checkpoint = match &start {
        Start::Resume(checkpoint) | Start::CleanUp(checkpoint) => Checkpoint::clone(checkpoint),
        Start::Fresh { .. } => job.core.begin(),
    };
    Ok((start, Saver::new(store, checkpoint)))
}

/// Does what needs no copy: changes at once, and cleaning up after an earlier
/// run that has swapped the tables. Returns what is left, if anything is.
async fn left_to_copy(args: &MigrateArgs, interrupt: &Interrupt) -> Result<Option<Rest>, Failure> {
    let rest = at_once(args, interrupt).await?;
    if rest.requests.is_empty() {
        return Ok(None);
    }
    let ended = tokio::select! {
        ended = ended::look(args, &rest) => ended?,
        interrupted = interrupt.wanted() => return Err(interrupted),
    };
    let Some(ended) = ended else {
        return Ok(Some(rest));
    };
    ended.clean_up(args).await?;
    Ok(None)
}

/// Lets the server change what it can change at once; returns what is left to
/// copy. Nothing is changed before everything has been checked.
async fn at_once(args: &MigrateArgs, interrupt: &Interrupt) -> Result<Rest, Failure> {
    let decided = tokio::select! {
        decided = native::decide(args) => decided?,
        interrupted = interrupt.wanted() => return Err(interrupted),
    };
    if let Some(rest) = decided.mixed() {
        tokio::select! {
            checked = check_rest(args, rest) => checked?,
            interrupted = interrupt.wanted() => return Err(interrupted),
        }
    }
    decided.apply(&args.cutover, interrupt).await
}

/// Checks all of what is to be copied that can be checked before it is.
async fn check_rest(args: &MigrateArgs, rest: Rest) -> Result<(), Failure> {
    let (job, mut conn) = Migration::look(args.clone(), rest).await?;
    let (found, _) = look_around(&job, &mut conn).await?;
    start::decide(found, &job.core.identity, job.args.run.fresh)?;
    let altered = check::check(&job, &mut conn).await?;
    attached::check(&job, &mut conn, &altered).await?;
    duplicates::refuse(&job, &mut conn, &altered).await
}

struct Work<'a> {
    job: &'a Migration,
    saver: &'a Saver,
    progress: &'a Progress,
    controls: &'a Controls,
}

impl Work<'_> {
    /// Runs the job, and listens to what it is told.
    async fn controlled(
        &self,
        start: Start,
        conn: &mut Conn,
        lock: &JobLock,
    ) -> Result<(), Failure> {
        let core = &self.job.core;
        let path = core.settings.run.control.as_deref();
        let control = control::listen(path, &core.identity.name).await?;
        tokio::select! {
            outcome = self.run(start, conn, lock) => outcome,
            never = control::serve(control.as_ref(), self.controls) => match never {},
        }
    }

    async fn run(&self, start: Start, conn: &mut Conn, lock: &JobLock) -> Result<(), Failure> {
        let Self {
            job,
            saver,
            progress,
            controls,
        } = *self;
        let interrupt = controls.interrupt();
        if let Start::CleanUp(checkpoint) = &start {
            tracing::info!("an earlier run has swapped the tables; cleaning up after it");
            progress.enter(Phase::Cleanup);
            let known = (&**checkpoint, &lock.holder());
            return takeover::clean_up_after(job, conn, saver, known).await;
        }
        progress.enter(Phase::Prepare);
        let failure = tokio::select! {
            prepared = self.prepare(start, conn, lock) => {
                let prepared = prepared?;
                let held = Held {
                    written: lock,
                    other: None,
                };
                let rest = (held, progress, controls);
                return course::run((&job.core, job), prepared, saver, rest).await;
            }
            lost = lock.lost() => lost,
            interrupted = interrupt.wanted() => interrupted,
        };
        // A look for duplicates may have minutes to go, and nobody to tell.
        end_session(&job.core.source.url, conn.id()).await;
        Err(failure)
    }

    /// Makes what the job needs, or finds it again. It can be dropped anywhere,
    /// as a crash can come anywhere.
    async fn prepare(
        &self,
        start: Start,
        conn: &mut Conn,
        lock: &JobLock,
    ) -> Result<Prepared, Failure> {
        let Self { job, saver, .. } = *self;
        let holder = lock.holder();
        match start {
            Start::Fresh { leftovers } => {
                prepare::fresh(job, conn, saver, (leftovers, &holder)).await
            }
            Start::Resume(checkpoint) | Start::CleanUp(checkpoint) => {
                let phase = checkpoint.phase;
                tracing::info!(from = %phase.as_str(), saved_at = %checkpoint.saved_at, "resumes");
                prepare::resume(job, conn, (&checkpoint, &holder), saver).await
            }
        }
    }
}

/// Ends what a session still does. Whoever can't be ended ends by the limits
/// of its own session.
async fn end_session(url: &ServerUrl, connection: u32) {
    let ended = async {
        let mut conn = connect(url, "end").await.map_err(Failure::from)?;
        let kill = format!("KILL {connection}");
        let killed = conn.query_drop(kill).await;
        killed.map_err(|error| Failure::new(oxferry_schema::Remedy::Retry, error))
    };
    match tokio::time::timeout(END_MAX, ended).await {
        Ok(Ok(())) => {}
        Ok(Err(failure)) => tracing::debug!(connection, "not ended: {}", failure.line()),
        Err(_) => tracing::debug!(connection, "not ended in time"),
    }
}

/// Says what an earlier job over more tables left: another job may be at work
/// on them by now.
fn leave(others: &[TableName]) {
    for table in others {
        tracing::warn!(
            table = %table.plain(),
            "the earlier job made this table too: `oxferry cleanup --execute` removes it"
        );
    }
}

/// A person at a terminal is asked before hours of work are dropped.
async fn confirm(job: &Migration, interrupt: &Interrupt) -> Result<(), Failure> {
    if !job.args.run.fresh || job.args.run.yes || !std::io::stdin().is_terminal() {
        return Ok(());
    }
    let shadows = job.tables.iter().map(|table| table.names.shadow.plain());
    tracing::warn!(
        "about to drop the half-built {}: type yes to go on",
        shadows.collect::<Vec<_>>().join(", ")
    );
    let read = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).map(|_| answer)
    });
    let answer = tokio::select! {
        answer = read => answer,
        interrupted = interrupt.wanted() => return Err(interrupted),
    };
    match answer {
        Ok(Ok(answer)) if answer.trim() == "yes" => Ok(()),
        _ => Err(Failure::usage(
            "not confirmed: nothing was dropped; --yes asks nothing",
        )),
    }
}

/// Looks at what stands beside the sources. A checkpoint that can't be read is
/// in nobody's way who wants to start anew.
async fn look_around(job: &Migration, conn: &mut Conn) -> Result<(Found, Store), Failure> {
    let store = job.core.store();
    let checkpoint = match store.load().await {
        Err(failure) if job.args.run.fresh => {
            tracing::warn!(
                "the checkpoint can't be read, and is dropped: {}",
                failure.line()
            );
            None
        }
        loaded => loaded?,
    };
    let mut tables = Vec::with_capacity(job.tables.len());
    for table in &job.tables {
        let names = table.names.clone();
        tables.push(FoundTable {
            source: table.source.name.clone(),
            shadow: table_exists(conn, &names.shadow).await?,
            old: table_exists(conn, &names.old).await?,
            foreign_state: names.state != job.core.state
                && table_exists(conn, &names.state).await?,
            names,
            source_create: table.source.create_statement.clone(),
        });
    }
    let found = Found {
        checkpoint,
        state: table_exists(conn, &job.core.state).await?,
        tables,
        server_uuid: job.core.source.info.server_uuid.clone(),
    };
    Ok((found, store))
}
