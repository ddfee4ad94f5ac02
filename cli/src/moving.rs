//! `oxferry move`: tables go to another server, from the first look at both to
//! the last table dropped.

mod attempt;
mod complete;
mod died;
mod earlier;
mod facts;
mod job;
mod others;
mod plan;
mod preflight;
mod prepare;
mod primary;
mod remains;
mod replication;
mod reverse;
mod root;
mod sink;
mod start;
mod switching;
mod takeover;
mod tenant;
mod wanted;
mod watch;

use mysql_async::{Conn, prelude::Queryable};
use oxferry_cutover::Sentinel;
use oxferry_schema::TableName;
use oxferry_state::{Checkpoint, Phase, TableStore};

use self::{earlier::Earlier, job::Move, start::Start};
use crate::{
    args::{MoveArgs, ServerArgs},
    control::{self, Controls},
    failure::Failure,
    job::{
        self as course, Held, Holder, Interrupt, Job, JobLock, Progress, SAVE_MAX, Saver, Site,
        table_exists,
    },
    log::Log,
    source,
};

pub(crate) use self::{earlier::checkpoints_in, plan::run as plan, remains::clean, wanted::wanted};

/// Runs a move to its end, or to the point at which it can be resumed.
///
/// # Errors
///
/// A failure with its remedy. Nothing is left locked; what a resume needs is kept.
pub(crate) async fn run(args: MoveArgs, log: &Log) -> Result<(), Failure> {
    let callbacks = args.run.callbacks.clone();
    let job = async |interrupt| move_tables(args, log, &interrupt).await;
    course::attended(&callbacks, job).await
}

/// The locks that a move holds, on both servers.
#[derive(Debug)]
struct Locks {
    source: JobLock,
    target: JobLock,
}

impl Locks {
    async fn of(job: &Job) -> Result<Self, Failure> {
        let targets: Vec<_> = job.tables.iter().map(|t| t.target.clone()).collect();
        Self::take((&job.source, &job.sources()), (&job.target, &targets)).await
    }

    async fn take(
        (source, sources): (&Site, &[TableName]),
        (target, targets): (&Site, &[TableName]),
    ) -> Result<Self, Failure> {
        let source = JobLock::take(source.connect("lock").await?, sources).await?;
        let target = target.connect("lock").await?;
        match JobLock::take(target, targets).await {
            Ok(target) => Ok(Self { source, target }),
            Err(failure) => {
                source.release().await;
                Err(failure.context("on the target"))
            }
        }
    }

    /// Returns what the locks are known by, each with its server.
    fn holders(&self, sites: &Sites) -> Vec<(Site, Holder)> {
        let source = (sites.source.clone(), self.source.holder());
        let target = (sites.target.clone(), self.target.holder());
        vec![source, target]
    }

    async fn release(self) {
        self.source.release().await;
        self.target.release().await;
    }

    async fn lost(&self) -> Failure {
        tokio::select! {
            lost = self.source.lost() => lost.context("on the source"),
            lost = self.target.lost() => lost.context("on the target"),
        }
    }
}

/// What is to be done.
enum Task {
    /// The move itself; the connection is to the target.
    Move(Box<Move>, Conn),
    /// An earlier run has made the switch, and it can be taken back.
    Reverse(Box<Checkpoint>),
    /// Nothing more.
    Nothing,
}

async fn move_tables(args: MoveArgs, log: &Log, interrupt: &Interrupt) -> Result<(), Failure> {
    tracing::info!(phase = %Phase::Preflight.as_str(), "begins");
    let wanted = wanted(&args.select)?;
    switching::check(&args.switch)?;
    let looked = async {
        let sites = Sites::look(&args).await?;
        let task = match earlier::settle(&args, &wanted, &sites).await? {
            Earlier::Done => Task::Nothing,
            Earlier::Reverse(checkpoint) => Task::Reverse(checkpoint),
            Earlier::GoesOn => {
                let (job, conn) = Move::look(args.clone(), sites.clone()).await?;
                Task::Move(Box::new(job), conn)
            }
        };
        Ok::<_, Failure>((sites, task))
    };
    let (sites, task) = tokio::select! {
        looked = looked => looked?,
        interrupted = interrupt.wanted() => return Err(interrupted),
    };
    let rest = (log, interrupt);
    let outcome = match task {
        Task::Nothing => Ok(()),
        Task::Reverse(checkpoint) => reverse::run(&args, &sites, *checkpoint, rest).await,
        Task::Move(mut job, mut conn) => {
            let locks = Locks::of(&job.core).await?;
            let outcome = locked(&mut job, &mut conn, (log, interrupt, &locks)).await;
            locks.release().await;
            if args.switch.reverse_for.is_none() {
                outcome
            } else {
                match earlier::to_take_back(&args, &wanted, &sites).await {
                    Ok(None) => outcome,
                    Ok(Some(checkpoint)) => {
                        let reverse = reverse::run(&args, &sites, checkpoint, rest).await;
                        reverse.and(outcome)
                    }
                    Err(failure) => outcome.and(Err(failure)),
                }
            }
        }
    };
    if outcome.is_ok() {
        tracing::info!(phase = %Phase::Done.as_str(), "ends");
    }
    outcome
}

async fn locked(
    job: &mut Move,
    conn: &mut Conn,
    (log, interrupt, locks): (&Log, &Interrupt, &Locks),
) -> Result<(), Failure> {
    let start = tokio::select! {
        decided = job.decide(conn) => decided?,
        lost = locks.lost() => return Err(lost),
        interrupted = interrupt.wanted() => return Err(interrupted),
    };
    job.go_on(&start)?;
    let checkpoint = match &start {
        Start::Resume(checkpoint) | Start::CleanUp(checkpoint) => (**checkpoint).clone(),
        Start::Fresh { .. } => job.begin(),
    };
    let saver = Saver::new(job.core.store(), checkpoint);
    let progress = Progress::new(log, job.core.row_estimate());
    let controls = Controls::new(interrupt.clone());
    let control = {
        let settings = &job.core.settings.run;
        control::listen(settings.control.as_deref(), &job.core.identity.name).await?
    };
    let outcome = tokio::select! {
        outcome = work(job, start, conn, (&saver, &progress, &controls, locks)) => outcome,
        never = control::serve(control.as_ref(), &controls) => match never {},
    };
    progress.finish();
    let (run, name) = (&job.core.settings.run, &job.core.identity.name);
    course::ended(run, name, &saver, outcome).await
}

async fn work(
    job: &mut Move,
    start: Start,
    conn: &mut Conn,
    (saver, progress, controls, locks): (&Saver, &Progress, &Controls, &Locks),
) -> Result<(), Failure> {
    let interrupt = controls.interrupt();
    let holder = locks.target.holder();
    job.locks = locks.holders(&job.sites());
    if let Start::CleanUp(_) = start {
        tracing::info!("an earlier run has made the switch; cleaning up after it");
        progress.enter(Phase::Cleanup);
        let names = Names::of_job(&job.core);
        return clean_up(&job.sites(), &names, saver, (&holder, &job.core.target)).await;
    }
    progress.enter(Phase::Prepare);
    let prepared = tokio::select! {
        prepared = prepare::prepare(job, start, conn, (saver, &holder)) => prepared?,
        lost = locks.lost() => return Err(lost),
        interrupted = interrupt.wanted() => return Err(interrupted),
    };
    let held = Held {
        written: &locks.target,
        other: Some((&locks.source, "source")),
    };
    let rest = (held, progress, controls);
    course::run((&job.core, job), prepared, saver, rest).await
}

/// Both servers.
#[derive(Clone, Debug)]
struct Sites {
    source: Site,
    /// Where the source is a replica.
    primary: Option<Site>,
    target: Site,
}

impl Sites {
    async fn look(args: &MoveArgs) -> Result<Self, Failure> {
        let (primary, target) = (args.source_primary.as_deref(), args.target.as_deref());
        Self::find(&args.server, primary, target).await
    }

    async fn find(
        server: &ServerArgs,
        primary: Option<&str>,
        target: Option<&str>,
    ) -> Result<Self, Failure> {
        let (source, mut conn) = Site::look(source::source_url(server)?).await?;
        let primary = match primary {
            None => None,
            Some(url) => {
                let url = source::replica_url(url, server)?;
                let (primary, _) = Site::look(url).await?;
                // What an earlier run has done to one must not be undone on another.
                primary::expect_followed(&source, &mut conn, &primary).await?;
                Some(primary)
            }
        };
        let (target, _) = Site::look(source::target_url(target)?).await?;
        Ok(Self {
            source,
            primary,
            target,
        })
    }

    /// Returns the server that the applications write to before the switch.
    fn written(&self) -> &Site {
        self.primary.as_ref().unwrap_or(&self.source)
    }
}

/// The tables of a move itself.
#[derive(Clone, Debug)]
struct Names {
    /// The checkpoint's, on the target.
    state: TableName,
    /// The one that postpones the switch, on the target.
    sentinel: TableName,
    /// The marks of the barrier and the throttle, on the source, or its primary.
    marks: TableName,
}

impl Names {
    fn of_job(job: &Job) -> Self {
        Self {
            state: job.state.clone(),
            sentinel: job.sentinel.clone(),
            marks: job.marks.clone(),
        }
    }
}

/// Drops what the move made beside the tables, the checkpoint last. `lock` is
/// held on the server beside it.
async fn clean_up(
    sites: &Sites,
    names: &Names,
    saver: &Saver,
    (lock, held_on): (&Holder, &Site),
) -> Result<(), Failure> {
    let mut locked = held_on.connect("lock").await?;
    lock.check(&mut locked).await?;
    let mut target = sites.target.connect("cleanup").await?;
    Sentinel::new(names.sentinel.clone())
        .drop(&mut target)
        .await?;
    // A source that was shut stays so: what can't be dropped there is named.
    if let Err(failure) = drop_marks(sites, names).await {
        tracing::warn!(
            table = %names.marks.plain(),
            "the table of the move's marks stays on the source: {}", failure.line()
        );
    }
    lock.check(&mut locked).await?;
    saver.clear().await
}

/// Drops the table of the marks, unless a job that changes the table there has
/// its checkpoint in it: the name is the same.
async fn drop_marks(sites: &Sites, names: &Names) -> Result<(), Failure> {
    let mut conn = sites.written().connect("marks").await?;
    if !table_exists(&mut conn, &names.marks).await? {
        return Ok(());
    }
    let query = format!("SELECT COUNT(*) FROM {} WHERE payload <> ''", names.marks);
    let checkpoints: Option<u64> = conn.query_first(query).await.map_err(|error| {
        Failure::new(oxferry_schema::Remedy::Retry, error).context("looking for checkpoints")
    })?;
    if checkpoints.unwrap_or_default() > 0 {
        tracing::info!(table = %names.marks.plain(), "another job's checkpoint stays on the source");
        return Ok(());
    }
    Ok(marks(sites.written(), &names.marks).drop_table().await?)
}

/// The table on the source for the marks of the barrier and the throttle.
fn marks(source: &Site, table: &TableName) -> TableStore {
    TableStore::new(source.opts("marks"), table.clone(), "move", SAVE_MAX)
}
