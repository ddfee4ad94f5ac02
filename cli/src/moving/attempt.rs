//! An attempt at a switch, there or back: what both have in common.

use std::{sync::atomic::Ordering, time::Duration};

use oxferry_binlog::FilePosition;
use oxferry_cutover::{Claim, Leftover, LockedSource, SwitchError, SwitchFinish, SwitchReport};
use oxferry_schema::{Remedy, TableName};
use oxferry_state::Checkpoint;
use oxferry_verifier::Verified;

use crate::{
    args::LockSource,
    failure::Failure,
    job::{Holder, Kind, Script, Site, TakenOver},
};

/// Changes that may be left to apply when the source is shut.
const CHANGES_LEFT_MAX: u64 = 500;

/// How long it is waited for so few to be left; a busy source may never get
/// there, and a few more while it is shut are better than no switch.
const QUIET_MAX: Duration = Duration::from_secs(5);

/// How long it may take, after an attempt, to undo what it has completed.
const UNDO_MAX: Duration = Duration::from_secs(60);

/// How often a pause looks whether the job ends.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What a switch there and one back do each in its own way; see
/// [`SwitchFinish`], of whose steps these are the parts.
pub(super) trait Turn: Send + Sync {
    /// The job that is switched.
    type Kind: Kind;

    /// Returns the job's parts.
    fn script(&self) -> &Script<'_, Self::Kind>;

    /// Brings the copy so far that little is left. Holds nothing: it can be
    /// dropped at any time.
    fn come_to_rest(&self) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Notes what must be undone if this run dies.
    fn note_leftover(
        &mut self,
        leftover: Option<&Leftover>,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Notes that the switch is made, and nothing must be undone any more.
    fn note_taken_over(&mut self) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Brings over what is left, compares it, and completes what takes over.
    fn bring_the_rest(
        &mut self,
        locked: &LockedSource,
    ) -> impl Future<Output = Result<Verified, Failure>> + Send;

    /// Returns the job's locks, each with its server.
    fn locks(&self) -> &[(Site, Holder)];

    /// Returns whether a checkpoint tells of something to undo, and of no switch.
    fn is_noted(checkpoint: &Checkpoint) -> bool;

    /// Says that the source is open again, after an attempt that failed.
    fn reopen(&self);

    /// Undoes what the last attempt has completed, and lets changes be applied
    /// again.
    fn undo(&mut self) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// A [`Turn`], as [`switch`](oxferry_cutover::switch) takes it.
#[derive(Debug)]
pub(super) struct Attempt<T>(pub(super) T);

impl<T: Turn> Attempt<T> {
    /// Waits until no further attempt is wanted.
    async fn last_attempt(&self) {
        while !self.0.script().no_more_attempts.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl<T: Turn> SwitchFinish for Attempt<T> {
    type Error = Failure;

    fn remedy(error: &Failure) -> Remedy {
        error.remedy()
    }

    fn interrupted(&self) -> impl Future<Output = ()> + Send + 'static {
        let interrupt = self.0.script().interrupt.clone();
        async move {
            let _wanted = interrupt.wanted().await;
        }
    }

    async fn quiesce(&mut self) -> Result<(), Failure> {
        self.0.undo().await?;
        tokio::select! {
            biased;
            () = self.last_attempt() => {
                let why = anyhow::anyhow!("the job ends");
                Err(Failure::new(Remedy::Interrupted, why))
            }
            quiet = self.0.come_to_rest() => quiet,
        }
    }

    async fn remember(&mut self, leftover: Option<&Leftover>) -> Result<(), Failure> {
        let announced = leftover.is_some_and(|leftover| leftover.announced);
        self.0.script().interrupt.doubt(announced);
        self.0.note_leftover(leftover).await
    }

    async fn taken_over(&mut self) -> Result<(), Failure> {
        self.0.note_taken_over().await?;
        self.0.script().interrupt.doubt(false);
        Ok(())
    }

    async fn finish(&mut self, locked: &LockedSource) -> Result<Verified, Failure> {
        self.0.bring_the_rest(locked).await
    }

    fn claim(&self) -> impl Future<Output = Result<Claim, Failure>> + Send + 'static {
        let place = self.0.script().saver.place();
        let locks = self.0.locks().to_vec();
        async move {
            if holds_one(&locks).await {
                return Ok(Claim::default());
            }
            // Either nobody has come since, or whoever came has ended.
            let mut taken = Vec::new();
            for (site, holder) in &locks {
                taken.push(holder.take_again(site.connect("claim").await?).await?);
            }
            match place.open().load().await? {
                Some(checkpoint) if T::is_noted(&checkpoint) => Ok(Claim::by(taken)),
                _ => Err(Failure::new(
                    Remedy::Ambiguous,
                    anyhow::anyhow!("another run has ended what this one began"),
                )),
            }
        }
    }

    async fn release(&mut self) {
        self.0.reopen();
        // Nothing is applied until it succeeds: the next attempt begins with it.
        let why = match tokio::time::timeout(UNDO_MAX, self.0.undo()).await {
            Ok(Ok(())) => return,
            Ok(Err(failure)) => failure.line(),
            Err(_) => format!("no answer for {} s", UNDO_MAX.as_secs()),
        };
        tracing::warn!("what the attempt had completed is still there: {why}");
    }

    async fn pause(&mut self, wait: Duration) {
        let interrupt = self.0.script().interrupt;
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = interrupt.wanted() => {}
            () = self.last_attempt() => {}
        }
    }
}

/// Returns whether one of the job's locks is still its own: another run needs
/// them all. A server that is gone says nothing of the other one.
async fn holds_one(locks: &[(Site, Holder)]) -> bool {
    for (site, holder) in locks {
        if let Ok(mut conn) = site.connect("claim").await
            && holder.check(&mut conn).await.is_ok()
        {
            return true;
        }
    }
    false
}

/// Compares what is to be compared again, and waits until little is left to
/// apply. Holds nothing: it can be dropped at any time.
pub(super) async fn come_to_rest<K: Kind>(script: &Script<'_, K>) -> Result<(), Failure> {
    let Script {
        comparison, handle, ..
    } = script;
    comparison.catch_up().await?;
    let few = handle.waiting_at_most(CHANGES_LEFT_MAX);
    match tokio::time::timeout(QUIET_MAX, few).await {
        Ok(reached) => Ok(reached?),
        Err(_) => {
            tracing::debug!("changes come as fast as they are applied");
            Ok(())
        }
    }
}

/// Returns whether what is noted of a server that was shut is to be undone: not
/// once the applications may have been sent away.
pub(super) fn may_be_undone(noted: Option<&String>) -> bool {
    let leftover = noted.and_then(|noted| noted.parse::<Leftover>().ok());
    leftover.is_some_and(|leftover| !leftover.announced)
}

/// Says what the switch took, and what remains of it on the server that it
/// shut.
pub(super) fn taken_over(report: SwitchReport) -> TakenOver {
    if let Some(remains) = report.remains {
        tracing::info!(remains, "left as asked on the server that was shut");
    }
    TakenOver {
        attempts: report.attempts,
        lock_wait: report.lock_wait,
        blocked: report.blocked_longest,
        afterwards: afterwards(report.afterwards),
    }
}

/// What went wrong after the switch, as one failure; the first decides the exit
/// code.
fn afterwards(errors: Vec<SwitchError>) -> Option<Failure> {
    let failures = errors.into_iter().map(Failure::from);
    failures
        .reduce(|first, next| {
            tracing::error!("after the switch: {}", next.line());
            first
        })
        .map(|first| {
            let context = "the target has taken over, but not everything is as it should be";
            first.context(context).without_advice()
        })
}

/// Applies what is left up to `through`, and compares it, while the source is shut
/// as `lock` says.
pub(super) async fn apply_and_compare<K: Kind>(
    script: &Script<'_, K>,
    (through, locked): (FilePosition, &LockedSource),
    lock: Option<LockSource>,
) -> Result<Verified, Failure> {
    if matches!(lock, None | Some(LockSource::None | LockSource::Hook)) {
        // No lock of the server's has waited for commits that the log shows and no
        // snapshot does yet.
        script.reach(through.clone()).await?;
        script.handle.settle().await?;
    }
    script.at_rest.set(true);
    script.reach(through).await?;
    script.handle.settle().await?;
    let name_of = |table: &TableName| locked.name_of(table).clone();
    script.comparison.finish_at_rest(script, name_of).await
}
