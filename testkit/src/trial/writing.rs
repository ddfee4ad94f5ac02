//! The writers of a trial at work.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use mysql_async::{Conn, Error, prelude::Queryable};
use tokio::task::JoinHandle;

use super::{Script, TrialError};
use crate::{
    server::Schema,
    wait::{NotInTime, eventually},
};

/// Between two loops: a writer shall interleave, not outrun a busy machine.
const PAUSE: Duration = Duration::from_millis(1);
/// A writer never waits longer for a lock than this.
const SETTINGS: &str = "SET SESSION innodb_lock_wait_timeout = 20, SESSION lock_wait_timeout = 60";
/// How long a writer may take to end its loop.
const STOP_LIMIT: Duration = Duration::from_secs(90);
/// Errors that are kept to be shown.
const ERRORS_MAX: usize = 5;

/// What one writer has done so far.
#[derive(Debug, Default)]
struct Count {
    /// Loops in which something was committed.
    loops: AtomicU64,
    /// Committed statements that changed at least one row.
    statements: AtomicU64,
}

/// What all writers share.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// From now on the scripts for afterwards are run.
    after: AtomicBool,
}

/// How the writers of a trial write.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    /// One script per writer.
    pub(super) scripts: Vec<Script>,
    /// What every writer runs once the tables are swapped, if something else.
    pub(super) after: Option<Script>,
    /// The server's errors that are no failure.
    pub(super) accepted: Vec<u16>,
    pub(super) seed: u64,
}

/// Writers at work; dropping them ends them.
#[derive(Debug)]
pub(super) struct Writing {
    tasks: Vec<JoinHandle<Vec<String>>>,
    counts: Vec<Arc<Count>>,
    shared: Arc<Shared>,
}

impl Writing {
    /// Sets all writers to work, each with a session of its own.
    pub(super) async fn start(schema: &Schema, plan: &Plan) -> Result<Self, TrialError> {
        let shared = Arc::new(Shared::default());
        let (mut tasks, mut counts) = (Vec::new(), Vec::new());
        for (number, script) in plan.scripts.iter().enumerate() {
            let mut conn = schema.conn().await?;
            conn.query_drop(SETTINGS)
                .await
                .map_err(TrialError::sql(SETTINGS))?;
            let count = Arc::new(Count::default());
            counts.push(Arc::clone(&count));
            let writer = Writer {
                conn,
                script: script.clone(),
                after: plan.after.clone(),
                accepted: plan.accepted.clone(),
                rng: Rng::with_seed(plan.seed.wrapping_mul(1_000_003) ^ number as u64),
                count,
                shared: Arc::clone(&shared),
                errors: Vec::new(),
            };
            tasks.push(tokio::spawn(writer.work()));
        }
        Ok(Self {
            tasks,
            counts,
            shared,
        })
    }

    /// The committed statements that changed something, all writers together.
    pub(super) fn statements(&self) -> u64 {
        let of = |count: &Arc<Count>| count.statements.load(Ordering::Relaxed);
        self.counts.iter().map(of).sum()
    }

    /// Waits until each writer has ended `more` further loops that changed something.
    pub(super) async fn wait_loops(&self, more: u64, limit: Duration) -> Result<(), NotInTime> {
        let loops = |count: &Arc<Count>| count.loops.load(Ordering::Relaxed);
        let goals: Vec<u64> = self
            .counts
            .iter()
            .map(|count| loops(count) + more)
            .collect();
        let what = format!("{more} more loops of every writer");
        eventually(limit, what, async || {
            let reached = || {
                self.counts
                    .iter()
                    .zip(&goals)
                    .all(|(count, goal)| loops(count) >= *goal)
            };
            // A writer that has ended for an error never gets there.
            let ended = || self.tasks.iter().any(JoinHandle::is_finished);
            (reached() || ended()).then_some(())
        })
        .await
    }

    /// Lets the writers run what is meant for the new table.
    pub(super) fn enter_after(&self) {
        self.shared.after.store(true, Ordering::Relaxed);
    }

    /// Lets every writer end its loop; returns what went wrong.
    pub(super) async fn stop(&mut self) -> Vec<String> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let mut wrong = Vec::new();
        for mut task in self.tasks.drain(..) {
            match tokio::time::timeout(STOP_LIMIT, &mut task).await {
                Ok(Ok(errors)) => wrong.extend(errors),
                Ok(Err(lost)) => wrong.push(format!("a writer ended early: {lost}")),
                Err(late) => {
                    task.abort();
                    wrong.push(format!("a writer didn't end its loop: {late}"));
                }
            }
        }
        wrong
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

struct Writer {
    conn: Conn,
    script: Script,
    after: Option<Script>,
    accepted: Vec<u16>,
    rng: Rng,
    count: Arc<Count>,
    shared: Arc<Shared>,
    errors: Vec<String>,
}

impl Writer {
    async fn work(mut self) -> Vec<String> {
        let mut number = 0;
        while !self.shared.stop.load(Ordering::Relaxed) && self.errors.len() < ERRORS_MAX {
            self.run_loop(number).await;
            number += 1;
            tokio::time::sleep(PAUSE).await;
        }
        self.errors
    }

    /// Runs the statements once; an error takes its transaction back.
    async fn run_loop(&mut self, number: u64) {
        let after = self.shared.after.load(Ordering::Relaxed);
        let script = self
            .after
            .as_ref()
            .filter(|_| after)
            .unwrap_or(&self.script);
        let statements = script.expanded(number, &mut self.rng);
        let (mut open, mut broken, mut pending, mut committed) = (false, false, 0, 0);
        for statement in &statements {
            if broken {
                broken = !ends(statement);
                continue;
            }
            if let Err(error) = self.conn.query_drop(&**statement).await {
                self.note(&error, statement);
                if self.conn.query_drop("ROLLBACK").await.is_err() {
                    self.errors
                        .push(format!("the session was lost at {statement:.300}"));
                }
                broken = open;
                open = false;
                pending = 0;
                continue;
            }
            pending += u64::from(self.conn.affected_rows() > 0);
            open = (open || begins(statement)) && !ends(statement);
            if is_rollback(statement) {
                pending = 0;
            }
            if !open {
                committed += std::mem::take(&mut pending);
            }
        }
        if committed > 0 {
            self.count
                .statements
                .fetch_add(committed, Ordering::Relaxed);
            self.count.loops.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn note(&mut self, error: &Error, statement: &str) {
        let accepted =
            matches!(error, Error::Server(refused) if self.accepted.contains(&refused.code));
        if !accepted {
            self.errors
                .push(format!("a writer's {statement:.300} failed: {error}"));
        }
    }
}

fn begins(statement: &str) -> bool {
    is_word(statement, "BEGIN") || is_word(statement, "START TRANSACTION")
}

fn ends(statement: &str) -> bool {
    is_word(statement, "COMMIT") || is_rollback(statement)
}

fn is_rollback(statement: &str) -> bool {
    is_word(statement, "ROLLBACK") && !statement.to_ascii_uppercase().contains(" TO ")
}

fn is_word(statement: &str, word: &str) -> bool {
    let start = statement.get(..word.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_of_a_transaction_are_known() {
        assert!(begins("begin") && begins("START TRANSACTION") && !begins("SELECT 1"));
        assert!(ends("COMMIT") && ends("rollback") && !ends("ROLLBACK TO SAVEPOINT a"));
    }
}
