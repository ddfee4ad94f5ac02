//! The swap: lock, finish, rename on one session; again if it must be.

use std::time::Duration;

use mysql_async::{Conn, Opts, prelude::Queryable};
use oxferry_schema::Remedy;
use oxferry_verifier::Verified;
use tokio::time::{Instant, timeout, timeout_at};

use crate::{
    Backoff, CutoverError, Finish, SwapPlan, carry,
    lock::{Granted, expect_no_backup, lock},
    rename::rename,
    session::{Session, close, connect},
    tables,
};

/// What a swap took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SwapReport {
    /// Attempts, the successful one included.
    pub attempts: u32,
    /// How long the lock was waited for in the successful attempt; statements
    /// that came meanwhile waited too.
    pub lock_wait: Duration,
    /// How long the lock was held in the successful attempt.
    pub lock_held: Duration,
    /// The longest that writes were blocked in any attempt: the wait and the
    /// hold together.
    pub blocked_longest: Duration,
    /// How long writes were blocked in all attempts together.
    pub blocked_total: Duration,
    /// Whether the answer to the rename was lost, and the tables told that it
    /// had happened.
    pub looked_up: bool,
}

/// Lets the shadow tables take over, all at once, with no write lost.
///
/// Each attempt: `finish.quiesce()`; on a new session, once what an earlier run
/// left is ended as by [`end_earlier`](crate::end_earlier), `LOCK TABLES … WRITE`;
/// `finish.finish()` up to the position read under the lock; what hangs on the
/// tables is given to the shadows; `RENAME TABLE`; what hangs on the new tables
/// gets its names; `UNLOCK TABLES`. An attempt that fails lets the lock go, calls
/// `finish.release()`, and is repeated after `finish.pause()`, as long as
/// [`Backoff`] says, if [`CutoverError::is_passing`].
///
/// Needs, beside the privileges to lock, alter and rename the tables: TRIGGER,
/// to see triggers; REPLICATION CLIENT, to read the position; SELECT on
/// `performance_schema` and PROCESS, to name who is in the way;
/// CONNECTION_ADMIN, to end them. Without the last three the swap works, and
/// says less.
///
/// # Errors
///
/// [`CutoverError`] of the last attempt. Nothing has been renamed, unless it
/// is [`CutoverError::Ambiguous`], or [`CutoverError::Incomplete`], after which
/// [`complete`](crate::complete) must be called.
///
/// # Cancel safety
///
/// Dropped before the rename is sent, nothing is renamed; `release` is not
/// called. The session is closed as soon as the statement it runs has ended: a
/// `LOCK TABLES` by the lock wait at the latest, a statement of `finish` at
/// its own pace. Dropped while the rename runs, the rename may happen or not:
/// [`decide`](crate::decide) tells from the tables, once the session is gone.
pub async fn swap<F: Finish>(
    opts: &Opts,
    plan: &SwapPlan,
    finish: &mut F,
) -> Result<SwapReport, CutoverError> {
    let mut backoff = Backoff::new(plan.attempts_max);
    let mut blocked = Blocked::default();
    loop {
        let error = match attempt(opts, plan, finish, &mut blocked).await {
            Ok(done) => return Ok(blocked.report(backoff.failed().saturating_add(1), done)),
            Err(error) => error,
        };
        let pause = error
            .is_passing()
            .then(|| backoff.handle_failure(fastrand::f64()))
            .flatten();
        let Some(pause) = pause else {
            return Err(error);
        };
        let cause: &(dyn std::error::Error + 'static) = &error;
        tracing::warn!(
            error = cause,
            failed = backoff.failed(),
            pause = %format_args!("{pause:.1?}"),
            "cutover put off"
        );
        finish.pause(pause).await;
    }
}

/// What one successful attempt took.
struct Done {
    lock_wait: Duration,
    lock_held: Duration,
    looked_up: bool,
}

/// Adds up how long writes were blocked.
#[derive(Default)]
struct Blocked {
    longest: Duration,
    total: Duration,
}

impl Blocked {
    fn add(&mut self, blocked: Duration) {
        self.longest = self.longest.max(blocked);
        self.total = self.total.saturating_add(blocked);
    }

    const fn report(&self, attempts: u32, done: Done) -> SwapReport {
        SwapReport {
            attempts,
            lock_wait: done.lock_wait,
            lock_held: done.lock_held,
            blocked_longest: self.longest,
            blocked_total: self.total,
            looked_up: done.looked_up,
        }
    }
}

async fn attempt<F: Finish>(
    opts: &Opts,
    plan: &SwapPlan,
    finish: &mut F,
    blocked: &mut Blocked,
) -> Result<Done, CutoverError> {
    let result = match quiesce(plan, finish).await {
        Ok(()) => locked(opts, plan, finish, blocked).await,
        Err(error) => Err(error),
    };
    match &result {
        // The workers must not write to tables that may have changed places,
        // nor beside a session that may still apply.
        Ok(_)
        | Err(
            CutoverError::Ambiguous { .. }
            | CutoverError::SessionStuck { .. }
            | CutoverError::EarlierStuck { .. }
            | CutoverError::NotDetached { .. }
            | CutoverError::Incomplete { .. },
        ) => {}
        Err(_) => finish.release().await,
    }
    result
}

async fn quiesce<F: Finish>(plan: &SwapPlan, finish: &mut F) -> Result<(), CutoverError> {
    match timeout(plan.quiesce_wait, finish.quiesce()).await {
        Ok(rest) => rest.map_err(finish_error::<F>),
        Err(_) => Err(CutoverError::QuiesceTimeout {
            waited: plan.quiesce_wait,
        }),
    }
}

/// One session's life, from the lock to the unlock.
async fn locked<F: Finish>(
    opts: &Opts,
    plan: &SwapPlan,
    finish: &mut F,
    blocked: &mut Blocked,
) -> Result<Done, CutoverError> {
    let mut session = Session::open(opts, plan).await?;
    tables::expect_before(&mut session.conn, plan).await?;
    let mut observer = connect(opts).await?;
    expect_no_backup(&mut observer, &session).await?;
    let requested = Instant::now();
    let result = match swap_on(&mut session, observer, opts, plan, finish).await {
        Ok(renamed) => {
            let_go(session, opts).await;
            Ok(renamed)
        }
        Err(error) => Err(undo(session, opts, plan, error).await),
    };
    let ended = Instant::now();
    blocked.add(ended.duration_since(requested));
    result.map(|(granted, looked_up)| Done {
        lock_wait: granted.granted.duration_since(granted.requested),
        lock_held: ended.duration_since(granted.granted),
        looked_up,
    })
}

async fn swap_on<F: Finish>(
    session: &mut Session,
    observer: Conn,
    opts: &Opts,
    plan: &SwapPlan,
    finish: &mut F,
) -> Result<(Granted, bool), CutoverError> {
    let granted = lock(session, observer, plan).await?;
    let until = granted.granted.checked_add(plan.lock_hold);
    let deadline = until.unwrap_or(granted.granted);
    let evidence = match timeout_at(deadline, under_lock(session, plan, finish)).await {
        Ok(evidence) => evidence?,
        Err(_) => {
            return Err(CutoverError::HoldExceeded {
                waited: granted.granted.elapsed(),
            });
        }
    };
    let looked_up = rename(evidence, session, opts, plan).await?;
    Ok((granted, looked_up))
}

/// Everything between the lock and the rename.
async fn under_lock<F: Finish>(
    session: &mut Session,
    plan: &SwapPlan,
    finish: &mut F,
) -> Result<Verified, CutoverError> {
    let conn = &mut session.conn;
    carry::expect_as_planned(conn, plan).await?;
    let through = tables::position(conn, &session.version).await?;
    let evidence = finish.finish(conn, &through).await;
    let evidence = evidence.map_err(finish_error::<F>)?;
    let probe = plan.lock_probe().unwrap_or_default();
    match conn.query_drop(probe).await {
        Err(mysql_async::Error::Server(error)) if error.code == ER_TABLE_NOT_LOCKED => {}
        Ok(()) => return Err(CutoverError::LockLost),
        Err(error) => {
            return Err(CutoverError::statement("see that the lock still holds")(
                error,
            ));
        }
    }
    if plan.carries() {
        carry::attach(conn, plan).await?;
    }
    Ok(evidence)
}

/// Lets the lock go after a rename: by word, or else by ending the session.
pub(crate) async fn let_go(mut session: Session, opts: &Opts) {
    let Err(error) = session.let_go().await else {
        return close(session.conn).await;
    };
    tracing::debug!(%error, "ending the locking session, it doesn't answer");
    let ended = session.token.end(opts, END_LIMIT, error).await;
    if let Err(error) = ended {
        tracing::error!(%error, "tables swapped, but the lock may still be held");
    }
}

/// Undoes what an attempt did to the shadows and lets the lock go, after a
/// failure; returns the error to report.
async fn undo(
    mut session: Session,
    opts: &Opts,
    plan: &SwapPlan,
    error: CutoverError,
) -> CutoverError {
    let in_step = match &error {
        // The rename has ended the session, or found it gone.
        CutoverError::Ambiguous { .. } | CutoverError::Incomplete { .. } => return error,
        // A statement may still run: the connection can't be talked to.
        CutoverError::LockTimeout { .. }
        | CutoverError::HoldExceeded { .. }
        | CutoverError::Unanswered { .. } => false,
        _ => true,
    };
    if in_step && session.unlock(plan).await.is_ok() {
        close(session.conn).await;
        return error;
    }
    match session.token.end(opts, END_LIMIT, error).await {
        Ok(error) if plan.carries() => match carry::detach_again(opts, plan).await {
            Ok(()) => error,
            Err(left) => left,
        },
        Ok(error) => error,
        Err(stuck) => stuck,
    }
}

fn finish_error<F: Finish>(error: F::Error) -> CutoverError {
    let remedy: Remedy = F::remedy(&error);
    CutoverError::Finish {
        remedy,
        source: Box::new(error),
    }
}

/// A killed session rolls back first; a few hundred changes take no longer.
pub(crate) const END_LIMIT: Duration = Duration::from_secs(60);
const ER_TABLE_NOT_LOCKED: u16 = 1100;
