//! Puts a prepared job's parts together, runs them side by side, and winds
//! them down in order.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use oxferry_binlog::{MysqlStream, StreamConfig, StreamError};
use oxferry_copier::{
    ChunkLimits, ChunkSizer, CopyError, SelectSink, TableChunker,
    engine::{EngineConfig, TablePlan},
    gaps,
    pipeline::{self, Counts, Driver, Handle, Parts, ServerBarrier, TableSetup},
};
use oxferry_schema::Remedy;
use oxferry_verifier::Touched;
use tokio::task::{JoinError, JoinHandle};

use super::{
    checkpoint::Saver,
    comparison::{self, Comparison, JobFeed},
    job::Job,
    lock::JobLock,
    phases::Script,
    prepare::Prepared,
    progress::{Progress, Snapshot},
    signals::Interrupt,
    throttling::Throttling,
};
use crate::failure::{Failure, remedied};

remedied!(StreamError);

/// Rows of a table that carry a change each, at most, before the stream waits.
const CHANGES_WAITING_MAX: u64 = 200_000;

/// What those changes may take of memory, in bytes: a third of the 200 MB that
/// a job may use.
const CHANGES_WAITING_BYTES_MAX: u64 = 64 << 20;

/// How long a barrier may take; see `SAVE_MAX` for why not less.
const BARRIER_MAX: Duration = Duration::from_secs(60);

/// How long work in flight is waited for when the job ends early.
const WIND_DOWN_MAX: Duration = Duration::from_secs(60);

type JobDriver = Driver<MysqlStream, TableChunker, SelectSink, ServerBarrier>;
type DriverTask = JoinHandle<Result<pipeline::Progress, CopyError>>;

/// Runs a prepared job until it has taken over and cleaned up.
///
/// # Errors
///
/// Whatever ends it; the checkpoint then holds what the target holds.
pub(crate) async fn run(
    job: &Job,
    prepared: Prepared,
    saver: &Saver,
    (lock, progress, interrupt): (JobLock, &Progress, &Interrupt),
) -> Result<(), Failure> {
    let throttling = Throttling::new(job)?;
    let touched = comparison::touched();
    let sink = Arc::new(SelectSink::new(
        Arc::clone(&prepared.connections),
        prepared.plan.clone(),
    ));
    let (handle, driver) = start(job, &prepared, Arc::clone(&sink), Arc::clone(&touched)).await?;
    let feed = JobFeed::new(job, handle.clone(), throttling.pacer(), touched);
    let comparison = Comparison::new(job, &prepared, feed)?;
    // The caller of a library owns its tasks; this one must run while others wait for it.
    let mut driver: DriverTask = tokio::spawn(driver.run());
    let script = Script {
        job,
        prepared: &prepared,
        saver,
        handle: &handle,
        sink: &sink,
        comparison: &comparison,
        progress,
        interrupt,
    };
    let look = || Snapshot {
        copy: handle.status(),
        rows_compared: comparison.rows_compared(),
        throttled: throttling.reason(),
        lag: throttling.lag(),
    };
    let outcome = tokio::select! {
        outcome = script.run() => outcome,
        ended = &mut driver => Err(driver_ended(ended)),
        lost = lock.watch() => Err(lost),
        failed = saver.keep_saving(&handle) => Err(failed),
        failed = throttling.run(&handle) => Err(failed),
        () = progress.show(look) => Err(Failure::new(Remedy::Bug, anyhow::anyhow!("the status ended"))),
    };
    match outcome {
        Ok(()) => {
            driver.abort();
            Ok(())
        }
        Err(failure) => {
            wind_down(&handle, driver, saver).await;
            Err(failure)
        }
    }
}

async fn start(
    job: &Job,
    prepared: &Prepared,
    sink: Arc<SelectSink>,
    touched: Arc<Mutex<Touched>>,
) -> Result<(Handle, JobDriver), Failure> {
    let stream = StreamConfig::new(job.opts("binlog"));
    let stream =
        MysqlStream::open(stream, prepared.start.clone(), vec![job.source.clone()]).await?;
    let barrier = ServerBarrier::new(job.opts("barrier"), job.names.state.clone(), BARRIER_MAX);
    let parts = Parts {
        stream,
        barrier,
        config: engine_config(job),
        start: prepared.start.clone(),
    };
    let tables = vec![table_setup(job, prepared, sink)];
    let observer = Box::new(move |table, key: &_| {
        let mut touched = touched
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        touched.handle_change(table, key);
    });
    Ok(pipeline::pipeline(parts, tables, observer))
}

fn engine_config(job: &Job) -> EngineConfig {
    let mut config = EngineConfig::default();
    config.copy_slots = job.args.copy.threads.get();
    config.apply_slots = job.args.copy.write_threads.get();
    config.buffer_rows_max = CHANGES_WAITING_MAX;
    config.buffer_bytes_max = CHANGES_WAITING_BYTES_MAX;
    config
}

fn table_setup(
    job: &Job,
    prepared: &Prepared,
    sink: Arc<SelectSink>,
) -> TableSetup<TableChunker, SelectSink> {
    let closed = prepared.progress.closed.clone();
    let plan = if prepared.resumed {
        TablePlan::resume(prepared.plan.mode(), closed.clone())
    } else {
        TablePlan::new(prepared.plan.mode())
    };
    let connections = Arc::clone(&prepared.connections);
    TableSetup {
        name: job.source.name.clone(),
        plan,
        key: job.key.clone(),
        chunker: TableChunker::new(connections, &job.source, job.key.clone(), gaps(&closed)),
        sink,
        sizer: sizer(job),
        before: Counts {
            rows_copied: prepared.progress.rows_copied,
            changes_applied: prepared.progress.changes_applied,
        },
    }
}

/// The law by which chunks grow and shrink, for copying and comparing alike.
pub(super) fn sizer(job: &Job) -> ChunkSizer {
    let mut limits = ChunkLimits::default();
    limits.time = job.args.copy.chunk_time;
    limits.bytes = job.args.copy.chunk_bytes;
    let row_bytes = job
        .source
        .size_bytes
        .checked_div(job.source.row_estimate)
        .unwrap_or(0);
    ChunkSizer::new(limits, row_bytes)
}

fn driver_ended(ended: Result<Result<pipeline::Progress, CopyError>, JoinError>) -> Failure {
    match ended {
        Ok(Ok(_)) => Failure::new(Remedy::Bug, anyhow::anyhow!("the copy ended by itself")),
        Ok(Err(error)) => error.into(),
        Err(error) => Failure::new(Remedy::Bug, error).context("the copy broke down"),
    }
}

/// Lets what is in flight finish, and saves what it reached. What can't be
/// saved costs work done again, never a row: the checkpoint before stays good.
async fn wind_down(handle: &Handle, driver: DriverTask, saver: &Saver) {
    if handle.stop().await.is_err() {
        return;
    }
    match tokio::time::timeout(WIND_DOWN_MAX, driver).await {
        Ok(Ok(Ok(progress))) => {
            if let Err(failure) = saver.save_progress(progress).await {
                tracing::warn!(
                    "the last checkpoint could not be saved, the one before is kept: {failure}"
                );
            }
        }
        Ok(Ok(Err(error))) => tracing::warn!("the copy ended in an error as well: {error}"),
        Ok(Err(error)) => tracing::warn!("the copy broke down while ending: {error}"),
        Err(_) => tracing::warn!(
            "work in flight did not end within {} s",
            WIND_DOWN_MAX.as_secs()
        ),
    }
}
