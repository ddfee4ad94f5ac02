//! Writers: applications that change a table at random and know what they did.
//!
//! Writer `w` of `n` touches only keys with `key % n == w`, so it alone
//! decides what becomes of them. Before each commit it reads the rows that it
//! has touched; after the commit these are the last known images of their
//! keys. The [`Journal`] of all writers is therefore the truth about every
//! key that any of them ever touched, also across a swap of the table.

mod journal;
mod plan;
mod session;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::task::JoinHandle;

pub use journal::{Journal, JournalError};

use self::session::Session;
use crate::{
    tables::TableSpec,
    wait::{NotInTime, eventually},
};

/// How long [`Writers::stop`] waits for transactions under way.
const STOP_LIMIT: Duration = Duration::from_secs(120);

/// How the writers write.
#[derive(Debug, Clone)]
#[must_use]
pub struct WriterOptions {
    /// How many of them, each with a connection of its own.
    pub writers: u32,
    /// What the random choices start from.
    pub seed: u64,
    /// The most transactions per second, all writers together; none: as fast as they can.
    pub rate: Option<u32>,
}

impl WriterOptions {
    /// So many writers at full speed.
    pub fn new(writers: u32, seed: u64) -> Self {
        Self {
            writers,
            seed,
            rate: None,
        }
    }

    /// At most so many transactions per second, all together.
    pub fn rate(mut self, per_second: u32) -> Self {
        self.rate = Some(per_second);
        self
    }

    fn pause(&self) -> Option<Duration> {
        let rate = self.rate.filter(|rate| *rate > 0)?;
        Some(Duration::from_secs(1) * self.writers / rate)
    }
}

/// What the writers did: committed work only.
#[derive(Debug, Default, Clone)]
pub struct WriterReport {
    /// Rows inserted.
    pub inserts: u64,
    /// Rows whose values were changed, swaps of unique values included.
    pub updates: u64,
    /// Rows whose key was changed.
    pub moves: u64,
    /// Rows deleted.
    pub deletes: u64,
    /// Transactions committed.
    pub transactions: u64,
    /// Transactions rolled back on purpose.
    pub rollbacks: u64,
    /// Transactions begun anew after a deadlock, a lock wait or a swapped table.
    pub retries: u64,
    /// Errors that no retry is made for, lost connections included.
    pub errors: u64,
    /// The last such error.
    pub last_error: Option<String>,
    /// The longest time from a transaction's begin to its commit, retries included.
    pub longest_wait: Duration,
    /// The last known image of every key that was touched.
    pub journal: Journal,
}

impl WriterReport {
    fn merge(&mut self, other: Self) {
        self.inserts += other.inserts;
        self.updates += other.updates;
        self.moves += other.moves;
        self.deletes += other.deletes;
        self.transactions += other.transactions;
        self.rollbacks += other.rollbacks;
        self.retries += other.retries;
        self.errors += other.errors;
        self.last_error = other.last_error.or_else(|| self.last_error.take());
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.journal.merge(other.journal);
    }
}

/// Writers at work; dropping them ends them without a report.
#[derive(Debug)]
pub struct Writers {
    tasks: Vec<JoinHandle<WriterReport>>,
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicU64>,
}

impl Writers {
    /// Connects all writers to the server at `url` and sets them to work on `table`.
    ///
    /// # Errors
    ///
    /// When one of them can't connect.
    pub async fn start(
        url: &str,
        table: &TableSpec,
        options: WriterOptions,
    ) -> Result<Self, mysql_async::Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let committed = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for number in 0..options.writers {
            let mut session = Session::connect(url, table, &options, number).await?;
            let (stop, committed) = (Arc::clone(&stop), Arc::clone(&committed));
            tasks.push(tokio::spawn(async move {
                session.work(&stop, &committed).await;
                session.into_report()
            }));
        }
        Ok(Self {
            tasks,
            stop,
            committed,
        })
    }

    /// How many transactions have been committed so far.
    #[must_use]
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    /// Waits until `more` further transactions have been committed.
    ///
    /// # Errors
    ///
    /// [`NotInTime`] when they haven't been within `limit`.
    pub async fn wait_for_commits(&self, more: u64, limit: Duration) -> Result<(), NotInTime> {
        let goal = self.committed() + more;
        let what = format!("{more} more committed transactions");
        eventually(limit, what, async || {
            (self.committed() >= goal).then_some(())
        })
        .await
    }

    /// Lets every writer end its transaction, and sums up what they did.
    ///
    /// A writer that hangs for two minutes, or panics, is reported as an error.
    pub async fn stop(mut self) -> WriterReport {
        self.stop.store(true, Ordering::Relaxed);
        let mut sum = WriterReport::default();
        for mut task in self.tasks.drain(..) {
            match tokio::time::timeout(STOP_LIMIT, &mut task).await {
                Ok(Ok(report)) => sum.merge(report),
                Ok(Err(panicked)) => sum.note_error(&panicked),
                Err(late) => {
                    task.abort();
                    sum.note_error(&late);
                }
            }
        }
        sum
    }
}

impl WriterReport {
    fn note_error(&mut self, error: &dyn std::error::Error) {
        self.errors += 1;
        self.last_error = Some(error.to_string());
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_shared_by_the_writers() {
        let options = WriterOptions::new(4, 1).rate(100);
        assert_eq!(options.pause(), Some(Duration::from_millis(40)));
        assert_eq!(WriterOptions::new(4, 1).pause(), None);
    }

    #[test]
    fn reports_are_summed_and_the_longest_wait_kept() {
        let mut sum = WriterReport::default();
        for millis in [5, 9, 2] {
            let longest_wait = Duration::from_millis(millis);
            sum.merge(WriterReport {
                inserts: 1,
                longest_wait,
                ..WriterReport::default()
            });
        }
        assert_eq!(
            (sum.inserts, sum.longest_wait),
            (3, Duration::from_millis(9))
        );
    }
}
