//! One job a table at a time: a server lock that dies with its connection.
//!
//! A task of its own looks after the lock for as long as it is held, so that
//! the server never takes its session for one that was left alone, whatever
//! the job waits for meanwhile.

use std::time::Duration;

use mysql_async::{
    Conn, Row, Value, from_value,
    prelude::{FromValue, Queryable},
};
use oxferry_schema::{Remedy, TableName};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::timeout,
};

use crate::failure::Failure;

/// How often the lock is looked after.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// After how long of silence the server gives the lock up.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// How many locks one statement asks for: a job may have thousands of tables.
const AT_ONCE: usize = 200;

/// How long the server may take to answer that it still holds the lock.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// Held while a job works on its tables; let go when it is dropped.
#[derive(Debug)]
pub(crate) struct JobLock {
    holder: Holder,
    /// Why the lock is lost, once it is.
    lost: watch::Receiver<Option<String>>,
    /// Ends the task that looks after the lock, by being dropped too.
    end: oneshot::Sender<()>,
    keeper: JoinHandle<()>,
}

/// What a job's locks are known by, from any connection.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    locks: Vec<Lock>,
    connection: u32,
}

/// The lock of one table.
#[derive(Clone, Debug)]
struct Lock {
    table: TableName,
    name: String,
}

impl Holder {
    /// Takes the locks once more, for a job that has lost them.
    ///
    /// # Errors
    ///
    /// As [`JobLock::take`].
    pub(crate) async fn take_again(&self, conn: Conn) -> Result<JobLock, Failure> {
        let tables: Vec<TableName> = self.locks.iter().map(|lock| lock.table.clone()).collect();
        JobLock::take(conn, &tables).await
    }

    /// Checks, on another connection, that the job still holds its locks.
    pub(crate) async fn check(&self, conn: &mut Conn) -> Result<(), Failure> {
        let users = users(conn, &self.locks).await.map_err(lock_error)?;
        for (lock, used) in self.locks.iter().zip(users) {
            if used != Some(self.connection) {
                let table = lock.table.plain();
                return Err(Failure::new(
                    Remedy::Retry,
                    anyhow::anyhow!(
                        "the job's lock on {table} is lost: another job may be at work on it"
                    ),
                ));
            }
        }
        Ok(())
    }
}

impl JobLock {
    /// Takes the locks of all `tables`, at once or not at all.
    ///
    /// Nobody waits for a lock, so the order can't make two jobs wait for each
    /// other; it only says which of two jobs is refused.
    ///
    /// # Errors
    ///
    /// A failure that names the table, and the connection of the job that
    /// works on it.
    pub(crate) async fn take(conn: Conn, tables: &[TableName]) -> Result<Self, Failure> {
        Self::take_with(conn, tables, IDLE_MAX).await
    }

    async fn take_with(
        mut conn: Conn,
        tables: &[TableName],
        idle_max: Duration,
    ) -> Result<Self, Failure> {
        // Should this host vanish, the lock must not outlive it by hours.
        let limit = format!("SET SESSION wait_timeout = {}", idle_max.as_secs());
        conn.query_drop(limit).await.map_err(lock_error)?;
        let mut ordered = tables.to_vec();
        ordered.sort();
        ordered.dedup();
        let locks = take_all(&mut conn, ordered).await?;
        let connection = conn.id();
        let holder = Holder { locks, connection };
        let (lose, lost) = watch::channel(None);
        let (end, ended) = oneshot::channel();
        let keeper = tokio::spawn(keep(conn, holder.clone(), lose, ended));
        Ok(Self {
            holder,
            lost,
            end,
            keeper,
        })
    }

    /// Returns what the locks are known by.
    pub(crate) fn holder(&self) -> Holder {
        self.holder.clone()
    }

    /// Lets the locks go; when this has returned, another session can take
    /// them. What can't be let go is logged: it goes with its connection.
    pub(crate) async fn release(self) {
        let Self { end, keeper, .. } = self;
        drop(end);
        match timeout(ANSWER_MAX * 2, keeper).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("the job's lock was not let go in order: {error}"),
            Err(_) => tracing::warn!("the job's lock was not let go in time"),
        }
    }

    /// Waits until a lock or its connection is gone, so that another job may
    /// start and this one must end; returns why. Waits as long as all are held.
    pub(crate) async fn lost(&self) -> Failure {
        let mut lost = self.lost.clone();
        let why = match lost.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => "what looks after the job's lock has ended".to_owned(),
        };
        Failure::new(Remedy::Retry, anyhow::anyhow!(why))
    }
}

/// All the locks of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held<'a> {
    /// Those on the server that the job writes to.
    pub(crate) written: &'a JobLock,
    /// Those on another server, and what that is called.
    pub(crate) other: Option<(&'a JobLock, &'static str)>,
}

impl Held<'_> {
    /// As [`JobLock::lost`], of whichever is lost first.
    pub(crate) async fn lost(&self) -> Failure {
        let Some((other, server)) = self.other else {
            return self.written.lost().await;
        };
        tokio::select! {
            lost = self.written.lost() => lost,
            lost = other.lost() => lost.context(format!("on the {server}")),
        }
    }
}

/// Looks after the locks until they are lost, or to be let go.
async fn keep(
    mut conn: Conn,
    holder: Holder,
    lose: watch::Sender<Option<String>>,
    mut end: oneshot::Receiver<()>,
) {
    loop {
        tokio::select! {
            _ = &mut end => break,
            () = tokio::time::sleep(WATCH_EVERY) => {}
        }
        if let Err(why) = ask(&mut conn, &holder).await {
            tracing::warn!("{why}");
            lose.send_replace(Some(why));
            // Until then nobody has to be told that nobody looks any more.
            let _ended = end.await;
            return;
        }
    }
    let released = timeout(ANSWER_MAX, conn.query_drop("DO RELEASE_ALL_LOCKS()")).await;
    match released {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!("the job's lock was not let go in order: {error}"),
        Err(_) => tracing::warn!("the job's lock was not let go in time"),
    }
}

/// Asks the server whether all locks are held; the error says why not.
async fn ask(conn: &mut Conn, holder: &Holder) -> Result<(), String> {
    let users = match timeout(ANSWER_MAX, users(conn, &holder.locks)).await {
        Ok(Ok(users)) => users,
        Ok(Err(error)) => return Err(lost(holder.locks.first(), &error.to_string())),
        Err(_) => {
            let why = format!("no answer for {} s", ANSWER_MAX.as_secs());
            return Err(lost(holder.locks.first(), &why));
        }
    };
    let mut used = holder.locks.iter().zip(users);
    match used.find(|(_, used)| *used != Some(holder.connection)) {
        None => Ok(()),
        Some((lock, _)) => Err(lost(
            Some(lock),
            "the server says that it isn't held any more",
        )),
    }
}

fn lost(lock: Option<&Lock>, why: &str) -> String {
    let table = lock.map_or_else(String::new, |lock| lock.table.plain());
    format!("the job's lock on {table} is lost: {why}")
}

/// Takes every lock, or fails at the first that somebody holds.
async fn take_all(conn: &mut Conn, tables: Vec<TableName>) -> Result<Vec<Lock>, Failure> {
    // A lock's name has 64 characters at most. Source: MySQL 9.7 manual,
    // "Locking Functions". MD5 is gone in 9.7, so the server's SHA2 it is.
    let plain: Vec<String> = tables.iter().map(TableName::plain).collect();
    let names = "CONCAT('oxferry:', LEFT(SHA2(?, 256), 48))";
    let names: Vec<String> = each(conn, names, &plain).await.map_err(lock_error)?;
    let locks = tables.into_iter().zip(names.iter().cloned());
    let locks: Vec<Lock> = locks.map(|(table, name)| Lock { table, name }).collect();
    let taken: Vec<Option<i64>> = each(conn, "GET_LOCK(?, 0)", &names)
        .await
        .map_err(lock_error)?;
    let refused = locks.iter().zip(taken).find(|(_, taken)| *taken != Some(1));
    let Some((lock, _)) = refused else {
        return Ok(locks);
    };
    let holder = users(conn, std::slice::from_ref(lock)).await;
    let holder = holder.map_err(lock_error)?.into_iter().flatten().next();
    let holder = holder.map_or_else(String::new, |id| format!(", connection {id}"));
    let working = Working {
        table: lock.table.plain(),
        holder,
    };
    Err(Failure::new(Remedy::Retry, working))
}

/// Another job has the lock.
#[derive(Debug, thiserror::Error)]
#[error("another job is working on {table}{holder}: let it end first")]
pub(crate) struct Working {
    table: String,
    holder: String,
}

/// Returns the connection that holds each lock, if one does.
async fn users(conn: &mut Conn, locks: &[Lock]) -> Result<Vec<Option<u32>>, mysql_async::Error> {
    let names: Vec<String> = locks.iter().map(|lock| lock.name.clone()).collect();
    each(conn, "IS_USED_LOCK(?)", &names).await
}

/// Has the server work out an expression for each value, many in one statement.
async fn each<T: FromValue>(
    conn: &mut Conn,
    expression: &str,
    values: &[String],
) -> Result<Vec<T>, mysql_async::Error> {
    let mut all = Vec::with_capacity(values.len());
    for values in values.chunks(AT_ONCE) {
        let list = vec![expression; values.len()].join(", ");
        let params: Vec<Value> = values.iter().map(Value::from).collect();
        let row: Option<Row> = conn.exec_first(format!("SELECT {list}"), params).await?;
        let row = row.map(Row::unwrap).unwrap_or_default();
        all.extend(row.into_iter().map(from_value::<T>));
    }
    Ok(all)
}

fn lock_error(error: mysql_async::Error) -> Failure {
    Failure::new(Remedy::Retry, error).context("taking the job's lock")
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use oxferry_schema::{Ident, ServerUrl, connect};
    use oxferry_testkit::{
        server::{Server, ServerOptions},
        wait::eventually,
    };

    use super::*;

    /// How long the server bears silence, in these tests.
    const SHORT: Duration = Duration::from_secs(2);

    const LIMIT: Duration = Duration::from_secs(20);

    async fn server() -> (Server, ServerUrl, Conn) {
        let server = Server::start(ServerOptions::default()).await.unwrap();
        let url = ServerUrl::parse(&server.url(), None).unwrap();
        let conn = connect(&url, "test").await.unwrap();
        (server, url, conn)
    }

    fn tables() -> [TableName; 2] {
        ["b", "a"].map(|table| {
            let ident = |text: &str| Ident::new(text).unwrap();
            TableName::new(ident("d"), ident(table))
        })
    }

    async fn take(url: &ServerUrl) -> Result<JobLock, Failure> {
        let conn = connect(url, "lock").await.unwrap();
        JobLock::take_with(conn, &tables(), SHORT).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_lock_outlives_the_silence_of_its_job_and_is_let_go_at_once() {
        let (_server, url, mut conn) = server().await;
        let lock = take(&url).await.unwrap();
        let held = lock.holder();
        let begun = Instant::now();
        let outlived = eventually(LIMIT, "a lock older than the limit", async || {
            held.check(&mut conn).await.unwrap();
            (begun.elapsed() > SHORT * 2).then_some(())
        });
        tokio::select! {
            outlived = outlived => outlived.unwrap(),
            lost = lock.lost() => panic!("{}", lost.line()),
        }
        let refused = take(&url).await.unwrap_err();
        assert!(refused.line().contains("another job is working on d.a"));
        lock.release().await;
        held.check(&mut conn).await.unwrap_err();
        drop(take(&url).await.unwrap());
        eventually(LIMIT, "a lock that is let go", async || {
            take(&url).await.ok()
        })
        .await
        .unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_lock_whose_connection_is_ended_is_noticed_and_its_release_fails_nothing() {
        let (_server, url, mut conn) = server().await;
        let lock = take(&url).await.unwrap();
        let held = lock.holder();
        let kill = format!("KILL {}", held.connection);
        conn.query_drop(kill).await.unwrap();
        let lost = timeout(LIMIT, lock.lost()).await.unwrap();
        assert_eq!(lost.remedy(), Remedy::Retry);
        assert!(lost.line().contains("lock on d.a is lost"));
        held.check(&mut conn).await.unwrap_err();
        lock.release().await;
        take(&url).await.unwrap().release().await;
    }
}
