//! What a migrate does in its own way: rows stay on one server, and the shadow
//! takes over by a rename.

use std::{sync::Arc, time::Duration};

use mysql_async::Conn;
use oxferry_copier::SelectSink;
use oxferry_cutover::{KillBlockers, complete, swap};
use oxferry_schema::{Attached, ShadowNames};
use oxferry_state::{Checkpoint, Phase};

use super::{attached, ended, finish::Takeover, job::Migration};
use crate::{
    failure::Failure,
    job::{Holder, Kind, Prepared, PreparedTable, Saver, Script, TakenOver},
};

/// Transactions that changed more rows than this are never ended for the sake
/// of the cutover: rolling them back would take longer than waiting.
pub(super) const KILL_ROWS_MAX: u64 = 10_000;

/// How long coming to rest may take: without any lock, but with a whole new
/// comparison where one under the lock found a difference.
const QUIESCE_MAX: Duration = Duration::from_secs(48 * 3600);

impl Kind for Migration {
    type Sink = SelectSink;

    fn sink(&self, prepared: &Prepared, table: &PreparedTable) -> Arc<SelectSink> {
        let connections = Arc::clone(&prepared.target);
        Arc::new(SelectSink::new(connections, table.plan.clone()))
    }

    async fn watch(&self, script: &Script<'_, Self>) -> Failure {
        attached::watch(self, &script.in_cutover).await
    }

    async fn cut_over(&self, script: &Script<'_, Self>) -> Result<TakenOver, Failure> {
        let args = &self.args.cutover;
        let tables = script.prepared.tables.iter();
        let attached: Vec<Attached> = tables.map(|t| t.progress.attached.clone()).collect();
        let mut plan = attached::swap_plan(self, &attached)?
            .with_lock_wait(args.lock_wait)
            .with_lock_hold(args.locked_max)
            .with_quiesce_wait(QUIESCE_MAX);
        if let Some(after) = args.kill_blockers_after {
            plan = plan.with_kill(KillBlockers {
                after,
                rows_modified_max: KILL_ROWS_MAX,
            });
        }
        let mut takeover = Takeover::new(script);
        let report = swap(&self.core.source.opts("cutover"), &plan, &mut takeover).await?;
        Ok(TakenOver {
            attempts: report.attempts,
            lock_wait: report.lock_wait,
            blocked: report.blocked_longest,
            afterwards: None,
        })
    }

    async fn clean_up(&self, script: &Script<'_, Self>) -> Result<(), Failure> {
        let mut conn = self.core.source.connect("cleanup").await?;
        clean_up(self, &mut conn, script.saver, &script.lock).await
    }
}

/// Completes what an earlier run's cutover had begun, then cleans up after it.
///
/// An old table may still have what the new one lacks.
pub(super) async fn clean_up_after(
    job: &Migration,
    conn: &mut Conn,
    saver: &Saver,
    (checkpoint, lock): (&Checkpoint, &Holder),
) -> Result<(), Failure> {
    if checkpoint.phase == Phase::Cutover {
        lock.check(conn).await?;
        let opts = job.core.source.opts("cutover");
        complete(&opts, &attached::plan_of(checkpoint)?).await?;
        saver.enter(Phase::Cleanup).await?;
    }
    clean_up(job, conn, saver, lock).await
}

/// Drops what the job made, the checkpoint last.
async fn clean_up(
    job: &Migration,
    conn: &mut Conn,
    saver: &Saver,
    lock: &Holder,
) -> Result<(), Failure> {
    let names: Vec<ShadowNames> = job.tables.iter().map(|t| t.names.clone()).collect();
    let keep_old = job.args.cutover.keep_old_table;
    ended::drop_all(conn, &names, keep_old, (saver, lock)).await
}
