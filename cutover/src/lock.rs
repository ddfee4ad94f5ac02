//! Asking for the table lock, and watching who is in its way.

use std::time::Duration;

use mysql_async::{Conn, prelude::Queryable};
use tokio::time::{Instant, sleep};

use crate::{
    Blocker, CutoverError, SwapPlan,
    blocker::{backups, blockers},
    session::{Session, answered, kill},
};

/// When the lock was asked for and granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) requested: Instant,
    pub(crate) granted: Instant,
}

/// Locks the plan's tables on `session`, waiting as long as the plan allows.
///
/// The server counts its wait per table; the whole is limited here. Meanwhile
/// `observer` looks who is in the way.
///
/// # Errors
///
/// [`CutoverError::LockTimeout`]; the session may still be waiting then, and
/// must be ended.
pub(crate) async fn lock(
    session: &mut Session,
    observer: Conn,
    plan: &SwapPlan,
) -> Result<Granted, CutoverError> {
    let mut seen = Vec::new();
    let own = session.token.id;
    let requested = Instant::now();
    let locking = session.conn.query_drop(plan.lock_statement());
    let answer = tokio::select! {
        biased;
        answer = locking => Some(answer),
        () = watch(observer, plan, own, &mut seen) => None,
    };
    let waited = requested.elapsed();
    match answer {
        Some(Ok(())) => Ok(Granted {
            requested,
            granted: Instant::now(),
        }),
        Some(Err(mysql_async::Error::Server(error))) if is_lock_wait(error.code) => {
            Err(CutoverError::LockTimeout {
                waited,
                blockers: seen,
            })
        }
        Some(Err(error)) => Err(CutoverError::statement("lock the tables")(error)),
        None => Err(CutoverError::LockTimeout {
            waited,
            blockers: seen,
        }),
    }
}

/// Refuses to lock while a backup would stop the rename anyway.
///
/// One that begins later stops it for the lock wait; then the attempt fails.
pub(crate) async fn expect_no_backup(
    observer: &mut Conn,
    session: &Session,
) -> Result<(), CutoverError> {
    let looking = backups(observer, session.token.id);
    match answered("look for a running backup", GRACE, looking).await {
        Ok(none) if none.is_empty() => Ok(()),
        Ok(found) => Err(CutoverError::LockTimeout {
            waited: Duration::ZERO,
            blockers: found,
        }),
        Err(CutoverError::Statement {
            source: mysql_async::Error::Server(error),
            ..
        }) => {
            tracing::debug!(%error, "whether a backup runs can't be seen");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Notes who is in the way, ends whom the plan says, and returns when the lock
/// has been waited for long enough.
async fn watch(mut observer: Conn, plan: &SwapPlan, own: u32, seen: &mut Vec<Blocker>) {
    let began = Instant::now();
    // Longer than the server's own limit, so that its answer comes first.
    let limit = Duration::from_secs(plan.lock_wait_seconds()).saturating_add(GRACE);
    let mut can_look = true;
    while let Some(left) = limit.checked_sub(began.elapsed()).filter(|d| !d.is_zero()) {
        let pause = if can_look { LOOK_EVERY } else { left };
        sleep(pause.min(left)).await;
        if !can_look {
            continue;
        }
        let looked = look(&mut observer, plan, own, began.elapsed());
        match tokio::time::timeout(left, looked).await {
            Ok(Ok(found)) => *seen = found,
            Ok(Err(error)) => {
                tracing::warn!(%error, "who holds up the cutover lock can't be seen");
                can_look = false;
            }
            Err(_) => can_look = false,
        }
    }
}

/// Returns who is in the way, and ends whom the plan says after `waited`.
pub(crate) async fn look(
    observer: &mut Conn,
    plan: &SwapPlan,
    own: u32,
    waited: Duration,
) -> Result<Vec<Blocker>, CutoverError> {
    let looking = blockers(observer, plan, own);
    let found = answered("look who holds up the lock", GRACE, looking).await?;
    let victims = plan
        .kill
        .iter()
        .flat_map(|kill| kill.victims(waited, &found));
    for victim in victims {
        match kill(observer, victim.id).await {
            Ok(()) => tracing::warn!(%victim, "ended: it held up the cutover lock"),
            Err(error) => tracing::warn!(%victim, %error, "not ended"),
        }
    }
    Ok(found)
}

/// Lock wait timeout, deadlock. Source: MySQL 9.7 Error Reference.
pub(crate) const fn is_lock_wait(code: u16) -> bool {
    matches!(code, 1205 | 1213)
}

pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(250);
pub(crate) const GRACE: Duration = Duration::from_secs(1);
