//! The switch back: the target is shut, the rest flows into the source, and the
//! source is opened.

use std::time::Duration;

use oxferry_cutover::{Leftover, LockedSource, SwitchFinish};
use oxferry_schema::{Remedy, TableName};
use oxferry_state::Reverse;
use oxferry_verifier::Verified;

use super::back::Back;
use crate::{
    failure::Failure,
    job::Script,
    moving::{
        complete::raise_auto_increments,
        takeover::{come_to_rest, last_attempt, pause},
    },
};

/// A move that is taken back.
#[derive(Debug)]
pub(super) struct TakeBack<'a> {
    script: &'a Script<'a, Back>,
    /// Whether the source may be open.
    opened: bool,
}

impl<'a> TakeBack<'a> {
    pub(super) const fn new(script: &'a Script<'a, Back>) -> Self {
        Self {
            script,
            opened: false,
        }
    }

    async fn bring_back_the_rest(&mut self, locked: &LockedSource) -> Result<Verified, Failure> {
        let Script {
            handle,
            comparison,
            kind,
            ..
        } = self.script;
        self.script.at_rest.set(true);
        handle.reach(locked.through.clone()).await?;
        handle.settle().await?;
        let name_of = |table: &TableName| locked.name_of(table).clone();
        let evidence = comparison.finish_at_rest(self.script, name_of).await?;
        handle.hold().await?;
        self.opened = true;
        let mut conn = kind.core.target.connect("auto-increment").await?;
        raise_auto_increments(&kind.core, &mut conn, locked).await?;
        let written = kind.core.target.position(&mut conn).await?;
        kind.guard.finish(&written.file).await?;
        // Without it another job may have written to the source.
        self.script.lock.check(&mut conn).await?;
        kind.way.unshut().await?;
        Ok(evidence)
    }

    /// Shuts the source again, and lets changes flow back again.
    async fn undo(&mut self) -> Result<(), Failure> {
        if !self.opened {
            return Ok(());
        }
        self.script.kind.way.shut().await?;
        self.script.handle.release().await?;
        self.opened = false;
        Ok(())
    }
}

impl SwitchFinish for TakeBack<'_> {
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
            quiet = come_to_rest(self.script) => quiet,
        }
    }

    async fn remember(&mut self, leftover: Option<&Leftover>) -> Result<(), Failure> {
        let lock = leftover.map(ToString::to_string);
        let note = |reverse: &mut Reverse| reverse.target_lock = lock;
        self.script.saver.save_reverse(note).await
    }

    async fn taken_over(&mut self) -> Result<(), Failure> {
        let note = |reverse: &mut Reverse| {
            reverse.target_lock = None;
            reverse.back = true;
        };
        self.script.saver.save_reverse(note).await
    }

    async fn finish(&mut self, locked: &LockedSource) -> Result<Verified, Failure> {
        self.bring_back_the_rest(locked).await
    }

    async fn release(&mut self) {
        self.script.at_rest.set(false);
        self.script.kind.guard.resume();
        if let Err(failure) = self.undo().await {
            // Nothing flows back until it succeeds: the next attempt begins with it.
            tracing::warn!("the source is not as it was: {}", failure.line());
        }
    }

    async fn pause(&mut self, wait: Duration) {
        pause(self.script, wait).await;
    }
}
