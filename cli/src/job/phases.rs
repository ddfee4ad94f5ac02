//! The phases of a job that copies, one after the other.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use mysql_async::{Conn, Row, prelude::Queryable};
use oxferry_binlog::FilePosition;
use oxferry_copier::{
    BuildSettings,
    engine::TableId,
    pipeline::{Handle, Stopped},
};
use oxferry_cutover::{CutoverError, Sentinel};
use oxferry_schema::{Remedy, Table, TableName};
use oxferry_state::{Checkpoint, Phase};

use super::{
    Holder, Job, Kind, Prepared, PreparedTable, Sink as _, checkpoint::Saver,
    comparison::Comparison, kind::TakenOver, progress::Progress, rest::AtRest, signals::Interrupt,
    summary,
};
use crate::{
    comparing::is_among,
    control::Controls,
    failure::{Failure, remedied},
};

remedied!(CutoverError);

impl From<Stopped> for Failure {
    /// The driver's own result, which ends the job as well, says why.
    fn from(stopped: Stopped) -> Self {
        Self::new(Remedy::Retry, stopped)
    }
}

/// How often rows that changed are compared again while the cutover is
/// postponed, so that little is left when it may happen.
const COMPARE_AGAIN_EVERY: Duration = Duration::from_secs(5);

/// How often everything is compared again while the cutover is postponed:
/// what somebody else did to the shadow table shows only in its rows.
const COMPARE_ALL_EVERY: Duration = Duration::from_secs(1800);

/// What the phases work with.
#[derive(Debug)]
pub(crate) struct Script<'a, K: Kind> {
    pub(crate) job: &'a Job,
    pub(crate) kind: &'a K,
    pub(crate) prepared: &'a Prepared,
    pub(crate) saver: &'a Saver,
    pub(crate) handle: &'a Handle,
    /// What writes to the targets, in the order of the job's tables.
    pub(crate) sinks: &'a [Arc<K::Sink>],
    pub(crate) comparison: &'a Comparison,
    pub(crate) progress: &'a Progress,
    pub(crate) interrupt: &'a Interrupt,
    /// What the job can be told while it runs.
    pub(crate) controls: &'a Controls,
    /// Whether the cutover has begun: from then on nothing is dropped half-way.
    pub(crate) in_cutover: Arc<AtomicBool>,
    /// Whether the source is shut to writers.
    pub(crate) at_rest: AtRest,
    /// Whether an attempt that fails is the last one.
    pub(crate) no_more_attempts: AtomicBool,
    /// The job's lock, to be looked at once more before the rename.
    pub(crate) lock: Holder,
}

impl<K: Kind> Script<'_, K> {
    /// Goes through all phases; until the cutover an interrupt ends it at
    /// once, from then on between two attempts only.
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        tokio::select! {
            wanted = self.kind.lead_up(self) => if !wanted? {
                self.progress.enter(Phase::Cleanup);
                return self.kind.clean_up(self).await;
            },
            interrupted = self.interrupt.wanted() => return Err(interrupted),
        }
        self.in_cutover.store(true, Ordering::Relaxed);
        self.enter(Phase::Cutover).await?;
        let report: TakenOver = self.kind.cut_over(self).await?;
        // From here on the job has done its work, whatever ends with it.
        let next = self.kind.next_phase();
        self.progress.enter(next);
        self.saver.enter(next).await?;
        let copied = self.handle.status();
        // Of no use but for the summary: a copy that has stopped has none.
        let by_table = self.handle.progress().await.ok();
        let cleaned = self.kind.clean_up(self).await;
        let counts = (&copied, by_table.as_ref());
        summary::log(self.job, counts, self.comparison, &report, self.progress).await;
        cleaned?;
        report.afterwards.map_or(Ok(()), Err)
    }

    /// Copies, applies, builds, compares, and waits while it is postponed.
    pub(super) async fn until_cutover(&self) -> Result<(), Failure> {
        self.enter(Phase::Copy).await?;
        tokio::try_join!(self.copy(), self.follow_copy())?;
        self.progress.expect_rows(self.handle.status().rows_copied);
        if self.prepared.builds_unique() || self.compares_by_deferred() {
            // Nothing may be copied again while a unique index is built.
            self.index_and_analyze().await?;
            self.comparison.run().await?;
        } else {
            // Building an index leaves a core idle that comparing can use, and
            // neither minds the other.
            tokio::try_join!(self.index_and_analyze(), self.comparison.run())?;
        }
        self.postpone().await
    }

    /// Returns whether a table is compared by an index that isn't built yet.
    fn compares_by_deferred(&self) -> bool {
        let comparing = &self.job.settings.comparing;
        let mut tables = self.prepared.of(self.job);
        tables.any(|(table, prepared)| {
            let forced = comparing.forced(&table.source.name);
            forced.is_some_and(|index| is_among(prepared.deferred.names(), index))
        })
    }

    async fn copy(&self) -> Result<(), Failure> {
        self.handle.copied().await?;
        self.enter(Phase::CatchUp).await?;
        self.catch_up().await
    }

    /// Compares rows as they are copied, where that is wanted and can be done.
    async fn follow_copy(&self) -> Result<(), Failure> {
        if self.compares_by_deferred() {
            return Ok(());
        }
        self.comparison.follow_copy().await
    }

    /// Makes the targets what they will be; enters the phase that comes next.
    async fn index_and_analyze(&self) -> Result<(), Failure> {
        self.build_indexes().await?;
        self.enter(Phase::Analyze).await?;
        self.analyze().await?;
        self.enter(Phase::Verify).await
    }

    /// Notes the phase in the log and in the checkpoint, with all that is
    /// reached so far.
    pub(crate) async fn enter(&self, phase: Phase) -> Result<(), Failure> {
        self.progress.enter(phase);
        self.saver.save_reached(self.handle).await?;
        self.saver.enter(phase).await
    }

    /// Dispatches and applies all that the source had done by now.
    pub(crate) async fn catch_up(&self) -> Result<(), Failure> {
        let mut conn = self.job.source.connect("catch-up").await?;
        let read = self.handle.status().dispatched;
        let end = self.job.source.position_after(&mut conn, read.as_ref());
        self.handle.reach(end.await?.file).await?;
        Ok(self.handle.settle().await?)
    }

    /// Checks that the targets are defined as the job made or found them: rows
    /// that are equal tell of no index that is gone. Once all indexes are built.
    pub(crate) async fn check_targets(&self, conn: &mut Conn) -> Result<(), Failure> {
        for table in &self.prepared.tables {
            let name = &table.target.name;
            let Some(now) = Table::read(conn, name).await? else {
                let why = anyhow::anyhow!("table {} is gone", name.plain());
                return Err(Failure::new(Remedy::State, why));
            };
            let same = table.progress.check_finished_shadow(&now.create_statement);
            same.map_err(|m| Failure::new(m.remedy(), m))?;
        }
        Ok(())
    }

    /// Waits until all is dispatched that the source's log holds up to `through`,
    /// its end when the source was shut.
    pub(crate) async fn reach(&self, through: FilePosition) -> Result<(), Failure> {
        // What others write elsewhere leads the stream further, and so does a log
        // that was reset.
        let read = self.handle.status().dispatched;
        if read.as_ref().is_some_and(|read| *read > through) {
            let mut conn = self.job.source.connect("position").await?;
            let end = self.job.source.position_after(&mut conn, read.as_ref());
            end.await?;
        }
        Ok(self.handle.reach(through).await?)
    }

    /// Builds what was left out while copying. A unique index needs a target
    /// that is exactly a state of the source; others don't mind changes.
    ///
    /// Changes wait at that point, so the tables that don't need it come first,
    /// and those that do share it.
    async fn build_indexes(&self) -> Result<(), Failure> {
        let tables = || self.prepared.tables.iter().enumerate();
        if tables().all(|(_, table)| table.deferred.is_empty()) {
            return Ok(());
        }
        self.enter(Phase::Index).await?;
        let all = tables().map(|(_, table)| table.deferred.names().count());
        self.progress.expect_indexes(all.sum());
        self.build(tables().filter(|(_, table)| !table.builds_unique()))
            .await?;
        if self.prepared.builds_unique() {
            let unique = tables().filter(|(_, table)| table.builds_unique());
            self.catch_up().await?;
            self.handle.hold_consistent().await?;
            self.build(unique.clone()).await?;
            for (at, table) in unique {
                if let (false, Some(sink)) = (table.new_uniques.is_empty(), self.sinks.get(at)) {
                    sink.set_exclusive();
                }
                self.handle.indexes_built(TableId(at)).await?;
            }
            self.handle.release().await?;
        }
        let forget = |checkpoint: &mut Checkpoint| {
            checkpoint
                .tables
                .iter_mut()
                .for_each(|table| table.deferred_indexes.clear());
        };
        self.saver.save(forget).await
    }

    /// Builds the indexes of some tables, of as many at once as chunks are
    /// copied at once.
    async fn build(
        &self,
        tables: impl Iterator<Item = (usize, &PreparedTable)>,
    ) -> Result<(), Failure> {
        let connections = &self.prepared.target;
        let builds =
            tables
                .filter(|(_, table)| !table.deferred.is_empty())
                .map(|(at, table)| async move {
                    let begun = Instant::now();
                    let settings = BuildSettings::default();
                    table.deferred.build(connections, settings).await?;
                    Ok::<_, Failure>((at, begun.elapsed()))
                });
        let mut built = stream::iter(builds).buffer_unordered(self.job.settings.copy.threads.get());
        while let Some(built) = built.next().await {
            let (at, took) = built?;
            self.say_built(at, took);
        }
        Ok(())
    }

    fn say_built(&self, at: usize, took: Duration) {
        let tables = self.prepared.tables.get(at).zip(self.job.tables.get(at));
        let Some((table, job)) = tables else {
            return;
        };
        let indexes = table.deferred.names().count();
        self.progress.built_indexes(indexes);
        tracing::info!(
            table = %job.target.plain(), indexes, took_s = took.as_secs(),
            "indexes are built"
        );
    }

    async fn analyze(&self) -> Result<(), Failure> {
        let mut conn = self.job.target.connect("analyze").await?;
        for table in &self.job.tables {
            analyze(&mut conn, &table.target).await?;
        }
        Ok(())
    }

    /// Waits for the sentinel to be dropped, and keeps both tables compared.
    async fn postpone(&self) -> Result<(), Failure> {
        let sentinel = Sentinel::new(self.job.sentinel.clone());
        let mut conn = self.job.target.connect("sentinel").await?;
        if !sentinel.exists(&mut conn).await? {
            return Ok(());
        }
        self.enter(Phase::Deferred).await?;
        let limit = self.job.settings.postpone.defer_cutover_limit;
        tracing::info!(
            sentinel = %sentinel.name().plain(), limit_s = limit.as_secs(),
            "the cutover waits: DROP TABLE {} lets it happen", sentinel.name()
        );
        let opts = self.job.target.opts("sentinel");
        // How long it waits, the status shows for every phase.
        let postponed = sentinel.wait_while_postponed(&opts, limit, |_| {});
        tokio::select! {
            waited = postponed => {
                tracing::info!(waited_s = waited?.as_secs(), "the sentinel is gone");
                Ok(())
            }
            () = self.controls.cutover_wanted() => {
                let mut conn = self.job.target.connect("sentinel").await?;
                sentinel.drop(&mut conn).await?;
                tracing::info!("the cutover is wanted: the sentinel is dropped");
                Ok(())
            }
            failed = self.keep_compared() => failed,
        }
    }

    /// Keeps both sides compared, once all was; ends with an error only.
    pub(crate) async fn keep_compared(&self) -> Result<(), Failure> {
        let mut whole_at = Instant::now();
        loop {
            tokio::time::sleep(COMPARE_AGAIN_EVERY).await;
            self.comparison.catch_up().await?;
            if whole_at.elapsed() >= COMPARE_ALL_EVERY {
                self.comparison.run().await?;
                whole_at = Instant::now();
            }
        }
    }
}

async fn analyze(conn: &mut Conn, target: &TableName) -> Result<(), Failure> {
    let failed =
        |error| Failure::new(Remedy::Retry, error).context(format!("analyzing {}", target.plain()));
    let rows: Vec<Row> = conn
        .query(format!("ANALYZE TABLE {target}"))
        .await
        .map_err(|error| failed(anyhow::Error::new(error)))?;
    let text = |row: &Row, name: &str| row.get::<String, _>(name).unwrap_or_default();
    match rows
        .iter()
        .find(|row| text(row, "Msg_type").eq_ignore_ascii_case("error"))
    {
        Some(row) => Err(failed(anyhow::anyhow!(text(row, "Msg_text")))),
        None => Ok(()),
    }
}
