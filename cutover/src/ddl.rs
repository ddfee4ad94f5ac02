//! A statement that changes the live table at once: sent once, never waited
//! behind for long, and looked up where its answer is lost.

use std::time::Duration;

use mysql_async::{Conn, Opts, prelude::Queryable};
use oxferry_schema::TableName;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Blocker, CutoverError, KillBlockers, SwapPair, SwapPlan,
    lock::{GRACE, LOOK_EVERY, expect_no_backup, is_lock_wait, look},
    session::{Session, answered, close, connect},
    swap::END_LIMIT,
};

/// A statement on a live table that the server carries out at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DdlPlan {
    /// The table.
    pub table: TableName,
    /// The statement: one `ALTER TABLE` whose algorithm needs no copy.
    pub statement: String,
    limits: SwapPlan,
}

/// What a statement took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DdlReport {
    /// From sending it to its answer, locks waited for included.
    pub took: Duration,
    /// Whether the answer was lost, and the table told that it had happened.
    pub looked_up: bool,
}

/// What the table tells about a statement whose answer is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "every caller tells all three apart"
)]
pub enum DdlSeen {
    /// The table is what the statement makes of it.
    Done,
    /// The table is what it was before.
    NotDone,
    /// The table is something else.
    Neither,
}

impl DdlPlan {
    /// Runs `statement` on `table`; each lock of it is waited for for as long as
    /// `lock_wait`, rounded up to whole seconds, and those who are in its way are
    /// ended as `kill` says.
    #[must_use]
    pub fn new(
        table: TableName,
        statement: String,
        lock_wait: Duration,
        kill: Option<KillBlockers>,
    ) -> Self {
        // Nothing is swapped: whatever asks for a pair's names asks for one.
        let pair = SwapPair {
            source: table.clone(),
            shadow: table.clone(),
            old: table.clone(),
        };
        let mut limits = SwapPlan::new(pair).with_lock_wait(lock_wait);
        limits.kill = kill;
        Self {
            table,
            statement,
            limits,
        }
    }

    /// How long the answer may take: the statement asks for its locks one after
    /// the other, and dropping an index frees its pages.
    fn limit(&self) -> Duration {
        Duration::from_secs(self.limits.lock_wait_seconds())
            .saturating_mul(LOCKS_MAX)
            .saturating_add(WORK_MAX)
    }
}

/// Sends the plan's statement once, on a session of its own.
///
/// The server waits for each metadata lock no longer than the plan says, so
/// that no other statement waits behind it for longer. When the connection is
/// lost, or the answer doesn't come, the session is ended, seen to be gone, and
/// `seen` is asked what the table is.
///
/// # Errors
///
/// [`CutoverError::LockTimeout`] with those who are in the way;
/// [`CutoverError::Statement`] when the server refuses, see
/// [`CutoverError::refusal`]; [`CutoverError::DdlAmbiguous`] when nobody knows.
/// With every other error the table is what it was.
///
/// # Cancel safety
///
/// Dropped, the statement may happen or not;
/// [`end_earlier`](crate::end_earlier) ends its session.
pub async fn run_ddl<S>(opts: &Opts, plan: &DdlPlan, seen: S) -> Result<DdlReport, CutoverError>
where
    S: AsyncFn(&mut Conn) -> Result<DdlSeen, mysql_async::Error>,
{
    let mut session = Session::open(opts, &plan.limits).await?;
    let mut observer = connect(opts).await?;
    expect_no_backup(&mut observer, &session).await?;
    // Times in the statement are those of the server's own zone, as in a
    // session of the operator's.
    let zone = session
        .conn
        .query_drop("SET SESSION time_zone = @@GLOBAL.time_zone")
        .await;
    zone.map_err(CutoverError::statement("set the time zone"))?;
    let mut blockers = Vec::new();
    let began = Instant::now();
    let answer = {
        let sent = session.conn.query_drop(&plan.statement);
        tokio::select! {
            biased;
            answer = timeout(plan.limit(), sent) => answer,
            never = watch(observer, plan, session.token.id, &mut blockers) => match never {},
        }
    };
    let took = began.elapsed();
    let error = match answer {
        Ok(Ok(())) => {
            close(session.conn).await;
            return Ok(DdlReport {
                took,
                looked_up: false,
            });
        }
        Ok(Err(mysql_async::Error::Server(error))) if is_lock_wait(error.code) => {
            close(session.conn).await;
            return Err(CutoverError::LockTimeout {
                waited: took,
                blockers,
            });
        }
        Ok(Err(error)) => CutoverError::statement(ATTEMPTED)(error),
        Err(_) => CutoverError::Unanswered {
            attempted: ATTEMPTED,
            waited: took,
        },
    };
    // Even a server's refusal is looked up: KILL and shutdown cross answers.
    let error = session.token.end(opts, END_LIMIT, error).await;
    let error = error.map_err(|stuck| ambiguous(plan, stuck))?;
    match look_up(opts, seen).await {
        Ok(DdlSeen::Done) => Ok(DdlReport {
            took,
            looked_up: true,
        }),
        Ok(DdlSeen::NotDone) => Err(error),
        Ok(DdlSeen::Neither) => Err(ambiguous(plan, error)),
        Err(unseen) => {
            tracing::error!(error = %unseen, "the outcome can't be looked up");
            Err(ambiguous(plan, error))
        }
    }
}

async fn look_up<S>(opts: &Opts, seen: S) -> Result<DdlSeen, CutoverError>
where
    S: AsyncFn(&mut Conn) -> Result<DdlSeen, mysql_async::Error>,
{
    let mut conn = connect(opts).await?;
    answered("look the table up", LOOK_UP_MAX, seen(&mut conn)).await
}

fn ambiguous(plan: &DdlPlan, cause: CutoverError) -> CutoverError {
    CutoverError::DdlAmbiguous {
        table: plan.table.clone(),
        source: Box::new(cause),
    }
}

/// Notes who is in the way while session `own` waits for a lock, and ends whom
/// the plan says. Whoever only works beside the statement is left alone.
async fn watch(
    mut observer: Conn,
    plan: &DdlPlan,
    own: u32,
    seen: &mut Vec<Blocker>,
) -> std::convert::Infallible {
    let mut waits_since: Option<Instant> = None;
    loop {
        sleep(LOOK_EVERY).await;
        let looked = async {
            let query = observer.exec_first::<u64, _, _>(WAITS, (own,));
            let waits = answered("look whether the statement waits", GRACE, query).await?;
            if waits.unwrap_or_default() == 0 {
                waits_since = None;
                return Ok(());
            }
            let since = *waits_since.get_or_insert_with(Instant::now);
            *seen = look(&mut observer, &plan.limits, own, since.elapsed()).await?;
            Ok::<(), CutoverError>(())
        };
        if let Err(error) = looked.await {
            tracing::warn!(%error, "who holds up the statement can't be seen");
            return std::future::pending().await;
        }
    }
}

const WAITS: &str = "SELECT COUNT(*) FROM performance_schema.metadata_locks m \
    JOIN performance_schema.threads t ON t.THREAD_ID = m.OWNER_THREAD_ID \
    WHERE m.LOCK_STATUS = 'PENDING' AND t.PROCESSLIST_ID = ?";
const ATTEMPTED: &str = "change the table at once";
/// To open the table, before the change, and to commit it.
const LOCKS_MAX: u32 = 3;
/// Freeing the pages of a dropped index is the longest work.
const WORK_MAX: Duration = Duration::from_secs(300);
/// Reading a definition; it too may wait for the table's lock.
const LOOK_UP_MAX: Duration = Duration::from_secs(60);
