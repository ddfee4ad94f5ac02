//! The switch back: the target is shut, the rest flows into the source, and the
//! source is opened.

use oxferry_cutover::{Leftover, LockedSource};
use oxferry_state::{Checkpoint, Reverse};
use oxferry_verifier::Verified;

use super::back::Back;
use crate::{
    failure::Failure,
    job::{Holder, Script, Site},
    moving::{
        attempt::{Turn, apply_and_compare, come_to_rest, may_be_undone},
        complete::raise_auto_increments,
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
}

impl Turn for TakeBack<'_> {
    type Kind = Back;

    fn script(&self) -> &Script<'_, Back> {
        self.script
    }

    async fn come_to_rest(&self) -> Result<(), Failure> {
        come_to_rest(self.script).await
    }

    fn locks(&self) -> &[(Site, Holder)] {
        &self.script.kind.locks
    }

    fn is_noted(checkpoint: &Checkpoint) -> bool {
        let target = checkpoint.target.as_ref();
        let reverse = target.and_then(|target| target.reverse.as_ref());
        reverse.is_some_and(|way| !way.back && may_be_undone(way.target_lock.as_ref()))
    }

    async fn note_leftover(&mut self, leftover: Option<&Leftover>) -> Result<(), Failure> {
        let lock = leftover.map(ToString::to_string);
        let note = |reverse: &mut Reverse| reverse.target_lock = lock;
        self.script.saver.save_reverse(note).await
    }

    async fn note_taken_over(&mut self) -> Result<(), Failure> {
        let note = |reverse: &mut Reverse| {
            reverse.target_lock = None;
            reverse.back = true;
        };
        self.script.saver.save_reverse(note).await
    }

    async fn bring_the_rest(&mut self, locked: &LockedSource) -> Result<Verified, Failure> {
        let Script { handle, kind, .. } = self.script;
        let lock = kind.way.args.switch.lock_source;
        let rest = (locked.through.clone(), locked);
        let evidence = apply_and_compare(self.script, rest, lock).await?;
        // A call that is given up has its effect all the same.
        self.opened = true;
        handle.hold().await?;
        let mut conn = kind.core.target.connect("auto-increment").await?;
        raise_auto_increments(&kind.core, &mut conn, locked).await?;
        kind.guard.finish(&kind.core.target, &mut conn).await?;
        // Without it another job may have written to the source.
        self.script.lock.check(&mut conn).await?;
        kind.way.unshut().await?;
        Ok(evidence)
    }

    fn reopen(&self) {
        self.script.at_rest.set(false);
        self.script.kind.guard.resume();
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
