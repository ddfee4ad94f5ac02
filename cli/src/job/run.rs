//! Puts a prepared job's parts together, runs them side by side, and winds
//! them down in order.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use oxferry_binlog::{MysqlStream, StreamConfig, StreamError};
use oxferry_copier::{
    ChunkLimits, ChunkSizer, CopyError, CopyPlan, TableChunker,
    engine::{EngineConfig, TableId, TablePlan},
    gaps,
    pipeline::{
        self, Counts, Driver, Handle, Ownership, Parts, ServerBarrier, Stopped, TableSetup,
    },
};
use oxferry_schema::{Remedy, TableName};
use oxferry_verifier::Touched;
use tokio::task::{JoinError, JoinHandle};

use super::{
    Held, Job, JobTable, Kind, Prepared, PreparedTable, Script, callbacks,
    checkpoint::Saver,
    comparison::Comparison,
    feed::{self, JobFeed},
    progress::{Progress, Snapshot},
    ranges::{Copied, NotingChunker, NotingSink},
    rest::{AtRest, JobBarrier},
    sieve::Sieved,
    throttling::Throttling,
};
use crate::{
    control::Controls,
    failure::{Failure, remedied},
};

remedied!(StreamError);

/// Rows of a table that carry a change each, at most, before the stream waits.
const CHANGES_WAITING_MAX: u64 = 200_000;

/// What those changes may take of memory, in bytes: a third of the 200 MB that
/// a job may use.
const CHANGES_WAITING_BYTES_MAX: u64 = 64 << 20;

/// How long a barrier may take; see `SAVE_MAX` for why not less.
const BARRIER_MAX: Duration = Duration::from_secs(60);

/// How old the status that the control socket tells may be.
const CURRENT_EVERY: Duration = Duration::from_millis(250);

/// How long work in flight is waited for when the job ends early.
const WIND_DOWN_MAX: Duration = Duration::from_secs(60);

type JobSink<K> = NotingSink<<K as Kind>::Sink>;
type JobDriver<K> = Driver<Sieved<MysqlStream>, NotingChunker, JobSink<K>, JobBarrier>;
type JobTableSetup<K> = TableSetup<NotingChunker, JobSink<K>>;
type DriverTask = JoinHandle<Result<pipeline::Progress, CopyError>>;

/// Runs a prepared job until it has taken over and cleaned up.
///
/// # Errors
///
/// Whatever ends it; the checkpoint then holds what the target holds.
pub(crate) async fn run<K: Kind>(
    (job, kind): (&Job, &K),
    prepared: Prepared,
    saver: &Saver,
    (locks, progress, controls): (Held<'_>, &Progress, &Controls),
) -> Result<(), Failure> {
    let throttling = Throttling::new(job, controls.hand())?;
    let count = job.tables.len();
    let touched = feed::touched(&prepared);
    let copied: Vec<Copied> = (0..count).map(|_| Copied::one_of(count)).collect();
    let sinks = prepared.tables.iter();
    let sinks: Vec<_> = sinks.map(|table| kind.sink(&prepared, table)).collect();
    let tables = table_setups::<K>(job, &prepared, &sinks, &copied);
    let at_rest = AtRest::new();
    let watching = (Arc::clone(&touched), at_rest.clone());
    let (handle, driver) = start::<K>(job, &prepared, tables, watching).await?;
    let in_cutover = Arc::new(AtomicBool::new(false));
    let throttle = (throttling.pacer(), Arc::clone(&in_cutover));
    let feed = JobFeed::new(job, handle.clone(), throttle, touched);
    let comparison = Comparison::new(job, &prepared, feed, copied)?;
    // Until the throttle has measured something.
    handle.set_copying(false).await?;
    // The caller of a library owns its tasks; this one must run while others wait for it.
    let mut driver: DriverTask = tokio::spawn(driver.run());
    let script = Script {
        job,
        kind,
        prepared: &prepared,
        saver,
        handle: &handle,
        sinks: &sinks,
        comparison: &comparison,
        progress,
        interrupt: controls.interrupt(),
        controls,
        in_cutover: Arc::clone(&in_cutover),
        at_rest: at_rest.clone(),
        no_more_attempts: AtomicBool::new(false),
        lock: locks.written.holder(),
    };
    let look = || Snapshot {
        copy: handle.status(),
        rows_compared: comparison.rows_compared(),
        throttled: throttling.reason(),
        lag: throttling.lag(),
    };
    let driver_is_over = AtomicBool::new(false);
    let abort = driver.abort_handle();
    let background = async {
        tokio::select! {
            ended = &mut driver => {
                driver_is_over.store(true, Ordering::Relaxed);
                driver_ended(ended)
            }
            lost = locks.lost() => {
                // Another job may begin: nothing more is written, at once.
                abort.abort();
                driver_is_over.store(true, Ordering::Relaxed);
                lost
            }
            failed = saver.keep_saving(&handle) => failed,
            failed = throttling.run(&handle, &at_rest) => failed,
            changed = kind.watch(&script) => changed,
            failed = callbacks::keep_telling(job, &handle, progress, &look) => failed,
            () = keep_current(controls, progress, &look) => broke_down("the control status ended"),
            () = progress.show(&look) => broke_down("the status ended"),
        }
    };
    match side_by_side(&script, background).await {
        Ok(()) => {
            driver.abort();
            Ok(())
        }
        Err(failure) if driver_is_over.load(Ordering::Relaxed) => Err(failure),
        Err(failure) => Err(wind_down(&handle, driver, saver, failure).await),
    }
}

fn broke_down(what: &'static str) -> Failure {
    Failure::new(Remedy::Bug, anyhow::anyhow!(what))
}

/// Has the controls tell what `look` sees, for as long as it is polled.
async fn keep_current(controls: &Controls, progress: &Progress, look: impl Fn() -> Snapshot) {
    let mut ticks = tokio::time::interval(CURRENT_EVERY);
    loop {
        ticks.tick().await;
        controls.show(progress.status(&look()));
    }
}

/// Runs the script until it or something that it relies on ends.
///
/// A cutover attempt under way is not dropped when the latter happens: it ends
/// within its own limits, and may even succeed.
async fn side_by_side<K: Kind>(
    script: &Script<'_, K>,
    background: impl Future<Output = Failure>,
) -> Result<(), Failure> {
    let mut running = std::pin::pin!(script.run());
    let failure = tokio::select! {
        outcome = &mut running => return outcome,
        failure = background => failure,
    };
    if !script.in_cutover.load(Ordering::Relaxed) {
        return Err(failure);
    }
    tracing::warn!("no further attempt at the cutover: {}", failure.line());
    script.no_more_attempts.store(true, Ordering::Relaxed);
    match running.await {
        Ok(()) => Ok(()),
        Err(attempt) => {
            tracing::warn!("the attempt ended: {}", attempt.line());
            let ambiguous = attempt.remedy() == Remedy::Ambiguous;
            Err(if ambiguous { attempt } else { failure })
        }
    }
}

async fn start<K: Kind>(
    job: &Job,
    prepared: &Prepared,
    tables: Vec<JobTableSetup<K>>,
    (touched, at_rest): (Arc<Mutex<Touched>>, AtRest),
) -> Result<(Handle, JobDriver<K>), Failure> {
    let stream = StreamConfig::new(job.source.opts("binlog"));
    let sources = job.tables.iter().map(|table| table.source.clone());
    let stream = MysqlStream::open(stream, prepared.start.clone(), sources.collect()).await?;
    let barrier = ServerBarrier::new(job.source.opts("barrier"), job.marks.clone(), BARRIER_MAX);
    let parts = Parts {
        stream: Sieved::new(stream, job),
        barrier: JobBarrier::new(barrier, at_rest),
        config: engine_config(job, prepared),
        start: prepared.start.clone(),
    };
    let observer = Box::new(move |table, key: &_| {
        let mut touched = touched
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        touched.handle_change(table, key);
    });
    Ok(pipeline::pipeline(parts, tables, observer))
}

fn engine_config(job: &Job, prepared: &Prepared) -> EngineConfig {
    let mut config = EngineConfig::default();
    config.copy_slots = job.settings.copy.threads.get();
    config.apply_slots = job.settings.copy.write_threads.get();
    if prepared.adds_unique() {
        // Rows may exchange values of a new unique key inside one batch only, so
        // all that waits is one: the limits below are the batch's, too.
        config.apply_slots = 1;
        config.whole_transactions = true;
        config.batch_rows_max = usize::MAX;
        config.batch_bytes_max = u64::MAX;
    }
    config.in_order = job.in_order;
    config.buffer_rows_max = CHANGES_WAITING_MAX;
    config.buffer_bytes_max = CHANGES_WAITING_BYTES_MAX;
    config
}

fn table_setups<K: Kind>(
    job: &Job,
    prepared: &Prepared,
    sinks: &[Arc<K::Sink>],
    copied: &[Copied],
) -> Vec<JobTableSetup<K>> {
    let tables = prepared.of(job).zip(sinks.iter().zip(copied));
    let setup = |((table, ready), (sink, copied))| TableRun::<K> {
        table,
        ready,
        sink,
        copied,
    };
    tables
        .map(setup)
        .map(|one| one.setup(job, prepared))
        .collect()
}

/// One table, and what works on it.
struct TableRun<'a, K: Kind> {
    table: &'a JobTable,
    ready: &'a PreparedTable,
    sink: &'a Arc<K::Sink>,
    copied: &'a Copied,
}

impl<K: Kind> TableRun<'_, K> {
    fn setup(&self, job: &Job, prepared: &Prepared) -> JobTableSetup<K> {
        let Self { table, ready, .. } = self;
        let (mode, closed) = (ready.plan.mode(), ready.progress.closed.clone());
        let connections = Arc::clone(&prepared.source);
        let left = if table.rows.are_last() {
            Vec::new()
        } else {
            gaps(&closed)
        };
        let chunker = TableChunker::new(
            connections,
            &table.source.name,
            table.key.index.clone(),
            ready.plan.source_side().clone(),
            left,
        )
        .with_filter(table.filter(&TableName::clone));
        TableSetup {
            name: table.source.name.clone(),
            plan: if ready.may_hold_rows {
                TablePlan::resume(mode, closed).ordered_by(ready.plan.key_order())
            } else {
                TablePlan::new(mode).ordered_by(ready.plan.key_order())
            },
            key: table.key.clone(),
            chunker: NotingChunker::new(chunker, self.copied.clone()),
            sink: Arc::new(NotingSink::new(Arc::clone(self.sink), self.copied.clone())),
            sizer: sizer(job, table, &ready.plan),
            before: Counts {
                rows_copied: ready.progress.rows_copied,
                changes_applied: ready.progress.changes_applied,
            },
            ownership: self.ownership(job),
        }
    }
}

impl<K: Kind> TableRun<'_, K> {
    /// Says which rows belong to which, where only a tenant's are the job's.
    fn ownership(&self, job: &Job) -> Ownership {
        let mut place = job.tables.iter();
        let place = place.position(|table| table.source.name == self.table.source.name);
        let others = job.tables.iter().enumerate();
        let owns = others.filter_map(|(at, other)| {
            let owned = other.rows.owned()?;
            (Some(owned.owner) == place).then(|| (TableId(at), owned.owner_key.clone()))
        });
        Ownership {
            owned: self.table.rows.owned().is_some(),
            owns: owns.collect(),
        }
    }
}

/// The law by which chunks grow and shrink.
fn sizer(job: &Job, table: &JobTable, plan: &CopyPlan) -> ChunkSizer {
    let mut limits = ChunkLimits {
        time: job.settings.copy.chunk_time,
        bytes: job.settings.copy.chunk_bytes,
        ..ChunkLimits::default()
    };
    if let Some(rows_max) = plan.chunk_rows_max() {
        limits.rows_max = rows_max;
    }
    ChunkSizer::new(limits, table.row_bytes())
}

fn driver_ended(ended: Result<Result<pipeline::Progress, CopyError>, JoinError>) -> Failure {
    match ended {
        Ok(Ok(_)) => Failure::new(Remedy::Bug, anyhow::anyhow!("the copy ended by itself")),
        Ok(Err(error)) => error.into(),
        Err(error) => Failure::new(Remedy::Bug, error).context("the copy broke down"),
    }
}

/// Lets what is in flight finish, and saves what it reached; returns what to
/// tell the operator. What can't be saved costs work done again, never a row:
/// the checkpoint before stays good.
async fn wind_down(
    handle: &Handle,
    driver: DriverTask,
    saver: &Saver,
    failure: Failure,
) -> Failure {
    if !driver.is_finished() {
        // The driver may end by itself at this very moment.
        let _stopped = handle.stop().await;
    }
    match tokio::time::timeout(WIND_DOWN_MAX, driver).await {
        Ok(Ok(Ok(progress))) => {
            if let Err(unsaved) = saver.save_progress(progress).await {
                tracing::warn!(
                    "the last checkpoint could not be saved, the one before is kept: {}",
                    unsaved.line()
                );
            }
            failure
        }
        // Whoever only noticed that the copy had stopped can't say why.
        Ok(ended) if failure.is_caused_by::<Stopped>() => driver_ended(ended),
        Ok(ended) => {
            tracing::warn!("the copy ended as well: {}", driver_ended(ended).line());
            failure
        }
        Err(_) => {
            tracing::warn!(
                "work in flight did not end within {} s",
                WIND_DOWN_MAX.as_secs()
            );
            failure
        }
    }
}
