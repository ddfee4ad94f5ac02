//! The job's own part of a cutover: bring the rest to rest, apply it and
//! compare it under the lock.

use std::{sync::atomic::Ordering, time::Duration};

use mysql_async::{Conn, prelude::Queryable};
use oxferry_binlog::FilePosition;
use oxferry_cutover::Finish;
use oxferry_schema::{Remedy, TableName, set_auto_increment};
use oxferry_verifier::Verified;

use super::{
    job::{JobTable, Migration},
    prepare,
};
use crate::{failure::Failure, job::Script};

/// Changes that may be left to apply under the lock.
const CHANGES_LEFT_MAX: u64 = 500;

/// Changes beyond which the lock isn't even asked for.
const CHANGES_LOCKED_MAX: u64 = 5_000;

/// How long it is waited for so few to be left; a busy source may never get
/// there, and a few more under the lock are better than no cutover.
const QUIET_MAX: Duration = Duration::from_secs(5);

/// How often a pause looks whether the job ends.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// By how much the shadow's next automatic value runs ahead for each attempt
/// that found the source's ahead again.
const AHEAD_STEP: u64 = 1_000;

/// A job that takes over.
#[derive(Debug)]
pub(crate) struct Takeover<'a> {
    script: &'a Script<'a, Migration>,
    /// How far each shadow's next automatic value is put ahead of its source's.
    ahead: Vec<u64>,
}

impl<'a> Takeover<'a> {
    /// Puts the job that `script` runs behind a cutover.
    pub(crate) fn new(script: &'a Script<'a, Migration>) -> Self {
        let ahead = vec![0; script.job.tables.len()];
        Self { script, ahead }
    }

    async fn quiesce(&self) -> Result<(), Failure> {
        // Comparing anew may take as long as the first comparison took.
        tokio::select! {
            biased;
            interrupted = self.script.interrupt.wanted() => return Err(interrupted),
            () = self.last_attempt() => {
                let why = anyhow::anyhow!("the job ends");
                return Err(Failure::new(Remedy::Interrupted, why));
            }
            quiet = self.come_to_rest() => quiet?,
        }
        Ok(self.script.handle.hold().await?)
    }

    /// Waits until no further attempt is wanted.
    async fn last_attempt(&self) {
        while !self.script.no_more_attempts.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Compares what is to be compared again, and waits until little is left to
    /// apply. Holds nothing: it can be dropped at any time.
    async fn come_to_rest(&self) -> Result<(), Failure> {
        let Script {
            comparison, handle, ..
        } = self.script;
        comparison.catch_up().await?;
        let mut conn = self.script.job.source.connect("definition").await?;
        prepare::check_unchanged(self.script.kind, &mut conn).await?;
        self.script.check_targets(&mut conn).await?;
        self.raise_auto_increment().await?;
        let few = handle.waiting_at_most(CHANGES_LEFT_MAX);
        match tokio::time::timeout(QUIET_MAX, few).await {
            Ok(reached) => reached?,
            Err(_) if handle.status().changes_waiting > CHANGES_LOCKED_MAX => {
                let why = anyhow::anyhow!("changes come faster than they are applied");
                return Err(Failure::new(Remedy::Retry, why));
            }
            Err(_) => tracing::debug!("changes come as fast as they are applied"),
        }
        Ok(())
    }

    async fn apply_and_compare(
        &mut self,
        conn: &mut Conn,
        through: &FilePosition,
    ) -> Result<Verified, Failure> {
        let Script {
            handle,
            sinks,
            comparison,
            ..
        } = self.script;
        self.script.reach(through.clone()).await?;
        let rest = handle.drain().await?.ok_or_else(|| {
            Failure::new(Remedy::Retry, anyhow::anyhow!("the copy isn't at rest"))
        })?;
        for (table, batch) in rest {
            let sink = sinks.get(table.0).ok_or_else(|| {
                Failure::new(Remedy::Bug, anyhow::anyhow!("a change of no table"))
            })?;
            sink.apply_on(conn, &batch).await?;
        }
        handle.drained().await?;
        self.check_auto_increment(conn).await?;
        let evidence = comparison.finish(conn).await?;
        // Without it another job may have written to the shadow.
        self.script.lock.check(conn).await?;
        Ok(evidence)
    }

    /// Values that were handed out to rows that are gone by now must not be
    /// handed out again: no applied row tells of them.
    async fn raise_auto_increment(&self) -> Result<(), Failure> {
        let mut conn = self.script.job.source.connect("auto-increment").await?;
        for (table, ahead) in self.script.kind.tables.iter().zip(&self.ahead) {
            if let Some(source) = overtaken(&mut conn, table).await? {
                let next = source.saturating_add(*ahead);
                set_auto_increment(&mut conn, &table.names.shadow, next).await?;
            }
        }
        Ok(())
    }

    async fn check_auto_increment(&mut self, conn: &mut Conn) -> Result<(), Failure> {
        for (table, ahead) in self.script.kind.tables.iter().zip(&mut self.ahead) {
            if let Some(source) = overtaken(conn, table).await? {
                *ahead += AHEAD_STEP;
                let why = anyhow::anyhow!(
                    "the next automatic value of {} moved on to {source} meanwhile",
                    table.source.name.plain()
                );
                return Err(Failure::new(Remedy::Retry, why));
            }
        }
        Ok(())
    }
}

/// Returns the source's next automatic value where it is beyond the shadow's.
/// A statement that sets the value has the last word.
async fn overtaken(conn: &mut Conn, table: &JobTable) -> Result<Option<u64>, Failure> {
    if table.alter.sets_auto_increment() {
        return Ok(None);
    }
    let source = next_value(conn, &table.source.name).await?;
    let shadow = next_value(conn, &table.names.shadow).await?;
    Ok(match (source, shadow) {
        (Some(source), Some(shadow)) if shadow < source => Some(source),
        _ => None,
    })
}

/// Returns the next automatic value of a table, if it has such a column.
async fn next_value(conn: &mut Conn, table: &TableName) -> Result<Option<u64>, Failure> {
    // The server keeps the number of a column that was dropped or is none any
    // more. Seen on MySQL 9.7.4.
    let query = "SELECT t.auto_increment FROM information_schema.tables t \
        WHERE t.table_schema = ? AND t.table_name = ? AND EXISTS (SELECT 1 \
        FROM information_schema.columns c WHERE c.table_schema = t.table_schema \
        AND c.table_name = t.table_name AND c.extra LIKE '%auto_increment%')";
    let value: Option<Option<u64>> = conn
        .exec_first(query, (table.schema.as_str(), table.table.as_str()))
        .await
        .map_err(|error| {
            Failure::new(Remedy::Retry, error).context(format!(
                "reading the next automatic value of {}",
                table.plain()
            ))
        })?;
    Ok(value.flatten())
}

impl Finish for Takeover<'_> {
    type Error = Failure;

    fn remedy(error: &Failure) -> Remedy {
        error.remedy()
    }

    async fn quiesce(&mut self) -> Result<(), Failure> {
        Takeover::quiesce(self).await
    }

    async fn finish(
        &mut self,
        conn: &mut Conn,
        through: &FilePosition,
    ) -> Result<Verified, Failure> {
        self.apply_and_compare(conn, through).await
    }

    async fn pause(&mut self, wait: Duration) {
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = self.script.interrupt.wanted() => {}
            () = self.last_attempt() => {}
        }
    }

    async fn release(&mut self) {
        // A copy that has stopped ends the job as well, with its own error.
        let _stopped = self.script.handle.release().await;
    }
}
