//! The switch: how a move takes over, across two servers.

mod acquire;
mod checks;
mod course;
mod error;
mod finish;
mod leftover;
mod names;
mod plan;
mod report;
mod rescue;
mod run;
mod shut;
mod source;
mod told;
mod undo;

use mysql_async::Opts;

pub use self::{
    course::SwitchStep,
    error::{Aftermath, SwitchError},
    finish::{Claim, LockedSource, SwitchFinish},
    leftover::{Leftover, LeftoverError, ReadOnly},
    names::{SourceSeen, is_locking_rename},
    plan::{AfterSwitch, SourceLock, SwitchPlan},
    report::SwitchReport,
    shut::{open_source, shut_source},
    undo::undo_leftover,
};
use self::{
    course::{Course, Ended, Next, Verdict},
    run::Run,
};
use crate::HookName;

/// Lets the target's tables take over from the source's, all at once, with no
/// write lost.
///
/// Each attempt: `finish.quiesce()`; checks; `finish.remember()`; hook
/// `lock-source`; the server's own lock; `finish.finish()` up to the position
/// read under it; a look whether the lock still holds; hook `switched`; another
/// look; the lock is let go, or kept, as planned; hook `unlock-source`;
/// `finish.taken_over()`. What fails before `switched` is called, or makes that
/// hook say no, has everything undone in reverse, then `finish.release()`; it is
/// tried again after `finish.pause()`, as long as [`Backoff`](crate::Backoff)
/// says, if [`SwitchError::is_passing`]. A hook that has failed as often as it may
/// is not.
///
/// While the source is locked, the lock is looked at every second; one that is
/// gone ends the attempt at once.
///
/// Needs on the source, by the lock: SYSTEM_VARIABLES_ADMIN for `ReadOnly`, and
/// XA_RECOVER_ADMIN to see prepared transactions; LOCK TABLES and SELECT; ALTER,
/// DROP, CREATE and INSERT to rename. Besides REPLICATION CLIENT; to name who is
/// in the way, SELECT on `performance_schema` and PROCESS.
///
/// # Errors
///
/// [`SwitchError::GivenUp`]: the target has not taken over; it says what was done
/// to the source, what was undone and what wasn't. [`SwitchError::Ambiguous`]: the
/// hook `switched` may have had its effect although it failed, or the lock was
/// gone while it ran; the source is left as it was, so that no write is lost
/// on it, except that `LockTables` ends with its session.
///
/// # Cancel safety
///
/// Dropped before hook `switched` is called, the source is unlocked before the
/// drop returns, which blocks its thread for as long as that takes: two claims, the
/// undoing, and the calls of hook `unlock-source`. `release` and `remember` are not
/// called. Dropped while that hook runs, the source is left as
/// it is. Better let [`SwitchFinish::interrupted`] end.
pub async fn switch<F: SwitchFinish>(
    source: &Opts,
    target: &Opts,
    plan: &SwitchPlan,
    finish: &mut F,
) -> Result<SwitchReport, SwitchError> {
    plan.check()?;
    let course = Course::new(plan.shape(), plan.attempts_max);
    let mut run = Run::new((source, target), plan, finish, course);
    loop {
        let step = match run.course.next() {
            Next::Step(step) => step,
            Next::End(verdict) => return end(run, verdict),
        };
        let ended = match run.step(step).await {
            Ok(()) => Ended::Done,
            Err(failed) => {
                let ended = Ended::Failed {
                    passing: failed.error.is_passing(),
                    maybe: failed.maybe,
                };
                run.note_failure(step, failed.error);
                ended
            }
        };
        run.note(step, ended);
        run.course.handle(ended, fastrand::f64());
    }
}

fn end<F: SwitchFinish>(
    mut run: Run<'_, F>,
    verdict: Verdict,
) -> Result<SwitchReport, SwitchError> {
    let attempts = run.course.attempt();
    match verdict {
        Verdict::Switched => Ok(run.report(attempts)),
        Verdict::Failed => Err(run.given_up(attempts.saturating_sub(1).max(1))),
        Verdict::Unknown => Err(run.ambiguous()),
    }
}
