//! The way back: after the switch, changes of the target flow into the source's
//! tables, so that the move can be taken back without losing a write.
//!
//! It is a job of its own, run by the same engine with the sides exchanged: all
//! ranges are copied already. Its checkpoint goes on from the move's, but is kept
//! on the source, which is the side that is written to: at the moment that counts
//! the target is shut. The older copy on the target is the first to be dropped.

mod back;
mod check;
mod noted;
mod prepare;
mod takeback;
mod way;

use std::time::{Duration, Instant, SystemTime};

use oxferry_schema::Remedy;
use oxferry_state::{Checkpoint, Phase};

use self::{back::Back, way::Way};
use super::{Locks, Sites, earlier, wanted};
use crate::{
    args::MoveArgs,
    control::{self, Controls},
    failure::Failure,
    job::{self as course, Held, Interrupt, Progress, Saver},
    log::Log,
};

pub(super) use self::{check::check, noted::note};

/// Goes on after a switch that was made with a way back: keeps it open, takes the
/// move back where that is wanted, and cleans up.
///
/// # Errors
///
/// A failure that says why the way is closed; the target is untouched by it.
pub(super) async fn run(
    args: &MoveArgs,
    sites: &Sites,
    checkpoint: Checkpoint,
    (log, interrupt): (&Log, &Interrupt),
) -> Result<(), Failure> {
    let seen = Way::of(args, sites, &checkpoint)?;
    let (sources, targets) = (&seen.sources, &seen.targets);
    let locks = Locks::take((&sites.source, sources), (&sites.target, targets)).await?;
    let (way, checkpoint) = match under_locks(args, sites, &checkpoint).await {
        Ok(now) => now,
        Err(failure) => {
            locks.release().await;
            return Err(failure);
        }
    };
    let saver = way.saver(checkpoint.clone());
    let outcome = locked(&way, checkpoint, &saver, (log, interrupt, &locks)).await;
    locks.release().await;
    course::ended(&args.run, &way.job, &saver, outcome).await
}

/// Reads the checkpoint anew: until the locks were taken another run may have taken
/// the move back, or given the way up.
async fn under_locks(
    args: &MoveArgs,
    sites: &Sites,
    seen: &Checkpoint,
) -> Result<(Way, Checkpoint), Failure> {
    let now = earlier::to_take_back(args, &wanted(&args.select)?, sites).await?;
    let Some(now) = now.filter(|now| now.job == seen.job) else {
        let why = anyhow::anyhow!("another run has ended the way back meanwhile");
        return Err(Failure::new(Remedy::Retry, why));
    };
    Ok((Way::of(args, sites, &now)?, now))
}

async fn locked(
    way: &Way,
    checkpoint: Checkpoint,
    saver: &Saver,
    (log, interrupt, locks): (&Log, &Interrupt, &Locks),
) -> Result<(), Failure> {
    let left = way.settle(&checkpoint).await?;
    let progress = Progress::new(log, 0);
    let Some(left) = left else {
        progress.enter(Phase::Cleanup);
        return way.clean_up(saver, &locks.source.holder()).await;
    };
    way.open(saver).await?;
    let prepared = prepare::prepare(way, &checkpoint);
    let (core, prepared) = tokio::select! {
        prepared = prepared => prepared?,
        interrupted = interrupt.wanted() => return Err(interrupted),
    };
    let closes = Instant::now() + left;
    progress.closes_at(closes);
    say_open(way, left);
    let controls = Controls::new(interrupt.clone()).of_the_way_back();
    let settings = &core.settings.run;
    let control = control::listen(settings.control.as_deref(), &core.identity.name).await?;
    let back = Back::new(way.clone(), core, locks, closes);
    let held = Held {
        written: &locks.source,
        other: Some((&locks.target, "target")),
    };
    let rest = (held, &progress, &controls);
    let running = course::run((&back.core, &back), prepared, saver, rest);
    let outcome = tokio::select! {
        outcome = running => outcome,
        never = control::serve(control.as_ref(), &controls) => match never {},
    };
    progress.finish();
    outcome.map_err(closed)
}

fn say_open(way: &Way, left: Duration) {
    tracing::info!(
        closes_in_s = left.as_secs(),
        "the move can be taken back: by `oxferry ctl cutover --reverse`, or CREATE TABLE {} (a INT) on the target",
        way.request
    );
}

/// Says what becomes of the way back when it ends with a failure.
fn closed(failure: Failure) -> Failure {
    match failure.remedy() {
        Remedy::Interrupted | Remedy::Retry | Remedy::Unreachable | Remedy::Ambiguous => {
            failure.context("the way back is interrupted")
        }
        _ => failure.context(
            "the move can't be taken back any more; the target is untouched and goes on, and the same command \
             without --reverse-for cleans up",
        ),
    }
}

/// Returns how much of the time is left, counted from `since`, in RFC 3339.
fn time_left(since: &str, reverse_for: Duration) -> Result<Option<Duration>, Failure> {
    let since = humantime::parse_rfc3339(since).map_err(|error| {
        Failure::new(Remedy::State, error).context("reading when the switch was made")
    })?;
    // A clock that was set back doesn't make it longer than it was meant to be.
    let passed = SystemTime::now().duration_since(since).unwrap_or_default();
    Ok(reverse_for
        .checked_sub(passed)
        .filter(|left| !left.is_zero()))
}
