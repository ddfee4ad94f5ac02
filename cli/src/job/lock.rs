//! One job a table at a time: a server lock that dies with its connection.
//!
//! A task of its own looks after the lock for as long as it is held, so that
//! the server never takes its session for one that was left alone, whatever
//! the job waits for meanwhile.

use std::time::Duration;

use mysql_async::{Conn, prelude::Queryable};
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
    /// Checks, on another connection, that the job still holds its locks.
    pub(crate) async fn check(&self, conn: &mut Conn) -> Result<(), Failure> {
        for lock in &self.locks {
            let used = user(conn, lock).await.map_err(lock_error)?;
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
        let mut locks = Vec::with_capacity(ordered.len());
        for table in ordered {
            locks.push(take_one(&mut conn, table).await?);
        }
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
    for lock in &holder.locks {
        let lost = match timeout(ANSWER_MAX, user(conn, lock)).await {
            Ok(Ok(used)) if used == Some(holder.connection) => continue,
            Ok(Ok(_)) => "the server says that it isn't held any more".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer for {} s", ANSWER_MAX.as_secs()),
        };
        let table = lock.table.plain();
        return Err(format!("the job's lock on {table} is lost: {lost}"));
    }
    Ok(())
}

async fn take_one(conn: &mut Conn, table: TableName) -> Result<Lock, Failure> {
    // A lock's name has 64 characters at most. Source: MySQL 9.7 manual,
    // "Locking Functions". MD5 is gone in 9.7, so the server's SHA2 it is.
    let name: Option<String> = conn
        .exec_first(
            "SELECT CONCAT('oxferry:', LEFT(SHA2(?, 256), 48))",
            (table.plain(),),
        )
        .await
        .map_err(lock_error)?;
    let name = name.unwrap_or_default();
    let lock = Lock { table, name };
    let taken: Option<Option<i64>> = conn
        .exec_first("SELECT GET_LOCK(?, 0)", (&lock.name,))
        .await
        .map_err(lock_error)?;
    if taken.flatten() == Some(1) {
        return Ok(lock);
    }
    let holder = user(conn, &lock).await.map_err(lock_error)?;
    let holder = holder.map_or_else(String::new, |id| format!(", connection {id}"));
    let message = format!(
        "another job is working on {}{holder}: let it end first",
        lock.table.plain()
    );
    Err(Failure::new(Remedy::Retry, anyhow::anyhow!(message)))
}

/// Returns the connection that holds the lock, if one does.
async fn user(conn: &mut Conn, lock: &Lock) -> Result<Option<u32>, mysql_async::Error> {
    let query = "SELECT IS_USED_LOCK(?)";
    let used: Option<Option<u32>> = conn.exec_first(query, (&lock.name,)).await?;
    Ok(used.flatten())
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
