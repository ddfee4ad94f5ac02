//! The one session that locks and renames, and how it is made to end.

use std::time::Duration;

use mysql_async::{Conn, Opts, prelude::Queryable};
use oxferry_schema::{CONNECT_DEADLINE, ServerVersion, TableName};
use tokio::time::{Instant, sleep, timeout};

use crate::{CutoverError, SwapPlan, carry, earlier::claim};

/// The locking session, known by a user-level lock of its own.
///
/// Connection ids start anew when a server restarts; the random name of a
/// user-level lock doesn't come back. So "the session is gone" is "nobody
/// holds its lock". The server releases it after the session's transaction
/// and table locks. Source: `THD::cleanup` in `sql/sql_class.cc`, MySQL 9.7.
///
/// It holds another one for each table that it swaps, by which the next run that
/// has one of them finds it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) conn: Conn,
    pub(crate) token: Token,
    pub(crate) version: ServerVersion,
}

/// What a session is found again by, from another connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Its connection id.
    pub(crate) id: u32,
    /// The name of its user-level lock.
    lock: String,
}

impl Session {
    /// Connects, limits every wait of the session, and ends the session that an
    /// earlier run left to swap one of the same tables.
    pub(crate) async fn open(opts: &Opts, plan: &SwapPlan) -> Result<Self, CutoverError> {
        let sources = plan.pairs.iter().map(|pair| &pair.source);
        let limits = limits(plan.lock_wait_seconds(), plan.lock_hold);
        Self::open_for(opts, &limits, sources).await
    }

    /// As [`Session::open`], for tables that take no part in a swap.
    pub(crate) async fn open_for(
        opts: &Opts,
        limits: &str,
        tables: impl Iterator<Item = &TableName>,
    ) -> Result<Self, CutoverError> {
        let mut conn = connect(opts).await?;
        let token = Token::new(conn.id(), fastrand::u64(..));
        let set_up = conn.query_drop(limits);
        answered("set up the locking session", CONNECT_DEADLINE, set_up).await?;
        if !take_lock(&mut conn, &token.lock).await? {
            return Err(CutoverError::LockHeld { name: token.lock });
        }
        for table in tables {
            claim(&mut conn, table).await?;
        }
        let version = crate::tables::version(&mut conn).await?;
        Ok(Self {
            conn,
            token,
            version,
        })
    }

    /// Undoes what is not committed and what the shadows were given, and lets
    /// every lock go.
    ///
    /// The rollback comes first: all the others would commit.
    pub(crate) async fn unlock(&mut self, plan: &SwapPlan) -> Result<(), CutoverError> {
        let rollback = self.conn.query_drop("ROLLBACK");
        answered("roll back", UNLOCK_DEADLINE, rollback).await?;
        if plan.carries() {
            carry::detach_on(&mut self.conn, plan).await?;
        }
        self.let_go().await
    }

    /// Lets every lock go.
    pub(crate) async fn let_go(&mut self) -> Result<(), CutoverError> {
        let unlock = self.conn.query_drop("UNLOCK TABLES");
        answered("unlock the tables", UNLOCK_DEADLINE, unlock).await
    }
}

impl Token {
    fn new(id: u32, random: u64) -> Self {
        Self {
            id,
            lock: format!("oxferry:cutover:{random:016x}"),
        }
    }

    /// Ends the session from another connection; returns when it is gone.
    ///
    /// # Errors
    ///
    /// [`CutoverError::SessionStuck`] around `cause` when it couldn't be seen
    /// to end within `limit`.
    pub(crate) async fn end(
        &self,
        opts: &Opts,
        limit: Duration,
        cause: CutoverError,
    ) -> Result<CutoverError, CutoverError> {
        match self.see_end(opts, limit).await {
            Ok(()) => Ok(cause),
            Err(waited) => Err(CutoverError::SessionStuck {
                id: self.id,
                waited,
                cause: Box::new(cause),
            }),
        }
    }

    /// Ends the session from another connection; returns when it is gone, or
    /// how long was waited in vain.
    pub(crate) async fn see_end(&self, opts: &Opts, limit: Duration) -> Result<(), Duration> {
        let began = Instant::now();
        loop {
            match timeout(CONNECT_DEADLINE, self.end_once(opts)).await {
                Ok(Ok(true)) => return Ok(()),
                Ok(Ok(false)) | Err(_) => {}
                Ok(Err(error)) => tracing::warn!(%error, id = self.id, "locking session not ended"),
            }
            if began.elapsed() >= limit {
                return Err(began.elapsed());
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Kills the session if it lives; returns whether it was gone already.
    async fn end_once(&self, opts: &Opts) -> Result<bool, CutoverError> {
        let mut conn = connect(opts).await?;
        let holder: Option<Option<u64>> = conn
            .exec_first("SELECT IS_USED_LOCK(?)", (&self.lock,))
            .await
            .map_err(CutoverError::statement("look for the locking session"))?;
        let Some(id) = holder.flatten() else {
            close(conn).await;
            return Ok(true);
        };
        kill(&mut conn, id).await?;
        close(conn).await;
        Ok(false)
    }
}

/// Returns the statement that limits the session's waits: for locks, and for
/// this program.
///
/// When its host vanishes, no packet tells the server so. Whichever the server
/// does then, waiting for a statement or sending an answer, it gives the
/// session up, and the lock with it, after `hold` and a margin.
pub(crate) fn limits(wait: u64, hold: Duration) -> String {
    let silence = hold
        .saturating_add(SILENCE_MARGIN)
        .as_secs()
        .min(SILENCE_MAX);
    format!(
        "SET SESSION lock_wait_timeout = {wait}, innodb_lock_wait_timeout = {wait}, \
         wait_timeout = {silence}, net_read_timeout = {silence}, \
         net_write_timeout = {silence}, autocommit = 1"
    )
}

/// Connects within a deadline.
pub(crate) async fn connect(opts: &Opts) -> Result<Conn, CutoverError> {
    let failed = |source| CutoverError::Connect {
        waited: CONNECT_DEADLINE,
        source,
    };
    match timeout(CONNECT_DEADLINE, Conn::new(opts.clone())).await {
        Ok(connected) => connected.map_err(|error| failed(Some(error))),
        Err(_) => Err(failed(None)),
    }
}

/// Takes a user-level lock at once, or not at all; returns whether it did.
pub(crate) async fn take_lock(conn: &mut Conn, name: &str) -> Result<bool, CutoverError> {
    let taking = conn.exec_first::<Option<u8>, _, _>("SELECT GET_LOCK(?, 0)", (name,));
    let taken = answered("take a user-level lock", CONNECT_DEADLINE, taking).await?;
    Ok(taken.flatten() == Some(1))
}

/// Says goodbye; the server closes the session in any case.
pub(crate) async fn close(conn: Conn) {
    match timeout(UNLOCK_DEADLINE, conn.disconnect()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "connection closed without goodbye"),
        Err(_) => tracing::debug!("connection closed without goodbye"),
    }
}

/// Ends a connection; one that is gone already is as good.
pub(crate) async fn kill(conn: &mut Conn, id: u64) -> Result<(), CutoverError> {
    match conn.query_drop(format!("KILL CONNECTION {id}")).await {
        Err(mysql_async::Error::Server(error)) if error.code == ER_NO_SUCH_THREAD => Ok(()),
        other => other.map_err(CutoverError::statement("end a session")),
    }
}

/// Awaits a statement within `limit`.
pub(crate) async fn answered<T>(
    attempted: &'static str,
    limit: Duration,
    statement: impl Future<Output = Result<T, mysql_async::Error>>,
) -> Result<T, CutoverError> {
    match timeout(limit, statement).await {
        Ok(answer) => answer.map_err(CutoverError::statement(attempted)),
        Err(_) => Err(CutoverError::Unanswered {
            attempted,
            waited: limit,
        }),
    }
}

/// Letting go is one round trip; a connection that takes longer is killed.
const UNLOCK_DEADLINE: Duration = Duration::from_secs(1);
/// Longer than the session is ever left idle beside its hold: for a second
/// connection, and for what is seen on it.
const SILENCE_MARGIN: Duration = Duration::from_secs(20);
/// Source: MySQL 9.7 manual, "Server System Variables", the least of the three
/// largest values.
const SILENCE_MAX: u64 = 31_536_000;
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const ER_NO_SUCH_THREAD: u16 = 1094;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_session_is_given_up_soon_after_its_hold() {
        let limits = |hold| limits(3, hold);
        assert_eq!(
            limits(Duration::from_millis(1500)),
            "SET SESSION lock_wait_timeout = 3, innodb_lock_wait_timeout = 3, \
             wait_timeout = 21, net_read_timeout = 21, net_write_timeout = 21, autocommit = 1"
        );
        assert!(limits(Duration::MAX).contains("wait_timeout = 31536000,"));
    }

    #[test]
    fn a_sessions_lock_name_fits_the_server() {
        let token = Token::new(7, u64::MAX);
        assert_eq!(token.lock, "oxferry:cutover:ffffffffffffffff");
        // MySQL 9.7 manual, "Locking Functions": 64 characters at most.
        assert!(token.lock.len() <= 64);
    }
}
