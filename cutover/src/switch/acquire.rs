//! Asking the source's server for the lock, and watching who is in its way.

use std::time::Duration;

use mysql_async::{Conn, prelude::Queryable};
use tokio::time::{Instant, sleep, timeout};

use super::{SwitchPlan, source::Request};
use crate::{
    Blocker, CutoverError,
    blocker::holders,
    lock::{GRACE, LOOK_EVERY, is_lock_wait},
    session::{Session, answered, kill},
};

/// Runs the request's statement, waiting as long as the plan allows; returns how
/// long it took.
///
/// # Errors
///
/// [`CutoverError::LockTimeout`]; the session may still be waiting then, and must
/// be ended.
pub(super) async fn acquire(
    session: &mut Session,
    observer: Conn,
    request: &Request,
    plan: &SwitchPlan,
) -> Result<Duration, CutoverError> {
    let requested = Instant::now();
    let Some(statement) = &request.statement else {
        return Ok(Duration::ZERO);
    };
    let mut blockers = Vec::new();
    let own = session.token.id;
    let asking = session.conn.query_drop(statement);
    let answer = tokio::select! {
        biased;
        answer = asking => Some(answer),
        () = watch(observer, request, plan, own, &mut blockers) => None,
    };
    let waited = requested.elapsed();
    match answer {
        Some(Ok(())) => Ok(waited),
        Some(Err(mysql_async::Error::Server(error))) if is_lock_wait(error.code) => {
            Err(CutoverError::LockTimeout { waited, blockers })
        }
        Some(Err(error)) => Err(CutoverError::statement("lock the source")(error)),
        None => Err(CutoverError::LockTimeout { waited, blockers }),
    }
}

/// Notes who is in the way, ends whom the plan says, and returns when the lock
/// has been waited for long enough.
async fn watch(
    mut observer: Conn,
    request: &Request,
    plan: &SwitchPlan,
    own: u32,
    seen: &mut Vec<Blocker>,
) {
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
        let looking = look(&mut observer, request, plan, own, began.elapsed());
        match timeout(left, looking).await {
            Ok(Ok(found)) => *seen = found,
            Ok(Err(error)) => {
                tracing::warn!(%error, "who holds up the source's lock can't be seen");
                can_look = false;
            }
            Err(_) => can_look = false,
        }
    }
}

async fn look(
    observer: &mut Conn,
    request: &Request,
    plan: &SwitchPlan,
    own: u32,
    waited: Duration,
) -> Result<Vec<Blocker>, CutoverError> {
    let looking = holders(observer, own, &request.held, request.values.clone());
    let found = answered("look who holds up the lock", GRACE, looking).await?;
    let kills = plan.kill.iter();
    for victim in kills.flat_map(|kill| kill.victims(waited, &found)) {
        match kill(observer, victim.id).await {
            Ok(()) => tracing::warn!(%victim, "ended: it held up the source's lock"),
            Err(error) => tracing::warn!(%victim, %error, "not ended"),
        }
    }
    Ok(found)
}
