//! What a move does in its own way: rows go to another server, and the switch
//! is made by whoever sends the applications there.

use std::{sync::Arc, time::Duration};

use oxferry_cutover::{AfterSwitch, Leftover, LockedSource, SwitchError, SwitchFinish, switch};
use oxferry_schema::{Remedy, TableName};
use oxferry_state::{Phase, TargetServer};
use oxferry_verifier::Verified;

use super::{Names, clean_up, job::Move, primary, reverse, sink::MoveSink, switching, watch};
use crate::{
    failure::Failure,
    job::{Kind, Prepared, PreparedTable, Script, TakenOver},
};

/// Changes that may be left to apply when the source is shut.
const CHANGES_LEFT_MAX: u64 = 500;

/// How long it is waited for so few to be left; a busy source may never get
/// there, and a few more while it is shut are better than no switch.
const QUIET_MAX: Duration = Duration::from_secs(5);

/// How often a pause looks whether the job ends.
const LOOK_EVERY: Duration = Duration::from_millis(200);

impl Kind for Move {
    type Sink = MoveSink;

    fn sink(&self, prepared: &Prepared, table: &PreparedTable) -> Arc<MoveSink> {
        let connections = (Arc::clone(&prepared.source), Arc::clone(&prepared.target));
        let settings = self.transfer.clone();
        Arc::new(MoveSink::new(connections, table.plan.clone(), settings))
    }

    async fn watch(&self, script: &Script<'_, Self>) -> Failure {
        tokio::select! {
            failure = watch::run(script) => failure,
            failure = primary::watch::run(script) => failure,
        }
    }

    async fn cut_over(&self, script: &Script<'_, Self>) -> Result<TakenOver, Failure> {
        let mut plan = switching::plan(&self.args.switch, &self.core.sources())?;
        if self.args.switch.reverse_for.is_some() {
            plan = plan.with_after(AfterSwitch::AdminsWrite);
        }
        let (source, target) = (self.core.written(), &self.core.target);
        let mut takeover = Takeover {
            script,
            completed: false,
            shut: Leftover::default(),
        };
        let report = switch(
            &source.opts("switch"),
            &target.opts("switch"),
            &plan,
            &mut takeover,
        )
        .await?;
        if let Some(remains) = report.remains {
            tracing::info!(remains, "left on the source as asked");
        }
        Ok(TakenOver {
            attempts: report.attempts,
            lock_wait: report.lock_wait,
            blocked: report.blocked_longest,
            afterwards: afterwards(report.afterwards),
        })
    }

    fn next_phase(&self) -> Phase {
        match self.args.switch.reverse_for {
            Some(_) => Phase::Reverse,
            None => Phase::Cleanup,
        }
    }

    async fn clean_up(&self, script: &Script<'_, Self>) -> Result<(), Failure> {
        if self.args.switch.reverse_for.is_some() {
            // The way back needs all of it.
            return Ok(());
        }
        let names = Names::of_job(&self.core);
        let held = (&script.lock, &self.core.target);
        clean_up(&self.sites(), &names, script.saver, held).await
    }
}

/// What went wrong after the switch, as one failure; the first decides the exit
/// code.
pub(super) fn afterwards(errors: Vec<SwitchError>) -> Option<Failure> {
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

/// A move that takes over.
#[derive(Debug)]
struct Takeover<'a> {
    script: &'a Script<'a, Move>,
    /// Whether the targets may have what the job's own writes would set off.
    completed: bool,
    /// What is done to the source in this attempt.
    shut: Leftover,
}

impl Takeover<'_> {
    async fn come_to_rest(&self) -> Result<(), Failure> {
        let pair = self.script.kind.pair();
        if let Some(pair) = &pair {
            // What a failed attempt has undone on the primary comes here later.
            pair.come_close().await?;
        }
        come_to_rest(self.script).await?;
        self.script.kind.check_unchanged().await?;
        match &pair {
            Some(pair) => pair.come_close().await,
            None => Ok(()),
        }
    }

    async fn bring_over_the_rest(&mut self, locked: &LockedSource) -> Result<Verified, Failure> {
        let Script {
            handle,
            comparison,
            kind,
            ..
        } = self.script;
        let through = match kind.pair() {
            None => locked.through.clone(),
            Some(pair) => {
                pair.follow(locked).await?;
                let mut source = kind.core.source.connect("position").await?;
                kind.core.source.position(&mut source).await?.file
            }
        };
        self.script.at_rest.set(true);
        let name_of = |table: &TableName| locked.name_of(table).clone();
        kind.read_from(self.script, &name_of);
        handle.reach(through).await?;
        handle.settle().await?;
        let evidence = comparison.finish_at_rest(self.script, name_of).await?;
        handle.hold().await?;
        self.completed = true;
        kind.bring_last_rows(self.script, locked).await?;
        kind.complete_targets(locked).await?;
        let mut conn = kind.core.target.connect("watch").await?;
        let written = kind.core.target.position(&mut conn).await?;
        kind.guard.finish(&written.file).await?;
        reverse::note(self.script, locked, self.shut, (&mut conn, written)).await?;
        // Without it another job may have written to the target.
        self.script.lock.check(&mut conn).await?;
        Ok(evidence)
    }

    /// Takes off what the last attempt has completed, and lets changes be
    /// applied again.
    async fn undo(&mut self) -> Result<(), Failure> {
        if !self.completed {
            return Ok(());
        }
        let kind = self.script.kind;
        let mut target = kind.core.target.connect("undo").await?;
        kind.detach(&mut target).await?;
        kind.remove_last_rows(self.script).await?;
        self.completed = false;
        Ok(self.script.handle.release().await?)
    }
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

/// Waits until no further attempt is wanted.
pub(super) async fn last_attempt<K: Kind>(script: &Script<'_, K>) {
    while !script
        .no_more_attempts
        .load(std::sync::atomic::Ordering::Relaxed)
    {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Waits for the next attempt, or until none is wanted.
pub(super) async fn pause<K: Kind>(script: &Script<'_, K>, wait: Duration) {
    tokio::select! {
        () = tokio::time::sleep(wait) => {}
        _ = script.interrupt.wanted() => {}
        () = last_attempt(script) => {}
    }
}

impl SwitchFinish for Takeover<'_> {
    type Error = Failure;

    fn remedy(error: &Failure) -> Remedy {
        error.remedy()
    }

    fn interrupted(&self) -> impl Future<Output = ()> + Send + 'static {
        let interrupt = self.script.interrupt.clone();
        async move {
            let _wanted = interrupt.wanted().await;
        }
    }

    async fn quiesce(&mut self) -> Result<(), Failure> {
        self.undo().await?;
        tokio::select! {
            biased;
            () = last_attempt(self.script) => {
                let why = anyhow::anyhow!("the job ends");
                Err(Failure::new(Remedy::Interrupted, why))
            }
            quiet = self.come_to_rest() => quiet,
        }
    }

    async fn remember(&mut self, leftover: Option<&Leftover>) -> Result<(), Failure> {
        self.shut = leftover.copied().unwrap_or_default();
        let lock = leftover.map(ToString::to_string);
        let note = |target: &mut TargetServer| target.source_lock = lock;
        self.script.saver.save_target(note).await
    }

    async fn taken_over(&mut self) -> Result<(), Failure> {
        let note = |target: &mut TargetServer| {
            target.source_lock = None;
            target.switched = true;
        };
        self.script.saver.save_target(note).await
    }

    async fn finish(&mut self, locked: &LockedSource) -> Result<Verified, Failure> {
        self.bring_over_the_rest(locked).await
    }

    async fn release(&mut self) {
        self.script.kind.read_from(self.script, &TableName::clone);
        self.script.at_rest.set(false);
        self.script.kind.guard.resume();
        if let Err(failure) = self.undo().await {
            // Nothing is applied until it succeeds: the next attempt begins with it.
            tracing::warn!("the target is not as it was: {}", failure.line());
        }
    }

    async fn pause(&mut self, wait: Duration) {
        pause(self.script, wait).await;
    }
}
