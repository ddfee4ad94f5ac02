//! One writer's connection, and its transactions.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use fastrand::Rng;
use mysql_async::{Conn, Opts, Params, Value, prelude::Queryable};

use super::{
    WriterOptions, WriterReport,
    journal::read_images,
    plan::{self, Keys, Plan, Step},
};
use crate::tables::{TableSpec, quote};

/// How long a writer waits for a lock of a row before it begins anew.
const SETTINGS: &str = "SET SESSION innodb_lock_wait_timeout = 20, lock_wait_timeout = 60";
/// The pause before a transaction is begun anew, and before connecting anew.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// How much of a delay is made up for by transactions without a pause.
const CATCH_UP: Duration = Duration::from_millis(100);

/// Deadlock, lock wait, table swapped under the snapshot or between two
/// statements, statement to be prepared anew.
const RETRIED: [u16; 5] = [1213, 1205, 1412, 1146, 1615];
/// Duplicate key: the statement did nothing, the transaction goes on.
const DUPLICATE: u16 = 1062;

pub(super) struct Session {
    url: Opts,
    conn: Option<Conn>,
    table: TableSpec,
    keys: Keys,
    rng: Rng,
    pause: Option<Duration>,
    report: WriterReport,
    /// Keys of a transaction whose outcome is unknown: the connection broke.
    in_doubt: Vec<u64>,
}

/// What the steps of one transaction changed.
#[derive(Default)]
struct Changed {
    inserts: u64,
    updates: u64,
    moves: u64,
    deletes: u64,
}

impl Session {
    pub(super) async fn connect(
        url: &str,
        table: &TableSpec,
        options: &WriterOptions,
        number: u32,
    ) -> Result<Self, mysql_async::Error> {
        let url = Opts::from_url(url)?;
        let conn = open(&url).await?;
        Ok(Self {
            url,
            conn: Some(conn),
            table: table.clone(),
            keys: Keys::new(number, options.writers, table.rows),
            rng: Rng::with_seed(options.seed.wrapping_mul(1_000_003) + u64::from(number)),
            pause: options.pause(),
            report: WriterReport::default(),
            in_doubt: Vec::new(),
        })
    }

    pub(super) fn into_report(self) -> WriterReport {
        self.report
    }

    /// Writes until `stop` is set, and at least settles what is in doubt.
    pub(super) async fn work(&mut self, stop: &AtomicBool, committed: &AtomicU64) {
        let swaps = self.table.unique_column().is_some();
        let mut due = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let plan = plan::next(&mut self.rng, self.keys, swaps);
            let begun = Instant::now();
            let done = self.until_done(&plan, stop).await;
            if done && !plan.roll_back {
                committed.fetch_add(1, Ordering::Relaxed);
                self.report.longest_wait = self.report.longest_wait.max(begun.elapsed());
            }
            if let Some(pause) = self.pause {
                due = next_due(due, pause, Instant::now());
                tokio::time::sleep_until(due.into()).await;
            }
        }
        if let Some(conn) = self.conn.take() {
            // The work is done; how the farewell goes doesn't matter.
            let _ = conn.disconnect().await;
        }
    }

    /// Tries a transaction again and again; false when it was given up.
    async fn until_done(&mut self, plan: &Plan, stop: &AtomicBool) -> bool {
        loop {
            let error = match self.attempt(plan).await {
                Ok(()) => return true,
                Err(error) => error,
            };
            let code = server_code(&error);
            if code.is_some_and(|code| RETRIED.contains(&code)) {
                self.report.retries += 1;
            } else {
                self.report.note_error(&error);
            }
            if code.is_none() {
                // Not the server's word: the connection is of no use any more.
                self.conn = None;
            } else if let Some(conn) = &mut self.conn
                && conn.query_drop("ROLLBACK").await.is_err()
            {
                self.conn = None;
            }
            if stop.load(Ordering::Relaxed) && self.in_doubt.is_empty() {
                return false;
            }
            if code.is_some_and(|code| !RETRIED.contains(&code)) {
                return false;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    async fn attempt(&mut self, plan: &Plan) -> Result<(), mysql_async::Error> {
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => open(&self.url).await?,
        };
        let outcome = self.transact(&mut conn, plan).await;
        self.conn = Some(conn);
        outcome
    }

    async fn transact(&mut self, conn: &mut Conn, plan: &Plan) -> Result<(), mysql_async::Error> {
        self.settle(conn).await?;
        conn.query_drop("START TRANSACTION").await?;
        let mut changed = Changed::default();
        for step in &plan.steps {
            self.step(conn, step, &mut changed).await?;
        }
        if plan.roll_back {
            conn.query_drop("ROLLBACK").await?;
            self.report.rollbacks += 1;
            return Ok(());
        }
        let keys = plan.keys();
        let images = read_images(conn, &self.table, &keys).await?;
        self.in_doubt.clone_from(&keys);
        let end = conn.query_drop("COMMIT").await;
        if end
            .as_ref()
            .is_err_and(|error| server_code(error).is_none())
        {
            return end;
        }
        self.in_doubt.clear();
        end?;
        self.report.journal.record(&keys, images);
        self.report.transactions += 1;
        self.report.inserts += changed.inserts;
        self.report.updates += changed.updates;
        self.report.moves += changed.moves;
        self.report.deletes += changed.deletes;
        Ok(())
    }

    /// Looks up what became of a transaction whose connection broke at its commit.
    async fn settle(&mut self, conn: &mut Conn) -> Result<(), mysql_async::Error> {
        if !self.in_doubt.is_empty() {
            let images = read_images(conn, &self.table, &self.in_doubt).await?;
            self.report.journal.record(&self.in_doubt, images);
            self.in_doubt.clear();
        }
        Ok(())
    }

    async fn step(
        &mut self,
        conn: &mut Conn,
        step: &Step,
        changed: &mut Changed,
    ) -> Result<(), mysql_async::Error> {
        let table = self.table.quoted();
        let key = quote(self.table.key);
        match step {
            Step::Insert(id) => {
                let names: Vec<String> = self.table.column_names().into_iter().map(quote).collect();
                let marks = vec!["?"; names.len()].join(", ");
                let sql = format!(
                    "INSERT INTO {table} ({}) VALUES ({marks})",
                    names.join(", ")
                );
                let mut values = vec![Value::from(*id)];
                values.extend(self.table.random_values(&mut self.rng));
                changed.inserts += affected(conn, &sql, values).await?;
            }
            Step::Update(id) => {
                let sets: Vec<String> = self
                    .table
                    .columns
                    .iter()
                    .map(|(name, _)| format!("{} = ?", quote(name)))
                    .collect();
                let sql = format!("UPDATE {table} SET {} WHERE {key} = ?", sets.join(", "));
                let mut values = self.table.random_values(&mut self.rng);
                values.push(Value::from(*id));
                changed.updates += affected(conn, &sql, values).await?;
            }
            Step::Move(from, to) => {
                let sql = format!("UPDATE {table} SET {key} = ? WHERE {key} = ?");
                let values = vec![Value::from(*to), Value::from(*from)];
                changed.moves += affected(conn, &sql, values).await?;
            }
            Step::Delete(id) => {
                let sql = format!("DELETE FROM {table} WHERE {key} = ?");
                changed.deletes += affected(conn, &sql, vec![Value::from(*id)]).await?;
            }
            Step::Swap(one, two) => changed.updates += self.swap(conn, *one, *two).await?,
        }
        Ok(())
    }

    /// Exchanges the unique values of two rows, by way of a third value.
    async fn swap(
        &mut self,
        conn: &mut Conn,
        one: u64,
        two: u64,
    ) -> Result<u64, mysql_async::Error> {
        let Some(column) = self.table.unique_column().map(quote) else {
            return Ok(0);
        };
        let (table, key) = (self.table.quoted(), quote(self.table.key));
        let read = format!("SELECT {column} FROM {table} WHERE {key} = ?");
        let first: Option<i64> = conn.exec_first(&*read, (one,)).await?;
        let second: Option<i64> = conn.exec_first(&*read, (two,)).await?;
        let (Some(first), Some(second)) = (first, second) else {
            return Ok(0);
        };
        if one == two {
            return Ok(0);
        }
        let write = format!("UPDATE {table} SET {column} = ? WHERE {key} = ?");
        // Below zero nobody else writes.
        let aside = -self.rng.i64(1..1 << 62);
        for (value, id) in [(aside, one), (first, two), (second, one)] {
            conn.exec_drop(&*write, (value, id)).await?;
        }
        Ok(2)
    }
}

async fn open(url: &Opts) -> Result<Conn, mysql_async::Error> {
    let mut conn = Conn::new(url.clone()).await?;
    conn.query_drop(SETTINGS).await?;
    Ok(conn)
}

/// The rows that a statement changed; none when it met a duplicate key.
async fn affected(
    conn: &mut Conn,
    sql: &str,
    values: Vec<Value>,
) -> Result<u64, mysql_async::Error> {
    match conn.exec_drop(sql, Params::Positional(values)).await {
        Ok(()) => Ok(conn.affected_rows()),
        Err(error) if server_code(&error) == Some(DUPLICATE) => Ok(0),
        Err(error) => Err(error),
    }
}

/// The server's error number; nothing when the error is the connection's.
fn server_code(error: &mysql_async::Error) -> Option<u16> {
    match error {
        mysql_async::Error::Server(error) if !matches!(error.code, 1053 | 3169 | 1927) => {
            Some(error.code)
        }
        _ => None,
    }
}

/// When the next transaction is due. What a timer oversleeps is made up for, so
/// that the rate is kept; a longer delay was the server's, and is not.
fn next_due(due: Instant, pause: Duration, now: Instant) -> Instant {
    let oldest = now.checked_sub(CATCH_UP).unwrap_or(now);
    (due + pause).max(oldest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_oversleeps_costs_no_transaction_and_a_server_that_hangs_does() {
        let pause = Duration::from_millis(1);
        let begun = Instant::now();
        let late = begun + 2 * pause;
        assert_eq!(next_due(begun, pause, late), begun + pause);
        let hung = begun + Duration::from_secs(9);
        assert_eq!(next_due(begun, pause, hung), hung - CATCH_UP);
    }
}
